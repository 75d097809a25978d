//! Faults between the controller and the API server: lost answers, refusals, delays, watches that end or expire.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::names::ANNOTATION_STARTED_AT;
use api::names::Step::{Operators, Platform, PreAction};
use e2e::proxy::{Request, Verdict};
use e2e::{FaultScenario, sample};
use http::Method;
use serde_json::json;
use testenv::hub::wait_until;

use crate::test_hub;

fn creates_work(request: &Request) -> bool {
    request.method == Method::POST && request.about("manifestworks")
}

/// A verdict for the first request with a method and path, and Pass for all later ones.
fn first_of_each(
    wanted: impl Fn(&Request) -> bool + Send + 'static,
    verdict: Verdict,
) -> impl FnMut(&Request) -> Verdict + Send + 'static {
    let mut met = BTreeSet::new();
    move |request| {
        let key = format!("{} {}", request.method, request.path);
        if wanted(request) && met.insert(key) {
            verdict
        } else {
            Verdict::Pass
        }
    }
}

#[tokio::test]
async fn creations_whose_answers_are_lost_are_not_repeated() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 3).await?;
    let s = &test.scenario;
    // Three works per namespace are created by POST to the same path: lose every other answer.
    let count = AtomicUsize::new(0);
    test.proxy.judge(move |request| {
        if creates_work(request) && count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            Verdict::LoseAnswer
        } else {
            Verdict::Pass
        }
    });
    let _players = s.play_all();
    s.create(
        json!({"preUpgradeAction": sample::action("backup"), "ocpOperators": {"approveAllUpgrades": true}}),
    )
    .await?;
    let _controller = test.controller().await?;
    s.complete().await?;
    test.once_and_unreset(&[PreAction, Platform, Operators], &test.clocks())
        .await
}

#[tokio::test]
async fn every_kind_of_write_survives_a_lost_answer() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    test.proxy.judge(first_of_each(
        |request| request.is_write() && !creates_work(request),
        Verdict::LoseAnswer,
    ));
    let _players = s.play_all();
    s.create(json!({"upgradeStrategy": {"minSuccessTime": "1s"}}))
        .await?;
    let _controller = test.controller().await?;
    s.complete().await?;
    test.once_and_unreset(&[Platform], &test.clocks()).await?;
    s.gone(1, Platform).await
}

/// A report's write that the API server carries out long after the controller has given it up is rejected, so the next
/// controller reads the newer rows and upgrades no finished cluster again.
#[tokio::test]
async fn a_late_write_of_a_report_brings_back_no_row() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    test.proxy.judge(first_of_each(
        |request| request.method == Method::PATCH && request.about("managedclustersupgradereports"),
        Verdict::Postpone,
    ));
    let _players = s.play_all();
    // The rows change when the soak begins and when it ends.
    s.create(json!({"upgradeStrategy": {"minSuccessTime": "6s"}}))
        .await?;
    let controller = test.controller().await?;
    s.complete().await?;
    s.gone(1, Platform).await?;
    s.gone(2, Platform).await?;
    controller.kill().await?;
    let codes = test.proxy.deliver().await?;
    assert!(!codes.is_empty(), "no write was late");
    assert!(codes.iter().all(|code| *code == 409), "{codes:?}");
    test.proxy.judge(|_| Verdict::Pass);
    let _next = test.controller().await?;
    s.complete().await?;
    test.once_and_unreset(&[Platform], &test.clocks()).await
}

/// A status that the API server carries out long after the controller has given it up is rejected, also when the upgrade was
/// deleted and created again.
#[tokio::test]
async fn a_late_status_is_not_shown() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 1).await?;
    let s = &test.scenario;
    let mut met = 0;
    test.proxy.judge(move |request| {
        let is_status = request.method == Method::PATCH && request.path.ends_with("/status");
        met += usize::from(is_status);
        if is_status && met == 2 {
            Verdict::Postpone
        } else {
            Verdict::Pass
        }
    });
    let _players = s.play_all();
    s.create(json!({})).await?;
    let controller = test.controller().await?;
    s.complete().await?;
    controller.kill().await?;
    let codes = test.proxy.deliver().await?;
    assert_eq!(codes, [409]);
    Ok(())
}

async fn refused_with(code: u16) -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    test.proxy
        .judge(first_of_each(Request::is_write, Verdict::Answer(code)));
    let _players = s.play_all();
    s.create(json!({"ocpOperators": {"approveAllUpgrades": true}}))
        .await?;
    let _controller = test.controller().await?;
    s.complete()
        .await
        .with_context(|| format!("{code} for the first of each write"))?;
    test.once_and_unreset(&[Platform, Operators], &test.clocks())
        .await?;
    let refused = test
        .proxy
        .writes()
        .iter()
        .filter(|request| request.code == Some(code))
        .count();
    assert!(refused >= 4, "{refused} refusals");
    Ok(())
}

#[tokio::test]
async fn writes_refused_with_500_are_repeated() -> Result<()> {
    refused_with(500).await
}

#[tokio::test]
async fn writes_refused_with_429_are_repeated() -> Result<()> {
    refused_with(429).await
}

#[tokio::test]
async fn writes_refused_with_409_are_repeated() -> Result<()> {
    refused_with(409).await
}

#[tokio::test]
async fn writes_that_never_arrive_are_repeated() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    test.proxy.judge(first_of_each(Request::is_write, Verdict::Drop));
    let _players = s.play_all();
    s.create(json!({})).await?;
    let _controller = test.controller().await?;
    s.complete().await?;
    test.once_and_unreset(&[Platform], &test.clocks()).await
}

/// A repeated refusal is backed off: the API server is not hammered.
#[tokio::test]
async fn a_refusal_that_lasts_is_not_hammered() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 1).await?;
    let s = &test.scenario;
    let refuse = Arc::new(AtomicBool::new(true));
    let refusing = Arc::clone(&refuse);
    test.proxy.judge(move |request| {
        if creates_work(request) && refusing.load(Ordering::SeqCst) {
            Verdict::Answer(500)
        } else {
            Verdict::Pass
        }
    });
    s.create(json!({})).await?;
    let _controller = test.controller().await?;
    let row = s
        .up()
        .row_until(s.c(1), "the cause", |row| row.reason == "WriteFailed")
        .await?;
    assert!(
        row.message.contains("answered by the fault proxy"),
        "{}",
        row.message
    );
    let tries = || {
        test.proxy
            .writes()
            .into_iter()
            .filter(creates_work)
            .collect::<Vec<_>>()
    };
    wait_until("four tries", e2e::WAIT_TIMEOUT, || async {
        Ok(tries().len() >= 4)
    })
    .await?;
    refuse.store(false, Ordering::SeqCst);
    s.work(1, Platform).await?;
    let tries = tries();
    let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(tries.len() <= 8, "{} tries: {pauses:?}", tries.len());
    Ok(())
}

/// Slow writes must not let more clusters start than there are slots: a start counts from the moment it is sent.
#[tokio::test]
async fn slow_writes_do_not_exceed_max_concurrency() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 6).await?;
    let s = &test.scenario;
    test.proxy.judge(|request| {
        if request.is_write() {
            Verdict::Delay(Duration::from_millis(400))
        } else {
            Verdict::Pass
        }
    });
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 2}}))
        .await?;
    let _controller = test.controller().await?;
    s.work(2, Platform).await?;
    s.settle().await?;
    assert_eq!(
        (1..=6).filter(|&number| s.created(number, Platform) > 0).count(),
        2
    );
    let _players = s.play_all();
    s.complete().await?;
    test.once_and_unreset(&[Platform], &test.clocks()).await
}

/// Watches end, and what was deleted meanwhile is missed; the next one is answered 410.
#[tokio::test]
async fn a_deletion_missed_by_a_cut_watch_is_found_by_the_next_list() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    s.create(json!({})).await?;
    let _controller = test.controller().await?;
    s.first_is_partial().await?;
    let old = s.work(1, Platform).await?;

    let blind = Arc::new(AtomicBool::new(true));
    let (blinded, expired) = (Arc::clone(&blind), Arc::new(AtomicUsize::new(0)));
    let expiring = Arc::clone(&expired);
    let mut told = BTreeMap::new();
    test.proxy.judge(move |request| {
        if !request.is_watch() {
            return Verdict::Pass;
        }
        if blinded.load(Ordering::SeqCst) {
            return Verdict::Answer(500);
        }
        let times: &mut usize = told.entry(request.path.clone()).or_default();
        *times += 1;
        if *times == 1 {
            expiring.fetch_add(1, Ordering::SeqCst);
            Verdict::Answer(410)
        } else {
            Verdict::Pass
        }
    });
    test.proxy.cut_watches();
    s.delete_work(1, Platform).await?;
    s.gone(1, Platform).await?;
    blind.store(false, Ordering::SeqCst);
    let new = s
        .work_until(1, Platform, "created again", |work| work.uid() != old.uid())
        .await?;
    assert_eq!(
        new.annotation(ANNOTATION_STARTED_AT),
        old.annotation(ANNOTATION_STARTED_AT)
    );
    assert!(expired.load(Ordering::SeqCst) > 0);
    for number in [1, 2] {
        s.agent(number).completed().await?;
    }
    s.complete().await?;
    Ok(())
}

/// Watches that are cut again and again lose nothing.
#[tokio::test]
async fn a_rollout_completes_while_its_watches_are_cut() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 4).await?;
    let s = &test.scenario;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    let _controller = test.controller().await?;
    for number in 1..=4 {
        s.work(number, Platform).await?;
        test.proxy.cut_watches();
        s.agent(number).partial().await?;
        test.proxy.cut_watches();
        s.agent(number).completed().await?;
    }
    s.complete().await?;
    test.once_and_unreset(&[Platform], &test.clocks()).await
}
