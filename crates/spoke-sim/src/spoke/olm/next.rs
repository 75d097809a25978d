//! What happens next to a Subscription, as a pure function.

use chrono::TimeDelta;

use crate::fields::Time;
use crate::spoke::setup::Package;

/// What happens next to a Subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing until this time, if any.
    Wait(Option<Time>),
    /// An InstallPlan is created for a version.
    Plan(String),
    /// An approved plan starts to install.
    Install,
    /// An installing plan is complete.
    Complete,
    /// Nothing in the catalog satisfies it.
    Unsatisfiable(String),
}

/// The state of a Subscription from its objects, with simulated times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// `status.installedCSV`.
    pub installed: String,
    /// `status.lastUpdated`: when the current version was found.
    pub since: Option<Time>,
    /// The incomplete plan that it refers to.
    pub plan: Option<Plan>,
    /// Whether plans need approval.
    pub manual: bool,
}

/// An InstallPlan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `spec.approved`
    pub approved: bool,
    /// `status.phase`
    pub phase: String,
    /// `status.startTime`
    pub started: Option<Time>,
}

/// What a package offers.
pub struct Offer<'a> {
    /// The package; `None` if the catalog has none with that name and channel.
    pub package: Option<&'a Package>,
    /// The version that the platform last completed.
    pub platform: &'a str,
    /// Time from a published version to its plan.
    pub until_plan: TimeDelta,
    /// Time from an approved plan to the installed version.
    pub install: TimeDelta,
    /// Whether OLM creates no plans.
    pub no_plans: bool,
}

/// What happens next to a Subscription.
#[must_use]
pub fn next(view: &View, offer: &Offer<'_>, now: Time) -> Step {
    let Some(package) = offer.package else {
        return Step::Unsatisfiable(
            "no operators found in the catalog for this package and channel".to_owned(),
        );
    };
    match &view.plan {
        Some(plan) if plan.phase == "Installing" => {
            let due = plan.started.unwrap_or(now) + offer.install;
            if due > now {
                Step::Wait(Some(due))
            } else {
                Step::Complete
            }
        }
        Some(plan) if plan.approved => Step::Install,
        Some(_) => Step::Wait(None),
        None => match successor(package, &view.installed, offer.platform) {
            None => Step::Wait(None),
            Some(_) if offer.no_plans => Step::Wait(None),
            Some(version) => {
                // A Subscription without an installed version is resolved at once.
                let due = view.since.filter(|_| !view.installed.is_empty()).unwrap_or(now) + offer.until_plan;
                if due > now {
                    Step::Wait(Some(due))
                } else {
                    Step::Plan(version.to_owned())
                }
            }
        },
    }
}

/// The published version after the installed one.
fn successor<'a>(package: &'a Package, installed: &str, platform: &str) -> Option<&'a str> {
    let at = package
        .versions
        .iter()
        .position(|version| version == installed)
        .map_or(0, |at| at + 1);
    let version = package.versions.get(at)?;
    let published =
        at == 0 || package.after_platform.is_empty() || reached(platform, &package.after_platform);
    published.then_some(version.as_str())
}

fn reached(platform: &str, wanted: &str) -> bool {
    match (semver::Version::parse(platform), semver::Version::parse(wanted)) {
        (Ok(platform), Ok(wanted)) => platform >= wanted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
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
}
