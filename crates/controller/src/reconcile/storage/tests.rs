use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::Step;
use rollout::testing::{policy, record};
use rollout::{Phase, Plan};
use serde_json::json;

use super::*;
use crate::fixture::{Given, report, state, stored, upgrade, work};
use crate::report::rows::Rows;
use crate::report::shard::ShardWrite;

fn older(write: Write, result: &WriteResult) -> Option<(WatchKind, u64, u64)> {
    let job = WriteJob {
        upgrade: Arc::from("u1"),
        write,
    };
    older_storage(&job, result)
}

fn status(named: &str, found: u64) -> Option<(WatchKind, u64, u64)> {
    let write = Write::Status {
        namespace: Arc::from("ns"),
        name: Arc::from("u1"),
        version: named.to_owned(),
        status: Box::default(),
    };
    let given = Given {
        version: found,
        ..upgrade("u1", &["c1"])
    };
    older(write, &WriteResult::UpgradeChanged(Some(Box::new(given.view()))))
}

fn deletion(named: Option<u64>, found: u64) -> Option<(WatchKind, u64, u64)> {
    let write = Write::Delete {
        cluster: Arc::from("c1"),
        step: Step::Platform,
        uid: Arc::from("c1-cluster-upgrade-u1"),
        version: named,
        halt: false,
    };
    let found = work("c1", Step::Platform, "u1", found);
    older(write, &WriteResult::Work(Box::new(found)))
}

fn withdrawal(named: u64, found: u64) -> Option<(WatchKind, u64, u64)> {
    let entry = upgrade("u1", &["c1"]).entry(&observe::index::Index::default());
    let write = Write::Withdraw {
        cluster: Arc::from("c1"),
        uid: Arc::from("c1-cluster-upgrade-u1"),
        version: named,
        spec: Arc::clone(entry.in_force().unwrap()),
        violations: None,
    };
    let found = work("c1", Step::Platform, "u1", found);
    older(write, &WriteResult::WorkChanged(Box::new(found)))
}

fn next_write(rows: &mut Rows, phase: Phase, now: Instant) -> ShardWrite {
    let plan = Plan {
        clusters: vec![state("c1", record(phase))],
        ..Plan::default()
    };
    rows.commit(&plan, &policy().build(), now, |_| (false, false));
    rows.due(now + Duration::from_secs(2)).remove(0)
}

fn replaced(named: u64, found: u64) -> Option<(WatchKind, u64, u64)> {
    let now = Instant::now();
    let mut rows = Rows::new(&Arc::from("u1"));
    let first = next_write(&mut rows, Phase::Pending, now);
    rows.wrote(first, Some(stored(named)), now);
    let write = Write::Report {
        namespace: Arc::from("ns"),
        due: Box::new(next_write(&mut rows, Phase::Blocked, now)),
        body: None,
    };
    let found = report("u1-report-1", found, &json!([]));
    older(write, &WriteResult::ReportChanged(Some(Box::new(found))))
}

#[test]
fn an_object_older_than_the_version_that_a_write_named_is_from_an_older_storage() {
    assert_eq!(status("7", 6), Some((WatchKind::Upgrade, 6, 7)));
    assert_eq!(replaced(7, 6), Some((WatchKind::Report, 6, 7)));
    assert_eq!(deletion(Some(7), 6), Some((WatchKind::Work, 6, 7)));
    assert_eq!(withdrawal(7, 6), Some((WatchKind::Work, 6, 7)));
    for found in [7, 8] {
        assert_eq!(status("7", found), None);
        assert_eq!(replaced(7, found), None);
        assert_eq!(deletion(Some(7), found), None);
        assert_eq!(withdrawal(7, found), None);
    }
    // Versions that are no numbers are never compared.
    assert_eq!(status("seven", 6), None);
    assert_eq!(status("7", 0), None);
    assert_eq!(deletion(None, 6), None, "it named no version");
}
