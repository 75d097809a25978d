use super::*;

/// A forged work. The UID and the owner of an upgrade are not secret. It is done, or starts in the far
/// future.
fn forged(cluster: &str, step: WireStep, version: u64, done: bool) -> ManifestWork {
    let mut work = if done {
        finished(cluster, "u1", version)
    } else {
        crate::fixture::work(cluster, step, "u1", version)
    };
    if !done {
        let notes = work.metadata.annotations.get_or_insert_default();
        let future = "2099-01-01T00:00:00.000Z";
        notes.insert(api::names::ANNOTATION_STARTED_AT.to_owned(), future.to_owned());
    }
    work
}

#[tokio::test]
async fn a_forged_work_in_a_cluster_that_is_not_selected_gets_nothing_and_holds_no_slot() {
    let mut hub = hub(&["c1", "x", "y"]);
    let mut spec = operators(&["c1"]);
    spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
    spec["postUpgradeAction"] = json!({"manifestWork": {"workload": {"manifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}]}}});
    hub.add_upgrade(&Given {
        spec: spec.clone(),
        ..upgrade("u1", &[])
    });
    hub.deliver(&Change::Applied(forged("x", WireStep::Operators, 5, true)));
    hub.deliver(&Change::Applied(forged("y", WireStep::Platform, 6, false)));
    assert_eq!(works(&hub.settle()), ["u1: create c1-operators-upgrade"]);
    for cluster in ["x", "y"] {
        assert_eq!(hub.phase("u1", cluster), None, "{cluster}");
    }
    let status = hub.context.with(|state| state.upgrades["u1"].status.previous());
    assert_eq!(status.in_flight, Some(1));
    let mut conditions = status.conditions.iter();
    let selected = conditions
        .find(|condition| condition.type_ == "Selected")
        .unwrap();
    assert!(
        selected.message.contains("has a record of (2, such as x)"),
        "{}",
        selected.message
    );
    let done = done(&mut hub, "c1", "u1");
    hub.deliver(&Change::Applied(done));
    let written = hub.settle();
    let touched = |name: &str| works(&written).iter().any(|one| one.contains(name));
    assert!(
        touched(" c1-post-upgrade-action") && !touched(" x-") && !touched(" y-"),
        "{written:?}"
    );
    hub.version = 1_000;
    hub.add_upgrade(&Given {
        spec,
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &[])
    });
    let written = hub.settle();
    let touched = |name: &str| works(&written).iter().any(|one| one.contains(name));
    assert!(
        touched(" c1-") && !touched(" x-") && !touched(" y-"),
        "{written:?}"
    );
    assert!(written.last().unwrap().contains("finalizers 0"), "{written:?}");
}

#[tokio::test]
async fn a_cluster_that_is_gone_is_dropped_also_while_no_valid_spec_is_known() {
    let mut hub = after_an_invalid_edit(3);
    assert_eq!(hub.phase("u1", "c1"), Some(Phase::Operators));
    hub.context
        .with(|state| state.index.cluster(&Change::Deleted(cluster("c1"))));
    hub.settle();
    assert_eq!(hub.phase("u1", "c1"), None, "it begins anew if it comes back");
    assert_eq!(hub.phase("u1", "c2"), Some(Phase::Pending));
}

/// Otherwise the upgrade would never be archived, and if the cluster is back, it would be told that a human must act because of an error
/// from before.
#[tokio::test]
async fn failed_writes_of_a_cluster_that_an_upgrade_does_not_have_any_more_are_forgotten() {
    let mut hub = hub(&["c1", "c2"]);
    let mut spec = operators(&["c1", "c2"]);
    spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
    hub.add_upgrade(&Given {
        spec,
        ..upgrade("u1", &[])
    });
    hub.settle();
    assert_eq!(hub.phase("u1", "c2"), Some(Phase::Pending));
    let known = |hub: &TestHub| {
        hub.context.with(|state| {
            let entry = &state.upgrades["u1"];
            (entry.backoff.len(), entry.blockers.len())
        })
    };
    let c2: Arc<str> = Arc::from("c2");
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        let error = WriteError::new(WriteErrorKind::Forbidden, "may not");
        entry.fail_to_start(&c2, Utc::now(), &error);
        let foreign = observe::writes::BlockerKind::Foreign;
        entry.block_step(&c2, WireStep::Operators, Utc::now(), foreign);
    });
    hub.pass("u1");
    assert_eq!(known(&hub), (1, 1), "it is still one of its clusters");
    hub.context
        .with(|state| state.index.cluster(&Change::Deleted(cluster("c2"))));
    hub.pass("u1");
    assert_eq!(hub.phase("u1", "c2"), None);
    assert_eq!(known(&hub), (0, 0), "it may be back before the next pass");
}

/// A pass of the upgrade u1 up to its commit.
fn checked(context: &Context) -> ReconcileRequest<Checked> {
    let observed = context.with(|state| {
        let request = resolve(context, state, "u1").unwrap();
        let (entry, now) = (&state.upgrades["u1"], request.now);
        request.map_plan(|wanted| observe(state, entry, wanted, now))
    });
    let now = observed.now;
    observed.map_plan(|observed| check(context, plan(context, observed, now), now))
}

#[tokio::test]
async fn a_plan_for_a_spec_that_has_changed_meanwhile_is_let_go() {
    let hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    let context = &hub.context;
    let checked = checked(context);
    let mut paused = upgrade("u1", &["c1"]).view();
    paused.metadata.generation = Some(2);
    paused.metadata.resource_version = Some("2".to_owned());
    context.with(|state| {
        state.apply_upgrade(paused);
        let Task::Plan(Checked { result: Ok(_), .. }) = &checked.task else {
            panic!("the plan keeps the rules");
        };
        let result = commit(state, "u1", checked, Instant::now());
        assert!(result.jobs.is_empty());
        let entry = &state.upgrades["u1"];
        assert!(entry.dirty && entry.rows.all().is_empty());
    });
}

/// The storage of the hub was replaced by an older one while a large fleet was planned, and the upgrade was listed again meanwhile.
#[tokio::test]
async fn a_plan_is_let_go_when_everything_was_discarded_meanwhile() {
    let hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    let context = &hub.context;
    let invalidated = context.freshness.invalidated();
    let checked = checked(context);
    context.discard_all(crate::metrics::labels::WatchKind::Upgrade, 1, 2);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    let result = commit_known(context, ("u1", &invalidated), checked, Instant::now());
    assert!(result.jobs.is_empty());
    context.with(|state| assert!(state.upgrades["u1"].rows.all().is_empty()));
}
