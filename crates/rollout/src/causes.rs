//! Why clusters failed or wait, in groups of clusters with the same reason and phase. The status has the first of these groups,
//! and the plugin shows all of them. What clusters name as
//! their cause is told once for each gate, risk, operator or pool, in the words of most of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::mcu::CauseGroup;
use api::report::Phase;

use crate::model::Reason;
use crate::remedy::{self, Names};
use crate::urgency::Urgency;

/// A cluster that failed or waits, by its record or its row.
#[derive(Clone, Copy, Debug)]
pub struct ClusterCause<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// Its phase.
    pub phase: Phase,
    /// Its reason, which may be one of a newer release.
    pub reason: &'a str,
    /// Its message.
    pub message: &'a str,
}

/// Clusters with the same phase, reason and cause, while they are collected. Nothing of their texts is copied.
struct SameCause<'a> {
    urgency: Urgency,
    clusters: i64,
    texts: BTreeMap<&'a str, Text<'a>>,
}

/// A text, how many clusters of a group have it, and the first of them with its place among all.
struct Text<'a> {
    clusters: i64,
    first: (usize, ClusterCause<'a>),
}

impl<'a> SameCause<'a> {
    const fn new(urgency: Urgency) -> Self {
        Self {
            urgency,
            clusters: 0,
            texts: BTreeMap::new(),
        }
    }

    fn add(&mut self, place: usize, cause: ClusterCause<'a>) {
        self.clusters += 1;
        let text = self.texts.entry(cause.message).or_insert(Text {
            clusters: 0,
            first: (place, cause),
        });
        text.clusters += 1;
    }

    /// The first cluster with the text of most clusters. So a single one does not word the cause of all others.
    fn example(&self) -> Option<ClusterCause<'a>> {
        let texts = self.texts.values();
        let most = texts.max_by_key(|text| (text.clusters, Reverse(text.first.0)));
        most.map(|text| text.first.1)
    }
}

/// The groups of these clusters, which are sorted by name: first those that need a human, and among these the largest first. The
/// texts are those of the clusters, so they may be long and contain any character.
#[must_use]
pub fn groups<'a>(
    clusters: impl IntoIterator<Item = (Urgency, ClusterCause<'a>)>,
    names: Names<'_>,
) -> Vec<CauseGroup> {
    let mut found: BTreeMap<(Phase, &str, &str), SameCause<'_>> = BTreeMap::new();
    for (place, (urgency, cause)) in clusters.into_iter().enumerate() {
        let key = (cause.phase, cause.reason, subject(cause.reason, cause.message));
        let group = found.entry(key).or_insert_with(|| SameCause::new(urgency));
        group.add(place, cause);
    }
    let mut groups: Vec<SameCause<'_>> = found.into_values().collect();
    groups.sort_by_key(|group| (group.urgency, Reverse(group.clusters)));
    let told = |group: SameCause<'_>| {
        let example = group.example()?;
        let names = Names {
            cluster: example.cluster,
            ..names
        };
        let subject = Subject::of(example.reason, example.message);
        Some(CauseGroup {
            reason: example.reason.to_owned(),
            kind: subject.kind.map(str::to_owned),
            name: subject.name().map(str::to_owned),
            phase: example.phase,
            clusters: group.clusters,
            example: example.cluster.to_owned(),
            message: example.message.to_owned(),
            remedy: remedy::for_cluster(example.reason, example.phase, names),
        })
    };
    groups.into_iter().filter_map(told).collect()
}

/// The words by which clusters with the same phase and reason are in different groups: the name of a gate, risk, operator or pool, or a
/// sentence. Empty where the reason says enough. They are the clusters' own, so they may be long and contain any character.
#[must_use]
pub fn subject<'a>(reason: &str, message: &'a str) -> &'a str {
    Subject::of(reason, message).told
}

/// The name of the gate, risk, operator or pool that a cluster names as its first cause. `None` if it names none, or something that
/// can be no name.
#[must_use]
pub fn name<'a>(reason: &str, message: &'a str) -> Option<&'a str> {
    Subject::of(reason, message).name()
}

/// True when the message of a cluster names the gate, risk, pool or channel that blocks it, in the words that each cluster with the same
/// cause has.
#[must_use]
pub fn names_its_cause(reason: &str) -> bool {
    matches!(
        Reason::parse(reason),
        Some(
            Reason::AdminAckRequired
                | Reason::RiskNotAccepted
                | Reason::RiskUnknown
                | Reason::NotOffered
                | Reason::ChannelDiffers
                | Reason::PoolPaused
                | Reason::PoolDegraded
                | Reason::PreflightUnknown
        )
    )
}

/// What the message of a cluster names as its cause. It is the same for all clusters of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Subject<'a> {
    /// What kind of thing it is; `None` if the reason says enough.
    kind: Option<&'static str>,
    /// The words by which clusters with the same reason are told apart: a name, or a sentence. They may be long and contain any
    /// character.
    told: &'a str,
}

impl<'a> Subject<'a> {
    fn of(reason: &str, message: &'a str) -> Self {
        let of_kind = |kind, told| Subject {
            kind: Some(kind),
            told,
        };
        match Reason::parse(reason) {
            Some(Reason::AdminAckRequired) => of_kind("Gate", first_cause(message)),
            Some(Reason::RiskNotAccepted | Reason::RiskUnknown) => of_kind("Risk", first_cause(message)),
            Some(Reason::PoolPaused | Reason::PoolDegraded) => {
                let told = pool(message).unwrap_or_else(|| first_cause(message));
                of_kind("MachineConfigPool", told)
            }
            Some(Reason::Failing | Reason::NotUpgradeable | Reason::SlowClusterOperator) => {
                let operator = operator(message).map(|name| of_kind("ClusterOperator", name));
                operator.unwrap_or_default()
            }
            _ if names_its_cause(reason) => Subject {
                kind: None,
                told: first_cause(message),
            },
            _ => Subject::default(),
        }
    }

    fn name(self) -> Option<&'a str> {
        self.kind.and(Some(self.told)).filter(|told| is_name(told))
    }
}

/// Longest name that is told, in bytes. The messages of a status have room for it.
const MAX_NAME: usize = 128;

/// True for a text that can be a name. Names come from clusters, which write whatever they want, and people copy them into commands.
fn is_name(text: &str) -> bool {
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(in_name)
}

/// What the message of a preflight begins with: the name of a risk, gate or condition before its text, or a whole sentence. What follows
/// may differ from cluster to cluster.
fn first_cause(message: &str) -> &str {
    let first = message.split("; ").next().unwrap_or_default();
    first.split(": ").next().unwrap_or_default()
}

/// The pool of `MachineConfigPool is paused: worker`. A message about several pools has no single name.
fn pool(message: &str) -> Option<&str> {
    let first = message.split("; ").next()?;
    let (_, name) = first.split_once(": ")?;
    Some(name).filter(|name| is_name(name))
}

/// The operator of `ClusterOperatorDegraded: Cluster operator etcd is degraded` and of `waiting on etcd over 30 minutes …`. A message
/// about several operators, or one that says something else first, has no single name.
fn operator(message: &str) -> Option<&str> {
    // Condition and reason are one word each. They come first.
    let sentence = message.split(": ").find(|part| part.contains(' '))?;
    let beginnings = ["Cluster operator ", "waiting on "];
    let rest = beginnings
        .iter()
        .find_map(|beginning| sentence.strip_prefix(beginning))?;
    rest.split(' ').next().filter(|name| is_name(name))
}

#[cfg(test)]
mod tests;
