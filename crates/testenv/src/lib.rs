//! The gate: real hubs for tests, the demo and the bench.
//!
//! Owns finding or building etcd, kube-apiserver, kube-controller-manager, kubectl and OCM's placement
//! controller ([`assets`]), running them as plain processes that never outlive their parent ([`process`],
//! [`hub`]), the CRDs of the platform ([`crds`]), hand-made fleets ([`fleet`], [`placement`]), and a container registry
//! with release images ([`registry`], [`image`]).
//! Refuses everything about the product: nothing here knows the MCU resources, and no product crate depends
//! on it outside its tests.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let hub = testenv::Hub::builder().ocm_crds().placement().start().await?;
//! let fleet = testenv::FleetSpec::numbered("spoke", 10).in_set("fleet").bound_in("default");
//! testenv::fleet::create(hub.client(), &fleet).await?;
//! hub.stop().await?;
//! # Ok(())
//! # }
//! ```

pub mod apply;
pub mod assets;
pub mod crds;
pub mod detached;
pub mod fleet;
pub mod hub;
pub mod image;
pub mod kubeconfig;
mod pki;
pub mod placement;
mod ports;
pub mod process;
pub mod registry;

pub use assets::{Assets, Tool, stderr_progress};
pub use fleet::{ClusterSpec, FleetSpec};
pub use hub::{Controllers, Hub, HubBuilder};
pub use kubeconfig::HubKubeconfig;
pub use process::{Process, ProcessSpec, Signal};
pub use registry::Registry;
