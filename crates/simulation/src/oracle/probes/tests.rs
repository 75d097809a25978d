use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::oracle::generation::Generation;

/// An upgrade of a valid spec and two invalid ones, each of which acknowledges another key. Its status tells the last one.
fn misspelled() -> Facts {
    let specs = ["first", "second", "third"].into_iter().zip(1_i64..);
    let specs = specs.map(|(key, number)| Generation {
        number,
        is_invalid: number > 1,
        asked: Asked {
            acks: BTreeSet::from([key.to_owned()]),
            ..Asked::default()
        },
        ..Generation::default()
    });
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations = specs.collect();
    upgrade.acknowledged = vec![(Duration::ZERO, 3)];
    facts
}

/// Which rules a platform work violates that acknowledges a key.
fn violated(key: &str) -> Vec<Rule> {
    let mut facts = misspelled();
    let manifest = json!({"kind": "ConfigMap", "metadata": {"name": "admin-acks"}, "data": {key: "true"}});
    let value = json!({"spec": {"workload": {"manifests": [manifest]}}});
    facts.judge_acks(&Work {
        uid: "u".to_owned(),
        cluster: "c1".to_owned(),
        step: Some(Step::Platform),
        value: Arc::new(value),
        ..Work::default()
    });
    facts.violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn beside_an_invalid_spec_an_update_acknowledges_what_the_last_valid_one_does() {
    assert!(violated("first").is_empty());
    assert_eq!(violated("second"), [Rule::Acks]);
    assert_eq!(violated("third"), [Rule::Acks], "it is invalid");
}
