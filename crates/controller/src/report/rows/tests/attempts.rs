//! The number of attempts that a row tells.

use super::*;

#[test]
fn a_row_counts_the_attempts_of_its_cluster_and_a_restart_goes_on_counting() {
    let now = Instant::now();
    let mut rows = rows();
    let at_attempt = |retry: &str| {
        let mut record: Record = record(Phase::Pending).into();
        record.attempt.retry = Arc::from(retry);
        ClusterState {
            name: Arc::from("c1"),
            record: Arc::new(record),
            urgent: true,
            starting: false,
        }
    };
    let written = |rows: &mut Rows, version: u64| {
        let report = write(rows, version, now).remove(0);
        let attempts = texts(&report)[0]["attempts"].as_i64();
        (report, attempts)
    };
    commit(&mut rows, vec![at_attempt("")], now);
    assert_eq!(written(&mut rows, 1).1, Some(1));
    commit(&mut rows, vec![at_attempt("t1")], now);
    let (report, attempts) = written(&mut rows, 2);
    assert_eq!(attempts, Some(2));
    let mut rows = super::rows();
    rows.observe(&report, false, false, now);
    commit(&mut rows, vec![at_attempt("t2")], now);
    assert_eq!(written(&mut rows, 3).1, Some(3));
}
