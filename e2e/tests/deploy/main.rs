//! deploy/ on a real API server with OCM's CRDs beside: every manifest applied, the CRDs' rules, the admission policy
//! and the roles tried as users who may and who may not, the update service's manifests, and the image recipes.

mod admission;
mod image;
mod install;
mod installed;
mod policy;
mod roles;
mod update_service;
