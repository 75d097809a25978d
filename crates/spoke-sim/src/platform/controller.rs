//! The interface of the controllers of a simulated cluster.

use super::pace::Pace;
use crate::fault::Faults;
use crate::fields::Time;
use crate::seeded_rng::SeededRng;
use crate::store::Store;

/// What a controller works with.
pub struct ControllerContext<'a> {
    /// The cluster's objects.
    pub store: &'a mut Store,
    /// The faults of the cluster.
    pub faults: &'a Faults,
    /// How long things take.
    pub pace: &'a Pace,
    /// The random numbers of the cluster.
    pub rng: SeededRng,
    /// When the hub requested what is new in the store. Durations count from this time, and not from when the request reached the
    /// cluster.
    pub asked: Time,
}

/// A controller of the cluster.
pub trait Controller {
    /// Brings the controller's objects up to `now`. Returns when it next needs to run even if nothing changes.
    fn advance(&mut self, context: &mut ControllerContext<'_>, now: Time) -> Option<Time>;
}
