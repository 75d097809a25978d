//! What keeps other pages and other users of the machine away from the dashboard.
//!
//! The server listens on the loopback interface only. Every request for data carries a token that only the address printed by
//! the command has, in a header that a page of another origin cannot send. The token is in the fragment of the address, which
//! browsers never send, and the page keeps it in the storage of its tab; a cookie would be sent to every other server on the same
//! host, whatever its port. The names in Host and Origin must be those of the loopback interface, so a name that an attacker
//! points to it (DNS rebinding) reaches nothing.

use std::net::IpAddr;
use std::sync::Arc;

use api::text::hex;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rustls::crypto::ring;

use crate::failure::Failure;

/// Bytes of the token.
const TOKEN_BYTES: usize = 24;

/// What the browser may do with every answer of the server. Scripts and styles come from the server alone, and neither may be
/// inline; texts cannot become markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The secret of one run of the dashboard.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new random token.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<Token, Failure> {
        let mut bytes = [0; TOKEN_BYTES];
        ring::default_provider()
            .secure_random
            .fill(&mut bytes)
            .map_err(|_| Failure::Other("the system gives no random bytes for the token".to_owned()))?;
        Ok(Token(hex(&bytes)))
    }

    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on where the texts differ.
    fn matches(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let difference = own.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == given.len() && difference == 0
    }
}

/// Rejects requests that did not come from the dashboard's own page, and adds the headers that protect the page.
pub(super) async fn check(State(token): State<Arc<Token>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(request.uri().path(), request.headers(), &token) {
        Some((status, why)) => (status, why).into_response(),
        None => next.run(request).await,
    };
    response.headers_mut().extend(HEADERS);
    response
}

/// Why a request is refused; `None` if it is not. What lies below `/api/` needs the token; the page itself holds no secret.
fn refusal(path: &str, headers: &HeaderMap, token: &Token) -> Option<(StatusCode, &'static str)> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    if !is_loopback(host) {
        let why =
            "The dashboard answers only under the names of the loopback interface, such as localhost.\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, why));
    }
    if text(header::ORIGIN).is_some_and(|origin| origin != format!("http://{host}")) {
        return Some((StatusCode::FORBIDDEN, "The request came from another origin.\n"));
    }
    if !path.starts_with("/api/") {
        return None;
    }
    let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let why = "The token is missing or is that of an earlier run. Open the address that kubectl mcu dashboard printed.\n";
    (!given.is_some_and(|given| token.matches(given))).then_some((StatusCode::UNAUTHORIZED, why))
}

/// True for a host, with or without a port, that is the loopback interface by its name or address. The port may differ from that
/// of the server, because it does behind `ssh -L`.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let address = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
