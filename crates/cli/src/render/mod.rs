//! Turns objects into text. All functions are pure: callers pass in the objects and the current time.

pub mod approvals;
pub mod causes;
pub mod check;
pub mod cluster;
pub mod clusters;
pub mod export;
pub mod graph;
pub mod history;
pub mod list;
pub mod objects;
pub mod orphans;
pub mod plan;
pub mod preflight;
pub mod rehearse;
pub mod status;
pub mod tree;
pub mod updates;
pub mod why;
pub mod windows;

use api::report::Phase;

use crate::paint::Tone;

/// Tone of a phase.
#[must_use]
pub const fn phase_tone(phase: Phase) -> Tone {
    match phase {
        Phase::Complete => Tone::Good,
        Phase::Blocked => Tone::Warn,
        Phase::Failed | Phase::PreActionDegraded => Tone::Bad,
        Phase::Pending
        | Phase::PreAction
        | Phase::Initialized
        | Phase::Partial
        | Phase::Workers
        | Phase::Operators
        | Phase::Soaking
        | Phase::PostAction
        | Phase::Skipped
        | Phase::Aborted => Tone::Plain,
    }
}

/// Tone of the state of an upgrade.
#[must_use]
pub fn state_tone(state: &str) -> Tone {
    match state {
        "Complete" => Tone::Good,
        "Stalled" | "Invalid" => Tone::Bad,
        "Paused" | "WaitingForApproval" | "Deleting" | "<unknown>" => Tone::Warn,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
pub(crate) mod fixtures;
