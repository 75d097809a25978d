//! An update service over HTTP: OpenShift's own, or one of this project with its additional endpoints.
//!
//! This module knows addresses, requests and errors. It does not interpret graphs.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Client, ClientBuilder, StatusCode, Url, header};
use serde::Deserialize;
use update_graph::Arch;

use crate::failure::Failure;

/// Paths of endpoints that an address may end with, as `spec.upstream` of a ClusterVersion does. They are removed.
const ENDPOINTS: [&str; 2] = ["/v1/graph", "/graph"];
/// Maximum size of a response in bytes. It is many times larger than any real response.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Maximum number of redirects for one request.
const MAX_REDIRECTS: usize = 5;

/// An update service with its base address.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    base: String,
    client: Client,
}

/// The body of an error that a service returns.
#[derive(Deserialize)]
struct Refusal {
    kind: String,
    value: String,
}

/// The list of channels of a service.
#[derive(Deserialize)]
struct ChannelList {
    channels: Vec<ChannelName>,
}

#[derive(Deserialize)]
struct ChannelName {
    name: String,
}

/// The response of an endpoint that may not exist.
pub(crate) enum Found {
    Body(Vec<u8>),
    /// The service has no such endpoint.
    NoEndpoint,
}

impl Service {
    /// The service at an address. This function does not contact it.
    pub(crate) fn new(address: &str, timeout: Option<Duration>) -> Result<Self, Failure> {
        let base = base(address)?;
        let mut builder = client();
        if let Some(limit) = timeout {
            builder = builder.timeout(limit);
        }
        let client = builder.build().map_err(|error| Failure::Other(causes(&error)))?;
        Ok(Self { base, client })
    }

    /// The base address.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The graph of a channel for an architecture.
    pub(crate) async fn graph(&self, channel: &str, arch: &Arch) -> Result<Vec<u8>, Failure> {
        let query = [("channel", channel), ("arch", arch.as_str())];
        match self.get("/v1/graph", &query).await? {
            Found::Body(body) => Ok(body),
            Found::NoEndpoint => Err(Failure::Other(format!(
                "{} does not serve an update graph; give the address without /v1/graph",
                self.base
            ))),
        }
    }

    /// The response of an additional endpoint; `None` if the service does not have it.
    pub(crate) async fn extra(&self, path: &str, query: &[(&str, &str)]) -> Result<Option<Vec<u8>>, Failure> {
        match self.get(path, query).await? {
            Found::Body(body) => Ok(Some(body)),
            Found::NoEndpoint => Ok(None),
        }
    }

    /// The channels that contain releases for an architecture.
    pub(crate) async fn channels(&self, arch: &Arch) -> Result<BTreeSet<String>, Failure> {
        let Some(body) = self.extra("/v1/channels", &[("arch", arch.as_str())]).await? else {
            return Err(Failure::Other(format!(
                "{} does not list its channels; name each channel in full with --channel",
                self.base
            )));
        };
        let list: ChannelList = serde_json::from_slice(&body)
            .map_err(|error| Failure::Other(format!("{}: not a list of channels: {error}", self.base)))?;
        Ok(list.channels.into_iter().map(|channel| channel.name).collect())
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Found, Failure> {
        let address = format!("{}{path}", self.base);
        let url = Url::parse_with_params(&address, query)
            .map_err(|error| Failure::Other(format!("{address}: {error}")))?;
        let request = self.client.get(url).header(header::ACCEPT, "application/json");
        let mut answer = request.send().await.map_err(|error| unreachable(&error))?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| unreachable(&error))? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER_BYTES {
                return Err(Failure::Other(format!("{address}: the response is too large")));
            }
        }
        if status.is_success() {
            return Ok(Found::Body(body));
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => Err(Failure::Server {
                reason: refusal.kind,
                message: refusal.value,
            }),
            Err(_) if status == StatusCode::NOT_FOUND => Ok(Found::NoEndpoint),
            Err(_) => Err(Failure::Server {
                reason: String::new(),
                message: format!("{address}: {status}"),
            }),
        }
    }
}

fn client() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("kubectl-mcu/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(redirect))
}

/// Follows redirects, but never from HTTPS to plain HTTP, because the response could then be forged.
fn redirect(attempt: Attempt<'_>) -> Action {
    let was_safe = attempt.previous().iter().any(|url| url.scheme() == "https");
    if was_safe && attempt.url().scheme() != "https" {
        attempt.error("the service redirects from https to plain http, which the plugin does not follow")
    } else if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(format!("more than {MAX_REDIRECTS} redirects"))
    } else {
        attempt.follow()
    }
}

fn base(address: &str) -> Result<String, Failure> {
    let mut base = address.trim_end_matches('/');
    for ending in ENDPOINTS {
        base = base.strip_suffix(ending).unwrap_or(base);
    }
    match Url::parse(base) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.query().is_none() => Ok(base.to_owned()),
        _ => Err(Failure::Other(format!(
            "{address:?} is not the address of an update service, such as https://api.openshift.com/api/upgrades_info"
        ))),
    }
}

fn unreachable(error: &reqwest::Error) -> Failure {
    if error.is_timeout() {
        return Failure::Unreachable(
            "the service did not respond in time; --request-timeout sets the limit".to_owned(),
        );
    }
    Failure::Unreachable(causes(error))
}

/// The text of an error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) {
        let mut head = [0; 4096];
        let _ = stream.read(&mut head).await;
        let text = format!("HTTP/1.1 {answer}\r\nconnection: close\r\n\r\n");
        let _ = stream.write_all(text.as_bytes()).await;
        let _ = stream.shutdown().await;
    }

    /// A plain server, with the requests that it gets; they are redirected where `location` says so.
    async fn plain(location: Option<String>) -> (u16, UnboundedReceiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, requests) = unbounded_channel();
        tokio::spawn(async move {
            let said = location.map_or_else(
                || "200 OK\r\ncontent-length: 0".to_owned(),
                |to| format!("302 Found\r\nlocation: {to}"),
            );
            while let Ok((stream, _)) = listener.accept().await {
                let _ = asked.send(());
                answer(stream, &said).await;
            }
        });
        (port, requests)
    }

    /// A server over TLS that redirects to `location`, and a service that trusts it.
    async fn safe(location: String) -> Service {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, &format!("302 Found\r\nlocation: {location}")).await;
                }
            }
        });
        let trusted = reqwest::Certificate::from_der(cert.der()).unwrap();
        let client = client().tls_certs_only([trusted]).build().unwrap();
        Service { base, client }
    }

    #[tokio::test]
    async fn no_redirect_leads_from_https_to_plain_http() {
        let (port, mut requests) = plain(None).await;
        let service = safe(format!("http://127.0.0.1:{port}/v1/graph")).await;
        let Err(Failure::Unreachable(why)) = service.graph("stable-4.1", &Arch::amd64()).await else {
            panic!("it was followed");
        };
        assert!(why.contains("from https to plain http"), "{why}");
        assert!(requests.try_recv().is_err(), "the plain server was asked");
    }

    #[tokio::test]
    async fn other_redirects_are_followed_up_to_a_bound() {
        let (end, mut requests) = plain(None).await;
        let (start, _) = plain(Some(format!("http://127.0.0.1:{end}/"))).await;
        let service = Service::new(&format!("http://127.0.0.1:{start}"), None).unwrap();
        assert_eq!(service.graph("stable-4.1", &Arch::amd64()).await, Ok(Vec::new()));
        assert!(requests.try_recv().is_ok());
        let (circle, _) = plain(Some("/".to_owned())).await;
        let service = Service::new(&format!("http://127.0.0.1:{circle}"), None).unwrap();
        let Err(Failure::Unreachable(why)) = service.graph("stable-4.1", &Arch::amd64()).await else {
            panic!("it never ends");
        };
        assert!(why.contains("more than 5 redirects"), "{why}");
    }

    #[test]
    fn the_address_of_an_endpoint_leads_to_its_service() {
        let plain = "https://api.openshift.com/api/upgrades_info";
        for ending in ["", "/", "/graph", "/v1/graph", "/v1/graph/"] {
            assert_eq!(
                base(&format!("{plain}{ending}")),
                Ok(plain.to_owned()),
                "{ending}"
            );
        }
        assert_eq!(
            base("http://127.0.0.1:8080"),
            Ok("http://127.0.0.1:8080".to_owned())
        );
        for wrong in ["", "graph.json", "ftp://x", "https://x/graph?channel=a"] {
            assert!(base(wrong).is_err(), "{wrong}");
        }
    }
}
