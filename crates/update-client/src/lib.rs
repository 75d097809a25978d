//! An update service over HTTP: OpenShift's own, or one of this project with its additional endpoints.
//!
//! This crate knows addresses, requests and errors. It does not interpret graphs.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Certificate, Client, ClientBuilder, StatusCode, Url, header};
use serde::Deserialize;
use update_graph::Arch;

/// Paths of endpoints that an address may end with, as `spec.upstream` of a ClusterVersion does. They are removed.
const ENDPOINTS: [&str; 2] = ["/v1/graph", "/graph"];
/// Maximum size of a response in bytes. It is many times larger than any real response.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Maximum number of redirects for one request.
const MAX_REDIRECTS: usize = 5;

/// Why a service gave no usable response. The text names the service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The text is not the address of a service.
    #[error(
        "{0:?} is not the address of an update service, such as https://api.openshift.com/api/upgrades_info"
    )]
    Address(String),
    /// The service did not respond in time.
    #[error("the service did not respond in time")]
    TimedOut,
    /// There was no connection to the service, or it broke.
    #[error("{0}")]
    Unreachable(String),
    /// The service rejected the request.
    #[error("{message}")]
    Rejected {
        /// The kind of the error, as the service names it; may be empty.
        kind: String,
        /// The message of the service.
        message: String,
    },
    /// The response cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// An update service with its base address.
#[derive(Clone, Debug)]
pub struct Service {
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
enum Found {
    Body(Vec<u8>),
    /// The service has no such endpoint.
    NoEndpoint,
}

impl Service {
    /// The service at an address, for a program that names itself `agent`. This function does not contact the service.
    /// `ca`: certificates in PEM that are trusted in addition to the system's. `timeout`: the time limit of a request.
    ///
    /// # Errors
    /// If the text is no address of a service, `ca` is no PEM, or no TLS provider is installed.
    pub fn new(
        address: &str,
        agent: &str,
        ca: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Self, ServiceError> {
        let base = base(address)?;
        let unusable = |error: reqwest::Error| ServiceError::Unusable(causes(&error));
        let own = if ca.is_empty() {
            Vec::new()
        } else {
            Certificate::from_pem_bundle(ca).map_err(unusable)?
        };
        let builder = || {
            let builder = client().user_agent(agent);
            match timeout {
                Some(limit) => builder.timeout(limit),
                None => builder,
            }
        };
        // An image that has only one program has no certificates of a system. Without any, plain HTTP still works.
        let with_system = builder().tls_certs_merge(own.clone()).build();
        let client = with_system
            .or_else(|_| builder().tls_certs_only(own).build())
            .map_err(unusable)?;
        Ok(Self { base, client })
    }

    /// The base address.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The graph of a channel for an architecture, as the service sends it.
    ///
    /// # Errors
    /// If the service cannot be reached, rejects the request, or serves no graph.
    pub async fn graph(&self, channel: &str, arch: &Arch) -> Result<Vec<u8>, ServiceError> {
        let query = [("channel", channel), ("arch", arch.as_str())];
        match self.get("/v1/graph", &query).await? {
            Found::Body(body) => Ok(body),
            Found::NoEndpoint => Err(ServiceError::Unusable(format!(
                "{} does not serve an update graph; give the address without /v1/graph",
                self.base
            ))),
        }
    }

    /// The response of an additional endpoint; `None` if the service does not have it.
    ///
    /// # Errors
    /// If the service cannot be reached or rejects the request.
    pub async fn extra(&self, path: &str, query: &[(&str, &str)]) -> Result<Option<Vec<u8>>, ServiceError> {
        match self.get(path, query).await? {
            Found::Body(body) => Ok(Some(body)),
            Found::NoEndpoint => Ok(None),
        }
    }

    /// The channels that contain releases for an architecture.
    ///
    /// # Errors
    /// If the service cannot be reached, or does not list its channels.
    pub async fn channels(&self, arch: &Arch) -> Result<BTreeSet<String>, ServiceError> {
        let Some(body) = self.extra("/v1/channels", &[("arch", arch.as_str())]).await? else {
            return Err(ServiceError::Unusable(format!(
                "{} does not list its channels; name each channel in full with --channel",
                self.base
            )));
        };
        let list: ChannelList = serde_json::from_slice(&body).map_err(|error| {
            ServiceError::Unusable(format!("{}: not a list of channels: {error}", self.base))
        })?;
        Ok(list.channels.into_iter().map(|channel| channel.name).collect())
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Found, ServiceError> {
        let address = format!("{}{path}", self.base);
        let url = Url::parse_with_params(&address, query)
            .map_err(|error| ServiceError::Unusable(format!("{address}: {error}")))?;
        let request = self.client.get(url).header(header::ACCEPT, "application/json");
        let mut answer = request.send().await.map_err(|error| unreachable(&error))?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| unreachable(&error))? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER_BYTES {
                return Err(ServiceError::Unusable(format!(
                    "{address}: the response is too large"
                )));
            }
        }
        if status.is_success() {
            return Ok(Found::Body(body));
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => Err(ServiceError::Rejected {
                kind: refusal.kind,
                message: refusal.value,
            }),
            Err(_) if status == StatusCode::NOT_FOUND => Ok(Found::NoEndpoint),
            Err(_) => Err(ServiceError::Rejected {
                kind: String::new(),
                message: format!("{address}: {status}"),
            }),
        }
    }
}

fn client() -> ClientBuilder {
    Client::builder().redirect(Policy::custom(redirect))
}

/// Follows redirects, but never from HTTPS to plain HTTP, because the response could then be forged.
fn redirect(attempt: Attempt<'_>) -> Action {
    let was_safe = attempt.previous().iter().any(|url| url.scheme() == "https");
    if was_safe && attempt.url().scheme() != "https" {
        attempt.error("the service redirects from https to plain http, which is not followed")
    } else if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(format!("more than {MAX_REDIRECTS} redirects"))
    } else {
        attempt.follow()
    }
}

fn base(address: &str) -> Result<String, ServiceError> {
    let mut base = address.trim_end_matches('/');
    for ending in ENDPOINTS {
        base = base.strip_suffix(ending).unwrap_or(base);
    }
    match Url::parse(base) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.query().is_none() => Ok(base.to_owned()),
        _ => Err(ServiceError::Address(address.to_owned())),
    }
}

fn unreachable(error: &reqwest::Error) -> ServiceError {
    if error.is_timeout() {
        return ServiceError::TimedOut;
    }
    ServiceError::Unreachable(causes(error))
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
