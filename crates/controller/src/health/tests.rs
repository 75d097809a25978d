use super::*;

#[test]
fn nothing_is_ready_before_the_watches_are_registered() {
    let readiness = Readiness::new();
    assert!(!readiness.is_ready());
    assert_eq!(spec(&readiness.ready()), "watches: not started yet\n");
}

#[test]
fn readiness_names_each_need_that_is_not_met_and_can_be_lost_again() {
    let readiness = Readiness::new();
    let works = readiness.register("ManifestWork");
    let clusters = readiness.register("ManagedCluster");
    works.pass();
    assert_eq!(spec(&readiness.ready()), "ManagedCluster: not synced yet\n");
    clusters.pass();
    assert!(readiness.is_ready());
    clusters.fail("the CRD is not installed");
    assert_eq!(
        spec(&readiness.ready()),
        "ManagedCluster: the CRD is not installed\n"
    );
}

#[test]
fn one_name_is_one_check() {
    let readiness = Readiness::new();
    let first = readiness.register("ManifestWork");
    let second = readiness.register("ManifestWork");
    first.pass();
    assert!(readiness.is_ready());
    second.fail("gone");
    assert_eq!(readiness.ready().len(), 1);
    assert!(!readiness.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_loop_that_stops_is_dead_after_a_minute() {
    let readiness = Readiness::new();
    tokio::time::advance(Duration::from_secs(30)).await;
    readiness.beat();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(passes(&readiness.alive()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        spec(&readiness.alive()),
        "reconcile-loop: no heartbeat for 60 s, the limit is 60 s\n"
    );
}

#[test]
fn a_warning_is_told_beside_the_needs_and_fails_nothing() {
    let readiness = Readiness::new();
    let need = readiness.register("a");
    readiness.warn("policies", Some("missing: p"));
    assert_eq!(
        spec(&readiness.ready()),
        "a: not synced yet\npolicies: missing: p\n"
    );
    need.pass();
    assert!(readiness.is_ready());
    assert_eq!(spec(&readiness.ready()), "ok\npolicies: missing: p\n");
    assert_eq!(
        verbose("readyz", &readiness.ready()),
        "[+]a ok\n[!]policies: missing: p\nreadyz check passed\n"
    );
    readiness.warn("policies", None);
    assert_eq!(spec(&readiness.ready()), "ok");
    assert!(verbose("readyz", &readiness.ready()).contains("[+]policies ok\n"));
}

#[test]
fn a_failure_beside_the_needs_lasts_until_a_warning_replaces_it() {
    let readiness = Readiness::new();
    readiness.register("a").pass();
    readiness.fail("policies", "missing: p");
    assert!(!readiness.is_ready());
    assert_eq!(spec(&readiness.ready()), "policies: missing: p\n");
    readiness.warn("policies", Some("changed: p"));
    assert!(readiness.is_ready());
    readiness.warn("policies", None);
    assert_eq!(spec(&readiness.ready()), "ok");
}

#[test]
fn the_long_answer_lists_every_check() {
    let readiness = Readiness::new();
    readiness.register("a").pass();
    let _b = readiness.register("b");
    assert_eq!(
        verbose("readyz", &readiness.ready()),
        "[+]a ok\n[-]b failed: not synced yet\nreadyz check failed\n"
    );
}
