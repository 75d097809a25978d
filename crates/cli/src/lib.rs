//! `kubectl mcu`: the kubectl plugin for `ManagedClustersUpgrade`.
//!
//! The plugin reads upgrades and their reports, changes `spec.paused`, accepted risks, acknowledgments and the retry annotation, and checks manifests offline.
//! It reads the state of clusters from the reports only, never from ManifestWorks or from the clusters. There are six
//! exceptions:
//!
//! - [`rehearse`] and `plan` read everything that the controller plans by, and play it in virtual time.
//! - [`preflight`], `accept` and `ack` read the probes, which show what clusters say to an update.
//! - [`orphans`] reads the metadata of ManifestWorks, to find those whose upgrade no longer exists.
//! - [`check`] reads what an installation consists of; `cluster` and `clusters -l` read ManagedClusters.
//! - [`graph`] queries the update graph of a service or of files, without a hub.
//! - [`cluster`] shows the updates of one cluster, through the cluster's own kubeconfig.
//!
//! Rendering is pure: it turns objects and the current time into text. [`command`] contains the part that talks to the hub.

pub mod age;
pub mod approval;
pub mod args;
pub mod causes;
pub mod check;
pub mod cluster;
pub mod command;
pub mod completion;
pub mod connection;
pub mod consent;
pub mod create;
pub mod dashboard;
pub mod edit;
pub mod exit;
pub mod failure;
pub mod graph;
pub mod hub;
pub mod lint;
pub mod object;
pub mod orphans;
pub mod paint;
pub mod policies;
pub mod preflight;
pub mod reference;
pub mod rehearse;
pub mod remedy;
pub mod render;
pub mod rows;
pub mod screen;
pub mod table;
pub mod template;
pub mod upgrade;
pub mod windows;

pub use command::{run, run_args};
pub use exit::Exit;
pub use reference::reference_markdown;
