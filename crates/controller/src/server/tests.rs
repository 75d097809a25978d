use axum::body::Body;
use http::{Request, header};
use http_body_util::BodyExt;
use telemetry::exposition::{CLASSIC, OPENMETRICS};
use telemetry::listen::ListenAddr;
use telemetry::logs::{Format, parse, subscriber};
use telemetry::server::{self, ServerMetrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::subscriber::DefaultGuard;

use super::*;

fn admin() -> (Admin, DefaultGuard) {
    let (subscriber, logs) = subscriber(Format::Text, parse("info").unwrap(), std::io::sink);
    let guard = tracing::subscriber::set_default(subscriber);
    (
        Admin {
            metrics: Arc::new(Metrics::new()),
            readiness: Arc::new(Readiness::new()),
            logs,
        },
        guard,
    )
}

async fn ask(
    admin: &Admin,
    method: &str,
    path: &str,
    accept: &str,
    body: &str,
    peer: &str,
) -> (u16, String, String) {
    let peer: SocketAddr = format!("{peer}:1").parse().unwrap();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, accept)
        .extension(ConnectInfo(peer))
        .body(Body::from(body.to_owned()))
        .unwrap();
    let response = router(admin.clone()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .map_or("", |value| value.to_str().unwrap())
        .to_owned();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, kind, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn get_path(admin: &Admin, path: &str) -> (u16, String) {
    let (status, _, body) = ask(admin, "GET", path, "*/*", "", "10.0.0.9").await;
    (status, body)
}

#[tokio::test]
async fn metrics_come_in_the_format_the_scraper_accepts() {
    let (admin, _guard) = admin();
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let (status, kind, body) = ask(&admin, "GET", "/metrics", prometheus, "", "10.0.0.9").await;
    assert_eq!((status, kind.as_str()), (200, OPENMETRICS));
    assert!(body.ends_with("# EOF\n"));
    let (status, kind, body) = ask(&admin, "GET", "/metrics", "*/*", "", "10.0.0.9").await;
    assert_eq!((status, kind.as_str()), (200, CLASSIC));
    assert!(body.contains("# TYPE mcu_actions_total counter\n") && !body.contains("EOF"));
}

#[tokio::test]
async fn readyz_says_what_is_missing_one_per_line_until_all_is_there() {
    let (admin, _guard) = admin();
    assert_eq!(
        get_path(&admin, "/readyz").await,
        (503, "watches: not started yet\n".to_owned())
    );
    let works = admin.readiness.register("ManifestWork");
    let clusters = admin.readiness.register("ManagedCluster");
    let (status, body) = get_path(&admin, "/readyz").await;
    assert_eq!((status, body.lines().count()), (503, 2));
    works.pass();
    clusters.pass();
    assert_eq!(get_path(&admin, "/readyz").await, (200, "ok".to_owned()));
    assert_eq!(
        get_path(&admin, "/readyz?verbose").await,
        (
            200,
            "[+]ManifestWork ok\n[+]ManagedCluster ok\nreadyz check passed\n".to_owned()
        )
    );
}

#[tokio::test]
async fn livez_and_version_answer_before_the_controller_runs() {
    let (admin, _guard) = admin();
    assert_eq!(get_path(&admin, "/livez").await, (200, "ok".to_owned()));
    assert!(
        get_path(&admin, "/livez?verbose=true")
            .await
            .1
            .contains("[+]reconcile-loop ok")
    );
    let (status, body) = get_path(&admin, "/version").await;
    assert_eq!(status, 200);
    assert!(body.contains(env!("CARGO_PKG_VERSION")), "{body}");
    assert_eq!(get_path(&admin, "/nowhere").await.0, 404);
}

#[tokio::test]
async fn the_log_level_is_changed_from_loopback_only() {
    let (admin, _guard) = admin();
    let (status, _, body) = ask(
        &admin,
        "PUT",
        "/log-level",
        "*/*",
        "controller=debug,info",
        "10.0.0.9",
    )
    .await;
    assert_eq!(status, 403, "{body}");
    for peer in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        let (status, _, body) = ask(&admin, "PUT", "/log-level", "*/*", "controller=debug,info", peer).await;
        assert_eq!(status, 200, "{peer}: {body}");
    }
    assert!(
        get_path(&admin, "/log-level")
            .await
            .1
            .contains("controller=debug")
    );
}

#[tokio::test]
async fn a_bad_log_level_is_refused_with_a_reason_and_a_long_one_by_its_length() {
    let (admin, _guard) = admin();
    let (status, _, body) = ask(&admin, "PUT", "/log-level", "*/*", "chatty", "127.0.0.1").await;
    assert_eq!(status, 400);
    assert!(body.contains("chatty"), "{body}");
    let long = "x".repeat(MAX_BODY + 1);
    assert_eq!(
        ask(&admin, "PUT", "/log-level", "*/*", &long, "127.0.0.1")
            .await
            .0,
        413
    );
    assert_eq!(get_path(&admin, "/log-level").await, (200, "info\n".to_owned()));
}

#[tokio::test]
async fn clients_that_say_nothing_lose_their_place_and_others_are_served_meanwhile() {
    let (admin, _guard) = admin();
    let listener = "127.0.0.1:0".parse::<ListenAddr>().unwrap();
    let listener = listener.bind(LIMITS.backlog).unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let metrics = ServerMetrics::default();
    let server = server::serve(listener, router(admin), LIMITS, metrics, shutdown.clone());
    let server = tokio::spawn(server);
    let mut mute = Vec::new();
    for _ in 0..LIMITS.connections - 1 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /livez HT").await.unwrap();
        mute.push(stream);
    }
    let mut polite = TcpStream::connect(address).await.unwrap();
    polite
        .write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    polite.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"),
        "{answer}"
    );
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(LIMITS.header_timeout * 12, mute[0].read_to_end(&mut rest)).await;
    ended.expect("the server ends a mute connection").unwrap();
    shutdown.cancel();
    server.await.unwrap();
}
