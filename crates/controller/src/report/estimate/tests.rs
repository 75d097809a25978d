use rollout::forecast::ClusterClass;
use rollout::testing::{at, fleet, policy};
use rollout::{Reason, Step, plan};

use super::*;

fn of(p50: i64, p90: i64) -> UpgradeEstimate {
    UpgradeEstimate {
        p50: from_chrono(at(60 * p50)),
        p90: from_chrono(at(60 * p90)),
        basis: "Upgrade".to_owned(),
        samples: 12,
    }
}

fn shown_at(minute: i64, before: &UpgradeEstimate, next: &UpgradeEstimate) -> UpgradeEstimate {
    shown(Some(before), Estimated::As(Some(next.clone())), at(60 * minute)).unwrap()
}

#[test]
fn an_estimate_stays_until_it_moves_by_more_than_a_tenth_of_what_is_left() {
    let before = of(600, 800);
    for (next, is_new) in [
        (of(660, 800), false),
        (of(540, 800), false),
        (of(665, 800), true),
        (of(535, 800), true),
        (of(600, 880), false),
        (of(600, 885), true),
    ] {
        let expected = if is_new { &next } else { &before };
        assert_eq!(shown_at(0, &before, &next), *expected, "{next:?}");
    }
    // Less is left, so less matters.
    assert_eq!(shown_at(500, &before, &of(610, 800)), before);
    assert_eq!(shown_at(500, &before, &of(615, 800)), of(615, 800));
    let more = UpgradeEstimate {
        samples: 50,
        basis: "Usual".to_owned(),
        ..of(605, 800)
    };
    assert_eq!(shown_at(0, &before, &more), before);
}

#[test]
fn an_estimate_that_has_passed_is_replaced() {
    assert_eq!(shown_at(601, &of(600, 800), &of(605, 800)), of(605, 800));
}

#[test]
fn what_is_not_known_is_not_shown_and_a_pass_without_an_estimate_changes_nothing() {
    assert_eq!(shown(Some(&of(1, 2)), Estimated::As(None), at(0)), None);
    assert_eq!(shown(Some(&of(1, 2)), Estimated::Not, at(0)), Some(of(1, 2)));
    assert_eq!(shown(None, Estimated::Not, at(0)), None);
    assert_eq!(shown(None, Estimated::As(Some(of(1, 2))), at(0)), Some(of(1, 2)));
}

#[test]
fn times_are_rounded_up_to_five_minutes() {
    for (second, expected) in [(0, 0), (1, 300), (299, 300), (300, 300), (301, 600)] {
        assert_eq!(
            rounded(at(0) + TimeDelta::seconds(second)),
            at(expected),
            "{second}"
        );
    }
}

#[test]
fn an_upgrade_is_estimated_from_usual_times_and_never_from_a_guess() {
    let two = || {
        fleet()
            .cluster("a")
            .version("4.11.0")
            .cluster("b")
            .version("4.11.0")
            .build()
    };
    let profiles = vec![Profile::default(); 2];
    let plain = policy().target("4.12.0").max_concurrency(1).build();
    let made = plan(at(0), &plain, &two());
    assert!(has_end(&plain, &made));
    let found = estimate(at(0), &plain, &two(), &made, &profiles).unwrap();
    assert_eq!((found.basis.as_str(), found.samples), ("Usual", 0));
    let (p50, p90) = (to_chrono(&found.p50).unwrap(), to_chrono(&found.p90).unwrap());
    assert!(
        p50 > at(100 * 60) && p50 < p90 && p90 < at(400 * 60),
        "{p50} {p90}"
    );
    assert_eq!(estimate(at(0), &plain, &two(), &made, &profiles), Some(found));
    let with_action = policy().target("4.12.0").step(Step::PreAction).build();
    let made = plan(at(0), &with_action, &two());
    assert_eq!(estimate(at(0), &with_action, &two(), &made, &profiles), None);
}

#[test]
fn what_nobody_knows_of_a_blocked_cluster_does_not_hide_the_end_of_the_others() {
    let mut policy = policy().target("4.12.0").build();
    policy.worker_pools_timeout = Some(TimeDelta::hours(6));
    let single = Profile {
        class: ClusterClass::SingleNode,
        ..Profile::default()
    };
    // Of a cluster that may have worker pools nobody knows how long they take.
    let profiles = [single, Profile::default()];
    let one = || {
        fleet()
            .cluster("a")
            .version("4.11.0")
            .cluster("b")
            .version("4.11.0")
    };
    let known = |two: &Fleet| {
        let made = plan(at(0), &policy, two);
        estimate(at(0), &policy, two, &made, &profiles).map(|found| found.basis)
    };
    assert_eq!(known(&one().build()), None);
    let blocked = one().blocked(Reason::NotOffered).build();
    assert_eq!(known(&blocked).as_deref(), Some("Usual"));
}

#[test]
fn what_is_held_or_done_has_no_end() {
    let paused = policy().paused().build();
    let two = fleet().cluster("a").build();
    assert!(!has_end(&paused, &plan(at(0), &paused, &two)));
    let open = policy().build();
    let empty = fleet().build();
    assert!(!has_end(&open, &plan(at(0), &open, &empty)));
}
