//! Two replicas: at most one writes at any time, and the other takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::names::Step::Platform;
use e2e::proxy::{Proxy, Request, Verdict};
use e2e::test_hub::NAMESPACE;
use e2e::{ControllerProcess, FaultScenario, WAIT_TIMEOUT};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};
use serde_json::json;
use testenv::Signal;
use testenv::hub::wait_until;
use tokio::sync::{Mutex, MutexGuard};

use crate::test_hub;

const LEASE: Duration = Duration::from_secs(5);
/// A lease that outlasts every wait of a test: whoever leads within such a wait was given the lease.
const LONG_LEASE: Duration = Duration::from_secs(100);

/// The shipped Role allows one Lease, so one pair runs at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Two replicas, each with its own proxy.
struct Pair {
    test: FaultScenario,
    proxies: [Proxy; 2],
    replicas: [ControllerProcess; 2],
    _alone: MutexGuard<'static, ()>,
}

/// Writes besides the Lease itself.
fn writes(proxy: &Proxy) -> Vec<Request> {
    proxy
        .writes()
        .into_iter()
        .filter(|request| !request.about("leases"))
        .collect()
}

impl Pair {
    /// The first replica leads, the second follows; a rollout of `count` clusters, one at a time, has begun.
    async fn start(count: usize) -> Result<Self> {
        Self::with_lease(count, LEASE).await
    }

    async fn with_lease(count: usize, lease: Duration) -> Result<Self> {
        let alone = ALONE.lock().await;
        let test_hub = test_hub().await?;
        let leases: Api<Lease> = Api::namespaced(test_hub.client().await?, NAMESPACE);
        // A killed leader of an earlier test still holds it.
        let _ = leases.delete("mcu-controller", &DeleteParams::default()).await;
        let test = FaultScenario::new(&test_hub, count).await?;
        let proxies = [Proxy::start(&test_hub).await?, Proxy::start(&test_hub).await?];
        let namespace = format!("--lease-namespace={NAMESPACE}");
        let lease = format!("--lease-duration={}s", lease.as_secs());
        let flags = ["--leader-elect=true", lease.as_str(), namespace.as_str()];
        test.scenario
            .create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
            .await?;
        let first = test.replica(&proxies[0], &flags).await?;
        test.scenario.work(1, Platform).await?;
        let second = test.replica(&proxies[1], &flags).await?;
        let known = || proxies[1].log().iter().any(|request| request.about("leases"));
        wait_until("the second has looked at the lease", WAIT_TIMEOUT, || async {
            Ok(known())
        })
        .await?;
        second.ready().await?;
        Ok(Self {
            test,
            proxies,
            replicas: [first, second],
            _alone: alone,
        })
    }

    /// Waits until the second replica has written something besides the Lease.
    async fn taken_over(&self, timeout: Duration) -> Result<Request> {
        wait_until("the second replica writes", timeout, || async {
            Ok(!writes(&self.proxies[1]).is_empty())
        })
        .await
        .with_context(|| self.test.scenario.dump())?;
        writes(&self.proxies[1])
            .into_iter()
            .next()
            .context("it has just written")
    }

    /// When the first replica last wrote the Lease.
    fn renewed(&self) -> Option<Instant> {
        let writes = self.proxies[0].writes().into_iter();
        let renewals =
            writes.filter(|request| request.about("leases") && matches!(request.code, Some(200 | 201)));
        renewals.map(|request| request.at).max()
    }

    /// The rollout completes, and the first replica's writes all came before the second's.
    async fn finish(&self) -> Result<()> {
        let s = &self.test.scenario;
        let players = s.play_all();
        s.complete().await?;
        drop(players);
        self.test
            .once_and_unreset(&[Platform], &self.test.clocks())
            .await?;
        let last = writes(&self.proxies[0])
            .into_iter()
            .map(|request| request.at)
            .max();
        let first = writes(&self.proxies[1])
            .into_iter()
            .map(|request| request.at)
            .min();
        if let (Some(last), Some(first)) = (last, first) {
            ensure!(
                last < first,
                "both wrote: the first until {last:?}, the second from {first:?}"
            );
        }
        Ok(())
    }

    /// Lets the second replica have something to write: the first cluster is done.
    async fn one_is_done(&self) -> Result<()> {
        self.test.scenario.agent(1).completed().await
    }
}

#[tokio::test]
async fn of_two_replicas_only_the_leader_writes() -> Result<()> {
    let pair = Pair::start(3).await?;
    pair.finish().await?;
    assert!(!writes(&pair.proxies[0]).is_empty());
    let others = writes(&pair.proxies[1]);
    assert!(others.is_empty(), "{others:?}");
    for replica in &pair.replicas {
        assert_eq!(replica.get("/readyz").await?.0, 200, "a follower is ready too");
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_leader_is_succeeded_within_the_lease_time() -> Result<()> {
    let pair = Pair::start(3).await?;
    pair.replicas[0].kill().await?;
    pair.one_is_done().await?;
    let takeover = pair.taken_over(WAIT_TIMEOUT).await?.at;
    let renewed = pair.renewed().context("the first never renewed its lease")?;
    assert!(
        takeover >= renewed + LEASE,
        "the lease of the first was valid for {:?} more",
        (renewed + LEASE).saturating_duration_since(takeover)
    );
    pair.finish().await
}

#[tokio::test]
async fn a_leader_that_ends_orderly_gives_the_lease_away() -> Result<()> {
    let pair = Pair::with_lease(3, LONG_LEASE).await?;
    pair.one_is_done().await?;
    let status = pair.replicas[0].terminate(WAIT_TIMEOUT).await?;
    assert!(
        status.success(),
        "{status}:\n{}",
        pair.replicas[0].log_lines("", 20)
    );
    let s = &pair.test.scenario;
    s.agent(2).partial().await?;
    pair.taken_over(WAIT_TIMEOUT).await?;
    let renewed = pair.renewed().context("the first never wrote its lease")?;
    assert!(
        renewed.elapsed() < LONG_LEASE,
        "the machine is too slow to tell whether the lease was given away"
    );
    pair.finish().await
}

/// A leader that was frozen past its lease must not write when it wakes, not even to finish a write.
#[tokio::test]
async fn a_frozen_leader_that_wakes_does_not_write() -> Result<()> {
    let pair = Pair::start(3).await?;
    pair.replicas[0].signal(Signal::Stop)?;
    pair.one_is_done().await?;
    pair.taken_over(WAIT_TIMEOUT).await?;
    pair.replicas[0].signal(Signal::Cont)?;
    let seen = || {
        pair.proxies[0]
            .log()
            .iter()
            .filter(|request| request.about("leases"))
            .count()
    };
    let before = seen();
    wait_until("it has looked at the lease again", WAIT_TIMEOUT, || async {
        Ok(seen() > before)
    })
    .await?;
    pair.finish().await
}

/// A leader that cannot reach the API server stops by itself; when the way is back it follows.
#[tokio::test]
async fn a_leader_that_is_cut_off_stops_and_follows_when_it_is_back() -> Result<()> {
    let pair = Pair::start(3).await?;
    let cut = Arc::new(AtomicBool::new(true));
    let is_cut = Arc::clone(&cut);
    pair.proxies[0].judge(move |_| {
        if is_cut.load(Ordering::SeqCst) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    pair.proxies[0].cut_watches();
    pair.one_is_done().await?;
    pair.taken_over(WAIT_TIMEOUT).await?;
    let arrived = writes(&pair.proxies[0])
        .iter()
        .filter(|request| request.code.is_some())
        .count();
    cut.store(false, Ordering::SeqCst);
    let metric = || async {
        let (_, text) = pair.replicas[0].get("/metrics").await?;
        Ok(text.lines().any(|line| line == "mcu_leader 0"))
    };
    wait_until("the first follows", WAIT_TIMEOUT, metric).await?;
    let players = pair.test.scenario.play_all();
    pair.test.scenario.complete().await?;
    drop(players);
    pair.test
        .once_and_unreset(&[Platform], &pair.test.clocks())
        .await?;
    let now = writes(&pair.proxies[0])
        .iter()
        .filter(|request| request.code.is_some())
        .count();
    assert_eq!(now, arrived, "it wrote nothing since");
    Ok(())
}
