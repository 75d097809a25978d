//! The alerts that `deploy/` ships, checked and tested by promtool, and its dashboards, checked by Grafana's own schema.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testenv::prometheus::promtool;

/// Each file of rules and its test, below `deploy/alerts`.
const FILES: [(&str, &str); 3] = [
    ("mcu.rules.yaml", "tests/mcu.test.yaml"),
    ("update-service.rules.yaml", "tests/update-service.test.yaml"),
    (
        "cluster/clusterversion.rules.yaml",
        "tests/clusterversion.test.yaml",
    ),
];

fn alerts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/alerts")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(alerts().join(file)).unwrap()
}

async fn run(what: &str, file: &Path) -> Result<String, String> {
    promtool(&[what, "rules", &file.display().to_string()])
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_rules_are_valid_and_each_alert_fires_when_it_should() {
    for (rules, tests) in FILES {
        let checked = run("check", &alerts().join(rules)).await.unwrap();
        let number = read(rules).matches("- alert:").count();
        assert!(checked.contains(&format!("{number} rules found")), "{checked}");
        let tested = run("test", &alerts().join(tests)).await.unwrap();
        assert!(tested.contains("SUCCESS"), "{tested}");
    }
}

#[test]
fn every_file_of_rules_is_tested() {
    for directory in ["", "cluster"] {
        for entry in std::fs::read_dir(alerts().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let known = |(rules, _): &(&str, &str)| alerts().join(rules) == path;
            assert!(path.is_dir() || FILES.iter().any(known), "{}", path.display());
        }
    }
}

/// The rules with one of them changed, one file per change.
fn spoiled(rules: &str) -> Vec<(String, Value)> {
    let rules: Value = serde_saphyr::from_str(&read(rules)).unwrap();
    let mut found = Vec::new();
    for (group, of_group) in rules["groups"].as_array().unwrap().iter().enumerate() {
        for (rule, alert) in of_group["rules"].as_array().unwrap().iter().enumerate() {
            let name = alert["alert"].as_str().unwrap();
            let mut without = rules.clone();
            let rest = without["groups"][group]["rules"].as_array_mut().unwrap();
            rest.remove(rule);
            // promtool takes no group without rules.
            if rest.is_empty() {
                without["groups"].as_array_mut().unwrap().remove(group);
            }
            found.push((format!("without {name}"), without));
            if alert.get("for").is_some() {
                let mut early = rules.clone();
                early["groups"][group]["rules"][rule]["for"] = "0s".into();
                found.push((format!("{name} at once"), early));
            }
        }
    }
    found
}

#[tokio::test]
async fn an_alert_that_is_missing_or_fires_too_early_fails_the_rule_test() {
    let mut unnoticed = Vec::new();
    for (rules, tests) in FILES {
        // The test names its rules by their path from its own directory.
        let dir = tempfile::tempdir().unwrap();
        let (spoiled_rules, test) = (dir.path().join(rules), dir.path().join(tests));
        for file in [&spoiled_rules, &test] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        std::fs::write(&test, read(tests)).unwrap();
        let all = spoiled(rules);
        assert!(all.len() > 5, "{rules}: {}", all.len());
        for (what, spoiled) in all {
            // JSON is YAML.
            std::fs::write(&spoiled_rules, spoiled.to_string()).unwrap();
            run("check", &spoiled_rules).await.unwrap();
            if run("test", &test).await.is_ok() {
                unnoticed.push(what);
            }
        }
    }
    assert!(unnoticed.is_empty(), "the rule tests do not notice {unnoticed:?}");
}

/// The output of the checker of dashboards.
fn check_dashboards(files: &[PathBuf]) -> Result<String, String> {
    let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/hub-tools/grafana");
    let mut command = Command::new("go");
    let output = command
        .args(["run", "."])
        .args(files)
        .current_dir(checker)
        .output();
    let output = output.unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn every_dashboard_is_valid_by_grafanas_own_schema() {
    let dashboards = alerts().join("../dashboards").canonicalize().unwrap();
    let files: Vec<PathBuf> = ["mcu.json", "update-service.json"]
        .map(|name| dashboards.join(name))
        .into();
    assert_eq!(check_dashboards(&files).as_deref(), Ok("SUCCESS\n"));
    let dir = tempfile::tempdir().unwrap();
    let spoiled = dir.path().join("spoiled.json");
    let text = std::fs::read_to_string(&files[0]).unwrap();
    std::fs::write(&spoiled, text.replace("\"gridPos\"", "\"gridpos\"")).unwrap();
    let error = check_dashboards(&[spoiled]).unwrap_err();
    assert!(error.contains("gridpos"), "{error}");
}
