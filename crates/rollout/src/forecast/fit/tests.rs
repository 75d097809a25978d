use super::*;

fn minutes(times: &[i64]) -> Vec<TimeDelta> {
    times.iter().map(|time| TimeDelta::minutes(*time)).collect()
}

#[test]
fn the_quantile_is_the_inverse_of_the_share() {
    for share in [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99] {
        let found = below(normal_quantile(share));
        assert!((found - share).abs() < 0.001, "{share}: {found}");
    }
}

#[test]
fn without_clusters_that_run_the_times_are_those_that_were_measured() {
    let times = minutes(&[50, 60, 70]);
    assert_eq!(samples(&times, &[]), Samples::new(times));
    assert_eq!(samples(&[], &minutes(&[10])), None);
}

#[test]
fn clusters_that_still_run_make_the_times_longer() {
    // Of 40 clusters with 60 minutes, a quarter more or less, the ten fastest have finished after 52 minutes.
    let all: Vec<i64> = (0..40).map(|number| 45 + number * 30 / 39).collect();
    let (finished, running): (Vec<i64>, Vec<i64>) = all.iter().partition(|time| **time <= 52);
    let ages = vec![52; running.len()];
    let fast = Samples::new(minutes(&finished)).unwrap().quantile(0.5);
    let fitted = samples(&minutes(&finished), &minutes(&ages)).unwrap();
    assert_eq!(fitted.count(), 40);
    assert!(fast < TimeDelta::minutes(50), "{fast}");
    let median = fitted.quantile(0.5);
    let expected = TimeDelta::minutes(54)..TimeDelta::minutes(66);
    assert!(expected.contains(&median), "{median}");
    assert!(
        fitted
            .sorted()
            .iter()
            .filter(|time| **time >= TimeDelta::minutes(52))
            .count()
            >= running.len()
    );
}

#[test]
fn clusters_that_have_just_begun_change_little() {
    let times = minutes(&[50, 55, 60, 65, 70, 58, 62, 61]);
    let measured = Samples::new(times.clone()).unwrap().quantile(0.5);
    let fitted = samples(&times, &minutes(&[1; 20])).unwrap().quantile(0.5);
    let apart = (fitted - measured).abs();
    assert!(apart < TimeDelta::minutes(3), "{measured} {fitted}");
}

#[test]
fn quasi_random_numbers_fill_the_range_evenly() {
    for base in [2, 3, 5] {
        let numbers: Vec<f64> = (0..60).map(|number| quasi_random(number, base)).collect();
        for tenth in 0..10 {
            let range = f64::from(tenth) / 10.0..f64::from(tenth + 1) / 10.0;
            let inside = numbers.iter().filter(|number| range.contains(number)).count();
            assert!((4..=8).contains(&inside), "base {base}, tenth {tenth}: {inside}");
        }
    }
}
