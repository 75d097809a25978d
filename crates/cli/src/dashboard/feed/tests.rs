use futures::stream;

use super::*;
use crate::render::status::starts_are_stopped;

#[tokio::test]
async fn a_watch_that_the_hub_answers_again_is_no_trouble_although_nothing_changes() {
    let failure = stream::iter([Err(watcher::Error::NoResourceVersion)]);
    let events = failure.chain(stream::pending::<watcher::Result<watcher::Event<()>>>());
    let (answered, answers) = Answers::channel();
    answered.send_modify(|answers| *answers += 1);
    let watched: Watched<()> = follow(events, |(), _| (), answers);
    let mut told = watched.changes();
    told.wait_for(|number| *number == 1).await.unwrap();
    assert_ne!(watched.trouble(), "", "what the hub answered before counts");
    answered.send_modify(|answers| *answers += 1);
    told.wait_for(|number| *number == 2).await.unwrap();
    assert_eq!(watched.trouble(), "");
}

#[test]
fn what_is_kept_of_an_upgrade_tells_the_same_as_the_commands() {
    let mut object = crate::render::fixtures::running().object;
    object["spec"]["upgradeStrategy"] = json!({
        "abort": [{"cluster": "edge-02", "reason": "wrong site"}], "retry": [{"id": "r1"}], "maxFailures": "5%",
    });
    object["status"]["clustersSummery"]["failed"] = json!(3);
    object["status"]["phases"] = json!({"Failed": 3, "Pending": 6});
    let whole = Upgrade::read(object);
    let kept = without_bulk(whole.clone());
    assert!(!whole.is_retry_handled() && !kept.is_retry_handled());
    assert!(
        [&whole, &kept].into_iter().all(starts_are_stopped),
        "3 of 24 failed"
    );
    let rows = crate::render::fixtures::rows();
    let row = rows.of("edge-02").unwrap();
    let next_step = crate::render::why::next_step(&kept, row);
    assert!(next_step.contains("The spec aborts the cluster"), "{next_step}");
    assert_eq!(next_step, crate::render::why::next_step(&whole, row));
}
