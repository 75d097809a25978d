//! A scenario whose controllers reach the hub only through a fault proxy, so that they can be killed at a given write.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use api::names::Step;
use api::report::{Phase, Stage};
use chrono::{DateTime, Utc};

use crate::controller::ControllerProcess;
use crate::proxy::Proxy;
use crate::scenario::Scenario;
use crate::test_hub::{TestHub, unique};

/// Starts of clocks by cluster and step.
pub type Clocks = BTreeMap<(String, Step), DateTime<Utc>>;

/// See the module. Its hub must run no controller over all namespaces.
#[derive(Debug)]
pub struct FaultScenario {
    /// Clusters and upgrades.
    pub scenario: Scenario,
    /// The proxy of its first replica.
    pub proxy: Proxy,
}

impl FaultScenario {
    /// A scenario of `count` clusters and a proxy.
    ///
    /// # Errors
    /// As [`Scenario::on`] and [`Proxy::start`].
    pub async fn new(test_hub: &Arc<TestHub>, count: usize) -> Result<Self> {
        let scenario = Scenario::on(test_hub, count).await?;
        let proxy = Proxy::start(test_hub).await?;
        Ok(Self { scenario, proxy })
    }

    /// Starts a controller without leader election through the test's proxy.
    ///
    /// # Errors
    /// As [`FaultScenario::replica`].
    pub async fn controller(&self) -> Result<ControllerProcess> {
        self.replica(&self.proxy, &["--leader-elect=false"]).await
    }

    /// Starts a controller through a proxy; it carries out the upgrades of this scenario only.
    ///
    /// # Errors
    /// As [`ControllerProcess::start_with_file`].
    pub async fn replica(&self, proxy: &Proxy, flags: &[&str]) -> Result<ControllerProcess> {
        let test_hub = self.scenario.test_hub();
        let name = unique(&format!("controller-{}-", self.scenario.id()));
        let directory = test_hub.hub().dir();
        let file = proxy.kubeconfig(test_hub, &directory.join(format!("{name}.kubeconfig")))?;
        let only = format!("--watch-namespace={}", self.scenario.id());
        let flags: Vec<&str> = flags.iter().copied().chain([only.as_str()]).collect();
        ControllerProcess::start_with_file(directory, &name, &file, &flags).await
    }

    /// Clocks of all works that exist now.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        let scenario = &self.scenario;
        scenario.test_hub().view().look(|known| {
            let mut clocks = Clocks::new();
            for name in scenario.names() {
                for step in Step::ALL {
                    let started = known.work(name, step).and_then(|work| work.started());
                    clocks.extend(started.map(|started| ((name.clone(), step), started)));
                }
            }
            clocks
        })
    }

    /// Fails unless every cluster is complete, each work was created exactly once and no clock of `clocks` was reset.
    ///
    /// # Errors
    /// As it says, with everything known of the scenario.
    pub async fn once_and_unreset(&self, steps: &[Step], clocks: &Clocks) -> Result<()> {
        let s = &self.scenario;
        for (index, name) in s.names().iter().enumerate() {
            let row = s
                .up()
                .row_until(name, "complete", |row| row.phase == Phase::Complete)
                .await?;
            for &step in steps {
                let times = s.created(index + 1, step);
                ensure!(
                    times == 1,
                    "{step} of {name} was created {times} times\n{}",
                    s.dump()
                );
                let begun = row.steps.iter().find(|one| one.name == Stage::from(step));
                ensure!(begun.is_some(), "{step} of {name} is not recorded\n{}", s.dump());
                let before = clocks.get(&(name.clone(), step));
                let reset =
                    before.is_some_and(|before| begun.is_some_and(|begun| begun.started_at != *before));
                ensure!(
                    !reset,
                    "the clock of {step} of {name} was {before:?}, is {begun:?}\n{}",
                    s.dump()
                );
            }
        }
        s.up().sound()
    }
}
