use super::*;
use repository::{HUB_TESTS, Package, SPOKE_TESTS, Target};

fn package(name: &str, targets: &[(&str, &str, &[&str])]) -> Package {
    Package {
        name: name.to_owned(),
        manifest_path: "Cargo.toml".into(),
        dependencies: Vec::new(),
        targets: targets
            .iter()
            .map(|(name, kind, features)| Target {
                name: (*name).to_owned(),
                kind: vec![(*kind).to_owned()],
                required_features: features.iter().map(|name| (*name).to_owned()).collect(),
            })
            .collect(),
    }
}

#[test]
fn hub_tests_are_told_from_the_others_by_the_feature_that_they_need() {
    let packages = [
        package(
            "testenv",
            &[("testenv", "lib", &[]), ("hub", "test", &["hub-tests"])],
        ),
        package("rollout", &[("goldens", "test", &[]), ("rollout", "lib", &[])]),
        package(
            "e2e",
            &[
                ("acceptance", "test", &["hub-tests"]),
                ("fleet", "test", &["spoke-tests"]),
            ],
        ),
    ];
    let of = |feature| tests_with(&packages, feature).into_iter().collect::<Vec<_>>();
    assert_eq!(of(None), ["goldens"]);
    assert_eq!(of(Some(HUB_TESTS)), ["acceptance", "hub"]);
    assert_eq!(of(Some(SPOKE_TESTS)), ["fleet"]);
}

#[test]
fn every_integration_test_of_the_workspace_is_in_exactly_one_step() {
    let packages = Metadata::load().unwrap().packages;
    let all = packages.iter().flat_map(|package| &package.targets);
    let names: Vec<&String> = all
        .filter(|target| target.kind.contains(&"test".to_owned()))
        .map(|target| &target.name)
        .collect();
    let steps = [None, Some(HUB_TESTS), Some(SPOKE_TESTS)].map(|feature| tests_with(&packages, feature));
    assert!(steps.iter().all(|step| !step.is_empty()));
    for name in names {
        // Names, because `cargo test --test NAME` runs the tests of that name in all packages.
        let count = steps.iter().filter(|step| step.contains(name)).count();
        assert_eq!(count, 1, "{name}");
    }
}

#[test]
fn all_tests_of_e2e_need_a_hub_and_say_so() {
    let packages = Metadata::load().unwrap().packages;
    let e2e = packages.iter().find(|package| package.name == "e2e").unwrap();
    for target in e2e.targets.iter().filter(|target| target.kind == ["test"]) {
        assert!(
            !target.required_features.is_empty(),
            "{}: add required-features",
            target.name
        );
    }
}

#[test]
fn the_summary_has_the_time_and_the_verdict_of_each_step_and_says_whether_the_real_data_were_there() {
    let step = |name, seconds, ok| Finished {
        name,
        took: Duration::from_secs(seconds),
        ok,
    };
    let text = summary(
        &[step("fence", 3, true), step("tests", 61, false)],
        Duration::from_secs(64),
    );
    let lines: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(lines[0], "  ok     fence            3.0 s");
    assert_eq!(lines[1], "  FAILED tests           61.0 s");
    assert_eq!(lines[2], "         total           64.0 s");
    assert!(lines[3].contains("real data"), "{text}");
    assert!(!summary(&[], Duration::ZERO).contains("real data"));
}

#[test]
fn each_commit_has_seeds_that_are_its_own() {
    let commits = ["60c012a0b1d2e3f4a5", "60c012a0b1d3e3f4a5"];
    let [first, second] = commits.map(first_seed);
    assert_eq!(first, 0x60c0_12a0_b1d2);
    assert_ne!(first, second);
    assert_eq!(first_seed(commits[0]), first, "a failure repeats");
    assert_eq!(first_seed(""), 0);
}

#[test]
fn every_run_plays_400_seeds_some_of_each_kind() {
    let bits = SWEEPS.map(|(bits, _)| bits >> 61);
    assert_eq!(bits, [0, 1, 2, 3]);
    let seeds = SWEEPS.map(|(_, seeds)| seeds.parse::<u64>().unwrap());
    assert_eq!(seeds.iter().sum::<u64>(), 400);
    assert_eq!(
        first_seed("ffffffffffffffff") >> 61,
        0,
        "no commit has these bits"
    );
}
