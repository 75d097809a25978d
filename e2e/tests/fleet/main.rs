//! Fleets of real spokes: one hub with OCM's placement and registration controllers, three clusters with API servers of
//! their own, OCM's work agents under OCM's roles, a Prometheus each, the update service on real graph data, and the
//! controller as `deploy/` ships it.
//!
//! Only what has no program is simulated: the cluster-version operator, OLM and the kubelet by `spoke-sim cluster`, the
//! registration agent's heartbeat by the test environment. All tests share the fleet; each takes as many clusters as it
//! needs and gets them freshly installed. `cargo xtask e2e` runs it.

mod abort;
mod audit;
mod causes;
mod cluster;
mod explain;
mod fleet_test;
mod follow;
mod gates;
mod graph;
mod lifecycle;
mod outages;
mod placement;
mod preflight;
mod queue;
mod resync;
mod risks;
mod sequence;
