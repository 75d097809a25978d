//! The spec of an upgrade, the one in force, and how much of a maintenance window must remain as long as nothing has been estimated for
//! it.

use std::sync::Arc;

use api::validate::SpecViolation;
use resolve::spec::{ResolvedSpec, minimum_to_begin_with};
use rollout::forecast::sum_of_time_limits;

use crate::state::upgrade::UpgradeEntry;

impl UpgradeEntry {
    /// Sets the spec after validation. `followed`: it is the known one, or belongs to the next revision of the object. Another one of
    /// the same revision, or of an earlier one, does not follow: the storage of the hub went back, and the known one may be lost.
    pub fn set_spec(&mut self, spec: Result<ResolvedSpec, Vec<SpecViolation>>, followed: bool) {
        let before = self.in_force().cloned();
        self.spec = spec.map(Arc::new).map_err(Arc::new);
        match &self.spec {
            Ok(spec) => self.last_valid = Some(Arc::clone(spec)),
            Err(_) if followed => {}
            Err(_) => self.last_valid = None,
        }
        match before {
            Some(before) => self.go_on_with_estimate(&before),
            None => self.begin_estimate(),
        }
        self.forget_refusals();
        self.selected_at = 0;
        self.dirty = true;
    }

    /// True when this is the spec in force.
    #[must_use]
    pub fn is_in_force(&self, spec: &Arc<ResolvedSpec>) -> bool {
        self.in_force().is_some_and(|present| Arc::ptr_eq(present, spec))
    }

    /// The spec with which clusters in flight continue: the present one or, after an invalid edit, the last valid one.
    #[must_use]
    pub fn in_force(&self) -> Option<&Arc<ResolvedSpec>> {
        self.spec.as_ref().ok().or(self.last_valid.as_ref())
    }

    /// Begins with what the status tells, in the first pass of a term. That of an earlier spec tells nothing.
    pub(super) fn begin_estimate(&mut self) {
        self.estimated = None;
        let Some(spec) = self.in_force() else { return };
        let status = self.object.status.good();
        let observed = status.and_then(|status| status.observed_generation);
        let minimum = if observed == self.object.metadata.generation {
            minimum_to_begin_with(&self.object, &spec.policy)
        } else {
            sum_of_time_limits(&spec.policy)
        };
        spec.calendars.set_estimated_minimum(minimum);
    }

    /// Goes on after an edit with what was estimated before. If clusters are asked for something else, or have other time limits, it
    /// would be a guess, so the sum of the limits counts until the next pass has estimated it.
    fn go_on_with_estimate(&mut self, before: &ResolvedSpec) {
        let Ok(spec) = &self.spec else { return };
        let limits = sum_of_time_limits(&spec.policy);
        let takes_as_long =
            before.policy.revision == spec.policy.revision && sum_of_time_limits(&before.policy) == limits;
        let minimum = if takes_as_long {
            before.calendars.estimated_minimum()
        } else {
            limits
        };
        spec.calendars.set_estimated_minimum(minimum);
        if !takes_as_long {
            self.estimated = None;
        }
    }
}
