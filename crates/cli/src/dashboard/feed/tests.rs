use futures::stream;

use super::*;

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
