//! The dashboard for the console of OpenShift, which knows the panels of older Grafana releases only.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::grafana::{dashboard, expressions, list, metric_of_variable, with_values};
use crate::promql::Exported;
use crate::read;

/// The types of panels that the console can show. It leaves out all others.
const PANELS: [&str; 5] = ["gauge", "grafana-piechart-panel", "graph", "singlestat", "table"];
/// The units that it can show.
const UNITS: [&str; 6] = ["short", "none", "percentunit", "bytes", "s", "Bps"];

fn config_map() -> Value {
    serde_saphyr::from_str(&read("dashboards/openshift-console.yaml")).unwrap()
}

fn board() -> Value {
    let data = config_map();
    let data = data["data"].as_object().unwrap();
    assert_eq!(data.len(), 1, "the console reads the first file only");
    serde_json::from_str(data["mcu-upgrades.json"].as_str().unwrap()).unwrap()
}

fn panels(board: &Value) -> Vec<Value> {
    let rows = list(&board["rows"]).iter();
    rows.flat_map(|row| list(&row["panels"]).to_vec()).collect()
}

#[test]
fn the_console_finds_the_config_map() {
    let map = config_map();
    assert_eq!(map["kind"], "ConfigMap");
    assert_eq!(map["metadata"]["namespace"], "openshift-config-managed");
    assert_eq!(
        map["metadata"]["labels"]["console.openshift.io/dashboard"],
        "true"
    );
}

#[test]
fn the_console_can_show_every_panel() {
    let board = board();
    let mut ids = BTreeSet::new();
    for panel in panels(&board) {
        let title = panel["title"].as_str().unwrap();
        assert!(PANELS.contains(&panel["type"].as_str().unwrap()), "{title}");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!((1..=12).contains(&panel["span"].as_u64().unwrap()), "{title}");
        let unit = panel["format"]
            .as_str()
            .or_else(|| panel["yaxes"][0]["format"].as_str());
        assert!(UNITS.contains(&unit.unwrap()), "{title}");
        // It shows one value of the first query.
        assert!(
            panel["type"] == "graph" || list(&panel["targets"]).len() == 1,
            "{title}"
        );
    }
}

#[test]
fn every_expression_is_one_of_grafanas_and_selects_what_is_exported() {
    let exported = Exported::all();
    let known: BTreeSet<String> = expressions(list(&dashboard("mcu.json")["panels"]))
        .into_iter()
        .collect();
    let board = board();
    let shown = expressions(&panels(&board));
    assert!(shown.len() > 10, "{}", shown.len());
    for expression in shown {
        assert!(known.contains(&expression), "{expression}");
        exported.check(&with_values(&expression)).unwrap();
    }
    for variable in list(&board["templating"]["list"]) {
        let query = variable["query"].as_str().unwrap();
        exported.check(&with_values(metric_of_variable(query))).unwrap();
    }
}
