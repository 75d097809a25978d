//! What clusters say to the update before they start.

use api::preflight::PreflightSummary;
use observe::testing::{answered, status_of_probe};

use super::*;
use observe::index::WorkRequest;

use crate::graphs::{self, Graphs};

/// Answers like a cluster at 4.20.3 to which 4.20.4 is recommended.
fn asking(mode: &str) -> Given {
    let mut spec = crate::fixture::spec(&["c1", "c2"]);
    spec["clusterVersion"] = json!({"channel": "stable-4.20", "version": "4.20.4"});
    spec["preflight"] = json!({"mode": mode});
    Given {
        spec,
        ..upgrade("u1", &[])
    }
}

fn hub_of(upgrade: &Given) -> TestHub {
    let hub = hub(&["c1", "c2"]);
    hub.add_upgrade(upgrade);
    hub
}

/// A hub on which c2 is offered an update with risks that are accepted, by its image.
fn hub_that_offers_an_image() -> TestHub {
    let mut hub = hub_of(&asking("Require"));
    hub.settle();
    let mut status = status_of_probe();
    let offer = "offer/1\nupdate True quay.io/r@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!(offer);
    hub.answers("c2", status);
    hub
}

impl TestHub {
    /// Lets a cluster answer its probe.
    fn answers(&mut self, cluster: &str, status: Value) {
        self.version += 1;
        let known = self
            .context
            .with(|state| Arc::clone(state.index.probe(cluster).unwrap()));
        let owner = (&*known.upgrade, &*known.owner);
        let mut work = observe::testing::probe(cluster, owner, &known.hash, self.version);
        work.metadata.uid = Some(known.uid.to_string());
        work.metadata.creation_timestamp = Some(api::time::from_chrono(self.context.now()));
        let version = self.version;
        self.deliver(&Change::Applied(answered(work, status, version)));
    }

    fn preflight(&self) -> Option<PreflightSummary> {
        self.context
            .with(|state| state.upgrades["u1"].status.previous().preflight)
    }
}

fn without_offer() -> Value {
    let mut status = status_of_probe();
    status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!("offer/1");
    status
}

fn summary(ready: i64, blocked: i64, unknown: i64) -> PreflightSummary {
    PreflightSummary {
        ready,
        blocked,
        unknown,
        unsupported: 0,
    }
}

#[tokio::test]
async fn only_a_cluster_that_would_take_the_update_is_started_and_its_probe_goes_then() {
    let mut hub = hub_of(&asking("Require"));
    assert_eq!(
        works(&hub.settle()),
        ["u1: create c1-probe", "u1: create c2-probe"]
    );
    assert_eq!(hub.preflight(), Some(summary(0, 0, 2)));
    hub.answers("c1", without_offer());
    hub.answers("c2", status_of_probe());
    let written = hub.settle();
    assert_eq!(
        works(&written),
        ["u1: create c2-cluster-upgrade", "u1: delete c2-probe"]
    );
    assert_eq!(hub.phase("u1", "c1"), Some(Phase::Blocked));
    assert_eq!(hub.preflight(), Some(summary(0, 1, 0)));
    let causes = hub
        .context
        .with(|state| state.upgrades["u1"].status.previous().causes.clone());
    let named = causes.iter().find(|cause| cause.reason == "NotOffered").unwrap();
    assert!(named.message.contains("does not offer 4.20.4"), "{named:?}");
}

/// Answers like a cluster at 4.20.3 in another channel, in which 4.20.4 does not exist.
fn in_another_channel() -> Value {
    let mut status = without_offer();
    let values = status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"].as_array_mut();
    let channel = values
        .unwrap()
        .iter_mut()
        .find(|value| value["name"] == "channel")
        .unwrap();
    channel["fieldValue"]["string"] = json!("stable-4.19");
    status
}

#[tokio::test]
async fn an_update_graph_tells_what_a_cluster_in_another_channel_does_not() {
    let mut hub = hub_of(&asking("Require"));
    hub.settle();
    for cluster in ["c1", "c2"] {
        hub.answers(cluster, in_another_channel());
    }
    hub.settle();
    assert_eq!(hub.preflight(), Some(summary(0, 0, 2)));
    let file = tempfile::NamedTempFile::new().unwrap();
    let channels = json!({"io.openshift.upgrades.graph.release.channels": "stable-4.20"});
    let node = |version| json!({"version": version, "payload": "q@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "metadata": channels});
    let graph = json!({"nodes": [node("4.20.3"), node("4.20.4")], "edges": [[0, 1]]});
    std::fs::write(file.path(), graph.to_string()).unwrap();
    let named = file.path().to_str().unwrap();
    let graphs = Graphs::new(named, update_graph::Arch::amd64(), &[]).unwrap();
    hub.context.with(|state| state.settings.graphs = graphs);
    let follow = graphs::follow::run(&hub.context);
    let limit = std::time::Duration::from_millis(500);
    tokio::time::timeout(limit, follow).await.unwrap_err();
    assert_eq!(
        works(&hub.settle()),
        [
            "u1: create c1-cluster-upgrade",
            "u1: create c2-cluster-upgrade",
            "u1: delete c1-probe",
            "u1: delete c2-probe",
        ]
    );
}

#[tokio::test]
async fn clusters_that_cannot_be_asked_are_counted_even_if_their_worker_pools_are_waited_for() {
    for strategy in [json!({}), json!({"workerPools": "Wait"})] {
        let mut asked = asking("Require");
        asked.spec["upgradeStrategy"] = strategy;
        let mut hub = hub_of(&asked);
        hub.context.with(|state| state.settings.agents_can_read = false);
        hub.settle();
        assert_eq!(hub.phase("u1", "c1"), Some(Phase::Blocked));
        let counted = PreflightSummary {
            unsupported: 2,
            ..summary(0, 0, 0)
        };
        assert_eq!(hub.preflight(), Some(counted));
    }
}

#[tokio::test]
async fn a_report_tells_what_clusters_say_and_holds_nothing_back() {
    let mut hub = hub_of(&asking("Report"));
    let written = hub.settle();
    assert!(
        works(&written).contains(&"u1: create c1-cluster-upgrade"),
        "{written:?}"
    );
}

#[tokio::test]
async fn a_cluster_that_is_recommended_a_version_with_risks_is_asked_for_its_image_again_and_again() {
    let hub = hub_that_offers_an_image();
    let jobs = hub.reconcile();
    let request = jobs.iter().find_map(|job| match &job.write {
        Write::Create { cluster, params, .. } if &**cluster == "c2" => Some(params.request.clone()),
        _ => None,
    });
    assert_eq!(
        request,
        Some(WorkRequest::Image(
            "quay.io/r@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb".into()
        ))
    );
}

/// A hub that is overloaded may make it wait for minutes.
#[tokio::test]
async fn a_request_by_image_that_waits_in_the_queue_is_called_back_when_the_image_was_told_too_long_ago() {
    let hub = hub_that_offers_an_image();
    let jobs = hub.reconcile();
    let mut starts = jobs
        .iter()
        .filter(|job| matches!(job.write, Write::Create { .. }));
    let start = starts.next().unwrap();
    let now = hub.context.now();
    let is_asked_for = |seconds| {
        let later = now + TimeDelta::seconds(seconds);
        hub.context.with(|state| state.is_asked_for(start, later))
    };
    assert!(is_asked_for(280));
    assert!(!is_asked_for(300));
}

#[tokio::test]
async fn a_deleted_upgrade_leaves_no_probe_behind() {
    let asked = asking("Require");
    let mut hub = hub_of(&asked);
    hub.settle();
    hub.add_upgrade(&Given {
        deleting: true,
        version: 500,
        ..asked
    });
    let jobs = hub.reconcile();
    let lines: Vec<String> = jobs.iter().map(line).collect();
    assert_eq!(works(&lines), ["u1: delete c1-probe", "u1: delete c2-probe"]);
    assert!(!lines.iter().any(|line| line.contains("finalizers")), "{lines:?}");
    for job in jobs {
        hub.carry_out(job);
    }
    let rest: Vec<String> = hub.reconcile().iter().map(line).collect();
    assert_eq!(rest, ["u1: finalizers 0"]);
}

#[tokio::test]
async fn a_preflight_that_is_taken_out_of_the_spec_takes_its_probes_along_and_no_update() {
    let mut asked = asking("Require");
    let mut hub = hub_of(&asked);
    hub.settle();
    hub.answers("c1", without_offer());
    hub.answers("c2", status_of_probe());
    hub.settle();
    let work = hub.work("c2", WireStep::Platform);
    assert_eq!(work, Some(("u1".to_owned(), false)));
    asked.spec["preflight"] = Value::Null;
    // The other cluster would start.
    asked.spec["paused"] = json!(true);
    asked.version = 500;
    let mut edited = asked.view();
    edited.metadata.generation = Some(2);
    hub.context.with(|state| state.apply_upgrade(edited));
    let written = hub.settle();
    assert_eq!(works(&written), ["u1: delete c1-probe"]);
    let is_changed = |line: &String| line.contains("update c2") || line.contains("withdraw c2");
    assert!(!written.iter().any(is_changed), "{written:?}");
    assert_eq!(hub.work("c2", WireStep::Platform), work);
    assert_eq!(hub.phase("u1", "c2"), Some(Phase::Initialized));
    assert_eq!(hub.preflight(), None);
}

#[tokio::test]
async fn without_a_preflight_no_cluster_is_asked() {
    for mode in [Value::Null, json!({"mode": "Off"})] {
        let mut asked = asking("Off");
        asked.spec["preflight"] = mode;
        let mut hub = hub_of(&asked);
        let written = hub.settle();
        assert!(!written.iter().any(|line| line.contains("probe")), "{written:?}");
        assert_eq!(hub.preflight(), None);
    }
}

#[tokio::test]
async fn a_name_that_somebody_else_has_taken_is_told() {
    let mut hub = hub_of(&asking("Require"));
    for job in hub.reconcile() {
        if matches!(job.write, Write::CreateProbe { .. }) {
            hub.answer(job, &WriteResult::Foreign);
        } else {
            hub.carry_out(job);
        }
    }
    hub.settle();
    let message = hub.context.with(|state| {
        let row = state.upgrades["u1"].rows.get("c1").unwrap();
        row.record.message.to_string()
    });
    assert!(message.contains("no upgrade manages it; delete it"), "{message}");
}

#[tokio::test]
async fn an_upgrade_whose_probe_cannot_be_deleted_says_so_and_stays() {
    let asked = asking("Require");
    let mut hub = hub_of(&asked);
    hub.settle();
    hub.add_upgrade(&Given {
        deleting: true,
        version: 500,
        ..asked
    });
    for job in hub.reconcile() {
        let refused = WriteResult::Failed(WriteError::new(WriteErrorKind::Forbidden, "denied by policy"));
        if matches!(job.write, Write::DeleteProbe { .. }) {
            hub.answer(job, &refused);
        } else {
            hub.carry_out(job);
        }
    }
    let rest: Vec<String> = hub.reconcile().iter().map(line).collect();
    assert!(!rest.iter().any(|line| line.contains("finalizers")), "{rest:?}");
    let status = hub.context.with(|state| state.upgrades["u1"].status.previous());
    let (reason, message) = stalled(&status);
    assert_eq!(reason, "DeletionRefused");
    assert!(message.contains("by which cluster c1 is asked"), "{message}");
}

#[tokio::test]
async fn a_misspelled_risk_is_told_on_the_object_until_a_cluster_has_started() {
    let mut asked = asking("Require");
    asked.spec["clusterVersion"]["acceptRisks"] = json!([{"name": "OVNIpsec", "reason": "no IPsec here"}]);
    let mut hub = hub_of(&asked);
    hub.settle();
    let told = |hub: &TestHub| {
        let status = hub.context.with(|state| state.upgrades["u1"].status.previous());
        let mut messages = status
            .conditions
            .iter()
            .map(|condition| condition.message.clone());
        messages.any(|message| message.contains("do you mean OVNIPsec?"))
    };
    let risky = || {
        let mut status = status_of_probe();
        let offer = "offer/1\nupdate False quay.io/r@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nrisk T OVNIPsec text";
        status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!(offer);
        status
    };
    assert!(!told(&hub), "no cluster has answered");
    hub.answers("c1", risky());
    hub.settle();
    assert!(!told(&hub), "c2 may know the name");
    hub.answers("c2", risky());
    hub.settle();
    assert!(told(&hub));
    hub.answers("c2", status_of_probe());
    hub.settle();
    hub.settle();
    assert!(!told(&hub), "c2 has started");
}

/// An upgrade that was deleted and created anew may find probes of its former life that go late.
#[tokio::test]
async fn a_cluster_is_asked_when_the_probe_of_another_upgrade_is_gone() {
    let mut hub = hub_of(&asking("Require"));
    let former = observe::testing::probe("c1", ("u0", "ns/former"), "0123456789abcdef", 7);
    hub.deliver(&Change::Applied(former.clone()));
    assert_eq!(works(&hub.settle()), ["u1: create c2-probe"]);
    hub.deliver(&Change::Deleted(former));
    assert_eq!(works(&hub.settle()), ["u1: create c1-probe"]);
}

/// Its replica has not seen the last valid spec, so nothing is planned for it.
#[tokio::test]
async fn an_upgrade_of_which_no_valid_spec_is_known_keeps_no_name_that_another_one_needs() {
    let mut invalid = asking("Require");
    invalid.spec["clusterVersion"]["version"] = json!("v4");
    let mut hub = hub_of(&invalid);
    for (cluster, version) in [("c1", 7), ("c2", 8)] {
        let own = observe::testing::probe(cluster, ("u1", "ns/u1"), "0123456789abcdef", version);
        hub.deliver(&Change::Applied(own));
    }
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        crate::fixture::note(entry, "c2", rollout::testing::record(Phase::Workers));
    });
    assert_eq!(works(&hub.settle()), ["u1: delete c1-probe"]);
}
