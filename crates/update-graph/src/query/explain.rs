//! Explanations: why an edge is there, conditional, or absent; which file, risk and expression say so.

use serde::Serialize;

use super::{RiskNote, mask_of};
use crate::graph::{Blocked, Graph, State, Table};
use crate::graph_data::Effect;
use crate::pattern::Pattern;
use crate::version::{Arch, Version};

/// The request for an explanation of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainQuery {
    /// The architecture.
    pub arch: Arch,
    /// The edge's start.
    pub from: Version,
    /// The edge's end.
    pub to: Version,
    /// Channels by name or by the part before the first `-`; empty means all.
    pub channels: Vec<String>,
}

/// What holds of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It is served without condition.
    Open,
    /// It is served with risks.
    Conditional,
    /// Graph-data blocks it: silently, or because a file could not be read.
    Blocked,
    /// Its risks cannot be served: unreadable, or two of one name with different rules.
    RiskConflict,
    /// Release metadata removes it (`previous.remove`, `previous.remove_regex`, `next.remove`).
    RemovedByMetadata,
    /// A local policy removes it.
    RemovedByPolicy,
    /// No release declares it.
    NotDeclared,
    /// It does not lead up.
    NotUp,
    /// It would be served, but none of the requested channels contains both ends.
    NoCommonChannel,
    /// The start is no known release.
    UnknownSource,
    /// The end is no known release.
    UnknownTarget,
    /// The architecture has no releases.
    UnknownArch,
}

impl Verdict {
    /// True when an end of the edge, or the architecture, is not in the graph: there is nothing to explain.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(
            self,
            Self::UnknownSource | Self::UnknownTarget | Self::UnknownArch
        )
    }
}

/// A statement of graph-data or of release metadata that hits an edge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The file of graph-data; empty for release metadata.
    pub file: String,
    /// What it does.
    pub kind: CauseKind,
    /// The risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
    /// The expression, found in `VERSION+ARCH` of the start.
    pub regex: String,
    /// The release that repairs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_in: Option<String>,
}

/// What a statement does to an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CauseKind {
    /// Makes it conditional.
    Risk,
    /// Removes it, unless a risk makes it conditional.
    SilentBlock,
    /// Removes it, because the file cannot be read in full.
    UnreadableBlock,
    /// `remove_regex` of the target's metadata.
    RemoveRegex,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The architecture.
    pub arch: Arch,
    /// The edge's start.
    pub from: Version,
    /// The edge's end.
    pub to: Version,
    /// What holds.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub message: String,
    /// The requested channels that contain both ends.
    pub channels: Vec<String>,
    /// The risks of a conditional edge.
    pub risks: Vec<RiskNote>,
    /// What hits the edge, by file.
    pub causes: Vec<Cause>,
}

/// What graph-data says of an edge, by file.
pub(super) fn causes(graph: &Graph, from: &Version, to: &Version, arch: &Arch) -> Vec<Cause> {
    let name = from.with_arch(arch);
    graph
        .blocks_of(to, arch)
        .filter(|block| block.from.as_ref().is_none_or(|from| from.found_in(&name)))
        .map(|block| Cause {
            file: block.file.to_string(),
            kind: match block.effect {
                Effect::Risk(_) => CauseKind::Risk,
                Effect::Silent => CauseKind::SilentBlock,
                Effect::Broken => CauseKind::UnreadableBlock,
            },
            risk: match &block.effect {
                Effect::Risk(risk) => Some(risk.name.to_string()),
                Effect::Silent | Effect::Broken => None,
            },
            regex: block.from.as_ref().map_or(".*", Pattern::as_str).to_owned(),
            fixed_in: block.fixed_in.as_ref().map(ToString::to_string),
        })
        .collect()
}

/// The target's `remove_regex`, if it hits. In a graph that was served by another service it is all that is left of the
/// blocks there.
fn removed(table: &Table, to: u32, name: &str) -> Option<Cause> {
    let text = table.node(to).remove_regex.as_deref()?;
    let found = Pattern::new(text).is_ok_and(|pattern| pattern.found_in(name));
    found.then(|| Cause {
        file: String::new(),
        kind: CauseKind::RemoveRegex,
        risk: None,
        regex: text.to_owned(),
        fixed_in: None,
    })
}

/// Explains an edge. Every pair has an explanation, even of unknown releases.
#[must_use]
pub fn explain(graph: &Graph, query: &ExplainQuery) -> Explanation {
    let ExplainQuery { arch, from, to, .. } = query;
    let mut answer = Explanation {
        arch: arch.clone(),
        from: from.clone(),
        to: to.clone(),
        verdict: Verdict::NotUp,
        message: String::new(),
        channels: Vec::new(),
        risks: Vec::new(),
        causes: causes(graph, from, to, arch),
    };
    answer.verdict = judge(graph, query, &mut answer);
    answer.message = sentence(graph, &answer, query);
    answer
}

fn judge(graph: &Graph, query: &ExplainQuery, answer: &mut Explanation) -> Verdict {
    let Some(table) = graph.table(&query.arch) else {
        return Verdict::UnknownArch;
    };
    let Some(from) = graph.node_of(table, &query.from) else {
        return Verdict::UnknownSource;
    };
    let Some(to) = graph.node_of(table, &query.to) else {
        return Verdict::UnknownTarget;
    };
    if from >= to {
        return Verdict::NotUp;
    }
    let mask = mask_of(graph, &query.channels);
    let bits = |node: u32| &graph.channels.set(table.node(node).channels).bits;
    answer.channels = (0..graph.channels.names.len())
        .filter(|&c| bits(from)[c / 64] & bits(to)[c / 64] & mask[c / 64] & (1 << (c % 64)) != 0)
        .map(|c| graph.channels.names[c].to_string())
        .collect();
    let verdict = match table.edge(from, to).map(|edge| edge.state) {
        Some(State::Open) => Verdict::Open,
        Some(State::Conditional(set)) => {
            answer.risks = graph
                .risks_of(set)
                .map(|risk| RiskNote::from(risk.as_ref()))
                .collect();
            Verdict::Conditional
        }
        Some(State::Blocked(Blocked::GraphData)) => Verdict::Blocked,
        Some(State::Blocked(Blocked::Risk)) => Verdict::RiskConflict,
        Some(State::Blocked(Blocked::Policy)) => Verdict::RemovedByPolicy,
        removed_or_absent => {
            answer
                .causes
                .extend(removed(table, to, &query.from.with_arch(&query.arch)));
            if removed_or_absent.is_some() {
                Verdict::RemovedByMetadata
            } else {
                Verdict::NotDeclared
            }
        }
    };
    let served = matches!(verdict, Verdict::Open | Verdict::Conditional);
    if served && answer.channels.is_empty() {
        Verdict::NoCommonChannel
    } else {
        verdict
    }
}

fn sentence(graph: &Graph, answer: &Explanation, query: &ExplainQuery) -> String {
    let Explanation {
        arch,
        from,
        to,
        causes,
        ..
    } = answer;
    let files = || {
        let named: Vec<_> = causes
            .iter()
            .filter(|c| !c.file.is_empty())
            .map(|c| c.file.as_str())
            .collect();
        if named.is_empty() {
            String::new()
        } else {
            format!(" ({})", named.join(", "))
        }
    };
    let dangling = || {
        let pair = (from.clone(), to.clone());
        graph
            .table(arch)
            .is_some_and(|table| table.dangling.binary_search(&pair).is_ok())
    };
    match answer.verdict {
        Verdict::Open => format!("{from} may update to {to} in {}", answer.channels.join(", ")),
        Verdict::Conditional => {
            let names: Vec<_> = answer.risks.iter().map(|risk| risk.name.as_str()).collect();
            format!(
                "{from} may update to {to} unless exposed to {}{}",
                names.join(", "),
                files()
            )
        }
        Verdict::Blocked => format!("graph-data blocks {from} -> {to}{}", files()),
        Verdict::RiskConflict => format!("the risks of {from} -> {to} cannot be served{}", files()),
        Verdict::RemovedByMetadata => format!("release metadata removes {from} -> {to}"),
        Verdict::RemovedByPolicy => format!("a policy removes {from} -> {to}"),
        Verdict::NotDeclared if causes.iter().any(|c| c.kind == CauseKind::RemoveRegex) => {
            format!("{from} -> {to} is not in the graph; remove_regex of {to} would remove it")
        }
        Verdict::NotDeclared => format!("no release declares {from} -> {to}"),
        Verdict::NotUp => format!("{from} -> {to} does not lead up"),
        Verdict::NoCommonChannel if query.channels.is_empty() => {
            format!("no channel holds both {from} and {to}")
        }
        Verdict::NoCommonChannel => format!(
            "no channel of {} holds both {from} and {to}",
            query.channels.join(", ")
        ),
        Verdict::UnknownSource | Verdict::UnknownTarget => {
            let unknown = if answer.verdict == Verdict::UnknownSource {
                from
            } else {
                to
            };
            let declared = if dangling() { "; the edge is declared" } else { "" };
            format!("release {unknown} for {arch} is not known{declared}")
        }
        Verdict::UnknownArch => format!("no release for {arch} is known"),
    }
}
