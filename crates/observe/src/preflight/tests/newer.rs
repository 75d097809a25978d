//! Clusters that tell a newer version than the target, whose version the hub does not know before.

use super::*;

/// Clusters of an upgrade whose probes set the channel.
fn setting_channels(names: &[&str]) -> World {
    let mut world = world(names);
    world.questions.preflight = Some(Arc::new(Question {
        counts_after: TimeDelta::minutes(2),
        ..Question::clone(&question())
    }));
    for cluster in &mut world.fleet.clusters {
        cluster.newest_version = Arc::from("");
    }
    world
}

/// An answer of a cluster that runs this version.
fn running(version: &str) -> Value {
    let mut status = status_of_probe();
    let values = &mut status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
    values[0]["fieldValue"]["string"] = json!(version);
    status
}

/// The first cluster has told a newer version, and its probe is gone.
fn told(names: &[&str]) -> World {
    let mut world = setting_channels(names);
    assert_eq!(world.due(0).len(), names.len());
    for name in names {
        world.ended(name, ProbeResult::Done, 1);
        let version = if *name == names[0] { "4.21.3" } else { "4.20.3" };
        world.answers(name, running(version), 10);
    }
    let uid = format!("{}-probe-u1", names[0]);
    assert_eq!(world.due(10), [format!("delete {} {uid}", names[0])]);
    world.ended(names[0], ProbeResult::Done, 11);
    world.index.remove_probe(names[0], &uid);
    world
}

impl World {
    fn change(&mut self, change: impl FnOnce(&mut Question)) {
        let mut question = Question::clone(self.questions.preflight.as_ref().unwrap());
        change(&mut question);
        self.questions.preflight = Some(Arc::new(question));
    }

    /// The hub knows the cluster, which claims this version.
    fn claims(&mut self, cluster: &str, version: &str, created: &str) {
        self.version += 1;
        let object = json!({
            "metadata": {"name": cluster, "resourceVersion": self.version.to_string(), "creationTimestamp": created},
            "spec": {"hubAcceptsClient": true},
            "status": {"clusterClaims": [{"name": "version.openshift.io", "value": version}]},
        });
        self.index
            .cluster(&Change::Applied(serde_json::from_value(object).unwrap()));
    }
}

const NEWER: Option<(bool, Reason)> = Some((true, Reason::NewerThanTarget));

#[test]
fn the_channel_of_a_cluster_that_has_told_a_newer_version_is_set_no_more() {
    let mut world = told(&["c1", "c2"]);
    for second in [11, 130, 700, 90_000] {
        assert_eq!(world.due(second), Vec::<String>::new(), "{second}");
        assert_eq!(world.reason("c1", second), NEWER, "{second}");
    }
    assert_eq!(world.says("c2", 700), Preflight::Ready);
    for (at, name) in ["c1", "c2"].into_iter().enumerate() {
        world.cluster(at).preflight = world.says(name, 700);
    }
    let summary = world.preflights.summary(&world.fleet).unwrap();
    assert_eq!((summary.ready, summary.blocked, summary.unknown), (1, 1, 0));
}

#[test]
fn a_newer_version_counts_before_the_channel_does() {
    let mut world = setting_channels(&["c1"]);
    world.answers("c1", running("4.21.3"), 10);
    assert_eq!(world.reason("c1", 10), NEWER);
    world.questions.preflight = Some(question());
    world.answers("c1", running("4.21.3"), 20);
    assert!(world.due(20).is_empty(), "a probe that sets no channel stays");
}

#[test]
fn an_edit_asks_a_newer_cluster_again_only_where_that_does_not_set_its_channel() {
    let mut world = told(&["c1"]);
    world.change(|question| question.hash = Arc::from("h2"));
    assert!(world.due(20).is_empty());
    world.change(|question| question.update.version = "4.20.5".to_owned());
    assert!(world.due(30).is_empty());
    assert_eq!(
        world.message("c1", 30).split(';').next(),
        Some("The cluster runs 4.21.3, which is newer than 4.20.5")
    );
    let asked: [fn(&mut Question); 3] = [
        |question| question.update.version = "4.22.1".to_owned(),
        |question| question.counts_after = TimeDelta::zero(),
        |question| question.update.allow_downgrade = true,
    ];
    for change in asked {
        let mut world = told(&["c1"]);
        world.change(change);
        assert_eq!(world.due(40), ["create c1"]);
        assert_eq!(world.says("c1", 40), Preflight::NotAsked);
    }
}

#[test]
fn a_cluster_is_asked_again_when_the_hub_learns_another_version_or_it_is_registered_anew() {
    let mut world = told(&["c1"]);
    world.claims("c1", "4.20.2", "2026-05-28T09:00:00Z");
    assert_eq!(world.due(20), ["create c1"]);

    let mut world = setting_channels(&["c1"]);
    world.claims("c1", "4.20.2", "2026-05-28T09:00:00Z");
    let object = answered(probe("c1", UPGRADE, "h1", 50), running("4.21.3"), 50);
    world.index.work(&Change::Applied(object), at(0));
    assert_eq!(world.due(10), ["delete c1 c1-probe-u1"], "the claim is late");
    world.ended("c1", ProbeResult::Done, 11);
    world.index.remove_probe("c1", "c1-probe-u1");
    world.claims("c1", "4.20.2", "2026-05-28T09:00:00Z");
    assert!(world.due(20).is_empty());
    world.claims("c1", "4.20.2", "2026-05-28T11:00:00Z");
    assert_eq!(world.due(30), ["create c1"]);
}

#[test]
fn what_a_cluster_has_told_goes_with_it() {
    let mut world = told(&["c1"]);
    let cluster = world.fleet.clusters.remove(0);
    assert!(world.due(20).is_empty());
    world.fleet.clusters.push(cluster);
    assert_eq!(world.due(30), ["create c1"]);
}

#[test]
fn a_version_that_a_cluster_has_told_counts_if_it_is_newer_than_the_target() {
    let mut world = world(&["c1", "c2"]);
    world.answers("c1", running("4.21.3"), 0);
    world.answers("c2", running("4.20.3"), 0);
    assert_eq!(world.preflights.newer_version("c1").as_deref(), Some("4.21.3"));
    assert_eq!(world.preflights.newer_version("c2"), None);
}
