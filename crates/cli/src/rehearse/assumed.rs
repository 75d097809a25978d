//! What a plan or a rehearsal says of the answers of clusters: those that it assumes, and the refusals that it knows.

use api::message::count;
use api::report::Phase;
use resolve::snapshot::{Answers, KnownRefusal};
use rollout::forecast::{ClusterForecast, Run};
use rollout::{Reason, Step};

/// An update that a cluster refuses, or does not finish, never ends; its time limit decides.
const REFUSED: Run = Run {
    takes: None,
    fails: false,
};

/// What comes before the words of a cluster itself.
const REFUSES: &str = "The cluster itself refuses the update: ";
const WOULD_REFUSE: &str = "The cluster itself would refuse the update: ";
const WOULD_NOT_FINISH: &str = "The cluster would take the update and not finish it: ";

/// How a step ends that a cluster refuses, would refuse, or would not finish; `None` if it does none of these.
pub(super) fn refused(answers: &Answers, cluster: &str, step: Step) -> Option<Run> {
    let refuses = answers.refusals.contains_key(cluster) || answers.refused.contains_key(cluster);
    (step == Step::Platform && refuses).then_some(REFUSED)
}

/// Gives clusters whose update ended by its time limit the cause that they have told.
pub(super) fn explain(clusters: &mut [ClusterForecast], answers: &Answers) {
    for cluster in clusters
        .iter_mut()
        .filter(|cluster| cluster.phase == Phase::Failed)
    {
        if let Some(refusal) = answers.refused.get(&cluster.name) {
            cluster.reason = refusal.reason;
            cluster.message = format!("{REFUSES}{}", refusal.message).into();
        } else if let Some(refusal) = answers.refusals.get(&cluster.name) {
            let what = if takes_it(refusal) {
                WOULD_NOT_FINISH
            } else {
                WOULD_REFUSE
            };
            cluster.reason = refusal.reason;
            cluster.message = format!("{what}{}", refusal.message).into();
        }
    }
}

/// What a cluster itself says, of a message that [`explain`] may have given it.
pub(super) fn own_words(message: &str) -> &str {
    let said = [REFUSES, WOULD_REFUSE, WOULD_NOT_FINISH];
    said.iter()
        .find_map(|before| message.strip_prefix(before))
        .unwrap_or(message)
}

/// True when a cluster takes the update and does not finish it. It is not finished before the worker pools have followed, and a paused one
/// does not.
fn takes_it(refusal: &KnownRefusal) -> bool {
    refusal.reason == Reason::PoolPaused
}

/// What is said of the answers. `what`: a plan or a rehearsal.
pub(super) fn notes(answers: &Answers, what: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let assumed = answers.assumed();
    if assumed > 0 {
        let (have, take) = if assumed == 1 {
            ("has", "it takes")
        } else {
            ("have", "they take")
        };
        let lacks = match (answers.not_asked, answers.not_known) {
            (_, 0) => format!("{have} not been asked yet"),
            (0, _) => format!("{have} not answered yet"),
            _ => format!("{have} not been asked or {have} not answered yet"),
        };
        notes.push(format!(
            "{} {lacks}: the {what} assumes that {take} the update",
            count(assumed, "cluster")
        ));
    }
    let unknown = if answers.required {
        answers.unknown_agents.max(answers.unknown_for_pools)
    } else {
        answers.unknown_for_pools
    };
    if unknown > 0 {
        notes.push(format!(
            "The hub does not say of {} whether the work agent can be asked. Unless the controller runs with --agents-support-read-only, {} not asked and {} not start",
            count(unknown, "cluster"),
            if unknown == 1 { "it is" } else { "they are" },
            if unknown == 1 { "does" } else { "do" },
        ));
    }
    let paused = answers
        .refusals
        .values()
        .filter(|refusal| takes_it(refusal))
        .count();
    let refusing = answers.refusals.len() - paused;
    if refusing > 0 {
        notes.push(format!(
            "{} {} answered that {} refuse the update. With preflight.mode Report nothing holds them back: they start, and fail when their time limit has passed",
            count(refusing, "cluster"),
            if refusing == 1 { "has" } else { "have" },
            if refusing == 1 { "it would" } else { "they would" },
        ));
    }
    if paused > 0 {
        notes.push(format!(
            "{} {} answered that worker pools are paused. With preflight.mode Report nothing holds such a cluster back: it takes the update, waits for these pools, and fails when its time limit has passed. Unpause the pools before it starts",
            count(paused, "cluster"),
            if paused == 1 { "has" } else { "have" },
        ));
    }
    let refused = answers.refused.len();
    if refused > 0 {
        notes.push(format!(
            "{} {} asked for the update and {} it. Unless the cause is removed, {} when the time limit has passed",
            count(refused, "cluster"),
            if refused == 1 { "was" } else { "were" },
            if refused == 1 { "refuses" } else { "refuse" },
            if refused == 1 { "it fails" } else { "they fail" },
        ));
    }
    if answers.warned > 0 {
        notes.push(format!(
            "{} told something that speaks against the update and does not make a cluster refuse it, such as an operator that fails; kubectl mcu preflight shows it",
            count(answers.warned, "cluster")
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
