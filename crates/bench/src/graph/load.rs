//! A load generator that costs little: blocking keep-alive connections, one thread each, answers read and discarded.
//!
//! Closed load sends the next request when the last is answered and finds the throughput. Paced load sends by the
//! clock and counts a wait from the moment a request was due, so that a server that stalls is not spared.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use e2e::audit::measures::{float, percentile};

use super::millis;

/// Room for an answer's head and for a piece of its body.
const BUFFER: usize = 256 * 1024;
/// Longest wait for a piece of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A GET that is sent again and again.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    request: Vec<u8>,
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// What a load found.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// Requests answered 200 with a whole body of the right size.
    pub(super) requests: usize,
    /// From the first request to the last answer.
    pub(super) seconds: f64,
    /// Sorted.
    pub(super) latencies: Vec<Duration>,
}

impl Outcome {
    /// Requests per second.
    pub(super) fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            float(self.requests) / self.seconds
        } else {
            0.0
        }
    }

    /// A percentile of the latencies in milliseconds.
    pub(super) fn latency_ms(&self, percent: usize) -> f64 {
        millis(percentile(&self.latencies, percent))
    }
}

impl Target {
    /// A GET of a path, with further header lines such as `Accept-Encoding: gzip`.
    pub(super) fn new(address: SocketAddr, path: &str, headers: &[&str]) -> Self {
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        Self {
            address,
            request: request.into_bytes(),
        }
    }

    /// Sends one request, on a new connection.
    pub(super) fn ask(&self) -> Result<Answer> {
        let mut connection = Connection::open(self)?;
        let mut body = Vec::new();
        let head = connection.exchange(&self.request, |piece| body.extend_from_slice(piece))?;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    /// As many requests as `connections` can get answered in `time`.
    pub(super) fn closed(&self, connections: usize, time: Duration) -> Result<Outcome> {
        self.load(connections, |_| Pace {
            first: Duration::ZERO,
            period: Duration::ZERO,
            time,
        })
    }

    /// `rate` requests per second in all, evenly spread over `connections`.
    pub(super) fn paced(&self, connections: usize, rate: f64, time: Duration) -> Result<Outcome> {
        let period = Duration::from_secs_f64(float(connections) / rate.max(1.0));
        let shift = Duration::from_secs_f64(1.0 / rate.max(1.0));
        self.load(connections, |number| Pace {
            first: shift * u32::try_from(number).unwrap_or_default(),
            period,
            time,
        })
    }

    fn load(&self, connections: usize, pace: impl Fn(usize) -> Pace) -> Result<Outcome> {
        let size = self.ask()?.body.len();
        let opened = (0..connections.max(1))
            .map(|_| Connection::open(self))
            .collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        let mut outcome = Outcome::default();
        std::thread::scope(|scope| {
            let senders: Vec<_> = opened
                .into_iter()
                .enumerate()
                .map(|(number, connection)| {
                    let pace = pace(number);
                    scope.spawn(move || connection.send(&self.request, size, started, &pace))
                })
                .collect();
            for sender in senders {
                let latencies = sender.join().map_err(|_| anyhow!("a sender panicked"))??;
                outcome.latencies.extend(latencies);
            }
            anyhow::Ok(())
        })?;
        outcome.seconds = started.elapsed().as_secs_f64();
        outcome.requests = outcome.latencies.len();
        outcome.latencies.sort_unstable();
        Ok(outcome)
    }
}

/// When one connection sends.
#[derive(Debug, Clone, Copy)]
struct Pace {
    first: Duration,
    /// Zero: as soon as the last answer is read.
    period: Duration,
    time: Duration,
}

/// The head of an answer.
#[derive(Debug)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    length: usize,
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(target: &Target) -> Result<Self> {
        let stream = TcpStream::connect(target.address).context("the server does not answer")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER],
        })
    }

    /// Sends by the pace until its time is over; returns how long each request took.
    fn send(mut self, request: &[u8], size: usize, started: Instant, pace: &Pace) -> Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(1 << 16);
        let mut due = started + pace.first;
        let end = started + pace.time;
        loop {
            if pace.period.is_zero() {
                due = Instant::now();
            }
            if due >= end {
                return Ok(latencies);
            }
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(wait);
            }
            let mut received = 0;
            let head = self.exchange(request, |piece| received += piece.len())?;
            if head.status != 200 || received != size {
                bail!("status {}, {received} of {size} bytes", head.status);
            }
            latencies.push(due.elapsed());
            due += pace.period;
        }
    }

    /// One request and its whole answer, whose body is handed over in pieces.
    fn exchange(&mut self, request: &[u8], mut body: impl FnMut(&[u8])) -> Result<Head> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        let (head, end) = loop {
            let read = self.stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                bail!("the connection was closed within an answer's head");
            }
            filled += read;
            if let Some(end) = head_end(&self.buffer[..filled]) {
                break (parse_head(&self.buffer[..end])?, end);
            }
        };
        body(&self.buffer[end..filled]);
        let mut left = head
            .length
            .checked_sub(filled - end)
            .context("more than the answer")?;
        while left > 0 {
            let room = left.min(self.buffer.len());
            let read = self.stream.read(&mut self.buffer[..room])?;
            if read == 0 {
                bail!("the connection was closed within a body");
            }
            body(&self.buffer[..read]);
            left -= read;
        }
        Ok(head)
    }
}

/// Where the body begins.
fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
}

fn parse_head(bytes: &[u8]) -> Result<Head> {
    let text = std::str::from_utf8(bytes).context("an answer's head is not text")?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .context("no status line")?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .context("an answer without Content-Length")?;
    Ok(Head {
        status,
        headers,
        length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    /// Answers every request on every connection after a delay.
    fn server(body: &'static [u8], delay: Duration) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|read| read > 0) {
                        std::thread::sleep(delay);
                        let head = format!(
                            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nETag: \"x\"\r\n\r\n",
                            body.len()
                        );
                        let _ = stream.write_all(head.as_bytes());
                        let _ = stream.write_all(body);
                    }
                });
            }
        });
        address
    }

    #[test]
    fn an_answer_has_status_headers_and_body() {
        let target = Target::new(server(b"hello", Duration::ZERO), "/", &[]);
        let answer = target.ask().unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hello"[..]));
        assert!(answer.headers.contains(&("etag".to_owned(), "\"x\"".to_owned())));
    }

    #[test]
    fn a_closed_load_counts_whole_answers() {
        let target = Target::new(server(b"hello", Duration::from_millis(1)), "/", &[]);
        let outcome = target.closed(2, Duration::from_millis(200)).unwrap();
        assert!(
            outcome.requests > 2 && outcome.rate() < 2000.0,
            "{}",
            outcome.rate()
        );
    }

    #[test]
    fn a_paced_load_counts_waits_from_when_a_request_was_due() {
        // Each answer takes longer than the period, so every request waits for those before it.
        let target = Target::new(server(b"hello", Duration::from_millis(20)), "/", &[]);
        let outcome = target.paced(1, 100.0, Duration::from_millis(200)).unwrap();
        assert_eq!(outcome.requests, 20);
        assert!(outcome.latencies.last().unwrap() > &Duration::from_millis(100));
    }
}
