//! Questions beyond the protocol: which channels there are, which way leads somewhere, why an edge is as it is.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Serialize;
use update_graph::query::{ExplainQuery, PathQuery, QueryError, Target};
use update_graph::{Arch, Graph, Version};

use super::error::ApiError;
use super::query::Query;

/// The largest number of alternatives.
const MAX_PATHS: usize = 10;

#[derive(Serialize)]
struct Channels<'a> {
    channels: Vec<Channel<'a>>,
}

#[derive(Serialize)]
struct Channel<'a> {
    name: &'a str,
    arches: Vec<ArchCount<'a>>,
}

#[derive(Serialize)]
struct ArchCount<'a> {
    arch: &'a Arch,
    releases: usize,
}

/// `{"channels": [{"name", "arches": [{"arch", "releases"}]}]}`, of one architecture with `arch`.
///
/// # Errors
/// [`ApiError::InvalidParams`].
pub fn channels(graph: &Graph, query: &Query<'_>, _default_arch: &str) -> Result<Bytes, ApiError> {
    let only = match query.get("arch") {
        Some(_) => Some(query.arch("")?),
        None => None,
    };
    let arches: Vec<&Arch> = graph
        .arches()
        .filter(|arch| only.is_none_or(|only| arch.as_str() == only))
        .collect();
    let channels = graph
        .channels()
        .map(|name| Channel {
            name,
            arches: arches
                .iter()
                .map(|arch| ArchCount {
                    arch,
                    releases: graph.view(Some(name), arch).len(),
                })
                .filter(|count| count.releases > 0)
                .collect(),
        })
        .filter(|channel| only.is_none() || !channel.arches.is_empty())
        .collect();
    json(&Channels { channels })
}

/// Ways `from` a release `to` another, or to the newest of a minor version: parameters `conditional` (may edges with
/// risks be used), `accept` (risks by name), `prerelease`, `channels` (preferred, by name or by what stands before the
/// first `-`), `channel` (the cluster's), `limit`.
///
/// # Errors
/// [`ApiError`] when a parameter is missing or wrong, or a release is not known.
pub fn paths(graph: &Graph, query: &Query<'_>, default_arch: &str) -> Result<Bytes, ApiError> {
    let to: Target = query
        .required("to")?
        .parse()
        .map_err(|error| ApiError::InvalidParams(format!("to: {error}")))?;
    let mut question = PathQuery::new(arch(query, default_arch)?, version(query, "from")?, to);
    question.conditional = switch(query, "conditional")?;
    question.pre_releases = switch(query, "prerelease")?;
    question.accepted = query.list("accept").map(str::to_owned).collect::<BTreeSet<_>>();
    question.channels = query.list("channels").map(str::to_owned).collect();
    question.channel = query.get("channel").map(str::to_owned);
    question.limit = match query.get("limit") {
        None => 3,
        Some(text) => text
            .parse::<usize>()
            .ok()
            .filter(|limit| (1..=MAX_PATHS).contains(limit))
            .ok_or_else(|| ApiError::InvalidParams(format!("limit '{text}' is not from 1 to {MAX_PATHS}")))?,
    };
    let found = update_graph::query::path(graph, &question).map_err(|error| unknown(&error))?;
    json(&found)
}

/// Why the edge `from` a release `to` another is as it is.
///
/// # Errors
/// [`ApiError`] when a parameter is missing or wrong, or a release is not known.
pub fn explain(graph: &Graph, query: &Query<'_>, default_arch: &str) -> Result<Bytes, ApiError> {
    let question = ExplainQuery {
        arch: arch(query, default_arch)?,
        from: version(query, "from")?,
        to: version(query, "to")?,
        channels: query
            .list("channels")
            .chain(query.get("channel"))
            .map(str::to_owned)
            .collect(),
    };
    let explanation = update_graph::query::explain(graph, &question);
    if explanation.verdict.is_unknown() {
        return Err(ApiError::DoesNotExist(explanation.message));
    }
    json(&explanation)
}

fn arch(query: &Query<'_>, default: &str) -> Result<Arch, ApiError> {
    let name = query.arch(default)?;
    Arch::parse(name).map_err(|error| ApiError::InvalidParams(format!("arch: {error}")))
}

fn version(query: &Query<'_>, key: &str) -> Result<Version, ApiError> {
    let text = query.required(key)?;
    Version::parse(text).map_err(|error| ApiError::InvalidParams(format!("{key}: {error}")))
}

fn switch(query: &Query<'_>, key: &str) -> Result<bool, ApiError> {
    match query.get(key) {
        None | Some("false") => Ok(false),
        Some("" | "true") => Ok(true),
        Some(other) => Err(ApiError::InvalidParams(format!(
            "{key} '{other}' is neither true nor false"
        ))),
    }
}

fn unknown(error: &QueryError) -> ApiError {
    ApiError::DoesNotExist(error.to_string())
}

fn json(value: &impl Serialize) -> Result<Bytes, ApiError> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| ApiError::Encoding(error.to_string()))
}
