//! The alerts that `deploy/` ships, checked and tested by promtool.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use serde_json::Value;
use testenv::prometheus::promtool;

const RULES: &str = "clusterversion.rules.yaml";
const TESTS: &str = "clusterversion.test.yaml";

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
    let checked = run("check", &alerts().join(RULES)).await.unwrap();
    let rules = read(RULES).matches("- alert:").count();
    assert!(checked.contains(&format!("{rules} rules found")), "{checked}");
    let tested = run("test", &alerts().join(TESTS)).await.unwrap();
    assert!(tested.contains("SUCCESS"), "{tested}");
}

/// The rules with one of them changed, one file per change.
fn spoiled() -> Vec<(String, Value)> {
    let rules: Value = serde_saphyr::from_str(&read(RULES)).unwrap();
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
    let dir = tempfile::tempdir().unwrap();
    let (rules, tests) = (dir.path().join(RULES), dir.path().join(TESTS));
    std::fs::write(&tests, read(TESTS)).unwrap();
    let all = spoiled();
    assert!(all.len() > 12, "{}", all.len());
    let mut unnoticed = Vec::new();
    for (what, spoiled) in all {
        // JSON is YAML.
        std::fs::write(&rules, spoiled.to_string()).unwrap();
        run("check", &rules).await.unwrap();
        if run("test", &tests).await.is_ok() {
            unnoticed.push(what);
        }
    }
    assert!(
        unnoticed.is_empty(),
        "the rule test does not notice {unnoticed:?}"
    );
}
