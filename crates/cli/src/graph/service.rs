//! An update service over HTTP: OpenShift's own, or one with our extras.
//!
//! Owns addresses, requests and what a refusal means. Refuses to interpret graphs.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::{Client, StatusCode, Url, header};
use serde::Deserialize;
use update_graph::Arch;

use crate::failure::Failure;

/// Endings of an address that name an endpoint of the service, as `spec.upstream` of a ClusterVersion does.
const ENDPOINTS: [&str; 2] = ["/v1/graph", "/graph"];
/// The largest answer that is read: many times the largest real one.
const LARGEST: usize = 64 << 20;

/// A service under a base address.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    base: String,
    client: Client,
}

/// An answer that a service gives when it refuses.
#[derive(Deserialize)]
struct Refusal {
    kind: String,
    value: String,
}

/// The channels that a service lists.
#[derive(Deserialize)]
struct ChannelList {
    channels: Vec<ChannelName>,
}

#[derive(Deserialize)]
struct ChannelName {
    name: String,
}

/// An answer that has its ways to be missing.
pub(crate) enum Found {
    Body(Vec<u8>),
    /// The service has no such endpoint.
    NoEndpoint,
}

impl Service {
    /// A service; it is not contacted.
    pub(crate) fn new(address: &str, timeout: Option<Duration>) -> Result<Self, Failure> {
        let base = base(address)?;
        let mut builder = Client::builder().user_agent(concat!("kubectl-mcu/", env!("CARGO_PKG_VERSION")));
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
                "{} serves no update graph; give the address that ends before /v1/graph",
                self.base
            ))),
        }
    }

    /// One of the extras that not every service has.
    pub(crate) async fn extra(&self, path: &str, query: &[(&str, &str)]) -> Result<Option<Vec<u8>>, Failure> {
        match self.get(path, query).await? {
            Found::Body(body) => Ok(Some(body)),
            Found::NoEndpoint => Ok(None),
        }
    }

    /// The channels that hold releases for an architecture.
    pub(crate) async fn channels(&self, arch: &Arch) -> Result<BTreeSet<String>, Failure> {
        let Some(body) = self.extra("/v1/channels", &[("arch", arch.as_str())]).await? else {
            return Err(Failure::Other(format!(
                "{} does not list its channels; give --channel with the full name of each that is wanted",
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
            if body.len() > LARGEST {
                return Err(Failure::Other(format!("{address}: the answer is too large")));
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
        return Failure::Unreachable("no answer in time; --request-timeout sets the limit".to_owned());
    }
    Failure::Unreachable(causes(error))
}

/// An error with its causes.
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
    use super::*;

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
