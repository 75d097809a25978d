use api::estimate::UpgradeEstimate;
use chrono::DateTime;

use super::*;

/// The estimate of the status, and when it was made.
fn seen(hub: &TestHub) -> (Option<UpgradeEstimate>, Option<DateTime<Utc>>) {
    hub.context.with(|state| {
        let entry = &state.upgrades["u1"];
        let estimate = entry.status.previous().estimate;
        (estimate, entry.estimated.as_ref().map(|(at, _)| *at))
    })
}

#[tokio::test]
async fn the_end_is_estimated_in_the_first_pass_and_not_in_every_pass() {
    let mut hub = hub(&["c1", "c2"]);
    hub.add_upgrade(&upgrade("u1", &["c1", "c2"]));
    hub.settle();
    let (estimate, made) = seen(&hub);
    assert_eq!(
        estimate.as_ref().map(|estimate| estimate.basis.as_str()),
        Some("Usual")
    );
    assert!(made.is_some());
    hub.pass("u1");
    assert_eq!(seen(&hub), (estimate.clone(), made));
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        let (at, _) = entry.estimated.as_mut().unwrap();
        *at -= crate::report::estimate::INTERVAL;
    });
    hub.pass("u1");
    assert!(seen(&hub).1 >= made);
}

#[tokio::test]
async fn a_paused_upgrade_has_no_end_and_gets_one_when_it_is_resumed() {
    let mut hub = hub(&["c1"]);
    let given = |paused: bool, version| {
        let mut given = Given {
            version,
            ..upgrade("u1", &["c1"])
        };
        given.spec["paused"] = json!(paused);
        given
    };
    hub.add_upgrade(&given(true, 1));
    hub.settle();
    assert_eq!(seen(&hub), (None, None));
    hub.context
        .with(|state| state.apply_upgrade(given(false, 1_000).view()));
    hub.version = 1_000;
    hub.settle();
    assert!(seen(&hub).0.is_some());
    hub.context
        .with(|state| state.apply_upgrade(given(true, 2_000).view()));
    hub.version = 2_000;
    hub.settle();
    assert_eq!(seen(&hub), (None, None));
}

/// An upgrade of two clusters, one after the other, in windows of two hours that overlap, so one is always open.
fn windowed() -> Given {
    let mut given = upgrade("u1", &["c1", "c2"]);
    given.spec["maintenance"] = json!({
        "minimumRemaining": "Estimate",
        "windows": [{"name": "always", "schedule": "0 * * * *", "duration": "2h"}],
    });
    given.spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
    given
}

fn minimum_told(minimum: &str) -> Value {
    json!({"observedGeneration": 1, "maintenance": {"waiting": 0, "minimumRemaining": minimum}})
}

/// The same, and another leader has estimated that a cluster takes so long.
fn estimated(minimum: &str) -> Given {
    Given {
        status: minimum_told(minimum),
        ..windowed()
    }
}

impl TestHub {
    /// Edits the spec of the upgrade. The hub holds the status that was written last.
    fn edit(&mut self, given: &mut Given, change: impl FnOnce(&mut Value)) {
        change(&mut given.spec);
        self.version += 1_000;
        given.version = self.version;
        given.status = self.context.with(|state| {
            let status = state.upgrades["u1"].status.previous();
            serde_json::to_value(status).unwrap()
        });
        let mut view = given.view();
        view.metadata.generation = Some(2);
        self.context.with(|state| state.apply_upgrade(view));
        self.settle_twice();
    }

    /// A plan that is outdated by its own estimate writes nothing, and the next one does.
    fn settle_twice(&mut self) {
        self.settle();
        self.settle();
    }

    fn minimum_in_status(&self) -> Option<String> {
        self.context.with(|state| {
            let status = state.upgrades["u1"].status.previous();
            status.maintenance?.minimum_remaining
        })
    }

    fn phases(&self) -> [Option<Phase>; 2] {
        ["c1", "c2"].map(|cluster| self.phase("u1", cluster))
    }
}

const STARTED: Option<Phase> = Some(Phase::Initialized);
const WAITS: Option<Phase> = Some(Phase::Pending);
const NO_WINDOW: Option<Phase> = Some(Phase::Blocked);

#[tokio::test]
async fn an_edit_and_a_restart_go_on_with_what_was_estimated_of_the_windows() {
    let mut hub = hub(&["c1", "c2"]);
    let mut given = estimated("1h40m");
    hub.add_upgrade(&given);
    hub.settle_twice();
    assert_eq!(hub.phases(), [STARTED, WAITS]);
    assert_eq!(hub.minimum_in_status().as_deref(), Some("1h40m"));
    hub.edit(&mut given, |spec| {
        spec["upgradeStrategy"]["maxConcurrency"] = json!(2);
    });
    assert_eq!(hub.phases(), [STARTED, STARTED]);
    assert_eq!(hub.minimum_in_status().as_deref(), Some("1h40m"));
}

#[tokio::test]
async fn an_edit_of_what_clusters_are_asked_for_begins_with_the_sum_of_the_time_limits() {
    let mut hub = hub(&["c1", "c2"]);
    let mut given = estimated("1h40m");
    hub.add_upgrade(&given);
    hub.settle_twice();
    hub.edit(&mut given, |spec| {
        spec["clusterVersion"]["version"] = json!("4.12.1");
    });
    assert_eq!(hub.phases()[1], NO_WINDOW, "nobody knows how long that takes");
    assert_eq!(hub.minimum_in_status().as_deref(), Some("3h"));
}

#[tokio::test]
async fn shorter_time_limits_count_at_once_while_nothing_is_estimated() {
    let mut hub = hub(&["c1", "c2"]);
    let mut given = windowed();
    hub.add_upgrade(&given);
    hub.settle_twice();
    assert_eq!(hub.phases(), [NO_WINDOW, NO_WINDOW]);
    assert_eq!(hub.minimum_in_status().as_deref(), Some("3h"));
    hub.edit(&mut given, |spec| {
        spec["upgradeStrategy"]["clusterUpgradeTimeout"] = json!("90m");
    });
    assert_eq!(hub.phases(), [STARTED, WAITS]);
    assert_eq!(hub.minimum_in_status().as_deref(), Some("1h30m"));
}

#[tokio::test]
async fn a_plan_by_the_limits_is_not_carried_out_where_its_own_pass_has_estimated_less() {
    let mut hub = hub(&[]);
    for name in ["c1", "c2"] {
        // Nothing is to be changed there, so everybody knows how long that takes.
        let cluster = observe::testing::claimed(name, "4.12.0");
        hub.context
            .with(|state| state.index.cluster(&Change::Applied(cluster)));
    }
    hub.add_upgrade(&windowed());
    assert!(hub.pass("u1").is_empty());
    assert_eq!(hub.phases(), [None, None], "no row says that there is no window");
    hub.settle();
    assert_eq!(hub.phases(), [STARTED, WAITS]);
    assert_eq!(hub.minimum_in_status().as_deref(), Some("5m"));
}

#[tokio::test]
async fn a_new_leader_begins_with_what_the_one_before_has_told_last() {
    let hub = hub(&["c1", "c2"]);
    hub.context.with(|state| state.owns_records = false);
    let given = estimated("1h40m");
    hub.add_upgrade(&given);
    hub.add_upgrade(&Given {
        version: 2,
        status: minimum_told("1h10m"),
        ..given
    });
    hub.context.with(|state| {
        state.begin_term();
        let minimum = || state.upgrades["u1"].in_force()?.estimated_minimum();
        assert_eq!(minimum(), Some(TimeDelta::minutes(70)));
        assert_eq!(state.upgrades["u1"].estimated, None);
        // The spec was edited since, and what was told is of another one.
        let mut object = Upgrade::clone(&state.upgrades["u1"].object);
        object.metadata.generation = Some(2);
        state.upgrades.get_mut("u1").unwrap().object = Arc::new(object);
        state.begin_term();
        let minimum = || state.upgrades["u1"].in_force()?.estimated_minimum();
        assert_eq!(minimum(), Some(TimeDelta::hours(3)));
    });
}
