use super::*;

fn started(upgrade: &str, cluster: &str) -> Notice {
    Notice {
        regarding: Regarding {
            namespace: "fleet".to_owned(),
            name: upgrade.to_owned(),
            uid: upgrade.to_owned(),
        },
        cluster: Some(cluster.to_owned()),
        reason: EventReason::ClusterStarted,
        note: format!("Cluster {cluster} has started"),
    }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[test]
fn a_few_clusters_have_an_event_each_after_a_lull() {
    let (mut gathered, begun) = (Gathered::default(), Instant::now());
    gathered.add(started("u1", "a"), begun);
    gathered.add(started("u1", "b"), begun + seconds(1));
    assert_eq!(gathered.due_at(), Some(begun + seconds(3)));
    assert!(gathered.take_due(begun + seconds(2)).is_empty());
    let sent = gathered.take_due(begun + seconds(3));
    assert_eq!(sent, [started("u1", "a"), started("u1", "b")]);
    assert_eq!(gathered.due_at(), None);
}

#[test]
fn many_clusters_share_one_event_that_names_some() {
    let (mut gathered, begun) = (Gathered::default(), Instant::now());
    for number in 0..40 {
        gathered.add(started("u1", &format!("c{number}")), begun);
    }
    let sent = gathered.take_due(begun + LULL);
    assert_eq!(sent.len(), 1);
    assert_eq!(
        sent[0].note,
        "40 clusters have started, such as c0, c1, c2, c3, c4"
    );
    assert_eq!(sent[0].cluster, None);
}

#[test]
fn a_steady_stream_is_told_after_half_a_minute() {
    let (mut gathered, begun) = (Gathered::default(), Instant::now());
    for second in 0..30 {
        let now = begun + seconds(second);
        gathered.add(started("u1", &format!("c{second}")), now);
        assert!(gathered.take_due(now).is_empty());
    }
    assert_eq!(gathered.take_due(begun + MAX_WAIT).len(), 1);
}

#[test]
fn events_of_one_upgrade_do_not_release_those_of_another() {
    let (mut gathered, begun) = (Gathered::default(), Instant::now());
    gathered.add(started("u1", "a"), begun);
    gathered.add(started("u2", "b"), begun);
    assert_eq!(gathered.take_of("u1"), [started("u1", "a")]);
    assert_eq!(gathered.take_all(), [started("u2", "b")]);
}
