// `json!` makes values to give away; conditions are compared as they are looked up
#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps)]

mod refused;

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{Installation, key, lie, new_cluster_version};
use crate::fault::{Fault, Faults, Lie};
use crate::fields::{self, Time, from_unix, text};
use crate::platform::{Controller, ControllerContext, Pace, Platform};
use crate::seeded_rng::SeededRng;
use crate::store::Store;

struct Bench {
    store: Store,
    platform: Platform,
    faults: Faults,
    pace: Pace,
    now: Time,
    due: Option<Time>,
}

impl Bench {
    fn new() -> Self {
        let now = from_unix(1_800_000_000);
        let installation = Installation {
            cluster_id: "94e170c1-7a3c-4ae1-a85d-8bd904ad783f".into(),
            version: "4.11.9".into(),
            channel: "stable-4.11".into(),
            updates: Vec::new(),
        };
        let mut store = Store::new(SeededRng::new(1));
        store
            .create(
                &key(),
                &new_cluster_version(&installation, now),
                "cluster-bootstrap",
                now,
            )
            .unwrap();
        let mut pace = Pace::scaled(1.0, Duration::from_hours(1));
        pace.jitter = 0.0;
        let mut bench = Self {
            store,
            platform: Platform::default(),
            faults: Faults::default(),
            pace,
            now,
            due: None,
        };
        bench.pass(0);
        bench
    }

    fn pass(&mut self, seconds: i64) {
        self.now += TimeDelta::seconds(seconds);
        let mut context = ControllerContext {
            store: &mut self.store,
            faults: &self.faults,
            pace: &self.pace,
            rng: SeededRng::new(1),
            asked: self.now,
        };
        self.due = self.platform.advance(&mut context, self.now);
    }

    fn ask(&mut self, update: Value) {
        let mut object = self.object();
        object["spec"]["desiredUpdate"] = update;
        self.store.replace(&key(), &object, "oc").unwrap();
        self.pass(0);
    }

    fn object(&self) -> Value {
        self.store.get(&key()).unwrap()
    }

    fn condition(&self, kind: &str) -> Option<(String, String, String)> {
        let object = self.object();
        let conditions = fields::list(&object, &["status", "conditions"]);
        let found = conditions.iter().find(|c| text(c, &["type"]) == kind)?;
        let field = |name: &str| text(found, &[name]).to_owned();
        Some((field("status"), field("reason"), field("message")))
    }

    fn head(&self) -> (String, String) {
        let object = self.object();
        let head = &fields::list(&object, &["status", "history"])[0];
        (
            text(head, &["version"]).to_owned(),
            text(head, &["state"]).to_owned(),
        )
    }
}

fn triple(status: &str, reason: &str, message: &str) -> Option<(String, String, String)> {
    Some((status.into(), reason.into(), message.into()))
}

fn pair(version: &str, state: &str) -> (String, String) {
    (version.into(), state.into())
}

#[test]
fn an_update_is_loaded_accepted_worked_on_and_completed() {
    let mut bench = Bench::new();
    bench.ask(json!({"version": "4.12.0"}));
    let (status, reason, _) = bench.condition("ReleaseAccepted").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "RetrievePayload"));
    assert_eq!(
        bench.head(),
        pair("4.11.9", "Completed"),
        "nothing else moves before acceptance"
    );
    assert_eq!(bench.object()["status"]["observedGeneration"], 1);
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.12.0", "Partial"));
    assert_eq!(bench.object()["status"]["desired"]["version"], "4.12.0");
    assert_eq!(bench.object()["status"]["observedGeneration"], 2);
    assert_eq!(bench.condition("ReleaseAccepted").unwrap().1, "PayloadLoaded");
    assert_eq!(
        bench.condition("Progressing"),
        triple("True", "", "Working towards 4.12.0")
    );
    bench.pass(1800);
    assert_eq!(
        bench.condition("Progressing"),
        triple(
            "True",
            "ClusterOperatorsUpdating",
            "Working towards 4.12.0: 679 of 859 done (79% complete), waiting on authentication, openshift-apiserver"
        )
    );
    assert_eq!(
        bench.condition("Available").unwrap().2,
        "Done applying 4.11.9",
        "in mid-update"
    );
    bench.pass(1799);
    assert_eq!(bench.head().1, "Partial");
    bench.pass(1);
    assert_eq!(bench.head(), pair("4.12.0", "Completed"));
    assert_eq!(
        bench.condition("Progressing"),
        triple("False", "", "Cluster version is 4.12.0")
    );
    assert_eq!(
        bench.condition("Available"),
        triple("True", "", "Done applying 4.12.0")
    );
    assert_eq!(bench.due, None);
}

#[test]
fn progress_ticks_are_announced_ahead() {
    let mut bench = Bench::new();
    bench.ask(json!({"version": "4.12.0"}));
    let mut seen = 0;
    while let Some(due) = bench.due {
        assert!(due > bench.now, "a due time lies ahead");
        bench.now = due;
        bench.pass(0);
        seen += 1;
        assert!(seen < 20, "an update ends");
    }
    assert_eq!(bench.head(), pair("4.12.0", "Completed"));
}

#[test]
fn requests_are_validated_with_the_operators_texts() {
    let cases = [
        (
            json!({"version": "v4.12"}),
            "spec.desiredUpdate.version: Invalid value: \"v4.12\": must be a semantic version (1.2.3[-...])",
        ),
        (
            json!({"version": "", "image": "", "force": true}),
            "spec.desiredUpdate: Required value: must specify architecture, version, or image",
        ),
    ];
    for (update, error) in cases {
        let mut bench = Bench::new();
        bench.ask(update);
        let message = format!("The cluster version is invalid: {error}");
        assert_eq!(
            bench.condition("Invalid"),
            triple("True", "InvalidClusterVersion", &message)
        );
        assert_eq!(
            bench.condition("Progressing").unwrap().2,
            "Stopped at 4.11.9: the cluster version is invalid"
        );
        bench.ask(json!({"version": "4.11.9"}));
        assert_eq!(bench.condition("Invalid"), None);
        assert_eq!(
            bench.condition("Progressing"),
            triple("False", "", "Cluster version is 4.11.9")
        );
    }
}

#[test]
fn a_version_that_is_not_offered_is_invalid_until_it_is() {
    let mut bench = Bench::new();
    bench.faults = Fault::Unoffered.into();
    bench.ask(json!({"version": "4.12.0"}));
    assert!(bench.condition("Invalid").unwrap().2.ends_with(
        "spec.desiredUpdate.version: Invalid value: \"4.12.0\": when image is empty the update must be an available update"
    ));
    bench.pass(3600);
    assert_eq!(bench.head(), pair("4.11.9", "Completed"));
    bench.faults = Faults::default();
    bench.pass(0);
    assert_eq!(bench.condition("Invalid"), None);
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.12.0", "Partial"));
}

#[test]
fn a_refusing_cluster_stops_minor_updates_only_and_goes_on_when_fixed() {
    let mut bench = Bench::new();
    bench.faults = "refusing=AdminAckRequired: read this".parse().unwrap();
    bench.ask(json!({"version": "4.12.0"}));
    assert_eq!(
        bench.condition("Upgradeable"),
        triple("False", "AdminAckRequired", "read this")
    );
    bench.pass(75);
    let (status, reason, message) = bench.condition("ReleaseAccepted").unwrap();
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "PreconditionChecks")
    );
    assert!(message.contains(
        "Precondition \"ClusterVersionUpgradeable\" failed because of \"AdminAckRequired\": read this"
    ));
    bench.pass(7200);
    assert_eq!(bench.head(), pair("4.11.9", "Completed"));
    bench.faults = Faults::default();
    bench.pass(0);
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.12.0", "Partial"));
    assert_eq!(bench.condition("Upgradeable"), None);

    let mut bench = Bench::new();
    bench.faults = "refusing".parse().unwrap();
    bench.ask(json!({"version": "4.11.20"}));
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.11.20", "Partial"));
}

#[test]
fn a_stuck_update_stays_partial_and_resumes_when_fixed() {
    let mut bench = Bench::new();
    bench.faults = "stuck=16".parse().unwrap();
    bench.ask(json!({"version": "4.12.0"}));
    bench.pass(75);
    bench.pass(100_000);
    assert_eq!(bench.head(), pair("4.12.0", "Partial"));
    assert_eq!(bench.due, None, "held: nothing is due");
    assert!(
        bench
            .condition("Progressing")
            .unwrap()
            .2
            .contains("(16% complete), waiting on kube-scheduler")
    );
    bench.faults = Faults::default();
    bench.pass(10);
    assert_eq!(bench.head().1, "Partial");
    bench.pass(3600);
    assert_eq!(bench.head(), pair("4.12.0", "Completed"));
}

#[test]
fn a_failing_update_says_so_and_recovers_when_fixed() {
    let mut bench = Bench::new();
    bench.faults = "failing=Cluster operator etcd is not available".parse().unwrap();
    bench.ask(json!({"version": "4.12.0"}));
    bench.pass(75);
    assert_eq!(
        bench.condition("Failing").unwrap().0,
        "False",
        "not before the middle"
    );
    bench.pass(4000);
    assert_eq!(
        bench.condition("Failing"),
        triple(
            "True",
            "ClusterOperatorNotAvailable",
            "Cluster operator etcd is not available"
        )
    );
    assert_eq!(
        bench.condition("Progressing").unwrap().2,
        "Unable to apply 4.12.0: the cluster operator etcd is not available"
    );
    bench.faults = Faults::default();
    bench.pass(3600);
    assert_eq!(bench.condition("Failing").unwrap().0, "False");
    bench.pass(3600);
    assert_eq!(bench.head(), pair("4.12.0", "Completed"));
}

#[test]
fn a_slow_cluster_takes_its_factor_and_can_be_mended_on_the_way() {
    let mut bench = Bench::new();
    bench.faults = Fault::Slow(10.0).into();
    bench.ask(json!({"version": "4.12.0"}));
    bench.pass(749);
    assert_eq!(bench.head().1, "Completed");
    bench.pass(1);
    assert_eq!(bench.head().1, "Partial");
    bench.pass(18_000);
    bench.faults = Faults::default();
    bench.pass(0);
    bench.pass(1799);
    assert_eq!(bench.head().1, "Partial");
    bench.pass(1);
    assert_eq!(
        bench.head(),
        pair("4.12.0", "Completed"),
        "the second half at normal speed"
    );
}

#[test]
fn a_new_target_in_mid_update_leaves_the_first_partial() {
    let mut bench = Bench::new();
    bench.ask(json!({"version": "4.12.0"}));
    bench.pass(100);
    bench.ask(json!({"version": "4.12.3"}));
    bench.pass(75);
    let object = bench.object();
    let history = fields::list(&object, &["status", "history"]);
    assert_eq!(text(&history[0], &["version"]), "4.12.3");
    assert_eq!(
        (text(&history[1], &["version"]), text(&history[1], &["state"])),
        ("4.12.0", "Partial")
    );
    assert!(!text(&history[1], &["completionTime"]).is_empty());
}

#[test]
fn clearing_the_request_before_acceptance_cancels_it() {
    let mut bench = Bench::new();
    bench.ask(json!({"version": "4.12.0"}));
    bench.ask(Value::Null);
    assert_eq!(bench.condition("ReleaseAccepted").unwrap().1, "PayloadLoaded");
    bench.pass(7200);
    assert_eq!(bench.head(), pair("4.11.9", "Completed"));
    assert_eq!(
        bench.object()["status"]["observedGeneration"],
        3,
        "acknowledged after a while"
    );
}

#[test]
fn an_image_is_accepted_with_its_version() {
    let mut bench = Bench::new();
    bench.ask(json!({"image": "quay.io/release:4.12.7-x86_64"}));
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.12.7", "Partial"));
    let mut bench = Bench::new();
    bench.ask(json!({"image": "quay.io/release@sha256:abc", "version": "4.12.8"}));
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.12.8", "Partial"));
    assert_eq!(
        bench.object()["status"]["history"][0]["image"],
        "quay.io/release@sha256:abc"
    );
}

#[test]
fn a_stale_liar_tells_of_the_time_before() {
    let mut bench = Bench::new();
    bench.ask(json!({"version": "4.12.0"}));
    bench.pass(75);
    let told = lie(&bench.object(), Lie::Stale);
    assert_eq!(told["status"]["history"][0]["version"], "4.11.9");
    assert_eq!(told["status"]["history"][0]["state"], "Completed");
    assert_eq!(told["metadata"]["generation"], 1);
    assert_eq!(told["status"]["observedGeneration"], 1);
}

#[test]
fn an_early_liar_completes_before_the_operator_looked() {
    let mut bench = Bench::new();
    bench.ask(json!({"version": "4.12.0"}));
    let told = lie(&bench.object(), Lie::Early);
    assert_eq!(told["status"]["history"][0]["version"], "4.12.0");
    assert_eq!(told["status"]["history"][0]["state"], "Completed");
    assert_eq!(
        (
            &told["metadata"]["generation"],
            &told["status"]["observedGeneration"]
        ),
        (&json!(2), &json!(1))
    );
    bench.pass(75);
    bench.pass(3600);
    assert_eq!(
        lie(&bench.object(), Lie::Early),
        bench.object(),
        "the truth when it has come true"
    );
}

/// A cluster of 4.16 after a request for 4.16.9, which it has accepted if it can.
fn asked(faults: &str) -> Bench {
    let mut bench = Bench::new();
    bench.store.amend(&key(), |object| {
        object["status"]["desired"]["version"] = json!("4.16.2");
        object["status"]["history"][0]["version"] = json!("4.16.2");
        object["spec"]["channel"] = json!("stable-4.16");
    });
    bench.faults = faults.parse().unwrap();
    bench.ask(json!({"version": "4.16.9"}));
    bench.pass(75);
    bench
}

#[test]
fn a_slow_operator_is_waited_for_and_suspected_after_its_grace() {
    let mut bench = asked("slow-operator=etcd,45m");
    assert_eq!(bench.head(), pair("4.16.9", "Partial"));
    // etcd is waited for from 4 % of the hour on.
    bench.pass(144 + 29 * 60);
    assert_eq!(bench.condition("Failing"), triple("False", "", ""));
    bench.pass(61);
    let slow = "waiting on etcd over 30 minutes which is longer than expected";
    assert_eq!(
        bench.condition("Failing"),
        triple("Unknown", "SlowClusterOperator", slow)
    );
    bench.pass(15 * 60);
    assert_eq!(bench.condition("Failing").unwrap().0, "False");
    bench.pass(3600 - 144 - 62);
    assert_eq!(bench.head().1, "Partial");
    bench.pass(62);
    assert_eq!(bench.head().1, "Completed");
}

#[test]
fn an_operator_that_is_degraded_for_ever_fails_the_update_after_its_grace() {
    let mut bench = asked("degraded=network,for-ever");
    let due = (bench.due.unwrap() - bench.now).num_seconds();
    assert!(due > 0, "{due}");
    bench.pass(1800);
    let waits = "Working towards 4.16.9: 705 of 892 done (79% complete), waiting up to 40 minutes on network";
    assert_eq!(bench.condition("Progressing").unwrap().2, waits);
    let grace = bench.due.unwrap() - bench.now;
    assert_eq!(grace.num_minutes(), 40, "it wakes when the grace ends");
    bench.pass(40 * 60 + 1);
    assert_eq!(
        bench.condition("Failing"),
        triple(
            "True",
            "ClusterOperatorDegraded",
            "Cluster operator network is degraded"
        )
    );
    assert_eq!(bench.head().1, "Partial");
}

#[test]
fn graces_are_simulated_time() {
    let mut bench = Bench::new();
    bench.pace = Pace::scaled(0.1, Duration::from_hours(1));
    bench.pace.jitter = 0.0;
    bench.store.amend(&key(), |object| {
        object["status"]["desired"]["version"] = json!("4.16.2");
        object["status"]["history"][0]["version"] = json!("4.16.2");
    });
    bench.faults = "drain-stuck=master".parse().unwrap();
    bench.ask(json!({"version": "4.16.9"}));
    bench.pass(8);
    bench.pass(216);
    let grace = (bench.due.unwrap() - bench.now).num_seconds();
    assert!((539..=541).contains(&grace), "90 minutes in a tenth: {grace}");
    bench.pass(542);
    let slow = "waiting on machine-config over 90 minutes which is longer than expected";
    assert_eq!(
        bench.condition("Failing"),
        triple("Unknown", "SlowClusterOperator", slow)
    );
}

#[test]
fn a_release_that_cannot_be_verified_waits_until_it_can() {
    let mut bench = asked("unverified=no signature");
    let (status, reason, message) = bench.condition("ReleaseAccepted").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RetrievePayload"));
    assert!(
        message.ends_with("failure=The update cannot be verified: no signature"),
        "{message}"
    );
    assert_eq!(bench.head(), pair("4.16.2", "Completed"));
    bench.faults = Faults::default();
    bench.pass(0);
    bench.pass(60);
    assert_eq!(bench.head(), pair("4.16.9", "Partial"));
}

#[test]
fn a_forced_release_that_cannot_be_verified_is_recorded_as_such() {
    let mut bench = Bench::new();
    bench.faults = "unverified=no signature".parse().unwrap();
    bench.ask(json!({"version": "4.12.0", "force": true}));
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.12.0", "Partial"));
    let object = bench.object();
    let recorded = text(
        &fields::list(&object, &["status", "history"])[0],
        &["acceptedRisks"],
    );
    assert!(
        recorded.starts_with("Target release version=\"4.12.0\"")
            && recorded.contains(
                "cannot be verified, but continuing anyway because the update was forced: no signature"
            ),
        "{recorded:?}"
    );
}

#[test]
fn what_is_not_on_offer_is_explained() {
    let retrieved = |faults: &str| {
        let bench = asked(faults);
        assert_eq!(bench.condition("Invalid").unwrap().0, "True", "{faults}");
        bench.condition("RetrievedUpdates").unwrap()
    };
    let (status, reason, message) = retrieved("not-in-channel");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "VersionNotFound"));
    assert!(
        message.contains("4.16.2 not found in the \"stable-4.16\" channel"),
        "{message}"
    );
    assert_eq!(retrieved("update-service-outage").1, "RemoteFailed");
    assert_eq!(retrieved("risk=Leak: Memory leaks.").0, "True");
}

#[test]
fn a_version_that_only_the_history_knows_waits_until_it_is_offered() {
    let mut bench = Bench::new();
    for version in ["4.11.12", "4.11.9"] {
        bench.ask(json!({"version": version}));
        bench.pass(75);
        bench.pass(3600);
        assert_eq!(bench.head(), pair(version, "Completed"));
    }
    bench.faults = "not-in-channel".parse().unwrap();
    bench.ask(json!({"version": "4.11.12"}));
    bench.pass(75);
    assert!(bench.condition("Invalid").is_none());
    assert_eq!(bench.head(), pair("4.11.9", "Completed"));
    let before = bench.object();
    bench.pass(75);
    assert_eq!(bench.object(), before, "a look changes nothing");
    bench.faults = Faults::default();
    bench.pass(0);
    assert_eq!(bench.condition("RetrievedUpdates").unwrap().0, "True");
    bench.pass(75);
    assert_eq!(bench.head(), pair("4.11.12", "Partial"));
}

#[test]
fn a_risk_that_applies_shows_in_the_conditional_updates_and_goes_with_the_fault() {
    let mut bench = asked("risk=Leak: Memory leaks.");
    let conditional = bench.object()["status"]["conditionalUpdates"].clone();
    assert_eq!(conditional[0]["release"]["version"], "4.16.9");
    let recommended = &conditional[0]["conditions"][0];
    assert_eq!(
        (&recommended["status"], &recommended["reason"]),
        (&json!("False"), &json!("Leak"))
    );
    let before = bench.object();
    bench.pass(5);
    assert_eq!(bench.object(), before, "a look changes nothing");
    bench.faults = Faults::default();
    bench.pass(0);
    assert_eq!(
        fields::list(&bench.object(), &["status", "conditionalUpdates"]).len(),
        0
    );
    assert!(bench.condition("Invalid").is_none());
}
