use super::*;

const ERA: Era = Era::new(4, 18);

fn at(seconds: i64) -> Time {
    // An arbitrary noon, so that texts show a time of day.
    Time::UNIX_EPOCH + TimeDelta::hours(12) + TimeDelta::seconds(seconds)
}

fn ask(cache: &mut Cache, now: Time, query: &str) -> CacheAnswer {
    cache.ask(now, query, &Clocks::of(ERA), ERA)
}

fn evaluate(query: &str) -> CacheAnswer {
    CacheAnswer::Evaluate(query.to_owned())
}

/// One pass over queries: what each got, evaluating what the cache wants as `exposure` says.
fn pass(
    cache: &mut Cache,
    now: Time,
    queries: &[&str],
    exposure: impl Fn(&str) -> Exposure,
) -> (Vec<Exposure>, Vec<String>) {
    let mut evaluated = Vec::new();
    let mut exposures = Vec::new();
    for query in queries {
        let answer = match ask(cache, now, query) {
            CacheAnswer::Exposure(exposure) => exposure,
            CacheAnswer::Evaluate(wanted) => {
                cache.record(now, &wanted, exposure(&wanted));
                evaluated.push(wanted);
                match ask(cache, now, query) {
                    CacheAnswer::Exposure(exposure) => exposure,
                    CacheAnswer::Evaluate(again) => panic!("{again} at once again"),
                }
            }
        };
        exposures.push(answer);
    }
    (exposures, evaluated)
}

#[test]
fn n_new_queries_take_n_seconds_and_the_others_are_throttled_meanwhile() {
    let mut cache = Cache::default();
    let queries = ["c", "a", "b"];
    let mut order = Vec::new();
    for second in 0..3 {
        let (exposures, evaluated) = pass(&mut cache, at(second), &queries, |_| Ok(true));
        order.extend(evaluated);
        if second == 0 {
            let throttled = Err("evaluation is throttled until 12:00:01Z".to_owned());
            assert_eq!(exposures, [Ok(true), throttled.clone(), throttled]);
        }
    }
    assert_eq!(order, ["c", "a", "b"]);
    let (exposures, evaluated) = pass(&mut cache, at(3), &queries, |_| Ok(false));
    assert_eq!((exposures, evaluated), (vec![Ok(true); 3], Vec::new()));
}

#[test]
fn answers_and_failures_stand_for_an_hour() {
    let mut cache = Cache::default();
    pass(&mut cache, at(0), &["q"], |_| Err("down".to_owned()));
    for (second, expected) in [(2, vec![]), (3_599, vec![]), (3_600, vec!["q".to_owned()])] {
        let (exposures, evaluated) = pass(&mut cache, at(second), &["q"], |_| Ok(false));
        assert_eq!(evaluated, expected, "{second}");
        let exposure = if second < 3_600 {
            Err("down".to_owned())
        } else {
            Ok(false)
        };
        assert_eq!(exposures, [exposure], "{second}");
    }
}

#[test]
fn the_stalest_query_that_was_asked_for_steals_the_evaluation() {
    let mut cache = Cache::default();
    pass(&mut cache, at(0), &["old"], |_| Ok(true));
    pass(&mut cache, at(100), &["young"], |_| Ok(true));
    // Both are due. The caller needs the younger one first, but the older one was requested, too.
    assert!(matches!(
        ask(&mut cache, at(200), "old"),
        CacheAnswer::Exposure(_)
    ));
    assert_eq!(ask(&mut cache, at(4_000), "young"), evaluate("old"));
}

#[test]
fn no_query_starves_whatever_the_order_of_the_requests() {
    let mut cache = Cache::default();
    let queries: Vec<String> = (0..40).map(|n| format!("q{n:02}")).collect();
    let names: Vec<&str> = queries.iter().map(String::as_str).collect();
    let mut seen = std::collections::BTreeSet::new();
    for second in 0..40 {
        seen.extend(pass(&mut cache, at(second), &names, |_| Ok(true)).1);
    }
    assert_eq!(seen.len(), 40);
}

#[test]
fn an_answer_is_forgotten_after_a_day() {
    let mut cache = Cache::default();
    pass(&mut cache, at(0), &["q"], |_| Ok(true));
    let day = 24 * 3_600;
    assert_eq!(ask(&mut cache.clone(), at(day), "other"), evaluate("other"));
    cache.expire(at(day), &Clocks::of(ERA));
    assert_eq!(cache.entries.len(), 1);
    cache.expire(at(day + 1), &Clocks::of(ERA));
    assert_eq!(cache.entries.len(), 0);
}

#[test]
fn it_tells_when_asking_again_is_of_use() {
    let clocks = Clocks::of(ERA);
    let mut cache = Cache::default();
    assert_eq!(cache.wake_at(at(5), ["new"], &clocks), Some(at(5)));
    cache.record(at(5), "known", Err("down".to_owned()));
    assert_eq!(cache.wake_at(at(5), ["new", "known"], &clocks), Some(at(6)));
    assert_eq!(cache.wake_at(at(5), ["known"], &clocks), Some(at(3_605)));
    assert_eq!(cache.wake_at(at(5), [], &clocks), None);
}

#[test]
fn the_throttling_text_of_old_names_the_time_that_has_passed() {
    let era = Era::new(4, 11);
    let clocks = Clocks::of(era);
    let mut cache = Cache::default();
    cache.record(at(0), "a", Ok(true));
    let now = at(510) + TimeDelta::nanoseconds(897_651_224);
    assert_eq!(
        cache.ask(now, "b", &clocks, era),
        CacheAnswer::Exposure(Err("client-side throttling: only 8m30.897651224s has elapsed since the last match call completed for this cluster condition backend; this cached cluster condition request has been queued for later execution".to_owned()))
    );
    assert!(matches!(
        cache.ask(at(600), "b", &clocks, era),
        CacheAnswer::Evaluate(_)
    ));
}

#[test]
fn durations_are_printed_as_go_does() {
    for (nanos, expected) in [
        (0, "0s"),
        (15, "15ns"),
        (1_500, "1.5µs"),
        (250_000_000, "250ms"),
        (1_000_000_000, "1s"),
        (90_500_000_000, "1m30.5s"),
        (3_600_000_000_000, "1h0m0s"),
    ] {
        assert_eq!(go_duration(TimeDelta::nanoseconds(nanos)), expected);
    }
}
