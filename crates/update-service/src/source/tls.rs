//! Clients and the certificates they trust.
//!
//! Owns the choice of roots: the system's and those that are configured, or the configured ones alone where the system
//! has none, as in an image that holds one program. Refuses to fail for it: without any root, HTTPS fails when it is
//! spoken, and files and plain HTTP do not need it.

use reqwest::{Certificate, Client, ClientBuilder};

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
