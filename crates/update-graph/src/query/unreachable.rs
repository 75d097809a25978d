//! Why there is no path: the nearest release that can be reached, and the obstacles behind it.

use serde::Serialize;

use super::RiskNote;
use super::explain::{Cause, causes};
use super::path_query::Target;
use super::search::{Hurdle, Rules};
use crate::graph::{Edge, State};
use crate::version::Version;

/// Why a target cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    /// One sentence.
    pub message: String,
    /// The newest release below the target that can be reached; absent if none can.
    pub nearest: Option<Version>,
    /// The obstacles on the path that has the fewest, in its order. Empty if no declared edges lead there at all.
    pub obstacles: Vec<Obstacle>,
}

/// An obstacle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// The edge's start.
    pub from: Version,
    /// The edge's end.
    pub to: Version,
    /// What it is.
    pub kind: ObstacleKind,
    /// The risks of a conditional edge.
    pub risks: Vec<RiskNote>,
    /// The files of graph-data that say so.
    pub causes: Vec<Cause>,
}

/// The obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ObstacleKind {
    /// Risks that were not accepted.
    Conditional,
    /// It passes through a candidate or a hotfix.
    PreRelease,
    /// No requested channel contains both ends.
    Channel,
    /// It is blocked.
    Blocked,
}

/// Per kind how many, gravest first, then hops.
type Cost = [u32; 5];

fn cost_of(hurdle: Option<Hurdle>) -> Option<Cost> {
    Some(match hurdle {
        None => [0, 0, 0, 0, 1],
        Some(Hurdle::Conditional) => [0, 0, 0, 1, 1],
        Some(Hurdle::PreRelease) => [0, 0, 1, 0, 1],
        Some(Hurdle::Channel) => [0, 1, 0, 0, 1],
        Some(Hurdle::Blocked) => [1, 0, 0, 0, 1],
        Some(Hurdle::Minor) => return None,
    })
}

pub(super) fn unreachable(rules: &Rules<'_>, to: &Target, start: u32, target: Option<u32>) -> Unreachable {
    let from = rules.version(start);
    let none = |message: String| Unreachable {
        message,
        nearest: None,
        obstacles: Vec::new(),
    };
    let Some(target) = target else {
        return none(format!("no release of {to} above {from} is known"));
    };
    if target < start {
        return none(format!(
            "{} is older than {from}; updates lead up only",
            rules.version(target)
        ));
    }
    let nearest = nearest(rules, start, target);
    let obstacles: Vec<Obstacle> = least_obstructed(rules, start, target)
        .into_iter()
        .filter_map(|edge| obstacle(rules, edge, target))
        .collect();
    let goal = rules.version(target);
    let message = match obstacles.first() {
        None => format!("no declared updates lead from {from} to {goal}"),
        Some(first) => {
            let count = obstacles.len();
            let more = if count > 1 {
                format!(", and {} more on the way", count - 1)
            } else {
                String::new()
            };
            format!(
                "from {from} to {goal}: {} -> {} {}{more}",
                first.from,
                first.to,
                words(first.kind)
            )
        }
    };
    Unreachable {
        message,
        nearest,
        obstacles,
    }
}

fn words(kind: ObstacleKind) -> &'static str {
    match kind {
        ObstacleKind::Conditional => "has risks that were not accepted",
        ObstacleKind::PreRelease => "passes through a pre-release",
        ObstacleKind::Channel => "has no wanted channel that holds both",
        ObstacleKind::Blocked => "is blocked",
    }
}

fn nearest(rules: &Rules<'_>, start: u32, target: u32) -> Option<Version> {
    let mut reached = vec![false; rules.table.nodes.len()];
    reached[start as usize] = true;
    let mut newest = None;
    for node in start..target {
        if !reached[node as usize] {
            continue;
        }
        if node != start {
            newest = Some(node);
        }
        for edge in rules.table.outgoing(node).filter(|edge| edge.to <= target) {
            if rules.hurdle(edge, target).is_none() {
                reached[edge.to as usize] = true;
            }
        }
    }
    newest.map(|node| rules.version(node).clone())
}

/// The edges of the path with the least in its way.
fn least_obstructed(rules: &Rules<'_>, start: u32, target: u32) -> Vec<Edge> {
    let mut best: Vec<Option<(Cost, Option<Edge>)>> = vec![None; rules.table.nodes.len()];
    best[start as usize] = Some(([0; 5], None));
    for node in start..target {
        let Some((cost, _)) = best[node as usize] else {
            continue;
        };
        for edge in rules.table.outgoing(node).filter(|edge| edge.to <= target) {
            let Some(step) = cost_of(rules.hurdle(edge, target)) else {
                continue;
            };
            let mut sum = cost;
            for (sum, step) in sum.iter_mut().zip(step) {
                *sum += step;
            }
            let known = &mut best[edge.to as usize];
            // Later sources are newer: they win a tie.
            if known.as_ref().is_none_or(|(known, _)| sum <= *known) {
                *known = Some((sum, Some(edge)));
            }
        }
    }
    let mut edges = Vec::new();
    let mut at = target;
    while let Some((_, Some(edge))) = best[at as usize] {
        edges.push(edge);
        at = edge.from;
    }
    edges.reverse();
    edges
}

fn obstacle(rules: &Rules<'_>, edge: Edge, target: u32) -> Option<Obstacle> {
    let kind = match rules.hurdle(edge, target)? {
        Hurdle::Conditional => ObstacleKind::Conditional,
        Hurdle::PreRelease => ObstacleKind::PreRelease,
        Hurdle::Channel => ObstacleKind::Channel,
        Hurdle::Blocked | Hurdle::Minor => ObstacleKind::Blocked,
    };
    let risks = match edge.state {
        State::Conditional(set) => rules
            .graph
            .risks_of(set)
            .map(|risk| RiskNote::from(risk.as_ref()))
            .collect(),
        _ => Vec::new(),
    };
    let (from, to) = (rules.version(edge.from), rules.version(edge.to));
    let causes = if edge.state == State::Open {
        Vec::new()
    } else {
        causes(rules.graph, from, to, &rules.table.arch)
    };
    Some(Obstacle {
        from: from.clone(),
        to: to.clone(),
        kind,
        risks,
        causes,
    })
}
