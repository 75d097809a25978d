//! Whether the maintenance windows are open (`docs/design/rules.md#maintenance-windows`).

use std::sync::Arc;

use api::maintenance::Zone;
use api::time::to_jiff;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::maintenance::{Calendar, Opening};
use crate::model::{Cluster, Phase, Policy, Reason};

/// What does not open within the horizon may do so later.
pub(crate) const NOT_WITHIN_HORIZON: TimeDelta = TimeDelta::days(1);
/// So long before the windows open, clusters are asked again that must be asked again before they start. Where their channel is set,
/// answers count after two minutes. They are good for five, so they are still good when the windows open.
pub const ASKED_AHEAD: TimeDelta = TimeDelta::minutes(3);

const NEVER: &str = "The maintenance windows of the spec do not open for this cluster within 400 days. Check spec.maintenance.";
const UNTRUSTED: &str = "It is not known whether the maintenance window is open until the clocks of the controller and the hub agree";

/// Why clusters with one calendar may not start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosedWindow {
    /// The phase of a cluster that could start otherwise.
    pub(crate) phase: Phase,
    pub(crate) reason: Reason,
    pub(crate) message: Arc<str>,
    /// When they may, if that is known.
    pub(crate) opens: Option<DateTime<Utc>>,
}

/// What a calendar says at the time of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WindowState {
    /// Clusters may start until then; `None`: for ever.
    Open(Option<DateTime<Utc>>),
    /// They may not.
    Closed(ClosedWindow),
}

/// What each calendar of a fleet says at the time of the plan.
pub(crate) struct Openings(Vec<WindowState>);

impl Openings {
    pub(crate) fn new(now: DateTime<Utc>, policy: &Policy, calendars: &[Calendar]) -> Self {
        Self(
            calendars
                .iter()
                .map(|calendar| state_of(now, policy, calendar))
                .collect(),
        )
    }

    /// Whether the windows of a cluster are open; `None` if it has none.
    pub(crate) fn of(&self, cluster: &Cluster) -> Option<&WindowState> {
        self.0.get(cluster.calendar?)
    }

    /// When the windows of a cluster that waits for them open, if that is known.
    pub(crate) fn next_for(&self, cluster: &Cluster) -> Option<DateTime<Utc>> {
        match self.of(cluster)? {
            WindowState::Open(_) => None,
            WindowState::Closed(closed) => closed.opens,
        }
    }
}

fn state_of(now: DateTime<Utc>, policy: &Policy, calendar: &Calendar) -> WindowState {
    let waits = |message: Arc<str>, opens| {
        WindowState::Closed(ClosedWindow {
            phase: Phase::Pending,
            reason: Reason::WaitingForWindow,
            message,
            opens,
        })
    };
    if !policy.clock_trusted {
        return waits(Arc::from(UNTRUSTED), None);
    }
    match calendar.at(now) {
        Opening::Open { closes } => WindowState::Open(closes),
        Opening::Closed { opens: Some(opens) } => waits(next_opening(calendar.zone(), opens), Some(opens)),
        Opening::Closed { opens: None } => WindowState::Closed(ClosedWindow {
            phase: Phase::Blocked,
            reason: Reason::NoWindow,
            message: Arc::from(NEVER),
            opens: None,
        }),
    }
}

/// The next opening in the zone of the cluster and in UTC.
fn next_opening(zone: &Zone, opens: DateTime<Utc>) -> Arc<str> {
    let utc = opens.to_rfc3339_opts(SecondsFormat::Secs, true);
    let message = if *zone == Zone::UTC {
        format!("The maintenance window of the cluster opens at {utc}")
    } else {
        format!(
            "The maintenance window of the cluster opens at {} ({}), which is {utc}",
            zone.display(to_jiff(opens)),
            zone.name()
        )
    };
    Arc::from(message)
}
