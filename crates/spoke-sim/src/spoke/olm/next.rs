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
mod tests;
