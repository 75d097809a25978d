//! Whatever goes away for a while comes back to a rollout that finishes, with nothing done twice.

use anyhow::Result;
use api::names::Step::{self, Platform, PreAction};
use serde_json::json;
use testenv::{AgentOptions, hub};

use crate::audit::Audit;
use crate::cluster::{HELD, completed, history, under_way, work_account};
use crate::fleet_test::{Turn, WAIT_TIMEOUT, at, job, limits, part, steadily, to, whole, with};

const FROM: &str = "4.16.10";
const TARGET: &str = "4.16.20";
const CHANNEL: &str = "eus-4.16";

/// The requests to the API servers since a test began.
struct Asked {
    hub: Audit,
    clusters: Vec<Audit>,
}

impl Asked {
    fn from_now(turn: &Turn) -> Result<Self> {
        let clusters =
            (1..=turn.names().len()).map(|number| Audit::from_now(turn.cluster(number).spoke().plane()));
        Ok(Self {
            hub: Audit::from_now(turn.test_hub().hub())?,
            clusters: clusters.collect::<Result<_>>()?,
        })
    }

    /// Every work and each Job was created once, and the platform got one request.
    async fn once(&self, turn: &Turn, steps: &[Step]) -> Result<()> {
        for (number, audit) in (1..).zip(&self.clusters) {
            let cluster = turn.cluster(number);
            let created = self.hub.writes(|request| {
                request.verb == "create"
                    && request.resource == "manifestworks"
                    && request.namespace == cluster.name()
            })?;
            // An answer may be missing if its requester was killed before, but there must not be a second one.
            assert!(created.len() <= steps.len(), "{created:?}");
            for &step in steps {
                assert_eq!(
                    turn.scenario().created(number, step),
                    1,
                    "{step} of {}",
                    cluster.name()
                );
            }
            let jobs = audit.writes(|request| {
                request.made && request.resource == "jobs" && request.user == work_account()
            })?;
            let wanted = usize::from(steps.contains(&PreAction));
            assert_eq!(jobs.len(), wanted, "{}: {jobs:?}", cluster.name());
            let version = cluster.version_until("upgraded", completed(TARGET)).await?;
            assert_eq!(history(&version), [TARGET, FROM], "{}", cluster.name());
        }
        Ok(())
    }
}

/// The agent of one cluster is killed, the API server of another, both in the middle of their update.
#[tokio::test]
async fn an_agent_and_an_api_server_that_come_back_find_their_upgrade_where_it_was() -> Result<()> {
    part(2, &[at(FROM, CHANNEL)], async |turn| {
        let s = turn.scenario();
        for number in [1, 2] {
            turn.cluster(number).fault(HELD).await?;
        }
        let asked = Asked::from_now(turn)?;
        s.create(with(&[to(TARGET, CHANNEL), limits(2, "20m")])).await?;
        for number in [1, 2] {
            turn.cluster(number)
                .version_until("under way", under_way(TARGET))
                .await?;
        }
        s.until("the hub knows", |seen| seen.clusters().partial_upgrade == 2)
            .await?;
        let (agentless, offline) = (turn.cluster(1), turn.cluster(2));
        agentless.spoke().stop_agent().await?;
        offline.spoke().plane().stop_apiserver().await?;
        // The update continues without the agent; the hub cannot know that.
        agentless.fault("none").await?;
        agentless
            .version_until("upgraded without its agent", completed(TARGET))
            .await?;
        // It notices by the heartbeat that an API server is gone.
        let what = format!("{} is tainted", offline.name());
        hub::wait_until(&what, WAIT_TIMEOUT, || async {
            let taints = ["-o", "jsonpath={.spec.taints[*].key}"];
            let asked = [["get", "managedcluster", offline.name()].as_slice(), &taints].concat();
            let taints = turn.test_hub().hub().kubectl(&asked).await?;
            Ok(taints.contains("unavailable") || taints.contains("unreachable"))
        })
        .await?;
        let seen = s.up().now()?;
        assert_eq!((seen.clusters().partial_upgrade, seen.clusters().failed), (2, 0));

        offline.spoke().plane().start_apiserver().await?;
        offline.fault("none").await?;
        agentless.spoke().start_agent(&AgentOptions::default()).await?;
        let seen = s.complete().await?;
        assert_eq!((seen.clusters().complete, seen.clusters().failed), (2, 0));
        asked.once(turn, &[Platform]).await
    })
    .await
}

/// The hub's API server is killed and the controller twice, in the middle of everything.
#[tokio::test]
async fn a_hub_that_is_restarted_and_a_controller_that_is_killed_do_nothing_twice() -> Result<()> {
    whole(&[steadily(FROM, CHANNEL)], async |turn| {
        let s = turn.scenario();
        let asked = Asked::from_now(turn)?;
        let action = json!({"preUpgradeAction": job("backup", "sleep 3")});
        s.create(with(&[to(TARGET, CHANNEL), limits(3, "20m"), action]))
            .await?;
        s.work(3, PreAction).await?;
        turn.restart_controller().await?;
        turn.cluster(1)
            .version_until("under way", under_way(TARGET))
            .await?;
        turn.test_hub().hub().stop_apiserver().await?;
        // The updates continue without the hub.
        turn.cluster(1)
            .version_until("upgraded without the hub", completed(TARGET))
            .await?;
        turn.test_hub().hub().start_apiserver().await?;
        turn.restart_controller().await?;
        let seen = s.complete().await?;
        assert_eq!((seen.clusters().complete, seen.clusters().failed), (3, 0));
        asked.once(turn, &[PreAction, Platform]).await
    })
    .await
}
