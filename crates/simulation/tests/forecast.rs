//! The rehearsal of an upgrade is compared with the real controller: the same fleet is rehearsed from the lists of the hub, and
//! then upgraded in virtual time. Given the durations that the simulated clusters really needed, the order of starts must be the
//! same, and every end must be within one percent and a minute, also where clusters fail by time and stop the upgrade.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::report::{Outcome, Phase, ReportRow, Stage};
use api::time::parse_rfc3339;
use chrono::{DateTime, TimeDelta, Utc};
use hub_sim::Hub;
use kube::Client;
use resolve::lists::{HubLists, ListKind, ListedPage};
use resolve::snapshot::{ControllerSettings, PlannerInput, Snapshot};
use rollout::forecast::{Forecast, Options as ForecastOptions, Run, forecast};
use rollout::{StallReason, Step};
use serde_json::{Value, json};
use simulation::actor::Role;
use simulation::admin::{Admin, managed_cluster};
use simulation::fault::Faults;
use simulation::names::{TEAM, UPGRADE};
use simulation::network::{Ground, Network};
use simulation::options::Options;
use simulation::oracle::Oracle;
use simulation::replica::Replica;
use simulation::time::{MachineClock, VirtualClock};
use simulation::trace::Trace;
use simulation::wire::Wire;
use simulation::world::{action, cluster, make_fleet};
use spoke_sim::fault::ANNOTATION;
use spoke_sim::{Agents, Pace};

/// A cluster needs this long for its update, a quarter more or less.
const UPDATE: Duration = Duration::from_mins(50);
const JITTER: f64 = 0.25;
/// Clocks of worlds with windows are 5:45 ahead.
const ZONE: &str = "Asia/Kathmandu";
/// The hour of their first night in which nothing starts.
const EXCLUDED: [&str; 2] = ["2026-01-01T23:00", "2026-01-02T00:00"];

/// What is upgraded.
#[derive(Clone, Copy)]
struct World {
    seed: u64,
    clusters: u64,
    canaries: u64,
    max_concurrency: u64,
    /// Whether `maxConcurrency` is a share of the fleet.
    in_percent: bool,
    /// `maxFailures`; absent for no limit.
    max_failures: Option<u64>,
    /// Clusters whose updates never end, so that they fail by time.
    stuck: &'static [u64],
    soak_minutes: u64,
    /// With pre-action, operators and post-action.
    every_step: bool,
    /// Clusters start at night, one hour of which is excluded.
    at_night: bool,
}

/// Nothing that is not said.
const PLAIN: World = World {
    seed: 0,
    clusters: 0,
    canaries: 0,
    max_concurrency: 1,
    in_percent: false,
    max_failures: None,
    stuck: &[],
    soak_minutes: 0,
    every_step: false,
    at_night: false,
};

impl World {
    /// Why the upgrade ends before it is complete, if it does.
    fn stalls(self) -> Option<StallReason> {
        let failed = self.stuck.len() as u64;
        match self.max_failures {
            Some(most) if failed > most => Some(StallReason::MaxFailuresExceeded),
            _ => (failed > 0).then_some(StallReason::ClustersFailed),
        }
    }

    fn upgrade(self) -> Value {
        let selector = |names: Vec<String>| json!({"matchExpressions": [{"key": "name", "operator": "In", "values": names}]});
        let names = |count: u64| (0..count).map(cluster).collect();
        let mut strategy = json!({
            "maxConcurrency": self.max_concurrency,
            "clusterUpgradeTimeout": "3h",
            "operatorsUpgradeTimeout": "3h",
            "minSuccessTime": format!("{}m", self.soak_minutes),
        });
        if self.in_percent {
            strategy["maxConcurrency"] = format!("{}%", self.max_concurrency).into();
        }
        if let Some(most) = self.max_failures {
            strategy["maxFailures"] = most.into();
        }
        if self.canaries > 0 {
            strategy["canaryClusters"] = json!({"clusterSelector": selector(names(self.canaries))});
        }
        let mut spec = json!({
            "clusterSelector": selector(names(self.clusters)),
            "clusterVersion": {"channel": "stable-4.14", "version": "4.14.12"},
            "upgradeStrategy": strategy,
        });
        if self.every_step {
            spec["preUpgradeAction"] = action("backup");
            spec["ocpOperators"] = json!({"approveAllUpgrades": true});
            spec["postUpgradeAction"] = action("check");
        }
        if self.at_night {
            spec["maintenance"] = json!({
                "timeZone": ZONE,
                "windows": [{"name": "night", "schedule": "30 21 * * *", "duration": "5h"}],
                "exclusions": [{"name": "backup", "start": EXCLUDED[0], "end": EXCLUDED[1]}],
                "minimumRemaining": "1h",
            });
        }
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "ManagedClustersUpgrade",
            "metadata": {"name": UPGRADE, "namespace": TEAM},
            "spec": spec,
        })
    }

    fn options(self) -> Options {
        Options {
            seed: self.seed,
            clusters: self.clusters,
            canaries: self.canaries,
            max_concurrency: self.max_concurrency,
            soak_seconds: self.soak_minutes * 60,
            update_seconds: UPDATE.as_secs(),
            max_latency_millis: 20,
            chaos_seconds: 0,
            ..Options::default()
        }
    }
}

/// What a world was before, in the middle and after its upgrade.
struct Course {
    /// When the upgrade was created, and what the planner would see then.
    before: (DateTime<Utc>, PlannerInput),
    /// The same in the middle of the upgrade.
    middle: (DateTime<Utc>, PlannerInput),
    /// The rows at the end.
    rows: BTreeMap<String, ReportRow>,
}

/// Upgrades a world with the real controller.
fn play(world: World) -> Course {
    fastrand::seed(world.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let course = runtime.block_on(upgrade(world));
    runtime.shutdown_background();
    course
}

async fn upgrade(world: World) -> Course {
    let clock = VirtualClock::start();
    let options = Arc::new(world.options());
    let hub = Hub::new(hub_sim::Options {
        seed: world.seed,
        history: 2_000,
        clock: Arc::new(move || clock.wall()),
        managed_fields: false,
    });
    tokio::spawn(hub.clone().keep_collecting_garbage());
    let network = Network::new(Ground {
        options: Arc::clone(&options),
        faults: Arc::new(Faults::Only([].into())),
        clock,
        trace: Trace::default(),
        oracle: Oracle::default(),
        mutation: None,
    });
    let client = |role, name: &str| Client::new(Wire::new(&network, &hub, role, name, name), "default");
    let admin = Admin::new(client(Role::People, "admin"));
    make_fleet(&admin, &options).await.unwrap();
    for number in world.stuck {
        let change = json!({"metadata": {"annotations": {ANNOTATION: "stuck"}}});
        let path = managed_cluster(&cluster(*number));
        admin.patch(&path, &change).await.unwrap();
    }
    let pace = Pace {
        jitter: JITTER,
        ..Pace::exact(UPDATE)
    };
    let agents = Agents::builder(client(Role::Agents, "agents"))
        .clock(move || clock.wall())
        .pace(pace)
        .seed(world.seed)
        .start()
        .await
        .unwrap();
    let collection =
        format!("/apis/cluster.open-cluster-management.io/v1beta1/namespaces/{TEAM}/managedclustersupgrades");
    admin.create(&collection, &world.upgrade()).await.unwrap();
    let reader = client(Role::People, "reader");
    let before = (clock.wall(), read(&reader, clock.wall()).await);
    let wire = Wire::new(&network, &hub, Role::Controller, "r0", "replica-0");
    let replica = Replica::start(wire, "replica-0", &MachineClock::new(clock), world.seed).unwrap();
    let (mut middle, mut last) = (None, Value::Null);
    for _ in 0..4_000 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let status = hub.read(|state| {
            let upgrades = state.objects_of("cluster.open-cluster-management.io", "managedclustersupgrades");
            upgrades.and_then(|all| all.get(&format!("{TEAM}/{UPGRADE}")).map(|one| one.value()))
        });
        let status = status.unwrap_or_default()["status"].clone();
        let complete = status["clustersSummery"]["complete"].as_u64().unwrap_or_default();
        if middle.is_none() && complete >= world.clusters / 2 {
            middle = Some((clock.wall(), read(&reader, clock.wall()).await));
        }
        if status["state"] == "Complete" || status["state"] == "Stalled" {
            break;
        }
        last = status;
    }
    // The last rows may be written after the status.
    tokio::time::sleep(Duration::from_mins(1)).await;
    let rows = lists(&reader).await.reports;
    let rows = rows.iter().flat_map(|report| report.rows.good());
    let rows = rows.map(|row| (row.cluster.clone(), row.clone())).collect();
    drop((agents, replica));
    Course {
        before,
        middle: middle.ok_or_else(|| last.to_string()).unwrap(),
        rows,
    }
}

/// Reads the lists of the hub, as `kubectl mcu rehearse` does.
async fn lists(client: &Client) -> HubLists {
    let mut lists = HubLists::default();
    for kind in ListKind::ALL {
        let selector = kind
            .label()
            .map_or_else(String::new, |label| format!("?labelSelector={label}"));
        let request = http::Request::get(format!("{}{selector}", kind.path())).body(Vec::new());
        let text = client.request_text(request.unwrap()).await.unwrap();
        lists.add(kind, &ListedPage::read(&text).unwrap());
    }
    lists
}

async fn read(client: &Client, now: DateTime<Utc>) -> PlannerInput {
    let mut snapshot = Snapshot::new(lists(client).await, ControllerSettings::default(), now);
    let uid = snapshot.uid_of(TEAM, UPGRADE).unwrap().to_owned();
    snapshot.planner_input(&uid).unwrap()
}

/// How long a step of a cluster took, if it has that step and did not run out of time.
fn took(row: &ReportRow, step: Step) -> Option<TimeDelta> {
    let mut steps = row.steps.iter();
    let step =
        steps.find(|known| known.name == Stage::from(step) && known.outcome == Some(Outcome::Succeeded))?;
    Some(step.finished_at? - step.started_at)
}

/// When a cluster began its first step, if it did.
fn began(row: &ReportRow) -> Option<DateTime<Utc>> {
    row.steps.iter().map(|step| step.started_at).min()
}

/// Rehearses with the durations that the clusters really needed.
fn rehearse((now, input): &(DateTime<Utc>, PlannerInput), rows: &BTreeMap<String, ReportRow>) -> Forecast {
    let run = |cluster: &str, step: Step| Run {
        takes: took(&rows[cluster], step),
        fails: false,
    };
    let options = ForecastOptions {
        resolution: TimeDelta::zero(),
        reduced: true,
    };
    forecast(*now, &input.policy, input.fleet.clone(), options, &run).unwrap()
}

/// Names by the time at which the real controller started them, then by name.
fn real_order(rows: &BTreeMap<String, ReportRow>, since: DateTime<Utc>) -> Vec<&str> {
    let mut order: Vec<(DateTime<Utc>, &str)> = rows
        .iter()
        .filter_map(|(name, row)| Some((began(row)?, name.as_str())))
        .filter(|(started, _)| *started >= since)
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, name)| name).collect()
}

/// Compares a rehearsal from this time on with what happened.
fn compare(
    at: &(DateTime<Utc>, PlannerInput),
    rows: &BTreeMap<String, ReportRow>,
    stalls: Option<StallReason>,
    what: &str,
) {
    let forecast = rehearse(at, rows);
    let began = at.0;
    let order: Vec<&str> = forecast.starts.iter().map(|(_, name)| &**name).collect();
    assert_eq!(order, real_order(rows, began), "{what}: order of starts");
    let outlook = forecast.outlook;
    assert_eq!(outlook.stalled, stalls, "{what}: {outlook:?}");
    assert_eq!(outlook.complete, stalls.is_none(), "{what}: {outlook:?}");
    let mut worst = TimeDelta::zero();
    for cluster in &forecast.clusters {
        let row = &rows[&*cluster.name];
        assert_eq!(cluster.phase, row.phase, "{what}: {}", cluster.name);
        let Some(ended) = cluster.ended else {
            let never_started = row.phase == Phase::Pending && row.steps.is_empty();
            assert!(
                never_started || row.since <= began,
                "{what}: {} moved",
                cluster.name
            );
            continue;
        };
        let difference = (ended - row.since).abs();
        let allowed = (row.since - began) / 100 + TimeDelta::minutes(1);
        assert!(
            difference <= allowed,
            "{what}: {} ended at {}, and at {ended} in the rehearsal",
            cluster.name,
            row.since
        );
        worst = worst.max(difference);
    }
    println!(
        "{what}: {} starts, {} h, largest difference {} s",
        order.len(),
        (forecast.end - began).num_hours(),
        worst.num_seconds()
    );
}

/// Compares both rehearsals of a world with its upgrade, and returns when each cluster began.
fn agree(world: World) -> BTreeSet<DateTime<Utc>> {
    let course = play(world);
    let clusters = world.clusters;
    assert_eq!(course.rows.len(), usize::try_from(clusters).unwrap());
    let count = |phase: Phase| course.rows.values().filter(|row| row.phase == phase).count();
    assert_eq!(count(Phase::Failed), world.stuck.len());
    let never_starts = world.stalls() == Some(StallReason::MaxFailuresExceeded);
    assert_eq!(count(Phase::Pending) > 0, never_starts);
    let what = format!("{clusters} clusters");
    compare(&course.before, &course.rows, world.stalls(), &what);
    let what = format!("{clusters} clusters, from the middle");
    compare(&course.middle, &course.rows, world.stalls(), &what);
    course.rows.values().filter_map(began).collect()
}

#[test]
fn the_rehearsal_of_50_clusters_agrees_with_the_real_controller() {
    agree(World {
        seed: 1,
        clusters: 50,
        canaries: 2,
        max_concurrency: 5,
        soak_minutes: 10,
        ..PLAIN
    });
}

#[test]
fn the_rehearsal_of_100_clusters_agrees_with_the_real_controller() {
    agree(World {
        seed: 2,
        clusters: 100,
        canaries: 3,
        max_concurrency: 12,
        soak_minutes: 30,
        ..PLAIN
    });
}

#[test]
fn the_rehearsal_of_200_clusters_agrees_with_the_real_controller() {
    agree(World {
        seed: 3,
        clusters: 200,
        canaries: 0,
        max_concurrency: 30,
        soak_minutes: 0,
        ..PLAIN
    });
}

#[test]
fn the_rehearsal_of_actions_and_operators_agrees_with_the_real_controller() {
    agree(World {
        seed: 4,
        clusters: 60,
        canaries: 2,
        max_concurrency: 8,
        soak_minutes: 5,
        every_step: true,
        ..PLAIN
    });
}

#[test]
fn the_rehearsal_of_a_share_of_the_fleet_and_a_cluster_that_fails_by_time_agrees_with_the_real_controller() {
    agree(World {
        seed: 5,
        clusters: 60,
        canaries: 2,
        max_concurrency: 10,
        in_percent: true,
        stuck: &[17],
        soak_minutes: 10,
        ..PLAIN
    });
}

#[test]
fn the_rehearsal_of_an_upgrade_that_failures_stop_agrees_with_the_real_controller() {
    agree(World {
        seed: 6,
        clusters: 60,
        max_concurrency: 10,
        in_percent: true,
        max_failures: Some(1),
        stuck: &[10, 25],
        ..PLAIN
    });
}

#[test]
fn the_rehearsal_of_windows_agrees_with_the_real_controller_which_starts_in_the_second_in_which_they_open() {
    let began = agree(World {
        seed: 7,
        clusters: 50,
        max_concurrency: 6,
        at_night: true,
        ..PLAIN
    });
    let time = |text: &str| parse_rfc3339(text).unwrap();
    let first_from = |text: &str| began.range(time(text)..).next().copied();
    // 21:30 and midnight of the first night, and 21:30 of the second.
    for opens in [
        "2026-01-01T15:45:00Z",
        "2026-01-01T18:15:00Z",
        "2026-01-02T15:45:00Z",
    ] {
        let late = first_from(opens).unwrap() - time(opens);
        assert!(late < TimeDelta::seconds(1), "{late} after {opens}");
    }
    // Before the first night, in its excluded hour, in its last hour, and between the nights.
    for closed in [
        ("2026-01-01T00:00:00Z", "2026-01-01T15:45:00Z"),
        ("2026-01-01T17:15:00Z", "2026-01-01T18:15:00Z"),
        ("2026-01-01T19:45:00Z", "2026-01-02T15:45:00Z"),
    ] {
        let mut during = began.range(time(closed.0)..time(closed.1));
        assert_eq!(during.next(), None, "{closed:?}");
    }
}
