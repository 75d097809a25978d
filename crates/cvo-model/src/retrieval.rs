//! The client of the update service: its request, and how it interprets the response.
//!
//! This module defines the query, the reasons and texts of `RetrievedUpdates`, and the rules by which edges become updates
//! (`docs/design/cvo.md#fetching-updates`). The caller sends the request. The JSON is not read by `update_graph::v1`, because a
//! client is lenient and strict in other places than a service: it uses the first of two equal nodes, and a risk that it cannot
//! evaluate costs only the update and not the graph.

use clusterversion::types::{
    ClusterOperatorCondition, ConditionStatus, ConditionalUpdate, MatchingRule, RETRIEVED_UPDATES, Release,
    Risk, Time,
};
use clusterversion::version;
use serde::{Deserialize, Deserializer};
use update_graph::metadata::key;
use update_graph::{Metadata, Version};
use url::Url;

use crate::diagnostic::Diagnostic;
use crate::risk;

/// The service that is used if neither a flag nor the spec names one.
pub const DEFAULT_SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";
/// The requested media type.
pub const ACCEPT: &str = "application/json";
/// Architecture of a release for all architectures, as written in a ClusterVersion.
pub const MULTI: &str = "Multi";

/// Why updates could not be retrieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrievalFailure {
    /// Reason of `RetrievedUpdates`.
    pub reason: &'static str,
    /// Its complete message.
    pub message: String,
}

impl RetrievalFailure {
    fn plain(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    fn of_client(reason: &'static str, message: impl std::fmt::Display) -> Self {
        Self::plain(reason, format!("Unable to retrieve available updates: {message}"))
    }

    /// Whether the service failed, and not only had no answer for this cluster. The lists of updates may be kept then.
    #[must_use]
    pub fn is_of_service(&self) -> bool {
        matches!(self.reason, "RemoteFailed" | "ResponseFailed" | "ResponseInvalid")
    }
}

/// Condition `RetrievedUpdates`: True without reason and message, or False.
#[must_use]
pub fn condition(now: Time, failure: Option<&RetrievalFailure>) -> ClusterOperatorCondition {
    match failure {
        None => ClusterOperatorCondition::new(now, RETRIEVED_UPDATES, ConditionStatus::True, "", ""),
        Some(RetrievalFailure { reason, message }) => ClusterOperatorCondition::new(
            now,
            RETRIEVED_UPDATES,
            ConditionStatus::False,
            *reason,
            message.clone(),
        ),
    }
}

/// The query for a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphQuery {
    /// URL of the service.
    pub service: String,
    /// The requested architecture, such as `amd64` or [`MULTI`].
    pub architecture: String,
    /// The architecture of the running release.
    pub current_architecture: String,
    /// Channel.
    pub channel: String,
    /// UUID of the cluster.
    pub cluster_id: String,
    /// Version of the running operator.
    pub version: String,
}

impl GraphQuery {
    /// The URL to GET. The parameters are added to those of the service's URL, and all are sorted by name.
    ///
    /// # Errors
    /// Why no request can be sent: the first problem in the order in which the operator checks.
    pub fn url(&self) -> Result<String, RetrievalFailure> {
        if self.service.is_empty() {
            return Err(RetrievalFailure::plain(
                "NoUpstream",
                "No updateService server has been set to retrieve updates.",
            ));
        }
        let service = Url::parse(&self.service).map_err(|error| {
            let text = format!(
                "failed to parse update service URL: parse {:?}: {error}",
                self.service
            );
            RetrievalFailure::plain("InvalidURI", text)
        })?;
        if let Err(why) = crate::validation::uuid(&self.cluster_id) {
            return Err(RetrievalFailure::plain(
                "InvalidID",
                format!("invalid cluster ID: {why}"),
            ));
        }
        if self.architecture.is_empty() {
            return Err(RetrievalFailure::plain(
                "NoArchitecture",
                "Architecture has not been configured.",
            ));
        }
        if self.version.is_empty() {
            return Err(RetrievalFailure::plain(
                "NoCurrentVersion",
                "The cluster version does not have a semantic version assigned and cannot calculate valid upgrades.",
            ));
        }
        if self.channel.is_empty() {
            return Err(RetrievalFailure::plain(
                "NoChannel",
                "The update channel has not been configured.",
            ));
        }
        if version::parse(&self.version).is_none() {
            return Err(RetrievalFailure::plain(
                "InvalidCurrentVersion",
                "The current cluster version is not a valid semantic version and cannot be used to calculate upgrades.",
            ));
        }
        Ok(self.with_parameters(service))
    }

    fn with_parameters(&self, mut service: Url) -> String {
        let mut pairs: Vec<(String, String)> = service.query_pairs().into_owned().collect();
        let arch = if self.architecture == MULTI {
            "multi"
        } else {
            &self.architecture
        };
        let added = [
            ("arch", arch),
            ("channel", &self.channel),
            ("id", &self.cluster_id),
            ("version", &self.version),
        ];
        pairs.extend(added.map(|(name, value)| (name.to_owned(), value.to_owned())));
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        service.query_pairs_mut().clear().extend_pairs(pairs);
        service.into()
    }
}

/// The response of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphAnswer {
    /// No response, because of name resolution, connection, TLS or a timeout.
    Unreachable(String),
    /// A response whose body could not be read completely.
    Broken(String),
    /// A complete response.
    Response {
        /// HTTP status.
        status: u16,
        /// HTTP status with text, such as `500 Internal Server Error`.
        status_text: String,
        /// Body.
        body: Vec<u8>,
    },
}

impl GraphAnswer {
    /// A response with status 200.
    #[must_use]
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Response {
            status: 200,
            status_text: "200 OK".to_owned(),
            body: body.into(),
        }
    }
}

/// A response and its URL. The service, the channel or the architecture may have changed since the request, and then the
/// response is of no use (`docs/design/cvo.md#asking-again`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphReply {
    /// The URL of the request.
    pub url: String,
    /// The response.
    pub answer: GraphAnswer,
}

/// The updates that a graph has for a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// The running release, with its metadata.
    pub current: Release,
    /// Targets of unconditional edges.
    pub updates: Vec<Release>,
    /// Targets of conditional edges. Their conditions are not evaluated yet.
    pub conditional: Vec<ConditionalUpdate>,
    /// Findings about the graph.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads null as a blank value, because Go writes an empty list as null.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Graph {
    #[serde(deserialize_with = "nullable")]
    nodes: Vec<Node>,
    #[serde(deserialize_with = "nullable")]
    edges: Vec<(usize, usize)>,
    #[serde(rename = "conditionalEdges", deserialize_with = "nullable")]
    conditional: Vec<Group>,
}

#[derive(Deserialize)]
struct Node {
    version: semver::Version,
    #[serde(default, deserialize_with = "nullable")]
    payload: String,
    #[serde(default, deserialize_with = "nullable")]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Group {
    #[serde(deserialize_with = "nullable")]
    edges: Vec<Pair>,
    #[serde(deserialize_with = "nullable")]
    risks: Vec<RiskDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pair {
    #[serde(deserialize_with = "nullable")]
    from: String,
    #[serde(deserialize_with = "nullable")]
    to: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RiskDocument {
    #[serde(deserialize_with = "nullable")]
    url: String,
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    message: String,
    #[serde(rename = "matchingRules", deserialize_with = "nullable")]
    rules: Vec<RuleDocument>,
}

/// A rule as received. Missing fields are blank, so that the rule is pruned and costs at most its update.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RuleDocument {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: String,
    promql: Option<QueryDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct QueryDocument {
    #[serde(deserialize_with = "nullable")]
    promql: String,
}

impl RiskDocument {
    fn risk(&self) -> Risk {
        let rule = |rule: &RuleDocument| MatchingRule {
            kind: rule.kind.clone(),
            promql: rule
                .promql
                .as_ref()
                .and_then(|query| MatchingRule::promql(query.promql.clone()).promql),
            ..MatchingRule::default()
        };
        Risk {
            url: self.url.clone(),
            name: self.name.clone(),
            message: self.message.clone(),
            matching_rules: self.rules.iter().map(rule).collect(),
            ..Risk::default()
        }
    }
}

/// Interprets a response to a query.
///
/// # Errors
/// [`RetrievalFailure`]. Nothing of the response is used then.
pub fn read(question: &GraphQuery, answer: &GraphAnswer) -> Result<Retrieved, RetrievalFailure> {
    let body = match answer {
        GraphAnswer::Unreachable(why) => return Err(RetrievalFailure::of_client("RemoteFailed", why)),
        GraphAnswer::Broken(why) => return Err(RetrievalFailure::of_client("ResponseFailed", why)),
        GraphAnswer::Response {
            status: 200, body, ..
        } => body,
        GraphAnswer::Response { status_text, .. } => {
            let text = format!("unexpected HTTP status: {status_text}");
            return Err(RetrievalFailure::of_client("ResponseFailed", text));
        }
    };
    let invalid = |why: String| RetrievalFailure::of_client("ResponseInvalid", why);
    let graph: Graph = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
    let running = version::parse(&question.version);
    let found = graph
        .nodes
        .iter()
        .position(|node| Version::parse(&node.version.to_string()).ok() == running && running.is_some());
    let Some(at) = found else {
        return Err(RetrievalFailure::of_client(
            "VersionNotFound",
            format!(
                "currently reconciling cluster version {} not found in the {:?} channel",
                question.version, question.channel
            ),
        ));
    };
    let current = graph
        .release(at)
        .map_err(|why| invalid(format!("invalid current node: {why}")))?;
    if question.architecture == MULTI && question.current_architecture != MULTI {
        // The only way to the payload for all architectures is the same version in their graph.
        return Ok(Retrieved {
            updates: vec![current.clone()],
            current,
            ..Retrieved::default()
        });
    }
    let updates = graph.unconditional(at).map_err(invalid)?;
    let conditional = graph.conditional(&question.version).map_err(invalid)?;
    Ok(refine(current, updates, conditional))
}

impl Graph {
    fn release(&self, at: usize) -> Result<Release, String> {
        let node = self
            .nodes
            .get(at)
            .ok_or_else(|| format!("node {at} does not exist, the graph has {}", self.nodes.len()))?;
        let mut release = metadata(&node.metadata)?;
        release.version = node.version.to_string();
        release.image.clone_from(&node.payload);
        Ok(release)
    }

    fn unconditional(&self, from: usize) -> Result<Vec<Release>, String> {
        let edges = self.edges.iter().filter(|(origin, _)| *origin == from);
        edges
            .map(|(_, to)| {
                self.release(*to)
                    .map_err(|why| format!("invalid recommended update node: {why}"))
            })
            .collect()
    }

    fn conditional(&self, from: &str) -> Result<Vec<ConditionalUpdate>, String> {
        let mut updates = Vec::new();
        for group in &self.conditional {
            for pair in group.edges.iter().filter(|pair| pair.from == from) {
                let to = self
                    .nodes
                    .iter()
                    .position(|node| node.version.to_string() == pair.to);
                let to = to.ok_or_else(|| format!("no node for conditional update {}", pair.to))?;
                let release = self
                    .release(to)
                    .map_err(|why| format!("invalid conditional update node: {why}"))?;
                updates.push(ConditionalUpdate {
                    release,
                    risks: group.risks.iter().map(RiskDocument::risk).collect(),
                    ..ConditionalUpdate::default()
                });
            }
        }
        Ok(updates)
    }
}

/// URL, architecture and channels of a release. The error has one line per problem.
fn metadata(metadata: &Metadata) -> Result<Release, String> {
    let mut release = Release::default();
    let mut errors = Vec::new();
    let base = Url::parse(DEFAULT_SERVICE).ok();
    if let Some(raw) = metadata.get(key::URL) {
        match metadata.get_str(key::URL) {
            Some(text) => match Url::options().base_url(base.as_ref()).parse(&text) {
                Ok(_) => release.url = text.into_owned(),
                Err(error) => errors.push(format!("invalid release URL: parse {text:?}: {error}")),
            },
            None => errors.push(format!("URL is not a string: {raw}")),
        }
    }
    if let Some(raw) = metadata.get(key::IMAGE_ARCH) {
        match metadata.get_str(key::IMAGE_ARCH).as_deref() {
            Some("multi") => MULTI.clone_into(&mut release.architecture),
            Some(other) => errors.push(format!("unrecognized {} value {other:?}", key::IMAGE_ARCH)),
            None => errors.push(format!("{} is not a string: {raw}", key::IMAGE_ARCH)),
        }
    }
    if let Some(raw) = metadata.get(key::CHANNELS) {
        match metadata.get_str(key::CHANNELS).as_deref() {
            Some("") => errors.push(format!("{} is an empty string", key::CHANNELS)),
            Some(text) => {
                for (at, _) in text
                    .split(',')
                    .enumerate()
                    .filter(|(_, channel)| channel.is_empty())
                {
                    errors.push(format!(
                        "{} entry {at} is an empty string: {text:?}",
                        key::CHANNELS
                    ));
                }
                let channels = text.split(',').filter(|channel| !channel.is_empty());
                release.channels = channels.map(str::to_owned).collect();
                release.channels.sort();
                release.channels.dedup();
            }
            None => errors.push(format!("{} is not a string: {raw}", key::CHANNELS)),
        }
    }
    if errors.is_empty() {
        Ok(release)
    } else {
        Err(errors.join("\n"))
    }
}

/// Removes targets that cannot be offered: unconditional ones that are also conditional, those with a risk without rules, and
/// those of several conditional edges.
fn refine(current: Release, mut updates: Vec<Release>, mut conditional: Vec<ConditionalUpdate>) -> Retrieved {
    let mut diagnostics = Vec::new();
    updates.retain(|update| {
        let both = conditional
            .iter()
            .find(|other| other.release.image == update.image);
        if let Some(both) = both {
            diagnostics.push(Diagnostic::InBothLists {
                version: both.release.version.clone(),
            });
        }
        both.is_none()
    });
    conditional.retain_mut(|update| keep_evaluable(update, &mut diagnostics));
    let images: Vec<String> = conditional
        .iter()
        .map(|update| update.release.image.clone())
        .collect();
    let mut told = std::collections::BTreeSet::new();
    conditional.retain(|update| {
        let count = images
            .iter()
            .filter(|image| **image == update.release.image)
            .count();
        if count > 1 && told.insert(update.release.image.clone()) {
            diagnostics.push(Diagnostic::TargetsAmbiguous {
                version: update.release.version.clone(),
                count,
            });
        }
        count == 1
    });
    keep_publishable(&mut conditional, &mut diagnostics);
    Retrieved {
        current,
        updates,
        conditional,
        diagnostics,
    }
}

/// Removes targets that the schema of the status would refuse (`docs/design/cvo.md#publishable-updates`), because one such
/// target would make the whole status invalid.
pub fn keep_publishable(conditional: &mut Vec<ConditionalUpdate>, diagnostics: &mut Vec<Diagnostic>) {
    conditional.retain(|update| {
        let refused = refusal(update);
        if let Some(why) = refused.clone() {
            diagnostics.push(Diagnostic::TargetRefused {
                version: update.release.version.clone(),
                why,
            });
        }
        refused.is_none()
    });
}

fn keep_evaluable(update: &mut ConditionalUpdate, diagnostics: &mut Vec<Diagnostic>) -> bool {
    for risk in &mut update.risks {
        let (valid, problems) = risk::prune(&risk.matching_rules);
        risk.matching_rules = valid;
        let (version, name) = (update.release.version.clone(), risk.name.clone());
        let why = match problems.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        if risk.matching_rules.is_empty() {
            diagnostics.push(Diagnostic::TargetDropped {
                version,
                risk: name,
                why,
            });
            return false;
        }
        if !problems.is_empty() {
            diagnostics.push(Diagnostic::RulesPruned {
                version,
                risk: name,
                why,
            });
        }
    }
    true
}

/// Why the schema of the status would refuse an update.
fn refusal(update: &ConditionalUpdate) -> Option<String> {
    const MOST_RISKS: usize = 200;
    if update.risks.is_empty() {
        return Some("has no risks".to_owned());
    }
    if update.risks.len() > MOST_RISKS {
        return Some(format!("has more than {MOST_RISKS} risks"));
    }
    let mut names = std::collections::BTreeSet::new();
    update.risks.iter().find_map(|risk| {
        let name = &risk.name;
        if name.is_empty() || name.chars().count() > 256 {
            Some(format!("has a risk with the name {name:?}"))
        } else if !names.insert(name) {
            Some(format!("has several risks named {name:?}"))
        } else if risk.message.is_empty() {
            Some(format!("has the risk {name:?} without message"))
        } else {
            (!is_absolute(&risk.url)).then(|| format!("has the risk {name:?} with the URL {:?}", risk.url))
        }
    })
}

/// Whether a text is a URL with a scheme, as `format: uri` in schemas requires.
#[must_use]
pub fn is_absolute(text: &str) -> bool {
    Url::parse(text).is_ok() && !text.chars().any(|char| char.is_control() || char.is_whitespace())
}

#[cfg(test)]
mod tests;
