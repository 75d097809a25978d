//! The lint: finds present and future problems in graph-data and in the resulting graph, with file, line, rule and remedy.

mod blocks;
mod channels;
mod promql;

use std::collections::BTreeMap;

use crate::graph::{Graph, State};
use crate::graph_data::{ordered, read};
use crate::metadata::key;
use crate::problem::{Problem, Rule};
use crate::query::{Exits, stranded};

pub use promql::{PromqlError, check as check_promql};

/// Checks the files of graph-data, paths relative to the top. The result holds everything that reading them reports, and
/// the rules that reading does not need; by file and line.
#[must_use]
pub fn files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Vec<Problem> {
    let files = ordered(files);
    let (data, findings) = read(&files, 1);
    let texts: BTreeMap<&str, &str> = files
        .iter()
        .filter_map(|(path, content)| Some((path.as_str(), std::str::from_utf8(content).ok()?)))
        .collect();
    let mut problems = findings.problems;
    problems.extend(data.lacks());
    blocks::check(&data.blocks, &texts, &mut problems);
    channels::check(&data.channels, &texts, &mut problems);
    problems.sort();
    problems.dedup();
    problems
}

/// Checks a graph: releases that are stranded, and released ones without errata.
#[must_use]
pub fn graph(graph: &Graph) -> Vec<Problem> {
    let mut problems = Vec::new();
    for arch in graph.arches() {
        for release in stranded(graph, &[], arch) {
            let exits = match release.exits {
                Exits::None => "leads to no newer release",
                Exits::Conditional => "leads to newer releases over conditional edges only",
            };
            let message = format!("{} {exits}", release.version.with_arch(arch));
            problems.push(Problem::new(Rule::Stranded, message));
        }
        for release in graph.releases(arch) {
            let released = |name: &str| name.starts_with("stable-") || name.starts_with("fast-");
            if release.channels().any(released) && release.url().is_none() {
                let message = format!("{} is released without url", release.version().with_arch(arch));
                problems.push(Problem::new(Rule::Errata, message));
            }
            // One such value makes a client refuse the whole answer.
            let (url, arch) = (
                release.metadata().get(key::URL),
                release.metadata().get(key::IMAGE_ARCH),
            );
            let bad_url = url.filter(|url| !url.starts_with('"'));
            let bad_arch = arch.filter(|arch| *arch != "\"multi\"");
            for (key, value) in [(key::URL, bad_url), (key::IMAGE_ARCH, bad_arch)] {
                if let Some(value) = value {
                    let name = release.version().with_arch(release.arch());
                    let value: String = value.chars().take(80).collect();
                    problems.push(Problem::new(
                        Rule::ReleaseMetadataValue,
                        format!("{name}: {key} is {value}"),
                    ));
                }
            }
        }
    }
    problems.extend(conflicts(graph));
    problems.sort();
    problems
}

/// Edges whose risks cannot be served.
fn conflicts(graph: &Graph) -> Vec<Problem> {
    let mut problems = Vec::new();
    for table in &graph.tables {
        for edge in table
            .edges()
            .filter(|edge| edge.state == State::Blocked(crate::Blocked::Risk))
        {
            let version = |node: u32| graph.version(table.node(node).version);
            let message = format!(
                "{}: {} -> {} is blocked: its risks cannot be served",
                table.arch,
                version(edge.from),
                version(edge.to)
            );
            problems.push(Problem::new(Rule::RiskText, message));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
