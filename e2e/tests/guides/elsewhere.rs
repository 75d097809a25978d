//! Commands that are not run here, each with the test that runs it or the reason why none does.

use crate::pages::Command;

/// What becomes of a command that is not run here.
#[derive(Clone, Copy, Debug)]
pub enum Elsewhere {
    /// A test or a step of CI runs it, or the function behind it: the file, and a text in it that shows this.
    Runs(&'static str, &'static str),
    /// Nothing runs it, for this reason.
    Never(&'static str),
}

use Elsewhere::{Never, Runs};

const SUITE: &str = "crates/xtask/src/suite.rs";
const NO_KUBELET: &str = "the hub of tests has no kubelet, so there is no pod";
const NO_RUNTIME: &str =
    "there is no container runtime; e2e/tests/deploy/image.rs reads the recipes and runs their builds";

/// Texts of commands. The first one that a command contains says what becomes of it.
pub const ELSEWHERE: &[(&str, Elsewhere)] = &[
    // Cargo.
    (
        "cargo install --locked",
        Runs(SUITE, "[\"install\", \"--locked\", \"--path\", \"crates/cli\"]"),
    ),
    (
        "cargo xtask hub up --sim",
        Runs(
            "crates/demo/tests/program.rs",
            "fn an_upgrade_on_the_hub_to_play_with_moves_by_its_placement",
        ),
    ),
    (
        "cargo xtask image",
        Runs(
            "e2e/tests/deploy/push.rs",
            "fn each_pushed_image_runs_by_its_digest_and_pushing_it_again_changes_nothing",
        ),
    ),
    (
        "cargo xtask plugin",
        Runs("e2e/tests/install/plugin.rs", "plugin::manifest(directory.path()"),
    ),
    ("cargo xtask demo", Runs(SUITE, "step(\"demo\"")),
    ("cargo xtask fence", Runs(SUITE, "step(\"fence\"")),
    ("cargo xtask crds", Runs(SUITE, "&[\"crds\", \"--check\"]")),
    ("cargo xtask docs", Runs(SUITE, "&[\"docs\", \"--check\"]")),
    (
        "cargo xtask manifests",
        Runs(SUITE, "&[\"manifests\", \"--check\"]"),
    ),
    ("cargo xtask deny", Runs(SUITE, "step(\"deny\"")),
    ("cargo xtask sim", Runs(SUITE, "step(\"simulation\"")),
    ("cargo xtask e2e", Runs(SUITE, "step(\"spokes\"")),
    ("cargo xtask bench", Runs(SUITE, "&[\"counts\"]")),
    (
        "cargo xtask test",
        Runs(".ci/run", "exec cargo xtask test --keep-going"),
    ),
    ("cargo fmt", Runs(SUITE, "[\"fmt\", \"--all\", \"--check\"]")),
    (
        "cargo clippy",
        Runs(SUITE, "[\"clippy\", \"--workspace\", \"--all-targets\"]"),
    ),
    (
        "cargo test",
        Runs(SUITE, "tests.args([\"test\", \"--workspace\"])"),
    ),
    ("apt-get install", Runs(".ci/run", "apt-get install -y")),
    // Images.
    ("skopeo inspect", Never("it asks a registry of the Internet")),
    ("podman build", Never(NO_RUNTIME)),
    ("podman push", Never(NO_RUNTIME)),
    (
        "oc adm",
        Never("only oc has it, and it needs the release image of OpenShift or a real cluster"),
    ),
    // Pods and machines.
    ("port-forward deployment/mcu-controller", Never(NO_KUBELET)),
    ("oc logs", Never(NO_KUBELET)),
    (
        "rollout undo",
        Never("the hub of tests has no controller of Deployments, which keeps the revisions"),
    ),
    (
        "oc wait mcp",
        Never("it is the command of a Job on a cluster with machines"),
    ),
    // Products that are not here.
    (
        "serviceMonitor.enabled=true",
        Runs(
            "e2e/tests/install/values.rs",
            "fn monitoring_without_helm_is_what_the_chart_makes",
        ),
    ),
    (
        "deploy/monitoring/service-monitor.yaml",
        Never(
            "there is no Prometheus operator; e2e/tests/install/values.rs compares the files with what Helm makes",
        ),
    ),
    ("argocd app wait", Never("there is no Argo CD")),
    ("kubectl get clustercurators", Never("there is no ClusterCurator")),
    (
        "kubectl get cgu",
        Never("there is no Topology Aware Lifecycle Manager"),
    ),
    (
        "kubectl krew install",
        Runs(
            "e2e/tests/install/plugin.rs",
            "fn krew_installs_the_plugin_from_its_manifest_and_refuses_another_archive",
        ),
    ),
    (
        "--registry mirror.example.com/ocp/release",
        Runs(
            "e2e/tests/registry/scrape.rs",
            "fn the_releases_of_the_sample_are_served_as_expected_from_a_registry_that_stumbles",
        ),
    ),
];

/// What becomes of a command, if it is not run here.
pub fn find(command: &Command) -> Option<Elsewhere> {
    let found = ELSEWHERE.iter().find(|(part, _)| command.text.contains(part));
    found.map(|(_, elsewhere)| *elsewhere)
}
