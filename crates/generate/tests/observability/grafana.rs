//! The dashboards of `deploy/dashboards` for Grafana. No Grafana runs in tests, so what it demands of a dashboard is checked here.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::promql::Exported;
use crate::{files, read};

/// The types of panels that are used. All of them belong to every Grafana since version 8.
const PANELS: [&str; 4] = ["row", "stat", "table", "timeseries"];
/// The width of a dashboard.
const COLUMNS: u64 = 24;

pub fn dashboard(file: &str) -> Value {
    serde_json::from_str(&read(&format!("dashboards/{file}"))).unwrap()
}

fn all() -> Vec<(String, Value)> {
    let files = files("dashboards", ".json");
    files
        .into_iter()
        .map(|file| (file.clone(), dashboard(&file)))
        .collect()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The expressions of all panels.
pub fn expressions(panels: &[Value]) -> Vec<String> {
    let targets = panels.iter().flat_map(|panel| list(&panel["targets"]));
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// The expression as Grafana sends it: with values in place of variables.
pub fn with_values(expression: &str) -> String {
    expression
        .replace("$__rate_interval", "5m")
        .replace("$__range", "1d")
        .replace("$upgrade_namespace", ".*")
        .replace("$upgrade", ".*")
}

/// The metric of `label_values(METRIC, LABEL)`.
pub fn metric_of_variable(query: &str) -> &str {
    let inner = query
        .strip_prefix("label_values(")
        .and_then(|rest| rest.strip_suffix(')'));
    inner.unwrap().rsplit_once(", ").unwrap().0
}

#[test]
fn every_expression_selects_what_is_exported() {
    let exported = Exported::all();
    for (file, dashboard) in all() {
        let expressions = expressions(list(&dashboard["panels"]));
        assert!(expressions.len() > 5, "{file}");
        for expression in expressions {
            let sent = with_values(&expression);
            assert!(!sent.contains('$'), "{file}: an unknown variable in {expression}");
            exported.check(&sent).unwrap();
        }
        for variable in list(&dashboard["templating"]["list"]) {
            if variable["type"] == "query" {
                let query = variable["query"]["query"].as_str().unwrap();
                exported.check(&with_values(metric_of_variable(query))).unwrap();
            }
        }
    }
}

#[test]
fn every_dashboard_has_a_uid_a_title_and_a_data_source_to_choose() {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in all() {
        let uid = dashboard["uid"].as_str().unwrap();
        assert!(uid.len() <= 40 && uids.insert(uid.to_owned()), "{file}: {uid}");
        assert!(!dashboard["title"].as_str().unwrap().is_empty(), "{file}");
        assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36, "{file}");
        // An id belongs to one Grafana. With one, an import would replace another dashboard.
        assert!(dashboard.get("id").is_none(), "{file}");
        let first = &dashboard["templating"]["list"][0];
        assert_eq!(
            (&first["name"], &first["type"]),
            (&"datasource".into(), &"datasource".into())
        );
    }
}

#[test]
fn every_panel_has_what_grafana_needs_to_draw_it() {
    for (file, dashboard) in all() {
        let mut ids = BTreeSet::new();
        for panel in list(&dashboard["panels"]) {
            let title = panel["title"].as_str().unwrap();
            let at = format!("{file}: {title}");
            assert!(
                !title.is_empty() && ids.insert(panel["id"].as_u64().unwrap()),
                "{at}"
            );
            let kind = panel["type"].as_str().unwrap();
            assert!(PANELS.contains(&kind), "{at}: {kind}");
            if kind == "row" {
                continue;
            }
            assert!(
                panel["description"].as_str().is_some_and(|text| !text.is_empty()),
                "{at}"
            );
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{at}");
            let mut references = BTreeSet::new();
            for target in std::iter::once(panel).chain(list(&panel["targets"])) {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{at}");
                assert_eq!(target["datasource"]["type"], "prometheus", "{at}");
            }
            for target in list(&panel["targets"]) {
                assert!(references.insert(target["refId"].as_str().unwrap()), "{at}");
                if kind == "timeseries" {
                    assert_ne!(
                        target["legendFormat"], "",
                        "{at}: the legend would show all labels"
                    );
                }
            }
            assert!(!references.is_empty(), "{at}");
        }
    }
}

#[test]
fn panels_lie_within_the_dashboard_and_do_not_overlap() {
    for (file, dashboard) in all() {
        let mut taken = BTreeSet::new();
        for panel in list(&dashboard["panels"]) {
            let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            assert!(side("x") + side("w") <= COLUMNS, "{file}: {}", panel["title"]);
            for x in side("x")..side("x") + side("w") {
                for y in side("y")..side("y") + side("h") {
                    assert!(taken.insert((x, y)), "{file}: {} overlaps", panel["title"]);
                }
            }
        }
    }
}
