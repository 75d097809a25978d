//! Defines when the process is alive and ready.
//!
//! Alive: the main loop has run within the last minute. Ready: all registered checks pass (the CRDs exist,
//! and each kind is listed and watched). A follower is ready too, because its index is complete. A warning is
//! shown in addition and does not make the process unready. The checks are set by the parts that know the
//! state, through handles that never block.

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
    /// Warnings by name.
    warnings: ArcSwap<BTreeMap<&'static str, Option<String>>>,
    asked: Notify,
    epoch: Instant,
    /// Milliseconds after `epoch` of the last heartbeat.
    beat: AtomicU64,
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
            warnings: ArcSwap::default(),
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

    /// Sets or removes the warning with a name.
    pub fn warn(&self, name: &'static str, text: Option<&str>) {
        self.warnings.rcu(|warnings| {
            let mut warnings = BTreeMap::clone(warnings);
            warnings.insert(name, text.map(str::to_owned));
            warnings
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
        let warnings = self.warnings.load();
        let beside = warnings.iter().map(|(name, text)| Finding {
            name: (*name).to_owned(),
            missing: text.clone(),
            warning: true,
        });
        needs.chain(beside).collect()
    }

    /// True when every finding of [`Readiness::ready`] passes.
    #[must_use]
    pub fn is_ready(&self) -> bool {
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
mod tests {
    use super::*;

    #[test]
    fn nothing_is_ready_before_the_watches_are_registered() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready());
        assert_eq!(spec(&readiness.ready()), "watches: not started yet\n");
    }

    #[test]
    fn readiness_names_each_need_that_is_not_met_and_can_be_lost_again() {
        let readiness = Readiness::new();
        let works = readiness.register("ManifestWork");
        let clusters = readiness.register("ManagedCluster");
        works.pass();
        assert_eq!(spec(&readiness.ready()), "ManagedCluster: not synced yet\n");
        clusters.pass();
        assert!(readiness.is_ready());
        clusters.fail("the CRD is not installed");
        assert_eq!(
            spec(&readiness.ready()),
            "ManagedCluster: the CRD is not installed\n"
        );
    }

    #[test]
    fn one_name_is_one_check() {
        let readiness = Readiness::new();
        let first = readiness.register("ManifestWork");
        let second = readiness.register("ManifestWork");
        first.pass();
        assert!(readiness.is_ready());
        second.fail("gone");
        assert_eq!(readiness.ready().len(), 1);
        assert!(!readiness.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_loop_that_stops_is_dead_after_a_minute() {
        let readiness = Readiness::new();
        tokio::time::advance(Duration::from_secs(30)).await;
        readiness.beat();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(passes(&readiness.alive()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            spec(&readiness.alive()),
            "reconcile-loop: no heartbeat for 60 s, the limit is 60 s\n"
        );
    }

    #[test]
    fn a_warning_is_told_beside_the_needs_and_fails_nothing() {
        let readiness = Readiness::new();
        let need = readiness.register("a");
        readiness.warn("policies", Some("missing: p"));
        assert_eq!(
            spec(&readiness.ready()),
            "a: not synced yet\npolicies: missing: p\n"
        );
        need.pass();
        assert!(readiness.is_ready());
        assert_eq!(spec(&readiness.ready()), "ok\npolicies: missing: p\n");
        assert_eq!(
            verbose("readyz", &readiness.ready()),
            "[+]a ok\n[!]policies: missing: p\nreadyz check passed\n"
        );
        readiness.warn("policies", None);
        assert_eq!(spec(&readiness.ready()), "ok");
        assert!(verbose("readyz", &readiness.ready()).contains("[+]policies ok\n"));
    }

    #[test]
    fn the_long_answer_lists_every_check() {
        let readiness = Readiness::new();
        readiness.register("a").pass();
        let _b = readiness.register("b");
        assert_eq!(
            verbose("readyz", &readiness.ready()),
            "[+]a ok\n[-]b failed: not synced yet\nreadyz check failed\n"
        );
    }
}
