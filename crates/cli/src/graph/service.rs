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
mod tests;
