use super::*;

#[tokio::test(start_paused = true)]
async fn the_fence_closes_by_the_clock_alone() {
    let fence = Fence::closed();
    assert!(!fence.is_leader());
    fence.set(Some(Instant::now() + Duration::from_secs(10)));
    assert!(fence.is_leader());
    tokio::time::advance(Duration::from_millis(9_999)).await;
    assert!(fence.is_leader());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!fence.is_leader(), "its time is over");
    fence.set(None);
    assert_eq!(fence.valid_until(), None);
}

#[tokio::test]
async fn without_an_election_the_replica_leads_at_once_and_for_good() {
    let handle = Handle::always();
    assert!(handle.is_leader());
    let term = handle.lead().await;
    assert!(!term.ended().is_cancelled());
    assert_eq!(handle.fence().valid_until(), None);
}

#[test]
fn identities_of_two_processes_on_one_host_differ() {
    let (one, two) = (identity(&Sources::system()), identity(&Sources::system()));
    assert_ne!(one, two);
    assert!(one.len() <= 128, "an identity fits reportingInstance");
}
