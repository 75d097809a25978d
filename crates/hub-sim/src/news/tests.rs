use std::sync::Mutex;

use super::*;

#[tokio::test]
async fn those_who_wait_for_a_write_wake_in_the_order_in_which_they_began_to_wait() {
    let writes = Arc::new(Writes::default());
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let (mut news, order) = (News::new(&writes, None), Arc::clone(&order));
        tasks.spawn(async move {
            news.changed().await;
            order.lock().unwrap().push(number);
        });
    }
    tokio::task::yield_now().await;
    writes.publish(&[0]);
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_write_before_the_wait_is_news_unless_it_was_seen() {
    let writes = Arc::new(Writes::default());
    let mut news = News::new(&writes, None);
    writes.publish(&[0]);
    news.changed().await;
    writes.publish(&[]);
    let waiting = std::time::Duration::from_secs(1);
    assert!(
        tokio::time::timeout(waiting, news.changed()).await.is_err(),
        "nothing new"
    );
    writes.publish(&[0]);
    news.see();
    assert!(
        tokio::time::timeout(waiting, news.changed()).await.is_err(),
        "seen"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_to_another_kind_is_no_news() {
    let writes = Arc::new(Writes::default());
    let mut news = News::new(&writes, Some(2));
    let waiting = std::time::Duration::from_secs(1);
    writes.publish(&[1, 3]);
    assert!(tokio::time::timeout(waiting, news.changed()).await.is_err());
    assert!(writes.lock().waiting.is_empty(), "nobody waits any more");
    let (heard, ()) = tokio::join!(tokio::time::timeout(waiting, news.changed()), async {
        writes.publish(&[2]);
    });
    assert!(heard.is_ok());
    let (heard, ()) = tokio::join!(tokio::time::timeout(waiting, news.changed()), async {
        writes.reset();
    });
    assert!(heard.is_ok(), "an older state is news to everybody");
}
