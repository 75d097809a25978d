//! What a plan or a rehearsal says of the answers of clusters: those that it assumes, and the refusals that it knows.

use api::message::count;
use api::report::Phase;
use resolve::snapshot::Answers;
use rollout::Step;
use rollout::forecast::{ClusterForecast, Run};

/// An update that a cluster refuses never ends; its time limit decides.
const REFUSED: Run = Run {
    takes: None,
    fails: false,
};

/// How a step ends that a cluster would refuse; `None` if it would not.
pub(super) fn refused(answers: &Answers, cluster: &str, step: Step) -> Option<Run> {
    (step == Step::Platform && answers.refusals.contains_key(cluster)).then_some(REFUSED)
}

/// Gives clusters whose update ended by its time limit the cause that they have told.
pub(super) fn explain(clusters: &mut [ClusterForecast], answers: &Answers) {
    for cluster in clusters
        .iter_mut()
        .filter(|cluster| cluster.phase == Phase::Failed)
    {
        if let Some(refusal) = answers.refusals.get(&cluster.name) {
            cluster.reason = refusal.reason;
            cluster.message =
                format!("The cluster itself would refuse the update: {}", refusal.message).into();
        }
    }
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
    if answers.required && answers.unknown_agents > 0 {
        notes.push(format!(
            "The hub does not say of {} whether the work agent can be asked. Unless the controller runs with --agents-support-read-only, they are not asked and do not start",
            count(answers.unknown_agents, "cluster")
        ));
    }
    let refusing = answers.refusals.len();
    if refusing > 0 {
        notes.push(format!(
            "{} {} answered that {} refuse the update. With preflight.mode Report nothing holds them back: they start, and fail when their time limit has passed",
            count(refusing, "cluster"),
            if refusing == 1 { "has" } else { "have" },
            if refusing == 1 { "it would" } else { "they would" },
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
mod tests {
    use std::sync::Arc;

    use resolve::snapshot::KnownRefusal;
    use rollout::Reason;

    use super::*;

    #[test]
    fn what_is_assumed_is_said_with_the_number_of_clusters() {
        let of = |not_asked, not_known| {
            let answers = Answers {
                not_asked,
                not_known,
                ..Answers::default()
            };
            notes(&answers, "plan").join("|")
        };
        assert_eq!(of(0, 0), "");
        assert_eq!(
            of(3, 0),
            "3 clusters have not been asked yet: the plan assumes that they take the update"
        );
        assert_eq!(
            of(0, 1),
            "1 cluster has not answered yet: the plan assumes that it takes the update"
        );
        assert_eq!(
            of(1, 1),
            "2 clusters have not been asked or have not answered yet: the plan assumes that they take the update"
        );
    }

    #[test]
    fn only_the_update_of_a_cluster_that_refuses_never_ends() {
        let mut answers = Answers::default();
        let refusal = KnownRefusal {
            reason: Reason::NotOffered,
            message: "It is not offered".into(),
        };
        answers.refusals.insert(Arc::from("a"), refusal);
        assert_eq!(refused(&answers, "a", Step::Platform), Some(REFUSED));
        assert_eq!(refused(&answers, "a", Step::PreAction), None);
        assert_eq!(refused(&answers, "b", Step::Platform), None);
        assert!(
            notes(&answers, "plan")[0].contains("1 cluster has answered that it would refuse the update")
        );
    }
}
