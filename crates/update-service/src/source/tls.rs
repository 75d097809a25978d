//! Clients and the certificates they trust.
//!
//! Owns the choice of roots: the system's and those that are configured, or the configured ones alone where the system
//! has none, as in an image that holds one program. Refuses to fail for it: without any root, HTTPS fails when it is
//! spoken, and files and plain HTTP do not need it.

use reqwest::redirect::{Action, Attempt};
use reqwest::{Certificate, Client, ClientBuilder};

/// Most redirects that are followed for one request.
const MAX_REDIRECTS: usize = 5;

/// Follows a redirect, but never from HTTPS to plain HTTP: what was asked for safely must not arrive unprotected.
pub fn redirect(attempt: Attempt<'_>) -> Action {
    let was_safe = attempt.previous().iter().any(|url| url.scheme() == "https");
    let downgrade = was_safe && attempt.url().scheme() != "https";
    if attempt.previous().len() > MAX_REDIRECTS || downgrade {
        attempt.stop()
    } else {
        attempt.follow()
    }
}

/// A client that trusts the PEM certificates in `ca` besides the system's.
///
/// # Errors
/// When `ca` is no PEM, or no TLS provider is installed.
pub fn client(builder: impl Fn() -> ClientBuilder, ca: &[u8]) -> reqwest::Result<Client> {
    let own = if ca.is_empty() {
        Vec::new()
    } else {
        Certificate::from_pem_bundle(ca)?
    };
    let with_system = builder().tls_certs_merge(own.clone()).build();
    with_system.or_else(|error| {
        tracing::info!(
            error = super::causes(&error),
            "the system's certificates are not used"
        );
        builder().tls_certs_only(own).build()
    })
}
