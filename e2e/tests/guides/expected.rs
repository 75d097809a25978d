//! The order of the pages, what their commands need, and how these end.

use clap::Parser as _;
use kubectl_mcu::args::Cli;

use crate::elsewhere;
use crate::pages::Command;
use crate::shell::{SUCCESS, Step};

/// The pages, in the order in which they are tried: the first one makes the upgrade `spring`, `retry-and-pause` deletes it, and the
/// last one removes the controller from the hub.
pub const PAGES: [&str; 30] = [
    "docs/guide/first-upgrade.md",
    "docs/guide/before-you-start.md",
    "docs/guide/command-line.md",
    "docs/guide/dashboard.md",
    "docs/guide/canaries-and-slots.md",
    "docs/guide/maintenance-windows.md",
    "docs/guide/approvals.md",
    "docs/guide/coming-from-cluster-curator.md",
    "docs/guide/coming-from-talm.md",
    "docs/guide/gates-and-acks.md",
    "docs/guide/gitops.md",
    "docs/guide/actions.md",
    "docs/guide/operators.md",
    "docs/guide/risks.md",
    "docs/guide/rehearse.md",
    "docs/guide/plan-and-estimate.md",
    "docs/guide/sizing.md",
    "docs/guide/troubleshooting.md",
    "docs/guide/support-matrix.md",
    "docs/guide/read-an-explanation.md",
    "docs/guide/lint-graph-data.md",
    "docs/guide/serve-your-own-graph.md",
    "docs/guide/backup-and-restore.md",
    "docs/guide/one-broken-cluster.md",
    "docs/guide/retry-and-pause.md",
    "examples/README.md",
    "README.md",
    "CONTRIBUTING.md",
    "docs/guide/upgrade-the-controller.md",
    "docs/guide/install.md",
];

/// Pages and parts of commands that end with another code than 0. An empty page stands for all pages; the first one counts.
const EXITS: &[(&str, &str, &[i32])] = &[
    // All clusters become complete; edge-17 joins later, and fails.
    ("docs/guide/first-upgrade.md", "kubectl mcu status spring", &[0]),
    ("", "kubectl mcu status spring", &[0, 3]),
    ("docs/guide/gitops.md", "[ \"$first\" = \"$ready\" ]", &[1]),
    ("", "kubectl mcu rehearse", &[0, 3]),
    ("", "kubectl mcu plan", &[0, 3]),
    // edge-17 may have accepted the update again.
    ("", "kubectl mcu abort spring", &[0, 1]),
    // There is a difference.
    ("", "kubectl diff", &[0, 1]),
];

/// Parts of commands that run until they are interrupted, and how they end then.
const UNTIL_INTERRUPTED: &[(&str, &[i32])] = &[
    ("kubectl mcu dashboard", &[130]),
    ("kubectl mcu clusters spring -n upgrades -w", &[130]),
    ("update-service serve", &[0]),
    // The upgrade is Stalled, so it is never Ready.
    (
        "kubectl wait mcu/spring -n upgrades --for=condition=Ready",
        &[1, 130],
    ),
];

/// What must be done before a command: its page, a part of it, and commands for the shell. An empty page stands for all pages.
const BEFORE: &[(&str, &str, &str)] = &[
    (
        "docs/guide/first-upgrade.md",
        "--phase Failed",
        "kubectl patch mcu spring -n upgrades --type merge \
           -p '{\"spec\":{\"upgradeStrategy\":{\"clusterUpgradeTimeout\":\"10s\"}}}'\n\
         kubectl annotate managedcluster edge-17 'spoke-sim.mcu/fault=failing=etcd is down'\n\
         kubectl label managedcluster edge-17 cluster.open-cluster-management.io/clusterset=fleet\n\
         kubectl wait mcu/spring -n upgrades --for=condition=Stalled --timeout=60s",
    ),
    (
        "docs/guide/coming-from-talm.md",
        "kubectl mcu clusters sites",
        // The rows follow the status.
        "kubectl apply -f sites.yaml\n\
         until [ -n \"$(kubectl mcu clusters sites -n upgrades --phase Complete -o name)\" ]; do sleep 1; done",
    ),
    (
        // Risks and gates are accepted by name only where clusters are asked.
        "",
        "kubectl mcu preflight spring",
        "kubectl patch mcu spring -n upgrades --type merge -p '{\"spec\":{\"preflight\":{\"mode\":\"Report\"}}}'\n\
         kubectl wait mcu/spring -n upgrades --for=jsonpath='{.status.preflight}' --timeout=60s",
    ),
    (
        "docs/guide/approvals.md",
        "kubectl mcu approvals",
        "kubectl mcu create summer -n upgrades --name prod-1 --to 4.20.4 --paused\n\
         kubectl patch mcu summer -n upgrades --type merge \
           -p '{\"spec\":{\"paused\":false,\"upgradeStrategy\":{\"approvals\":[{\"name\":\"first\",\"when\":0}]}}}'\n\
         kubectl wait mcu/summer -n upgrades --for=jsonpath='{.status.state}'=WaitingForApproval --timeout=60s\n\
         until kubectl auth can-i create managedclustersupgradeapprovals -n upgrades --as anna; do sleep 1; done",
    ),
    (
        "docs/guide/lint-graph-data.md",
        "lint.json",
        "update-service lint graph-data/ --json > lint.json",
    ),
    (
        "",
        "kubectl delete mcu autumn",
        "kubectl mcu create autumn -n upgrades --name prod-1 --to 4.20.4 --paused",
    ),
    (
        // An earlier page may have retried edge-17.
        "docs/guide/one-broken-cluster.md",
        "kubectl mcu causes spring",
        "until [ -n \"$(kubectl mcu clusters spring -n upgrades --phase Failed -o name)\" ]; do sleep 1; done",
    ),
    (
        // The page before it has retried edge-17.
        "docs/guide/retry-and-pause.md",
        "kubectl mcu clusters spring",
        "until [ -n \"$(kubectl mcu clusters spring -n upgrades --phase Failed -o name)\" ]; do sleep 1; done",
    ),
    (
        // It was retried just before.
        "docs/guide/retry-and-pause.md",
        "kubectl mcu retry spring --reason",
        "until [ -n \"$(kubectl mcu clusters spring -n upgrades --phase Failed -o name)\" ]; do sleep 1; done",
    ),
    (
        "docs/guide/install.md",
        "annotate manifestwork",
        "kubectl --as=system:serviceaccount:mcu-system:mcu-controller create -f work.yaml",
    ),
    (
        "docs/guide/install.md",
        "kubectl delete --ignore-not-found -f deploy/install.yaml",
        "kubectl apply -f deploy/install.yaml",
    ),
    (
        "docs/guide/install.md",
        "kubectl delete -k crds",
        "kubectl apply -k crds",
    ),
];

/// Commands that a sentence only names. Their help must exist.
const NAMES: [&str; 11] = [
    "cargo xtask",
    "helm install",
    "helm rollback",
    "helm upgrade",
    "kubectl apply",
    "kubectl apply --server-side",
    "kubectl edit mcur",
    "kubectl explain",
    "kubectl port-forward",
    "kubectl wait --for=condition=Stalled",
    "update-service lint",
];

/// Placeholders of sentences and tables.
const PLACEHOLDERS: [(&str, &str); 11] = [
    ("CLUSTER", "edge-17"),
    ("FILE", "spring.yaml"),
    ("FROM", "4.18.20"),
    ("NAME", "spring"),
    ("NAMESPACE", "upgrades"),
    ("TO", "4.20.4"),
    ("UID", "none"),
    ("URL", "https://updates.example.com/api/upgrades_info"),
    // The release of a conditional update in prepared.yaml.
    ("VERSION", "4.18.3"),
    // NAME of a ClusterOperator, and of an upgrade that no page needs.
    ("clusteroperator spring", "clusteroperator etcd"),
    ("delete mcu spring", "delete mcu autumn"),
];

/// What is run for a command of a block.
pub fn of_a_block(page: &str, command: &Command) -> Vec<Step> {
    if elsewhere::find(command).is_some() {
        return Vec::new();
    }
    let before = BEFORE
        .iter()
        .filter(|(of, part, _)| (of.is_empty() || *of == page) && command.text.contains(part));
    let before = before.map(|(_, _, script)| Step {
        line: command.line,
        text: format!("(set -e\n{script}\n)"),
        codes: SUCCESS,
    });
    let mut steps: Vec<Step> = before.collect();
    let contains = |part: &str| command.text.contains(part);
    let interrupted = UNTIL_INTERRUPTED
        .iter()
        .find(|(part, _)| contains(part) && !contains(" & "));
    let exit = EXITS
        .iter()
        .find(|(of, part, _)| (of.is_empty() || *of == page) && contains(part));
    steps.push(match interrupted {
        Some(&(_, codes)) => Step {
            line: command.line,
            text: format!("timeout --preserve-status -s INT 3 {}", command.text),
            codes,
        },
        None => Step {
            line: command.line,
            text: command.text.clone(),
            codes: exit.map_or(SUCCESS, |&(_, _, codes)| codes),
        },
    });
    steps
}

/// What is run for a command of a sentence or a table: itself, or its help if it is only named.
pub fn of_a_sentence(page: &str, command: &Command) -> Vec<Step> {
    if elsewhere::find(command).is_some() {
        return Vec::new();
    }
    let mut text = command.text.clone();
    for (placeholder, value) in PLACEHOLDERS {
        text = filled(&text, placeholder, value);
    }
    if is_only_named(&text) {
        return vec![Step {
            line: command.line,
            text: format!("{text} --help"),
            codes: SUCCESS,
        }];
    }
    let line = command.line;
    of_a_block(page, &Command { line, text })
}

/// True for a command that lacks arguments which its program needs. The plugin's own parser says so of its commands.
fn is_only_named(text: &str) -> bool {
    let Some(arguments) = text.strip_prefix("kubectl mcu") else {
        return NAMES.contains(&text);
    };
    let ends = ["&&", "|", ">"];
    let words = arguments.split_whitespace();
    let words = words.take_while(|word| !ends.contains(word));
    Cli::try_parse_from(std::iter::once("kubectl-mcu").chain(words)).is_err()
}

/// The text with a value in place of a placeholder, where that is a word by itself.
fn filled(text: &str, placeholder: &str, value: &str) -> String {
    let is_part_of_a_word = |c: char| c.is_ascii_alphanumeric() || "_-$".contains(c);
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(placeholder) {
        let (before, after) = (&rest[..at], &rest[at + placeholder.len()..]);
        let is_whole = !before.ends_with(is_part_of_a_word) && !after.starts_with(is_part_of_a_word);
        result.push_str(before);
        result.push_str(if is_whole { value } else { placeholder });
        rest = after;
    }
    result + rest
}

#[test]
fn a_command_that_lacks_arguments_is_only_named_and_placeholders_are_words() {
    for named in [
        "kubectl mcu",
        "kubectl mcu retry",
        "kubectl mcu status -w",
        "helm install",
    ] {
        assert!(is_only_named(named), "{named}");
    }
    for whole in [
        "kubectl mcu status",
        "kubectl mcu status a -n b -w && kubectl apply -f b.yaml",
        "kubectl get mcu",
    ] {
        assert!(!is_only_named(whole), "{whole}");
    }
    let text = "kubectl get mcu/NAME -n NAMESPACE -l X_NAME=$NAME";
    assert_eq!(
        filled(text, "NAME", "spring"),
        "kubectl get mcu/spring -n NAMESPACE -l X_NAME=$NAME"
    );
}
