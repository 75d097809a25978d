//! What a release consists of, made from one source: the manifests in `deploy/` and the workspace itself.
//!
//! [`manifests`] has the generated files of `deploy/`: everything in one file, the Helm chart, the OLM bundle. [`image`] builds and
//! pushes the images, [`plugin`] packs the kubectl plugin.

pub mod base;
pub mod bundle;
pub mod chart;
pub mod image;
pub mod install;
pub mod manifests;
pub mod plugin;
pub mod rules;
