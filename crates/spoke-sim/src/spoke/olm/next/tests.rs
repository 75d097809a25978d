use chrono::TimeDelta;

use super::{Offer, Plan, Step, View, next};
use crate::fields::{Time, from_unix};
use crate::spoke::setup::Package;

fn package(after: &str) -> Package {
    Package {
        name: "p".into(),
        channel: String::new(),
        versions: vec!["p.v1".into(), "p.v2".into()],
        after_platform: after.into(),
    }
}

fn offer<'a>(package: Option<&'a Package>, platform: &'a str) -> Offer<'a> {
    Offer {
        package,
        platform,
        until_plan: TimeDelta::seconds(30),
        install: TimeDelta::minutes(2),
        no_plans: false,
    }
}

fn at(seconds: i64) -> Time {
    from_unix(1000 + seconds)
}

fn installed(version: &str, plan: Option<Plan>) -> View {
    View {
        installed: version.into(),
        since: Some(at(0)),
        plan,
        manual: true,
    }
}

#[test]
fn a_new_version_gets_a_plan_after_a_while() {
    let package = package("");
    let offer = offer(Some(&package), "4.16.1");
    assert_eq!(
        next(&installed("p.v1", None), &offer, at(10)),
        Step::Wait(Some(at(30)))
    );
    assert_eq!(
        next(&installed("p.v1", None), &offer, at(30)),
        Step::Plan("p.v2".into())
    );
    assert_eq!(next(&installed("p.v2", None), &offer, at(99)), Step::Wait(None));
}

#[test]
fn a_plan_waits_for_approval_installs_and_completes() {
    let package = package("");
    let offer = offer(Some(&package), "4.16.1");
    let plan = |approved, phase: &str| {
        installed(
            "p.v1",
            Some(Plan {
                approved,
                phase: phase.into(),
                started: Some(at(0)),
            }),
        )
    };
    assert_eq!(
        next(&plan(false, "RequiresApproval"), &offer, at(999)),
        Step::Wait(None)
    );
    assert_eq!(
        next(&plan(true, "RequiresApproval"), &offer, at(1)),
        Step::Install
    );
    assert_eq!(
        next(&plan(true, "Installing"), &offer, at(1)),
        Step::Wait(Some(at(120)))
    );
    assert_eq!(next(&plan(true, "Installing"), &offer, at(120)), Step::Complete);
}

#[test]
fn versions_are_held_until_the_platform_is_there() {
    let package = package("4.17.0");
    for (platform, expected) in [
        ("4.16.9", Step::Wait(None)),
        ("4.17.3", Step::Plan("p.v2".into())),
        ("", Step::Wait(None)),
    ] {
        assert_eq!(
            next(&installed("p.v1", None), &offer(Some(&package), platform), at(60)),
            expected
        );
    }
}

#[test]
fn faults_and_foreign_packages_make_no_plans() {
    let package = package("");
    let mut without = offer(Some(&package), "4.16.1");
    without.no_plans = true;
    assert_eq!(next(&installed("p.v1", None), &without, at(60)), Step::Wait(None));
    assert!(matches!(
        next(&installed("", None), &offer(None, ""), at(0)),
        Step::Unsatisfiable(_)
    ));
}
