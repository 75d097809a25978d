//! `kubectl mcu`: the kubectl plugin for `ManagedClustersUpgrade`.
//!
//! It reads upgrades and their reports, changes `spec.paused` and the retry annotation, and checks manifests offline.
//! Per-cluster state is read from the report shards only; for them the plugin never looks at a ManifestWork or at a cluster.
//! Only to list those whose upgrade is gone it reads the metadata of ManifestWorks ([`orphans`]).
//! Besides, it asks update graphs, of a service or of files, without any hub; and for one cluster at a time, by that
//! cluster's own kubeconfig, it shows what the cluster may update to ([`cluster`]).
//!
//! Rendering is pure (objects and a clock reading in, text out); [`command`] holds the thin part that talks to the hub.

pub mod age;
pub mod args;
pub mod cluster;
pub mod command;
pub mod completion;
pub mod connection;
pub mod exit;
pub mod failure;
pub mod graph;
pub mod hub;
pub mod lint;
pub mod object;
pub mod orphans;
pub mod paint;
pub mod policies;
pub mod reference;
pub mod remedy;
pub mod render;
pub mod rows;
pub mod screen;
pub mod table;
pub mod upgrade;

pub use command::run;
pub use exit::Exit;
pub use reference::reference_markdown;
