//! The bare server: the update service's HTTP stack without the update service.
//!
//! It is a separate process, like the service, and sends the same bytes under the same headers.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::response::Response;
use axum::routing::get;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::load::Answer;

/// Headers that the stack writes itself.
const OF_THE_STACK: [&str; 5] = [
    "content-length",
    "date",
    "connection",
    "transfer-encoding",
    "keep-alive",
];

/// What to send.
#[derive(Clone, Debug, Args)]
pub struct BareArgs {
    /// Where to listen.
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
    /// File that holds the body.
    #[arg(long, value_name = "FILE")]
    pub body: PathBuf,
    /// A header, `name: value`; may be repeated.
    #[arg(long = "header", value_name = "LINE")]
    pub headers: Vec<String>,
}

impl BareArgs {
    /// The arguments of a server that sends this answer from a file.
    pub(super) fn line(listen: SocketAddr, body: &std::path::Path, answer: &Answer) -> Result<Vec<String>> {
        std::fs::File::create(body)
            .and_then(|mut file| file.write_all(&answer.body))
            .with_context(|| format!("cannot write {}", body.display()))?;
        let mut line = vec![
            "bare-server".to_owned(),
            format!("--listen={listen}"),
            format!("--body={}", body.display()),
        ];
        for (name, value) in &answer.headers {
            if !OF_THE_STACK.contains(&name.as_str()) {
                line.push(format!("--header={name}: {value}"));
            }
        }
        Ok(line)
    }
}

/// Serves one body on every path until the process ends.
///
/// # Errors
/// The body cannot be read, a header is invalid, or the address is in use.
pub async fn serve(args: &BareArgs) -> Result<()> {
    let body = std::fs::read(&args.body).with_context(|| args.body.display().to_string())?;
    let (body, headers) = (Bytes::from(body), header_map(&args.headers)?);
    let answer = move || {
        let mut response = Response::new(axum::body::Body::from(body.clone()));
        *response.headers_mut() = headers.clone();
        std::future::ready(response)
    };
    let router = Router::new().fallback(get(answer));
    let listener = tokio::net::TcpListener::bind(args.listen).await?;
    axum::serve(listener, router).await?;
    Ok(())
}

fn header_map(lines: &[String]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .with_context(|| format!("no header: {line}"))?;
        headers.append(
            name.trim().parse::<HeaderName>()?,
            value.trim().parse::<HeaderValue>()?,
        );
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_writes_its_own_headers_and_all_others_are_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let answer = Answer {
            status: 200,
            headers: vec![
                ("content-length".to_owned(), "2".to_owned()),
                ("etag".to_owned(), "\"a:b\"".to_owned()),
            ],
            body: b"{}".to_vec(),
        };
        let file = dir.path().join("body");
        let line = BareArgs::line(SocketAddr::from(([127, 0, 0, 1], 1)), &file, &answer).unwrap();
        assert_eq!(line.last().unwrap(), "--header=etag: \"a:b\"");
        assert_eq!(line.len(), 4);
        let program = ["bench".to_owned()].into_iter();
        let read = <crate::BenchCommand as clap::Parser>::try_parse_from(program.chain(line)).unwrap();
        assert!(matches!(read, crate::BenchCommand::BareServer(_)), "{read:?}");
        assert_eq!(std::fs::read(file).unwrap(), b"{}");
        let headers = header_map(&["etag: \"a:b\"".to_owned()]).unwrap();
        assert_eq!(headers["etag"], "\"a:b\"");
    }
}
