use super::*;
use crate::args::{Cli, Command, UnknownFields};
use crate::lint::{Linter, Report, output};
use crate::render::objects::to_yaml;
use clap::Parser as _;

fn read(line: &str) -> Result<Value, String> {
    let words = line.split(' ').map(|word| word.replace('~', " "));
    let cli = Cli::try_parse_from(
        ["kubectl-mcu".to_owned(), "create".to_owned()]
            .into_iter()
            .chain(words),
    )
    .unwrap();
    let Command::Create(args) = cli.command else {
        panic!("not create");
    };
    manifest(&args, "upgrades")
}

fn yaml(line: &str) -> String {
    to_yaml(&read(line).unwrap())
}

fn spec_of(yaml: &str) -> Value {
    let read: Value = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(read["metadata"]["namespace"], "upgrades");
    read["spec"].clone()
}

fn violations(yaml: &str) -> String {
    let mut report = Report::default();
    Linter::new(UnknownFields::Strict, None).lint("-", yaml, &mut report);
    output::text(&report)
}

#[test]
fn a_manifest_has_what_was_asked_for_and_passes_lint() {
    let yaml = yaml(
        "spring --set prod --set edge -l region~in~(eu,us),tier!=test,!gpu --to 4.18.20 --channel stable-4.18 \
         --canary canary=true --max-concurrency 10% --max-failures 3 --action-timeout 15m --cluster-upgrade-timeout 2h \
         --min-success-time 10m --paused",
    );
    let expression = |key: &str, operator: &str, values: &[&str]| {
        let mut expression = json!({"key": key, "operator": operator});
        if !values.is_empty() {
            expression["values"] = json!(values);
        }
        expression
    };
    assert_eq!(
        spec_of(&yaml),
        json!({
            "clusterSelector": {
                "clusterSets": ["prod", "edge"],
                "matchExpressions": [
                    expression("region", "In", &["eu", "us"]),
                    expression("tier", "NotIn", &["test"]),
                    expression("gpu", "DoesNotExist", &[]),
                ],
            },
            "clusterVersion": {"channel": "stable-4.18", "version": "4.18.20"},
            "upgradeStrategy": {
                "canaryClusters": {"clusterSelector": {"matchLabels": {"canary": "true"}}},
                "actionTimeout": "15m", "clusterUpgradeTimeout": "2h", "minSuccessTime": "10m", "maxConcurrency": "10%", "maxFailures": 3,
            },
            "paused": true,
        })
    );
    assert_eq!(violations(&yaml), "");
}

#[test]
fn clusters_are_named_and_operators_alone_are_an_upgrade() {
    let yaml = yaml("ops --name edge-1 --name edge-2 --placement gold --operators");
    let names = json!({"key": "metadata.name", "operator": "In", "values": ["edge-1", "edge-2"]});
    assert_eq!(
        spec_of(&yaml),
        json!({
            "placement": [{"name": "gold"}],
            "clusterSelector": {"matchExpressions": [names]},
            "ocpOperators": {"approveAllUpgrades": true},
        })
    );
    assert_eq!(violations(&yaml), "");
}

#[test]
fn what_lint_refuses_is_found() {
    assert!(violations(&yaml("spring --set prod --to four")).contains("spec.clusterVersion.version"));
}

#[test]
fn selectors_are_those_of_kubectl() {
    let read = selector("a=b, c==d,e!=f,g in (h, i),j notin (k),l,!m").unwrap();
    assert_eq!(read.match_labels.len(), 2);
    let told: Vec<String> = read
        .match_expressions
        .iter()
        .map(|one| format!("{} {:?} {}", one.key, one.operator, one.values.join("|")))
        .collect();
    assert_eq!(
        told,
        [
            "e NotIn f",
            "g In h|i",
            "j NotIn k",
            "l Exists ",
            "m DoesNotExist "
        ]
    );
    assert!(selector("a=b,a=c").unwrap_err().contains("two values"));
    assert!(selector("a within (b)").is_err());
}

#[test]
fn a_selector_that_a_variable_without_a_value_leaves_selects_nothing_instead_of_everything() {
    for (flags, flag, remedy) in [
        ("--selector=", "--selector", "with --set"),
        ("--set prod -l ~,~", "--selector", "with --set"),
        ("--name edge-1 -l ,,", "--selector", "with --set"),
        ("--set prod --canary=", "--canary", "leave it out"),
        ("--set prod --canary ,", "--canary", "leave it out"),
    ] {
        let refused = read(&format!("spring {flags} --to 4.20.4")).unwrap_err();
        assert!(
            refused.starts_with(&format!("{flag} \"")) && refused.ends_with(remedy),
            "{flags}: {refused}"
        );
    }
    let of_a_set = read("spring --set prod --to 4.20.4").unwrap();
    assert_eq!(
        of_a_set["spec"]["clusterSelector"],
        json!({"clusterSets": ["prod"]})
    );
}

#[test]
fn a_name_alone_for_canaries_is_that_of_a_label_which_is_said() {
    let warned = |flags: &str| {
        let made = read(&format!("spring --set prod -l gpu --to 4.20.4 {flags}")).unwrap();
        labels_of_any_value(&made["spec"])
    };
    assert_eq!(
        warned("--canary edge-1,tier=test"),
        "Warning: --canary edge-1 makes canaries of the clusters that have a label edge-1, whatever its value; for a cluster of that name, write --canary metadata.name=edge-1\n"
    );
    for flags in ["--canary metadata.name=edge-1", "--canary !edge-1", "--paused"] {
        assert_eq!(warned(flags), "", "{flags}");
    }
}

#[tokio::test]
async fn a_selector_without_a_term_is_an_invalid_command_line() {
    for flags in ["-l,--to=4.20.4", "--set=prod,--canary=,--to=4.20.4"] {
        // An empty argument, as a shell passes a variable without a value.
        let flags = flags.split(',').flat_map(|flag| match flag {
            "-l" => vec!["-l", ""],
            flag => vec![flag],
        });
        let words = ["kubectl-mcu", "create", "spring", "-n", "upgrades", "--dry-run"];
        assert_eq!(
            crate::command::run_args(words.into_iter().chain(flags)).await,
            crate::Exit::Usage
        );
    }
}

#[test]
fn an_upgrade_needs_clusters_and_a_target() {
    for line in ["create spring --set prod", "create spring --to 4.18.20"] {
        let words = std::iter::once("kubectl-mcu").chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_err(), "{line}");
    }
}

#[test]
fn a_set_that_the_namespace_does_not_bind_is_warned_about() {
    let sets = ["prod".to_owned(), "lab".to_owned()];
    let bindings = [json!({"metadata": {"name": "prod"}, "spec": {"clusterSet": "prod"}})];
    assert_eq!(
        unbound(&sets, &bindings, "upgrades"),
        "Warning: namespace upgrades has no ManagedClusterSetBinding for lab, and no cluster of the set is selected before it has one\n"
    );
    assert_eq!(unbound(&sets[..1], &bindings, "upgrades"), "");
}
