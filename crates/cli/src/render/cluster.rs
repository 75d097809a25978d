//! One cluster: what it is, and its part in each upgrade.

use std::fmt::Write as _;

use api::names::{CLAIM_VERSION, LABEL_CLUSTER_SET, LABEL_OPENSHIFT_VERSION};
use api::report::ReportRow;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::age;
use crate::args::Output;
use crate::paint::Paint;
use crate::render::objects::machine;
use crate::render::phase_tone;
use crate::render::tree::elapsed;
use crate::table::{Cell, Table, lines, one_line, or_none};

/// The part of a cluster in an upgrade.
#[derive(Clone, Debug)]
pub struct Part {
    /// Namespace of the upgrade.
    pub namespace: String,
    /// Name of the upgrade.
    pub upgrade: String,
    /// The row of the cluster.
    pub row: ReportRow,
}

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name of the cluster.
    pub name: &'a str,
    /// Its ManagedCluster. `None` if it does not exist, or cannot be read.
    pub object: Option<&'a Value>,
    /// Its parts, the newest first.
    pub parts: &'a [Part],
}

/// Renders a cluster in the requested format.
#[must_use]
pub fn render(subject: Subject<'_>, output: Option<Output>, now: DateTime<Utc>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(
            subject
                .parts
                .iter()
                .map(|part| format!("{}/{}", part.namespace, part.upgrade)),
        );
    }
    machine(output, || value(subject)).unwrap_or_else(|| text(subject, now, paint))
}

fn value(subject: Subject<'_>) -> Value {
    let parts: Vec<Value> = subject
        .parts
        .iter()
        .map(|part| json!({"namespace": part.namespace, "upgrade": part.upgrade, "row": part.row}))
        .collect();
    json!({
        "cluster": subject.name,
        "version": subject.object.map(version),
        "available": subject.object.map(available),
        "upgrades": parts,
    })
}

fn text(subject: Subject<'_>, now: DateTime<Utc>, paint: Paint) -> String {
    let mut fields = vec![("Cluster", subject.name.to_owned())];
    if let Some(object) = subject.object {
        let set = object["metadata"]["labels"][LABEL_CLUSTER_SET]
            .as_str()
            .unwrap_or_default();
        fields.push(("Version", or_none(&version(object)).to_owned()));
        fields.push(("Set", or_none(&one_line(set)).to_owned()));
        fields.push(("Available", available(object)));
    }
    let mut text = lines(
        fields
            .iter()
            .map(|(key, value)| format!("{:<11}{value}", format!("{key}:"))),
    );
    let mut table = Table::new(&[
        "NAMESPACE",
        "UPGRADE",
        "PHASE",
        "FROM",
        "TO",
        "STARTED",
        "ELAPSED",
        "REASON",
    ]);
    for part in subject.parts {
        let row = &part.row;
        let started = row.steps.first().map_or_else(
            || "<none>".to_owned(),
            |step| step.started_at.to_rfc3339_opts(SecondsFormat::Secs, true),
        );
        table.push(vec![
            part.namespace.as_str().into(),
            part.upgrade.as_str().into(),
            Cell::toned(phase_tone(row.phase), row.phase.as_str()),
            or_none(&row.from_version).into(),
            or_none(&row.to_version).into(),
            started.into(),
            or_none(&elapsed(row, now)).into(),
            or_none(&row.reason).into(),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(paint, 0));
    if let Some(part) = subject.parts.first() {
        let _ = writeln!(
            text,
            "\nkubectl mcu why {} {} -n {} explains the newest one; it changed {} ago.",
            part.upgrade,
            subject.name,
            part.namespace,
            age::human(now - part.row.since)
        );
    }
    text
}

/// The version that the cluster claims, or else that of its label.
fn version(object: &Value) -> String {
    let claims = object["status"]["clusterClaims"].as_array();
    let claim = claims
        .into_iter()
        .flatten()
        .find(|claim| claim["name"] == CLAIM_VERSION);
    let value = claim
        .and_then(|claim| claim["value"].as_str())
        .or_else(|| object["metadata"]["labels"][LABEL_OPENSHIFT_VERSION].as_str());
    one_line(value.unwrap_or_default())
}

fn available(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let condition = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "ManagedClusterConditionAvailable");
    let status = condition.and_then(|condition| condition["status"].as_str());
    one_line(status.unwrap_or("Unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{now, rows};

    #[test]
    fn a_cluster_is_shown_with_its_version_and_its_part_in_each_upgrade() {
        let part = |upgrade: &str, cluster: &str| Part {
            namespace: "upgrades".to_owned(),
            upgrade: upgrade.to_owned(),
            row: rows().of(cluster).unwrap().clone(),
        };
        let parts = [
            part("spring", "edge-02"),
            part("winter", "edge-17"),
            part("old", "edge-20"),
        ];
        let object = json!({
            "metadata": {"labels": {LABEL_CLUSTER_SET: "prod"}},
            "status": {
                "clusterClaims": [{"name": CLAIM_VERSION, "value": "4.11.9"}],
                "conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True"}],
            },
        });
        let subject = Subject {
            name: "edge-02",
            object: Some(&object),
            parts: &parts,
        };
        insta::assert_snapshot!(render(subject, None, now(), Paint::Never));
        let read: Value =
            serde_json::from_str(&render(subject, Some(Output::Json), now(), Paint::Never)).unwrap();
        assert_eq!(read["version"], "4.11.9");
        assert_eq!(read["upgrades"][1]["row"]["phase"], "Failed");
        assert_eq!(
            render(subject, Some(Output::Name), now(), Paint::Never),
            "upgrades/spring\nupgrades/winter\nupgrades/old\n"
        );
    }
}
