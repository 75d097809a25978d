use std::cell::Cell;

use super::*;

const QUICK: Backoff = Backoff {
    attempts: 3,
    first: Duration::from_millis(10),
    most: Duration::from_millis(15),
};

#[tokio::test(start_paused = true)]
async fn a_passing_failure_is_tried_again_and_a_final_one_is_not() {
    let tries = Cell::new(0);
    let result: Result<u32, &str> = QUICK
        .run(async || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 {
                Err(Failure::Passing("busy", None))
            } else {
                Ok(tries.get())
            }
        })
        .await;
    assert_eq!(result, Ok(3));

    tries.set(0);
    let result: Result<(), &str> = QUICK
        .run(async || {
            tries.set(tries.get() + 1);
            Err(Failure::Final("gone"))
        })
        .await;
    assert_eq!((result, tries.get()), (Err("gone"), 1));
}

#[tokio::test(start_paused = true)]
async fn the_server_says_how_long_to_wait_within_reason() {
    let start = tokio::time::Instant::now();
    let tries = Cell::new(0);
    let result: Result<(), &str> = QUICK
        .run(async || {
            tries.set(tries.get() + 1);
            Err(Failure::Passing("busy", Some(Duration::from_secs(7))))
        })
        .await;
    assert_eq!((result, tries.get()), (Err("busy"), 3));
    assert!(start.elapsed() >= Duration::from_secs(14));

    tries.set(0);
    let result: Result<(), &str> = QUICK
        .run(async || {
            tries.set(tries.get() + 1);
            Err(Failure::Passing("busy", Some(Duration::from_hours(1))))
        })
        .await;
    assert_eq!((result, tries.get()), (Err("busy"), 1));
}

#[test]
fn pauses_double_up_to_the_longest_and_vary() {
    for (attempt, full) in [(0, 10), (1, 15), (40, 15)] {
        let pause = QUICK.pause(attempt);
        assert!(
            pause >= Duration::from_millis(full) / 2 && pause <= Duration::from_millis(full),
            "{attempt}: {pause:?}"
        );
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let mut headers = http::HeaderMap::new();
    assert_eq!(retry_after(&headers), None);
    headers.insert("retry-after", "3".parse().unwrap());
    assert_eq!(retry_after(&headers), Some(Duration::from_secs(3)));
    headers.insert("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT".parse().unwrap());
    assert_eq!(retry_after(&headers), Some(Duration::ZERO));
    headers.insert("retry-after", "soon".parse().unwrap());
    assert_eq!(retry_after(&headers), None);
}
