use super::*;

#[test]
fn the_same_action_for_the_same_cluster_is_taken_a_few_times_a_minute() {
    let (mut limit, start) = (OperationLimit::default(), Instant::now());
    let (one, other): (Arc<str>, Arc<str>) = (Arc::from("c1"), Arc::from("c2"));
    let mut taken = 0;
    for millis in (0..120_000).step_by(25) {
        let now = start + Duration::from_millis(millis);
        taken += usize::from(
            limit
                .take(&one, Step::Platform, OperationKind::MarkSoak, now)
                .is_none(),
        );
    }
    assert_eq!(taken, 2 * MAX_PER_SPAN);
    let end = start + SPAN * 2;
    assert!(
        limit
            .take(
                &one,
                Step::Platform,
                OperationKind::MarkSoak,
                start + SPAN * 119 / 60
            )
            .is_some()
    );
    assert_eq!(limit.take(&one, Step::Platform, OperationKind::Delete, end), None);
    assert_eq!(
        limit.take(&one, Step::Operators, OperationKind::MarkSoak, end),
        None
    );
    assert_eq!(
        limit.take(&other, Step::Platform, OperationKind::MarkSoak, end),
        None
    );
}

#[test]
fn what_has_run_out_is_forgotten() {
    let (mut limit, start) = (OperationLimit::default(), Instant::now());
    for number in 0..10 * ENTRIES {
        let now = start + SPAN * u32::try_from(number / ENTRIES).unwrap();
        let cluster = Arc::from(format!("c{number}"));
        assert_eq!(
            limit.take(&cluster, Step::Platform, OperationKind::Create, now),
            None
        );
    }
    assert!(limit.taken.len() <= 2 * ENTRIES, "{}", limit.taken.len());
}

#[test]
fn operations_of_long_ago_are_forgotten_without_a_look_at_all_for_each() {
    let (mut limit, mut now) = (OperationLimit::default(), Instant::now());
    let mut most = 0;
    for number in 0..20_000 {
        let cluster: Arc<str> = Arc::from(format!("c{number}"));
        limit.take(&cluster, Step::Platform, OperationKind::Create, now);
        most = most.max(limit.taken.len());
        now += SPAN / 1_000;
    }
    // A thousand are younger than the span.
    assert!((1_000..=2_500).contains(&most), "{most}");
}
