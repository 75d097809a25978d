//! Agents that act by themselves: they report on every work that appears until its step has succeeded.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::Step;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::agent::status;
use crate::scenario::Scenario;
use crate::seen::Work;
use crate::view::Kind;

/// The agents of some clusters; they stop when this is dropped.
#[derive(Debug)]
pub struct Players {
    task: JoinHandle<()>,
}

impl Drop for Players {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scenario {
    /// Lets the agents of some clusters act by themselves: every step succeeds at once.
    #[must_use]
    pub fn play(&self, numbers: &[usize]) -> Players {
        Players::of(self, self.some(numbers))
    }

    /// Lets the agents of all clusters act by themselves.
    #[must_use]
    pub fn play_all(&self) -> Players {
        Players::of(self, self.names().to_vec())
    }
}

impl Players {
    /// Starts to act as the agents of these clusters, which need not be of the scenario.
    #[must_use]
    pub fn of(scenario: &Scenario, clusters: Vec<String>) -> Self {
        Self::paced(scenario, clusters, Duration::ZERO)
    }

    /// Clusters that take `pace` for each answer, one after the other.
    #[must_use]
    pub fn paced(scenario: &Scenario, clusters: Vec<String>, pace: Duration) -> Self {
        let scenario = scenario.clone();
        let task = tokio::spawn(async move {
            let mut events = scenario.test_hub().view().events();
            let mut answered = BTreeSet::new();
            loop {
                for (cluster, step, work) in unanswered(&scenario, &clusters, &answered) {
                    for answer in answers(step, &work) {
                        tokio::time::sleep(pace).await;
                        write(&scenario, &cluster, step, &work, &answer).await;
                    }
                    answered.insert((work.uid().to_owned(), work.generation()));
                }
                if events.changed().await.is_err() {
                    return;
                }
            }
        });
        Self { task }
    }
}

fn unanswered(
    scenario: &Scenario,
    clusters: &[String],
    answered: &BTreeSet<(String, i64)>,
) -> Vec<(String, Step, Work)> {
    scenario.test_hub().view().look(|known| {
        let mut found = Vec::new();
        for cluster in clusters {
            for step in Step::ALL {
                let work = known.work(cluster, step).filter(|work| {
                    !work.terminating() && !answered.contains(&(work.uid().to_owned(), work.generation()))
                });
                found.extend(work.map(|work| (cluster.clone(), step, work)));
            }
        }
        found
    })
}

/// What a cluster that does everything right reports, one answer after the other.
fn answers(step: Step, work: &Work) -> Vec<Vec<(&'static str, Value)>> {
    match step {
        Step::Platform => ["Partial", "Completed"]
            .map(|state| vec![("version", json!(work.target())), ("state", json!(state))])
            .to_vec(),
        Step::Operators => vec![vec![("succeeded", json!(1))]],
        Step::PreAction | Step::PostAction => {
            vec![vec![
                ("JobComplete", json!("True")),
                ("JobSucceeded", json!(1)),
                ("succeeded", json!(1)),
            ]]
        }
    }
}

/// A work that has just been deleted or changed is not answered; its next version is.
async fn write(scenario: &Scenario, cluster: &str, step: Step, work: &Work, values: &[(&str, Value)]) {
    let status = status(&work.raw, work.generation(), &[], values);
    let _ = scenario
        .api(Kind::Work, cluster)
        .patch_status(
            &step.work_name(cluster),
            &PatchParams::default(),
            &Patch::Merge(json!({"status": status})),
        )
        .await;
}
