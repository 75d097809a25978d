#![allow(clippy::needless_pass_by_value)] // `json!` makes values to give away

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::fault::{Fault, Faults};
use crate::fields::{self, Time, from_unix, integer};
use crate::platform::{Controller, ControllerContext, JobRule, Pace, Platform};
use crate::seeded_rng::SeededRng;
use crate::store::{ObjectKey, Store};

struct Bench {
    store: Store,
    platform: Platform,
    faults: Faults,
    pace: Pace,
    now: Time,
}

impl Bench {
    /// A cluster where Jobs take 10 s, with one Job of this spec.
    fn new(spec: Value) -> Self {
        let now = from_unix(1_800_000_000) + TimeDelta::milliseconds(700);
        let mut store = Store::new(SeededRng::new(1));
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "j", "namespace": "default"}, "spec": {"template": {}}});
        for (field, value) in spec.as_object().unwrap() {
            match field.as_str() {
                "annotations" => job["metadata"]["annotations"] = value.clone(),
                _ => job["spec"][field] = value.clone(),
            }
        }
        store.create(&key(), &job, "work", now).unwrap();
        let pace = Pace::exact(Duration::from_secs(10));
        let mut bench = Self {
            store,
            platform: Platform::default(),
            faults: Faults::default(),
            pace,
            now,
        };
        bench.pass(0);
        bench
    }

    fn pass(&mut self, seconds: i64) -> Option<Time> {
        self.now += TimeDelta::seconds(seconds);
        let mut context = ControllerContext {
            store: &mut self.store,
            faults: &self.faults,
            pace: &self.pace,
            rng: SeededRng::new(1),
            asked: self.now,
        };
        self.platform.advance(&mut context, self.now)
    }

    fn job(&self) -> Value {
        self.store.get(&key()).unwrap()
    }

    fn count(&self, field: &str) -> Option<i64> {
        integer(&self.job(), &["status", field])
    }

    fn ended(&self) -> Option<&'static str> {
        let job = self.job();
        ["Complete", "Failed"]
            .into_iter()
            .find(|kind| fields::condition_status(&job, kind) == Some("True"))
    }
}

fn key() -> ObjectKey {
    ObjectKey::parse("jobs.batch", "default", "j")
}

#[test]
fn a_job_is_active_then_complete() {
    let mut bench = Bench::new(json!({}));
    assert_eq!((bench.count("active"), bench.ended()), (Some(1), None));
    assert_eq!(
        bench.pass(0),
        Some(bench.now + TimeDelta::seconds(10)),
        "exact, though startTime has whole seconds"
    );
    bench.pass(9);
    assert_eq!(bench.ended(), None);
    bench.pass(1);
    assert_eq!(
        (bench.count("active"), bench.count("succeeded"), bench.ended()),
        (None, Some(1), Some("Complete"))
    );
    assert_eq!(bench.pass(1000), None);
}

#[test]
fn completions_run_in_rounds_of_the_parallelism() {
    let mut bench = Bench::new(json!({"completions": 3, "parallelism": 2}));
    assert_eq!(bench.count("active"), Some(2));
    bench.pass(19);
    assert_eq!(bench.ended(), None);
    bench.pass(1);
    assert_eq!(
        (bench.count("succeeded"), bench.ended()),
        (Some(3), Some("Complete"))
    );
}

#[test]
fn a_job_fails_by_fault_annotation_or_rule() {
    let mut bench = Bench::new(json!({}));
    bench.faults = Fault::JobFails("no space left".into()).into();
    bench.pass(10);
    assert_eq!((bench.count("failed"), bench.ended()), (Some(7), Some("Failed")));
    assert!(bench.job().to_string().contains("no space left"));

    let mut bench = Bench::new(
        json!({"annotations": {"spoke-sim.mcu/result": "Failed", "spoke-sim.mcu/duration": "3s"}, "backoffLimit": 0}),
    );
    bench.pass(3);
    assert_eq!((bench.count("failed"), bench.ended()), (Some(1), Some("Failed")));

    let mut bench = Bench::new(json!({"suspend": true}));
    let mut job = bench.job();
    job["spec"]["suspend"] = false.into();
    bench.store.replace(&key(), &job, "oc").unwrap();
    bench.pace.jobs = vec![JobRule {
        name: "j*".into(),
        duration: Some(Duration::from_secs(2)),
        fail_percent: 100.0,
    }];
    bench.pass(0);
    bench.pass(2);
    assert_eq!(bench.ended(), Some("Failed"));
}

#[test]
fn a_deadline_ends_a_job_that_takes_longer() {
    let mut bench = Bench::new(json!({"activeDeadlineSeconds": 4}));
    bench.pass(3);
    assert_eq!(bench.ended(), None);
    bench.pass(1);
    assert_eq!(bench.ended(), Some("Failed"));
    assert!(bench.job().to_string().contains("DeadlineExceeded"));
    let mut bench = Bench::new(json!({"activeDeadlineSeconds": 400}));
    bench.faults = Fault::Stuck(50.0).into();
    bench.pass(100);
    assert_eq!(bench.ended(), None);
    bench.pass(300);
    assert_eq!(bench.ended(), Some("Failed"));
}

#[test]
fn a_stuck_job_ends_when_the_cluster_is_fixed() {
    let mut bench = Bench::new(json!({}));
    bench.faults = Fault::Stuck(50.0).into();
    bench.pass(1000);
    assert_eq!(bench.ended(), None);
    bench.faults = Faults::default();
    bench.pass(0);
    assert_eq!(bench.ended(), Some("Complete"));
}

#[test]
fn a_suspended_job_does_not_start() {
    let mut bench = Bench::new(json!({"suspend": true}));
    bench.pass(100);
    assert_eq!((bench.count("active"), bench.ended()), (None, None));
    let mut job = bench.job();
    job["spec"]["suspend"] = false.into();
    bench.store.replace(&key(), &job, "oc").unwrap();
    bench.pass(0);
    bench.pass(10);
    assert_eq!(bench.ended(), Some("Complete"));
}

#[test]
fn a_finished_job_goes_after_its_ttl() {
    let mut bench = Bench::new(json!({"ttlSecondsAfterFinished": 30}));
    bench.pass(10);
    assert!(bench.store.get(&key()).is_some());
    let due = bench.pass(0).unwrap();
    assert!((29..=31).contains(&(due - bench.now).num_seconds()));
    bench.pass(31);
    assert!(bench.store.get(&key()).is_none());
}
