use std::collections::BTreeMap;

use super::{Scenario, Selector};
use crate::fault::Fault;
use crate::seeded_rng::SeededRng;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

#[test]
fn later_rules_override_field_by_field() {
    let scenario: Scenario = "
rules:
- match: {name: 'spoke-*'}
  fault: slow=3
  version: 4.11.1
- match: {labels: {env: prod}}
  fault: offline
- match: {index: 7}
  openshift: false
"
    .parse()
    .unwrap();
    let profile =
        |name: &str, index, l: &[(&str, &str)]| scenario.profile(SeededRng::new(1), name, index, &labels(l));
    let prod = profile("spoke-1", 0, &[("env", "prod")]);
    assert!(prod.faults.offline());
    assert_eq!(prod.version.as_deref(), Some("4.11.1"));
    assert!(prod.openshift);
    assert!(profile("other", 0, &[]).faults.is_empty());
    assert!(!profile("other", 7, &[]).openshift);
}

#[test]
fn a_percentage_picks_the_same_clusters_for_the_same_seed() {
    let scenario = Scenario::default().with(Selector::percent(20.0), Fault::Offline);
    let picked = |seed: u64| -> Vec<usize> {
        (0..1000)
            .filter(|n| {
                let name = format!("c-{n}");
                !scenario
                    .profile(SeededRng::new(seed), &name, *n, &BTreeMap::new())
                    .faults
                    .is_empty()
            })
            .collect()
    };
    assert_eq!(picked(1), picked(1));
    assert_ne!(picked(1), picked(2));
    assert!((150..250).contains(&picked(1).len()), "{}", picked(1).len());
}

#[test]
fn flags_add_rules() {
    let mut scenario = Scenario::default();
    for flag in [
        "name=a*:stuck=40",
        "label=env=prod:offline",
        "index=3:lying=early",
        "percent=100:slow=2",
    ] {
        scenario.add_flag(flag).unwrap();
    }
    assert_eq!(scenario.rules.len(), 4);
    for wrong in [
        "offline",
        "name=a",
        "index=x:offline",
        "color=red:offline",
        "name=a:broken",
    ] {
        assert!(scenario.add_flag(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn unknown_fields_are_refused() {
    assert!("rules: [{match: {nmae: x}}]".parse::<Scenario>().is_err());
    assert!("jobs: [{name: x, duration: soon}]".parse::<Scenario>().is_err());
    assert_eq!("".parse::<Scenario>().unwrap().version, "4.11.9");
}
