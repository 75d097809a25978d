use super::*;

fn wall(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap()
}

const QUICK: Duration = Duration::from_millis(20);

#[test]
fn a_hub_that_tells_no_time_is_not_distrusted() {
    let clock = HubClock::default();
    assert_eq!(clock.distrusted(Instant::now(), wall(0)), None);
}

#[test]
fn only_a_difference_of_more_than_thirty_seconds_is_distrusted() {
    for (ahead, expected) in [
        (0, None),
        (25, None),
        (-25, None),
        (40, Some(true)),
        (-40, Some(false)),
        (10_800, Some(true)),
    ] {
        let (clock, now) = (HubClock::default(), Instant::now());
        clock.answered(now, wall(ahead), QUICK, wall(0));
        let skew = clock.distrusted(now, wall(ahead));
        assert_eq!(skew.map(|skew| skew > TimeDelta::zero()), expected, "{ahead}");
    }
}

#[test]
fn a_jump_of_our_own_clock_shows_before_the_next_answer() {
    let (clock, now) = (HubClock::default(), Instant::now());
    clock.answered(now, wall(0), QUICK, wall(0));
    let later = now + Duration::from_secs(10);
    assert_eq!(clock.distrusted(later, wall(10)), None);
    assert!(clock.distrusted(later, wall(10_810)).is_some(), "forward");
    assert!(clock.distrusted(later, wall(-10_800)).is_some(), "backward");
    clock.answered(later, wall(10_810), QUICK, wall(10_810));
    assert_eq!(
        clock.distrusted(later, wall(10_810)),
        None,
        "the hub's clock had gone on, too: a machine that slept"
    );
}

#[test]
fn an_answer_that_took_long_proves_no_difference() {
    let (clock, now) = (HubClock::default(), Instant::now());
    clock.answered(now, wall(60), Duration::from_mins(1), wall(0));
    assert_eq!(clock.distrusted(now, wall(60)), None);
}

#[test]
fn an_exact_comparison_is_not_replaced_by_a_vague_one() {
    let (clock, now) = (HubClock::default(), Instant::now());
    clock.answered(now, wall(100), QUICK, wall(0));
    clock.answered(now, wall(100), Duration::from_secs(200), wall(0));
    assert!(clock.distrusted(now, wall(100)).is_some());
    let later = now + SAMPLE_MAX_AGE;
    clock.answered(later, wall(160), Duration::from_secs(200), wall(60));
    assert!(clock.distrusted(later, wall(160)).is_none());
}

#[tokio::test]
async fn every_answer_of_the_hub_tells_its_time_and_its_errors_stay_what_they_are() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        if request.uri().path() == "/down" {
            let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            return Err(refused);
        }
        let answer = http::Response::builder().header("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        Ok(answer.body(Body::from(b"{}".to_vec())).unwrap())
    });
    let clock = Arc::new(HubClock::default());
    let client = watched(&Client::new(service, "default"), &clock, &Sources::system());
    let ask = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    assert!(matches!(
        client.send(ask("/down")).await,
        Err(kube::Error::Service(_))
    ));
    assert_eq!(clock.distrusted(Instant::now(), Utc::now()), None);
    client.send(ask("/version")).await.unwrap();
    let skew = clock.distrusted(Instant::now(), Utc::now()).unwrap();
    assert!(skew > TimeDelta::days(10_000), "{skew}");
}
