//! Errors as clients see them: `{"kind", "value"}` with a status, in the words of the protocol.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// A refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// Parameters that every request must have, sorted.
    #[error("mandatory client parameters missing: {}", .0.join(", "))]
    MissingParams(Vec<String>),
    /// A parameter's value.
    #[error("invalid client parameters: {0}")]
    InvalidParams(String),
    /// Nothing we offer is acceptable.
    #[error("invalid Content-Type requested")]
    InvalidContentType,
    /// Something that is requested by name does not exist.
    #[error("does not exist: {0}")]
    DoesNotExist(String),
    /// There is no graph yet.
    #[error("failed to fetch upstream graph: {0}")]
    NoGraph(String),
    /// Our own fault.
    #[error("failed to serialize JSON: {0}")]
    Encoding(String),
}

#[derive(Serialize)]
struct Body<'a> {
    kind: &'a str,
    value: String,
}

impl ApiError {
    /// Every kind with its status, for the documentation.
    pub const KINDS: [(&'static str, u16); 6] = [
        ("missing_params", 400),
        ("invalid_params", 400),
        ("invalid_content_type", 406),
        ("does_not_exist", 404),
        ("failed_upstream_fetch", 503),
        ("failed_json_out", 500),
    ];

    /// Kind and status.
    #[must_use]
    pub fn kind(&self) -> (&'static str, StatusCode) {
        match self {
            Self::MissingParams(_) => ("missing_params", StatusCode::BAD_REQUEST),
            Self::InvalidParams(_) => ("invalid_params", StatusCode::BAD_REQUEST),
            Self::InvalidContentType => ("invalid_content_type", StatusCode::NOT_ACCEPTABLE),
            Self::DoesNotExist(_) => ("does_not_exist", StatusCode::NOT_FOUND),
            // Without a graph there is nothing wrong with us or the request: a client should come back.
            Self::NoGraph(_) => ("failed_upstream_fetch", StatusCode::SERVICE_UNAVAILABLE),
            Self::Encoding(_) => ("failed_json_out", StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// The JSON.
    #[must_use]
    pub fn body(&self) -> Bytes {
        let body = Body {
            kind: self.kind().0,
            value: self.to_string(),
        };
        serde_json::to_vec(&body).unwrap_or_default().into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (self.kind().1, json, self.body()).into_response();
        if matches!(self, Self::NoGraph(_)) {
            let after = HeaderValue::from_static("10");
            response.headers_mut().insert(header::RETRY_AFTER, after);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_words_of_the_protocol() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (error, status, body) in [
            (
                ApiError::MissingParams(list(&["arch", "channel"])),
                400,
                r#"{"kind":"missing_params","value":"mandatory client parameters missing: arch, channel"}"#,
            ),
            (
                ApiError::InvalidContentType,
                406,
                r#"{"kind":"invalid_content_type","value":"invalid Content-Type requested"}"#,
            ),
            (
                ApiError::DoesNotExist("x".to_owned()),
                404,
                r#"{"kind":"does_not_exist","value":"does not exist: x"}"#,
            ),
        ] {
            assert_eq!(error.kind().1.as_u16(), status);
            assert_eq!(error.body(), body);
            assert!(ApiError::KINDS.contains(&(error.kind().0, status)));
        }
    }
}
