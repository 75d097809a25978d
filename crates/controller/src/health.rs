//! Defines when the process is alive and ready.
//!
//! Alive: the main loop has run within the last minute. Ready: all registered checks pass (the CRDs exist,
//! and each kind is listed and watched). A follower is ready too, because its index is complete. A remark is
//! shown in addition; it makes the process unready only where it says so. The checks are set by the parts that
//! know the state, through handles that never block.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The main loop must run at least this often.
pub const HEARTBEAT_LIMIT: Duration = Duration::from_mins(1);

/// A named check. The part that knows the state sets it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Check {
    state: Arc<CheckState>,
}

#[derive(Debug)]
struct CheckState {
    name: String,
    /// Why the check fails. `None` if it passes.
    missing: ArcSwapOption<String>,
}

impl Check {
    /// Makes the check pass.
    pub fn pass(&self) {
        if self.state.missing.load().is_some() {
            self.state.missing.store(None);
        }
    }

    /// Makes the check fail with a reason.
    pub fn fail(&self, reason: impl Into<String>) {
        self.state.missing.store(Some(Arc::new(reason.into())));
    }
}

/// The checks of readiness and the heartbeat of liveness. Shared as `Arc<Readiness>`.
#[derive(Debug)]
pub struct Readiness {
    checks: ArcSwap<Vec<Check>>,
    /// Remarks by name.
    remarks: ArcSwap<BTreeMap<&'static str, Remark>>,
    asked: Notify,
    epoch: Instant,
    /// Milliseconds after `epoch` of the last heartbeat.
    beat: AtomicU64,
}

/// Something that is checked beside the checks.
#[derive(Clone, Debug)]
struct Remark {
    /// What is wrong, if anything.
    text: Option<String>,
    /// True when the process is not ready while something is wrong.
    fails: bool,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

/// One line of a health response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check.
    pub name: String,
    /// Why it fails. `None` if it passes.
    pub missing: Option<String>,
    /// The finding is a warning, which does not fail the response.
    pub warning: bool,
}

impl Readiness {
    /// Not ready until at least one check is registered and all of them pass. Alive for [`HEARTBEAT_LIMIT`]
    /// without a heartbeat.
    #[must_use]
    pub fn new() -> Self {
        Self {
            checks: ArcSwap::default(),
            remarks: ArcSwap::default(),
            asked: Notify::new(),
            epoch: Instant::now(),
            beat: AtomicU64::new(0),
        }
    }

    /// Registers a check, which fails until [`Check::pass`]. The same name returns the same check. Register
    /// all checks before the first one passes; otherwise the replica is ready too early.
    pub fn register(&self, name: &str) -> Check {
        let new = Check {
            state: Arc::new(CheckState {
                name: name.to_owned(),
                missing: ArcSwapOption::from_pointee("not synced yet".to_owned()),
            }),
        };
        self.checks.rcu(|checks| {
            let mut checks = Vec::clone(checks);
            if !checks.iter().any(|check| check.state.name == name) {
                checks.push(new.clone());
            }
            checks
        });
        self.checks
            .load()
            .iter()
            .find(|check| check.state.name == name)
            .cloned()
            .unwrap_or(new)
    }

    /// Sets or removes the warning with a name, which replaces a failure of that name.
    pub fn warn(&self, name: &'static str, text: Option<&str>) {
        self.remark(name, text, false);
    }

    /// As [`Readiness::warn`], but the process is not ready until [`Readiness::warn`] replaces it.
    pub fn fail(&self, name: &'static str, text: &str) {
        self.remark(name, Some(text), true);
    }

    fn remark(&self, name: &'static str, text: Option<&str>, fails: bool) {
        let remark = Remark {
            text: text.map(str::to_owned),
            fails,
        };
        self.remarks.rcu(|remarks| {
            let mut remarks = BTreeMap::clone(remarks);
            remarks.insert(name, remark.clone());
            remarks
        });
    }

    /// Waits until someone requests readiness.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Records that the main loop has run.
    pub fn beat(&self) {
        let millis = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat.store(millis, Ordering::Relaxed);
    }

    /// Findings for `/readyz`.
    #[must_use]
    pub fn ready(&self) -> Vec<Finding> {
        self.asked.notify_one();
        let checks = self.checks.load();
        if checks.is_empty() {
            return vec![Finding {
                name: "watches".to_owned(),
                missing: Some("not started yet".to_owned()),
                warning: false,
            }];
        }
        let needs = checks.iter().map(|check| Finding {
            name: check.state.name.clone(),
            missing: check.state.missing.load().as_deref().cloned(),
            warning: false,
        });
        let remarks = self.remarks.load();
        let beside = remarks.iter().map(|(name, remark)| Finding {
            name: (*name).to_owned(),
            missing: remark.text.clone(),
            warning: !remark.fails,
        });
        needs.chain(beside).collect()
    }

    /// True when every finding of [`Readiness::ready`] passes.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn is_ready(&self) -> bool {
        passes(&self.ready())
    }

    /// Findings for `/livez`.
    #[must_use]
    pub fn alive(&self) -> Vec<Finding> {
        let age = self
            .epoch
            .elapsed()
            .saturating_sub(Duration::from_millis(self.beat.load(Ordering::Relaxed)));
        let missing = (age >= HEARTBEAT_LIMIT).then(|| {
            format!(
                "no heartbeat for {} s, the limit is {} s",
                age.as_secs(),
                HEARTBEAT_LIMIT.as_secs()
            )
        });
        vec![
            Finding {
                name: "ping".to_owned(),
                missing: None,
                warning: false,
            },
            Finding {
                name: "reconcile-loop".to_owned(),
                missing,
                warning: false,
            },
        ]
    }
}

/// True when no finding fails. Warnings do not count.
#[must_use]
pub fn passes(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.warning || finding.missing.is_none())
}

/// The short response: `ok` or the failed checks, and warnings, one per line.
#[must_use]
pub fn spec(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        if let Some(missing) = &finding.missing {
            let _ = writeln!(out, "{}: {missing}", finding.name);
        }
    }
    match (passes(findings), out.is_empty()) {
        (true, true) => "ok".to_owned(),
        (true, false) => format!("ok\n{out}"),
        (false, _) => out,
    }
}

/// The long response, in the form of the API server's `?verbose`.
#[must_use]
pub fn verbose(endpoint: &str, findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let _ = match &finding.missing {
            None => writeln!(out, "[+]{} ok", finding.name),
            Some(warning) if finding.warning => writeln!(out, "[!]{}: {warning}", finding.name),
            Some(missing) => writeln!(out, "[-]{} failed: {missing}", finding.name),
        };
    }
    let verdict = if passes(findings) { "passed" } else { "failed" };
    let _ = writeln!(out, "{endpoint} check {verdict}");
    out
}

#[cfg(test)]
mod tests;
