//! The client of the update service: fetches a graph over HTTP and remembers the payloads of its nodes.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;

use cvo_model::retrieval::GraphAnswer;
use serde_json::Value;

use crate::fields;

/// Timeout of a fetch. That of the real operator is an hour, which is too long for a simulation.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Client of the update service.
#[derive(Clone)]
pub struct UpdateService {
    http: reqwest::Client,
}

impl UpdateService {
    /// Creates a client.
    ///
    /// # Errors
    /// TLS is not available.
    pub fn new() -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        Ok(Self { http })
    }

    /// Fetches the graph from a URL with all parameters. `version`: that of the requesting operator.
    pub async fn fetch(&self, url: &str, version: &str) -> GraphAnswer {
        let request = self
            .http
            .get(url)
            .header("Accept", "application/json")
            .header("User-Agent", format!("ClusterVersionOperator/{version}"));
        match request.send().await {
            Err(error) => GraphAnswer::Unreachable(format!("Get \"{url}\": {}", innermost(&error))),
            Ok(response) => {
                let status = response.status();
                let status_text = format!(
                    "{} {}",
                    status.as_u16(),
                    status.canonical_reason().unwrap_or_default()
                );
                match response.bytes().await {
                    Err(error) => GraphAnswer::Broken(innermost(&error)),
                    Ok(body) => GraphAnswer::Response {
                        status: status.as_u16(),
                        status_text,
                        body: body.to_vec(),
                    },
                }
            }
        }
    }
}

/// The response during an outage of the update service.
#[must_use]
pub fn outage(url: &str) -> GraphAnswer {
    GraphAnswer::Unreachable(format!("Get \"{url}\": dial tcp: i/o timeout"))
}

/// The innermost cause. The outer ones only say that a request failed, which the caller says too.
pub(super) fn innermost(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// Versions and metadata URLs by payload image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(BTreeMap<String, Node>);

/// A release of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its version.
    pub version: String,
    /// `metadata.url`
    pub url: String,
}

impl Nodes {
    /// Adds the nodes of a graph. A body that is not a graph adds nothing.
    pub fn learn(&mut self, body: &[u8]) {
        let graph: Value = serde_json::from_slice(body).unwrap_or_default();
        for node in fields::list(&graph, &["nodes"]) {
            let node_of = Node {
                version: fields::text(node, &["version"]).to_owned(),
                url: fields::text(node, &["metadata", "url"]).to_owned(),
            };
            self.0
                .insert(fields::text(node, &["payload"]).to_owned(), node_of);
        }
    }

    /// The release in a payload.
    #[must_use]
    pub fn get(&self, image: &str) -> Option<&Node> {
        self.0.get(image)
    }

    /// The payload of a version.
    #[must_use]
    pub fn image_of(&self, version: &str) -> Option<&str> {
        let found = self.0.iter().find(|(_, node)| node.version == version);
        found.map(|(image, _)| image.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Nodes;

    #[test]
    fn payloads_are_learnt_from_nodes_and_kept() {
        let mut nodes = Nodes::default();
        nodes.learn(br#"{"nodes":[{"version":"4.16.3","payload":"q@sha256:1","metadata":{"url":"https://x"}}],"edges":[]}"#);
        nodes.learn(br#"{"nodes":[{"version":"4.16.4","payload":"q@sha256:2"}]}"#);
        nodes.learn(b"no graph");
        assert_eq!(nodes.get("q@sha256:1").unwrap().url, "https://x");
        assert_eq!(nodes.image_of("4.16.4"), Some("q@sha256:2"));
        assert_eq!(nodes.get("q@sha256:3"), None);
    }
}
