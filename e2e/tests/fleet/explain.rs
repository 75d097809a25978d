//! Why a test failed: everything known of its upgrade, its clusters and the programs on them.

use std::fmt::Write as _;
use std::path::Path;

use e2e::view::Kind;
use testenv::process::tail;

use crate::cluster::Cluster;
use crate::fleet_test::Turn;

/// Lines of each log that are shown.
const LINES: usize = 25;

/// Upgrade with reports and works, then each cluster. `known`: the error says the former already.
pub async fn explain(turn: &Turn, known: bool) -> String {
    let mut text = String::new();
    if !known {
        text.push_str(&turn.scenario().dump());
    }
    for number in 1..=turn.names().len() {
        let cluster = turn.cluster(number);
        let _ = writeln!(text, "\n=== {}", cluster.name());
        text.push_str(&complaints(turn, cluster.name()));
        text.push_str(&of_cluster(cluster).await);
    }
    let hub = turn.test_hub().hub().dir();
    let _ = writeln!(text, "\n=== hub");
    logs(
        &mut text,
        hub,
        &["controller", "placement", "registration", "update-service"],
    );
    text
}

/// What the conditions of a cluster's works say beyond their status.
fn complaints(turn: &Turn, cluster: &str) -> String {
    turn.test_hub().view().look(|known| {
        let mut text = String::new();
        for work in known.in_namespace(Kind::Work, cluster) {
            let manifests = work["status"]["resourceStatus"]["manifests"].as_array();
            let whole = std::iter::once(("work", &work["status"]["conditions"]));
            let single = manifests.into_iter().flatten().map(|manifest| {
                let kind = manifest["resourceMeta"]["kind"].as_str().unwrap_or_default();
                (kind, &manifest["conditions"])
            });
            for (kind, conditions) in whole.chain(single) {
                for one in conditions.as_array().into_iter().flatten() {
                    let part = |key: &str| one[key].as_str().unwrap_or_default();
                    let _ = writeln!(
                        text,
                        "{} {kind} {}={} {} {}",
                        work["metadata"]["name"],
                        part("type"),
                        part("status"),
                        part("reason"),
                        part("message")
                    );
                }
            }
        }
        text
    })
}

async fn of_cluster(cluster: &Cluster) -> String {
    let mut text = format!("ClusterVersion {}\n", cluster.told());
    for objects in [
        "configmaps -n openshift-config admin-acks",
        "jobs -A",
        "pods -A",
        "installplans -A",
        "subscriptions -A",
        "machineconfigpools",
    ] {
        let mut args = vec!["get", "--ignore-not-found", "--request-timeout=10s"];
        args.extend(objects.split(' '));
        let found = cluster.kubectl(&args).await;
        let _ = writeln!(
            text,
            "{objects}:\n{}",
            found.unwrap_or_else(|error| format!("{error:#}"))
        );
    }
    logs(&mut text, cluster.spoke().dir(), &["platform", "work"]);
    text
}

fn logs(text: &mut String, dir: &Path, names: &[&str]) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let wanted = file
            .strip_suffix(".log")
            .is_some_and(|stem| names.iter().any(|name| stem.starts_with(name)));
        if wanted {
            let _ = writeln!(text, "--- the end of {file}\n{}", tail(&entry.path(), LINES));
        }
    }
}

/// What a panic says.
pub fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let literal = || panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(literal)
        .unwrap_or_else(|| "a panic without words".to_owned())
}
