//! HTTP clients and the certificates they trust.
//!
//! The roots are the system's and the configured ones. A system without roots, such as an image with a single program, is no
//! error: then only the configured roots are trusted. Without any root HTTPS requests fail, but files and plain HTTP work.

use reqwest::redirect::{Action, Attempt};
use reqwest::{Certificate, Client, ClientBuilder};

/// Most redirects that are followed for one request.
const MAX_REDIRECTS: usize = 5;

/// Follows a redirect, but never from HTTPS to plain HTTP, because a protected request must not get an unprotected answer.
#[must_use]
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
