//! Tests of the approval script. bash runs it like the Job does, with a stub `oc` whose cluster is a
//! directory of files.
//!
//! The stub responds to the calls that the script makes and records each one. All other calls are errors, so
//! that a new call is noticed. `sleep` is a stub too: waiting costs nothing, while the script uses the real
//! clock.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and clippy exempts only the test functions themselves"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const SCRIPT: &str = include_str!("../src/works/script.sh");

/// Subscriptions are files `subs/<name>,<namespace>` that contain the name of their install plan (empty: none
/// yet). Install plans are files `plans/<namespace>_<name>` that contain `spec.approved`. A file `deny`
/// rejects every call with its text, and `deny-patch` rejects every patch. `flaky` contains how many calls
/// still fail, `warn` is written to stderr with each response, and `stubborn` prevents patches from taking
/// effect.
const OC: &str = r#"#!/bin/bash
set -u
cd "$STATE" || exit 9
echo "$*" >> calls
[[ -e warn ]] && cat warn >&2
if [[ -e deny ]]; then cat deny >&2; exit 1; fi
if [[ -s flaky ]]; then
  left=$(<flaky)
  if (( left > 0 )); then echo $((left - 1)) > flaky; echo "Unable to connect to the server: EOF" >&2; exit 1; fi
fi
case "$*" in
"get subscriptions.operators.coreos.com -A -o jsonpath="*)
  for file in subs/*; do if [[ -e $file ]]; then echo "${file#subs/}"; fi; done ;;
"get subscriptions.operators.coreos.com -n "*" --field-selector metadata.name="*)
  ns=$4 name=${6#metadata.name=}
  plan=$(cat "subs/$name,$ns") || exit 1
  [[ -z $plan ]] && exit 0
  case "$8" in
  'jsonpath={.items[0].status.installPlanRef.name}') printf '%s' "$plan" ;;
  'jsonpath={.items[0].status.installPlanRef.namespace}') printf '%s' "$ns" ;;
  *) echo "unexpected output: $8" >&2; exit 1 ;;
  esac ;;
"get installplan "*) cat "plans/$5_$3" ;;
"patch installplan "*)
  if [[ -e deny-patch ]]; then
    echo "Error from server (Forbidden): installplans \"$3\" is forbidden: cannot patch" >&2; exit 1
  fi
  want='[{"op":"replace","path":"/spec/approved","value":true}]'
  [[ $6 == --type=json && $7 == "-p=$want" ]] || { echo "unexpected patch: $*" >&2; exit 1; }
  [[ -e stubborn ]] || printf true > "plans/$5_$3"
  echo "installplan.operators.coreos.com/$3 patched" ;;
*) echo "unexpected call: $*" >&2; exit 1 ;;
esac
"#;

/// Records the requested interval and, if asked to, changes the cluster while the script waits. A short real
/// pause replaces the interval, so that a loop that runs until WAITTIME does not use much CPU.
const SLEEP: &str = r#"#!/bin/bash
cd "$STATE" || exit 9
echo "$1" >> sleeps
if [[ -e on-sleep ]]; then bash on-sleep; fi
exec "$REAL_SLEEP" 0.05
"#;

/// A WAITTIME in seconds that no test reaches unless it fails.
const AMPLE: u32 = 60;
/// A WAITTIME that a test reaches. It is so long that the script runs several times even on a busy machine.
const SHORT: u32 = 8;

struct Cluster {
    dir: TempDir,
}

struct Run {
    code: i32,
    log: String,
    calls: Vec<String>,
    sleeps: Vec<String>,
}

impl Cluster {
    fn new() -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        for part in ["bin", "subs", "plans"] {
            fs::create_dir(dir.path().join(part)).unwrap();
        }
        executable(&dir.path().join("bin/oc"), OC);
        executable(&dir.path().join("bin/sleep"), SLEEP);
        Cluster { dir }
    }

    fn file(self, name: &str, text: &str) -> Cluster {
        fs::write(self.dir.path().join(name), text).unwrap();
        self
    }

    /// Adds a subscription `name,namespace` with a plan that waits for approval.
    fn waiting(self, subscription: &str) -> Cluster {
        self.with_plan(subscription, "false")
    }

    fn with_plan(self, subscription: &str, approved: &str) -> Cluster {
        let (name, namespace) = subscription.split_once(',').unwrap();
        let plan = format!("plans/{namespace}_install-{name}");
        self.file(&format!("subs/{subscription}"), &format!("install-{name}"))
            .file(&plan, approved)
    }

    fn run(&self, include: &str, exclude: &str, wait_seconds: u32) -> Run {
        let path = std::env::var("PATH").unwrap();
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new("/bin/bash")
            .args(["-c", SCRIPT])
            .env_clear()
            .env(
                "PATH",
                format!("{}:{path}", self.dir.path().join("bin").display()),
            )
            .env("REAL_SLEEP", real_sleep(&path))
            .env("STATE", self.dir.path())
            .env("INCLUDELIST", include)
            .env("EXCLUDELIST", exclude)
            .env("WAITTIME", wait_seconds.to_string())
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(stderr).unwrap(),
            "",
            "the script writes to stdout only"
        );
        Run {
            code: status.code().unwrap(),
            log: String::from_utf8(stdout).unwrap(),
            calls: self.lines("calls"),
            sleeps: self.lines("sleeps"),
        }
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Names of the subscriptions whose plan is approved now.
    fn approved(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path().join("plans"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| fs::read_to_string(path).unwrap() == "true")
            .map(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .replace("_install-", "/")
            })
            .collect();
        names.sort();
        names
    }
}

impl Run {
    fn patches(&self) -> usize {
        self.calls.iter().filter(|call| call.starts_with("patch")).count()
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn real_sleep(path: &str) -> String {
    let mut folders = path.split(':').map(|folder| format!("{folder}/sleep"));
    folders.find(|file| Path::new(file).exists()).unwrap()
}

#[test]
fn an_empty_include_list_approves_every_plan_and_reads_it_back_once() {
    let cluster = Cluster::new().waiting("gitops,ns1").waiting("storage,ns2");
    let run = cluster.run("", "", AMPLE);
    assert_eq!(run.code, 0, "{}", run.log);
    assert_eq!(cluster.approved(), ["ns1/gitops", "ns2/storage"]);
    assert_eq!(run.patches(), 2);
    let lists = run.calls.iter().filter(|call| call.contains(" -A ")).count();
    assert_eq!(lists, 2, "one pass to patch, one to read back");
    assert_eq!(run.sleeps, ["10"]);
    assert!(
        run.log.ends_with("every selected install plan is approved\n"),
        "{}",
        run.log
    );
}

#[test]
fn an_include_list_approves_exactly_its_elements() {
    let cluster = Cluster::new()
        .waiting("storage,ns")
        .waiting("local-storage,ns")
        .waiting("storage,ns-x")
        .waiting("gitops,ns2");
    let run = cluster.run("storage,ns gitops,ns2", "", AMPLE);
    assert_eq!(run.code, 0, "{}", run.log);
    assert_eq!(cluster.approved(), ["ns/storage", "ns2/gitops"]);
}

#[test]
fn the_exclude_list_is_exact_and_wins_over_the_include_list() {
    let cluster = Cluster::new()
        .waiting("storage,ns")
        .waiting("local-storage,ns")
        .waiting("gitops,ns2");
    let run = cluster.run(
        "storage,ns local-storage,ns gitops,ns2",
        "storage,ns gitops,ns2",
        60,
    );
    assert_eq!(run.code, 0, "{}", run.log);
    assert_eq!(cluster.approved(), ["ns/local-storage"]);
    assert!(run.log.contains("storage,ns: excluded"));
}

#[test]
fn a_pattern_in_a_list_is_no_pattern() {
    let cluster = Cluster::new().waiting("gitops,ns1");
    let run = cluster.run("*,ns1 gitop?,ns1", "", AMPLE);
    assert_eq!(run.code, 0);
    assert!(cluster.approved().is_empty());
}

#[test]
fn plans_that_are_approved_already_are_left_alone() {
    let cluster = Cluster::new().with_plan("gitops,ns1", "true");
    let run = cluster.run("", "", AMPLE);
    assert_eq!((run.code, run.patches()), (0, 0));
    assert!(run.sleeps.is_empty(), "nothing is waited for");
}

#[test]
fn nothing_selected_ends_early_with_success() {
    for cluster in [Cluster::new(), Cluster::new().waiting("other,ns")] {
        let run = cluster.run("gitops,ns1", "", AMPLE);
        assert_eq!(run.code, 0, "{}", run.log);
        assert!(run.sleeps.is_empty());
        assert!(cluster.approved().is_empty());
    }
}

#[test]
fn a_denied_list_ends_at_once_with_failure() {
    let denial = "Error from server (Forbidden): subscriptions.operators.coreos.com is forbidden: User \"system:serviceaccount:x:default\" cannot list resource";
    let cluster = Cluster::new().waiting("gitops,ns1").file("deny", denial);
    let run = cluster.run("", "", AMPLE);
    assert_eq!((run.code, run.calls.len()), (1, 1), "{}", run.log);
    assert!(run.log.contains(&format!("denied: {denial}")));
    assert!(run.sleeps.is_empty());
}

#[test]
fn a_denied_patch_ends_at_once_with_failure() {
    let cluster = Cluster::new().waiting("gitops,ns1").file("deny-patch", "");
    let run = cluster.run("", "", AMPLE);
    assert_eq!((run.code, run.patches()), (1, 1), "{}", run.log);
    assert!(run.log.contains("denied: "));
}

#[test]
fn transient_errors_are_retried() {
    for failures in ["1", "2", "3", "4", "5"] {
        let cluster = Cluster::new().waiting("gitops,ns1").file("flaky", failures);
        let run = cluster.run("", "", AMPLE);
        assert_eq!(run.code, 0, "{failures}: {}", run.log);
        assert_eq!(cluster.approved(), ["ns1/gitops"]);
        assert!(
            run.log
                .contains("oc failed, will retry: Unable to connect to the server: EOF")
        );
    }
}

#[test]
fn errors_that_last_until_the_time_is_up_are_a_failure() {
    let cluster = Cluster::new().waiting("gitops,ns1").file("flaky", "1000000");
    let run = cluster.run("", "", SHORT);
    assert_eq!(run.code, 1, "{}", run.log);
    assert!(run.log.ends_with("time is up\n"), "{}", run.log);
}

#[test]
fn warnings_beside_an_answer_are_no_part_of_it() {
    let cluster = Cluster::new()
        .waiting("gitops,ns1")
        .with_plan("storage,ns2", "true")
        .file(
            "warn",
            "Warning: v1alpha1 is deprecated\nWarning: and so is this\n",
        );
    let run = cluster.run("", "", AMPLE);
    assert_eq!(run.code, 0, "{}", run.log);
    assert_eq!(cluster.approved(), ["ns1/gitops", "ns2/storage"]);
    assert_eq!(run.patches(), 1);
}

#[test]
fn a_selected_subscription_without_a_plan_fails_when_the_time_is_up() {
    let cluster = Cluster::new().file("subs/gitops,ns1", "").waiting("storage,ns2");
    let run = cluster.run("", "", SHORT);
    assert_eq!(run.code, 1, "{}", run.log);
    assert_eq!(
        cluster.approved(),
        ["ns2/storage"],
        "the others are approved all the same"
    );
    assert!(run.log.contains("gitops,ns1: no install plan yet"));
}

#[test]
fn a_plan_that_appears_while_the_script_waits_is_approved() {
    let appears =
        "printf install-gitops > subs/gitops,ns1; printf false > plans/ns1_install-gitops; rm on-sleep";
    let cluster = Cluster::new()
        .file("subs/gitops,ns1", "")
        .file("on-sleep", appears);
    let run = cluster.run("gitops,ns1", "", AMPLE);
    assert_eq!(run.code, 0, "{}", run.log);
    assert_eq!(cluster.approved(), ["ns1/gitops"]);
}

#[test]
fn a_patch_without_effect_is_repeated_until_the_time_is_up() {
    let cluster = Cluster::new().waiting("gitops,ns1").file("stubborn", "");
    let run = cluster.run("", "", SHORT);
    assert!(run.patches() > 1, "{}", run.log);
    assert!(cluster.approved().is_empty());
    assert!(run.log.ends_with("time is up\n"), "{}", run.log);
}

#[test]
fn the_script_never_sleeps_past_its_time() {
    let cluster = Cluster::new().file("subs/gitops,ns1", "");
    let run = cluster.run("", "", 2);
    assert_eq!(run.code, 1);
    for interval in &run.sleeps {
        let seconds: u32 = interval.parse().unwrap();
        assert!((1..=2).contains(&seconds), "{interval}");
    }
}

#[test]
fn an_odd_line_in_the_list_is_skipped() {
    let cluster = Cluster::new().waiting("gitops,ns1").file("subs/Odd,ns", "x");
    let run = cluster.run("", "", AMPLE);
    assert_eq!(run.code, 0, "{}", run.log);
    assert_eq!(cluster.approved(), ["ns1/gitops"]);
}
