//! Real hubs for tests, the demo and the bench.
//!
//! [`assets`] finds or builds etcd, kube-apiserver, kube-controller-manager, kubectl, OCM and Prometheus. [`process`],
//! [`hub`], [`spoke`] and [`prometheus`] run them as plain processes that never outlive their parent. [`crds`] has the CRDs
//! of the platform, [`klusterlet`] OCM's roles. [`fleet`], [`placement`] and [`registration`] create fleets, and [`registry`]
//! and [`image`] a container registry with release images.
//!
//! This crate does not know the MCU resources, and product crates depend on it only in their tests.
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
pub mod one_program;
mod pki;
pub mod placement;
pub mod ports;
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
