//! The ways to install: Helm's chart, the file install.yaml, OLM's bundle and the kustomize base give the same objects, and Helm
//! itself installs, updates and uninstalls the chart on a real API server. krew installs the plugin.

mod bundle;
mod helm;
mod lifecycle;
mod plugin;
mod same_objects;
mod values;
