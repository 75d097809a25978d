//! Real hubs for tests, the demo and the bench.
//!
//! Owns finding or building etcd, kube-apiserver, kube-controller-manager, kubectl, OCM and Prometheus ([`assets`]),
//! running them as plain processes that never outlive their parent ([`process`], [`hub`], [`spoke`], [`prometheus`]),
//! the CRDs of the platform ([`crds`]) and OCM's roles ([`klusterlet`]), hand-made fleets ([`fleet`], [`placement`],
//! [`registration`]), and a container registry with release images ([`registry`], [`image`]).
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
pub mod console;
pub mod crds;
pub mod detached;
pub mod fleet;
pub mod hub;
pub mod image;
pub mod klusterlet;
pub mod kubeconfig;
mod pki;
pub mod placement;
mod ports;
pub mod process;
pub mod prometheus;
pub mod registration;
pub mod registry;
pub mod spoke;

pub use assets::{Assets, Tool, stderr_progress};
pub use fleet::{ClusterSpec, FleetSpec};
pub use hub::{Controllers, Hub, HubBuilder};
pub use kubeconfig::HubKubeconfig;
pub use process::{Process, ProcessSpec, Signal};
pub use prometheus::{Prometheus, PrometheusSpec};
pub use registration::RegistrationAgent;
pub use registry::Registry;
pub use spoke::{AgentOptions, Spoke, SpokeSpec};
