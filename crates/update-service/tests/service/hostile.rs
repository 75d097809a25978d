//! Slow, malicious or broken clients, and normal ones at the same time, over real sockets.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use update_service::snapshot::{Press, Snapshot};

use crate::data;
use crate::running::{Running, until};

const GRAPH: &str = "/api/upgrades_info/v1/graph?channel=stable-4.1";

/// Short times and few places.
const LIMITS: Limits = Limits {
    connections: 8,
    backlog: 128,
    header_timeout: Duration::from_millis(400),
    idle_timeout: Duration::from_millis(800),
    write_timeout: Duration::from_millis(400),
    head: 8192,
    drain: Duration::from_secs(2),
};

/// Serves a graph whose body is larger than any socket's buffers.
fn serve(limits: Limits) -> Running {
    let running = Running::serve(limits);
    let press = Press::new(running.state.metrics().clone());
    running
        .state
        .publish(Snapshot::new(data::graph(400), press.into()).into());
    running
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Sends, and reads until the server closes.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address).await;
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the server closes");
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// A polite client gets its answer.
async fn well(running: &Running) {
    let (status, body) = tokio::time::timeout(Duration::from_secs(10), running.get(GRAPH))
        .await
        .expect("an answer");
    assert_eq!(status, 200);
    assert!(body.len() > 100_000);
}

#[tokio::test]
async fn clients_that_send_slowly_lose_their_connections_and_keep_nobody_out() {
    let running = serve(LIMITS);
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(running.address).await;
        stream.write_all(b"GET / HTTP/1.1\r\nX-").await.unwrap();
        slow.push(stream);
    }
    well(&running).await;
    // Byte by byte is no faster.
    let address = running.address;
    let dripping = tokio::spawn(async move {
        let mut stream = connect(address).await;
        let started = Instant::now();
        while stream.write_all(b"a").await.is_ok() {
            assert!(
                started.elapsed() < Duration::from_mins(1),
                "dripping goes on for ever"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    dripping.await.unwrap();
    well(&running).await;
    drop(slow);
    until("the slow ones are counted", async || {
        let slow = "update_service_closed_connections_total{reason=\"slow_head\"}";
        running.metric(slow) + running.metric("update_service_closed_connections_total{reason=\"made_room\"}")
            > 30.0
    })
    .await;
}

#[tokio::test]
async fn clients_that_never_read_lose_their_connections_and_keep_nobody_out() {
    let running = serve(LIMITS);
    let mut deaf = Vec::new();
    for _ in 0..40 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(running.address).await.unwrap();
        stream
            .write_all(request(GRAPH).repeat(20).as_bytes())
            .await
            .unwrap();
        deaf.push(stream);
    }
    well(&running).await;
    until("the deaf ones are counted", async || {
        running.metric("update_service_closed_connections_total{reason=\"slow_reader\"}")
            + running.metric("update_service_closed_connections_total{reason=\"made_room\"}")
            >= 40.0
    })
    .await;
    until("their places are free", async || {
        running.metric("update_service_connections") <= 1.0
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_that_reads_gets_everything() {
    let running = serve(LIMITS);
    let expected = running.get(GRAPH).await.1.len();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(running.address).await.unwrap();
    let close = request(GRAPH).replace("Host: x", "Host: x\r\nConnection: close");
    stream.write_all(close.as_bytes()).await.unwrap();
    let started = Instant::now();
    let (mut received, mut piece) = (0, vec![0; 64 * 1024]);
    loop {
        let length = stream.read(&mut piece).await.unwrap();
        if length == 0 {
            break;
        }
        received += length;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        received > expected,
        "{received} of {expected} bytes after {:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn idle_connections_end_and_make_room_when_it_is_needed() {
    let patient = Limits {
        idle_timeout: Duration::from_mins(10),
        header_timeout: Duration::from_mins(10),
        ..LIMITS
    };
    let running = serve(patient);
    let mut idle = Vec::new();
    for _ in 0..8 {
        let mut stream = connect(running.address).await;
        stream.write_all(request("/livez").as_bytes()).await.unwrap();
        let mut piece = [0; 1024];
        assert!(stream.read(&mut piece).await.unwrap() > 0);
        idle.push(stream);
    }
    well(&running).await;
    assert!(running.metric("update_service_closed_connections_total{reason=\"made_room\"}") >= 1.0);

    let running = serve(LIMITS);
    let answer = exchange(running.address, request("/livez").as_bytes()).await;
    assert!(answer.ends_with("ok\n"), "{answer}");
    assert!(running.metric("update_service_closed_connections_total{reason=\"idle\"}") >= 1.0);
}

#[tokio::test]
async fn garbage_and_excess_are_refused_with_the_right_status() {
    let running = serve(LIMITS);
    let header = |size: usize| {
        format!(
            "GET /livez HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
            "a".repeat(size)
        )
    };
    let many = "X: y\r\n".repeat(200);
    for (bytes, expected) in [
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\r\n\r\n".to_vec(),
            "HTTP/1.1 400",
        ),
        (b"GET\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        (
            format!("GET /livez HTTP/1.1\r\n{many}\r\n").into_bytes(),
            "HTTP/1.1 431",
        ),
        (
            b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\nx".to_vec(),
            "HTTP/1.1 413",
        ),
        (
            b"GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n".to_vec(),
            "HTTP/1.1 413",
        ),
    ] {
        let answer = exchange(running.address, &bytes).await;
        assert!(
            answer.starts_with(expected),
            "{expected}: {answer:.80} for {:.60}",
            String::from_utf8_lossy(&bytes)
        );
    }
    // With more on its way a connection that is closed may lose its answer.
    let path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    for long in [header(100_000), path] {
        let answer = exchange(running.address, long.as_bytes()).await;
        assert!(
            answer.is_empty() || answer.contains(" 414 ") || answer.contains(" 431 "),
            "{answer:.80}"
        );
    }
    well(&running).await;
}

#[tokio::test]
async fn requests_that_are_sent_together_are_answered_in_their_order() {
    let running = serve(LIMITS);
    let close = request("/nothing").replace("Host: x", "Host: x\r\nConnection: close");
    let together = [request("/livez"), request(GRAPH), request("/readyz"), close].concat();
    let answer = exchange(running.address, together.as_bytes()).await;
    let lines: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|part| &part[..3]).collect();
    assert_eq!(lines, ["200", "200", "200", "404"]);
}

#[tokio::test]
async fn head_gives_the_headers_of_get_and_nothing_else() {
    let running = serve(LIMITS);
    let get = exchange(
        running.address,
        request(GRAPH)
            .replace("Host", "Connection: close\r\nHost")
            .as_bytes(),
    )
    .await;
    let head = request(GRAPH)
        .replacen("GET", "HEAD", 1)
        .replace("Host", "Connection: close\r\nHost");
    let head = exchange(running.address, head.as_bytes()).await;
    let headers = |answer: &str| {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let lines: Vec<String> = head
            .lines()
            .filter(|line| !line.starts_with("date"))
            .map(str::to_owned)
            .collect();
        (lines, body.len())
    };
    let ((get, sent), (head, nothing)) = (headers(&get), headers(&head));
    assert_eq!((get, nothing), (head.clone(), 0));
    assert!(head.contains(&format!("content-length: {sent}")), "{head:?}");
}
