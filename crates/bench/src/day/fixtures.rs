//! The fleet of a day: what each cluster has to endure, and how that must end. Pure data.

use serde_json::{Value, json};
use spoke_sim::seeded_rng::SeededRng;
use testenv::fleet::VERSION_CLAIM;
use testenv::{ClusterSpec, FleetSpec};

/// The release of the day.
pub const TARGET: &str = "4.17.9";
const CHANNEL: &str = "stable-4.17";
/// Installed versions: a minor update, as most are here, and a patch.
const MINOR: &str = "4.16.20";
const PATCH: &str = "4.17.1";
/// Label of a cluster that names its case, and the one of canaries.
const CASE: &str = "day/case";
const CANARY: &str = "day/canary";
/// Clusters that go first; nothing is wrong with them.
pub const CANARIES: usize = 5;

/// Real minutes of a quiet cluster's update; the simulator varies them by a quarter.
pub const UPDATE_MINUTES: u32 = 60;
/// Real minutes after which an update counts as stuck.
pub const TIMEOUT_MINUTES: u32 = 180;
/// Real minutes that an upgraded cluster is watched.
const SOAK_MINUTES: u32 = 30;
/// Hours until the canaries are complete.
pub const CANARY_HOURS: f64 = (UPDATE_MINUTES + SOAK_MINUTES) as f64 / 60.0;
/// Real minutes after which a cluster that does not answer counts as blocked.
const ANSWER_MINUTES: u32 = 10;
/// Real minutes between the report of a cause and its fix, for causes that an administrator can fix.
pub const FIX_MINUTES: u32 = 20;

/// How a case must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Complete.
    Complete,
    /// Told with this cause, then fixed as an administrator would, then complete.
    CompleteAfter(&'static str),
    /// Not started, and told with this reason.
    Blocked(&'static str),
    /// Failed, with this reason and all of these texts in the message.
    Failed(&'static str, &'static [&'static str]),
}

/// Something that happens to clusters.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// How many clusters of a thousand.
    pub share: u64,
    /// The simulator's words for it; `{10m}` is ten simulated minutes on the wall's clock.
    faults: &'static str,
    /// Whether it takes a minor update to meet it.
    minor: bool,
    /// How it must end.
    pub expect: Expect,
    /// The reason by which a cluster tells of it before it is asked for the update, if it knows.
    pub told: Option<&'static str>,
}

const fn case(name: &'static str, share: u64, faults: &'static str, expect: Expect) -> Case {
    Case {
        name,
        share,
        faults,
        minor: false,
        expect,
        told: None,
    }
}

/// The same, of which clusters tell before they are asked for the update.
const fn told(mut case: Case, reason: &'static str) -> Case {
    case.told = Some(reason);
    case
}

const fn of_minor(mut case: Case) -> Case {
    case.minor = true;
    case
}

const TIMEOUT: &str = "ClusterUpgradeTimeout";

const fn timeout(marks: &'static [&'static str]) -> Expect {
    Expect::Failed(TIMEOUT, marks)
}

const GATE: &str = "refusing=AdminAckRequired: Kubernetes 1.30 removes APIs that may be in use. Acknowledge when they are not.";
/// The message about a version that is not on offer, whatever the reason.
const NOT_OFFERED: &str = "the update must be an available update";

/// Everything that happens on the day. The shares make a thousand.
pub const CASES: [Case; 22] = [
    case("healthy", 480, "none", Expect::Complete),
    case("slow", 90, "slow=1.6", Expect::Complete),
    case(
        "slow-operator",
        60,
        "slow-operator=authentication,45m",
        Expect::Complete,
    ),
    case("degraded-40m", 50, "degraded=etcd,40m", Expect::Complete),
    case("agent-flaps", 30, "flapping={10m}", Expect::Complete),
    case("early-feedback", 10, "lying=early", Expect::Complete),
    told(
        of_minor(case(
            "gate-acknowledged",
            40,
            GATE,
            Expect::CompleteAfter("ReleaseNotAccepted"),
        )),
        "AdminAckRequired",
    ),
    told(
        case("agent-back", 20, "offline", Expect::CompleteAfter("AgentSilent")),
        "PreflightUnknown",
    ),
    told(
        of_minor(case(
            "gate",
            30,
            GATE,
            timeout(&["ReleaseNotAccepted", "AdminAckRequired"]),
        )),
        "AdminAckRequired",
    ),
    told(
        of_minor(case(
            "operator-refuses",
            10,
            "refusing",
            timeout(&["ReleaseNotAccepted", "IncompatibleOperatorsInstalled"]),
        )),
        "NotUpgradeable",
    ),
    told(
        case(
            "risk",
            20,
            "risk=SlowReboots: Machines with this disk may take hours to come back.",
            timeout(&["InvalidUpdate", NOT_OFFERED]),
        ),
        "RiskNotAccepted",
    ),
    told(
        case(
            "unknown-version",
            15,
            "unoffered",
            timeout(&["InvalidUpdate", NOT_OFFERED]),
        ),
        "NotOffered",
    ),
    told(
        case(
            "wrong-channel",
            15,
            "not-in-channel",
            timeout(&["InvalidUpdate", NOT_OFFERED, "VersionNotFound"]),
        ),
        "UpdatesNotRetrieved",
    ),
    told(
        case(
            "update-service-away",
            15,
            "update-service-outage",
            timeout(&["InvalidUpdate", NOT_OFFERED, "RemoteFailed"]),
        ),
        "UpdatesNotRetrieved",
    ),
    case(
        "unverified",
        20,
        "unverified",
        timeout(&["ReleaseNotAccepted", "The update cannot be verified"]),
    ),
    case(
        "drain-stuck",
        20,
        "drain-stuck=master",
        timeout(&["SlowClusterOperator", "machine-config over 90 minutes"]),
    ),
    case(
        "degraded",
        20,
        "degraded=network,for-ever",
        timeout(&["Failing", "Cluster operator network is degraded"]),
    ),
    case(
        "unavailable",
        15,
        "unavailable=ingress,for-ever",
        timeout(&["Failing", "Cluster operator ingress is not available"]),
    ),
    told(
        case(
            "forbidden",
            10,
            "forbidden=always",
            timeout(&["NotApplied", "forbidden"]),
        ),
        "PreflightForbidden",
    ),
    told(
        case("agent-offline", 15, "offline", timeout(&["AgentSilent"])),
        "PreflightUnknown",
    ),
    case("stale-feedback", 5, "lying=stale", timeout(&["NotStarted"])),
    case(
        "health-check-fails",
        10,
        "job-fails=Job has reached the specified backoff limit",
        Expect::Failed("PostActionFailed", &["Job default/health-check failed"]),
    ),
];

impl Case {
    /// How it must end on a day on which clusters are asked first.
    #[must_use]
    pub const fn expected(&self, asked: bool) -> Expect {
        match (self.told, self.expect) {
            (Some(reason), Expect::CompleteAfter(_)) if asked => Expect::CompleteAfter(reason),
            (Some(reason), _) if asked => Expect::Blocked(reason),
            (_, expect) => expect,
        }
    }
}

/// The day's fleet.
#[derive(Clone, Debug)]
pub struct Fixtures {
    /// Name and case of each cluster.
    pub clusters: Vec<(String, &'static Case)>,
    seed: u64,
}

impl Fixtures {
    /// Deals the cases: canaries are healthy, the next clusters take each case once, the others draw by seed and name.
    #[must_use]
    pub fn new(count: usize, seed: u64) -> Self {
        let names = FleetSpec::numbered("spoke", count).clusters;
        let clusters = names.into_iter().enumerate().map(|(index, cluster)| {
            let case = match index.checked_sub(CANARIES) {
                None => &CASES[0],
                Some(nth) => CASES.get(nth).unwrap_or_else(|| draw(seed, &cluster.name)),
            };
            (cluster.name, case)
        });
        Self {
            clusters: clusters.collect(),
            seed,
        }
    }

    /// The clusters in a set that is bound to a namespace.
    #[must_use]
    pub fn fleet(&self, set: &str, namespace: &str) -> FleetSpec {
        let made = self.clusters.iter().enumerate().map(|(index, (name, case))| {
            let is_patch = !case.minor && SeededRng::new(self.seed).of(name).nth(1).unit() < 0.3;
            let cluster = ClusterSpec::new(name)
                .label(CASE, case.name)
                .claim(VERSION_CLAIM, if is_patch { PATCH } else { MINOR });
            if index < CANARIES {
                cluster.label(CANARY, "true")
            } else {
                cluster
            }
        });
        let fleet = FleetSpec {
            clusters: made.collect(),
            bindings: Vec::new(),
        };
        fleet.in_set(set).bound_in(namespace)
    }
}

fn draw(seed: u64, name: &str) -> &'static Case {
    let total: u64 = CASES.iter().map(|case| case.share).sum();
    let mut rest = SeededRng::new(seed).of(name).bits() % total.max(1);
    for case in &CASES {
        if rest < case.share {
            return case;
        }
        rest -= case.share;
    }
    &CASES[0]
}

/// Milliseconds on the wall's clock.
fn wall_millis(minutes: u32, factor: u32) -> u64 {
    u64::from(minutes) * 60_000 / u64::from(factor.max(1))
}

/// A duration for the spec, in whole seconds of the wall's clock.
fn seconds(minutes: u32, factor: u32) -> String {
    format!("{}s", wall_millis(minutes, factor).div_ceil(1000).max(1))
}

/// The simulator's scenario, as YAML; time runs `factor` times faster. `asked`: clusters say what they offer before they are asked for
/// it, in the channel of the upgrade.
#[must_use]
pub fn scenario(factor: u32, asked: bool) -> String {
    let rules: Vec<Value> = CASES
        .iter()
        .map(|case| {
            let period = format!("{}ms", wall_millis(10, factor));
            let faults = case.faults.replace("{10m}", &period);
            json!({"match": {"labels": {CASE: case.name}}, "fault": faults})
        })
        .collect();
    let mut scenario = json!({"version": MINOR, "rules": rules});
    if asked {
        scenario["updates"] = json!([TARGET]);
        scenario["channel"] = json!(CHANNEL);
    }
    // JSON is YAML.
    scenario.to_string()
}

/// Spec of the upgrade: what an administrator would write for a day, with all times divided by `factor`.
#[must_use]
pub fn spec(set: &str, slots: usize, factor: u32, asked: bool) -> Value {
    let mut spec = json!({
        "clusterSelector": {"clusterSets": [set]},
        "clusterVersion": {"channel": CHANNEL, "version": TARGET},
        "upgradeStrategy": {
            "canaryClusters": {"clusterSelector": {"matchLabels": {CANARY: "true"}}},
            "maxConcurrency": slots,
            "clusterUpgradeTimeout": seconds(TIMEOUT_MINUTES, factor),
            "minSuccessTime": seconds(SOAK_MINUTES, factor),
        },
        "postUpgradeAction": {"manifestWork": {"workload": {"manifests": [health_check()]}}},
    });
    if asked {
        spec["preflight"] = json!({"mode": "Require", "timeout": seconds(ANSWER_MINUTES, factor)});
    }
    spec
}

fn health_check() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "health-check", "namespace": "default"},
        "spec": {"backoffLimit": 2, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "health-check", "image": "registry.redhat.io/openshift4/ose-cli:latest",
                "command": ["oc", "wait", "clusteroperators", "--all", "--for=condition=Available"],
            }],
        }}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_understands_every_case_and_the_shares_make_a_thousand() {
        let scenario: spoke_sim::Scenario = scenario(180, false).parse().unwrap();
        assert_eq!(scenario.rules.len(), CASES.len());
        assert_eq!(CASES.iter().map(|case| case.share).sum::<u64>(), 1000);
    }

    #[test]
    fn every_case_occurs_and_the_same_seed_deals_the_same() {
        let cases = |seed| -> Vec<&str> {
            let fixtures = Fixtures::new(1000, seed);
            fixtures.clusters.iter().map(|(_, case)| case.name).collect()
        };
        let dealt = cases(1);
        assert_eq!(dealt, cases(1));
        assert_ne!(dealt, cases(2));
        assert!(dealt[..CANARIES].iter().all(|name| *name == "healthy"));
        for case in &CASES {
            let count = dealt.iter().filter(|name| **name == case.name).count();
            assert!(count >= 1, "{}", case.name);
        }
        let healthy = dealt.iter().filter(|name| **name == "healthy").count();
        assert!((400..560).contains(&healthy), "{healthy}");
    }

    #[test]
    fn times_are_divided_and_never_zero() {
        assert_eq!(seconds(180, 180), "60s");
        assert_eq!(seconds(30, 100_000), "1s");
        assert!(scenario(180, true).contains("flapping=3333ms"));
    }
}
