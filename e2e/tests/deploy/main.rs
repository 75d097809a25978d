//! deploy/ on a real API server with OCM's CRDs beside: every manifest applied, the CRDs' rules, the admission policies
//! and the roles tried as users who may and who may not, the update service's manifests, the image recipes, and the image
//! that is made without a runtime.

mod actors;
mod admission;
mod approvals;
mod examples;
mod hub;
mod image;
mod install;
mod installed;
mod limits;
mod policy;
mod push;
mod reports;
mod roles;
mod run;
mod strict;
mod update_service;
mod works;
