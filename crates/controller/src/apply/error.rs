//! A failed write: what went wrong, and what to do next.

use kube::Error;
use kube::core::Status;
use kube::core::response::reason;

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    /// What went wrong.
    pub kind: WriteErrorKind,
    /// What the hub or the connection said, for people.
    pub message: String,
}

/// What went wrong with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteErrorKind {
    /// The hub responded with 409: the object exists already, or it changed in the meantime.
    Conflict,
    /// The hub responded with 404 or 410.
    NotFound,
    /// The hub responded with 401 or 403.
    Forbidden,
    /// The hub responded with 400, 422 or another 4xx, or the request could not be built.
    Invalid,
    /// The hub responded with 429.
    Overloaded,
    /// The hub responded with 5xx.
    Unavailable,
    /// The hub did not respond in time.
    Timeout,
    /// No connection to the server could be made.
    Unreachable,
    /// The connection failed, or the response was unreadable.
    Broken,
}

/// Whether a failed write took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// The hub rejected the write, so it certainly had no effect.
    Refused,
    /// The hub postponed the write, or it was not sent. It had no effect.
    PutOff,
    /// The write may have taken effect, or may still do so.
    Unknown,
}

/// What must happen before a failed write is worth retrying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Time must pass: the hub, the network or the object may recover.
    AfterBackoff,
    /// A permission is missing. OCM grants the permissions of a new cluster within moments; after that, a
    /// human must.
    OncePermitted,
}

impl WriteError {
    /// Creates an error.
    #[must_use]
    pub fn new(kind: WriteErrorKind, message: impl Into<String>) -> WriteError {
        WriteError {
            kind,
            message: message.into(),
        }
    }

    /// Whether the write took effect.
    #[must_use]
    pub const fn category(&self) -> Category {
        match self.kind {
            WriteErrorKind::Conflict
            | WriteErrorKind::NotFound
            | WriteErrorKind::Forbidden
            | WriteErrorKind::Invalid => Category::Refused,
            WriteErrorKind::Overloaded | WriteErrorKind::Unreachable => Category::PutOff,
            WriteErrorKind::Unavailable | WriteErrorKind::Timeout | WriteErrorKind::Broken => {
                Category::Unknown
            }
        }
    }

    /// What a retry must wait for.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self.kind {
            WriteErrorKind::Forbidden => Retry::OncePermitted,
            _ => Retry::AfterBackoff,
        }
    }
}

impl WriteErrorKind {
    /// The kind of an error of the client.
    #[must_use]
    pub fn of(error: &Error) -> WriteErrorKind {
        match error {
            Error::Api(status) => match status.code {
                401 | 403 => WriteErrorKind::Forbidden,
                404 | 410 => WriteErrorKind::NotFound,
                409 => WriteErrorKind::Conflict,
                // The request reached a proxy too late. That does not show whether the API server received
                // it.
                408 => WriteErrorKind::Broken,
                429 => WriteErrorKind::Overloaded,
                500..=599 => WriteErrorKind::Unavailable,
                400..=499 => WriteErrorKind::Invalid,
                _ => WriteErrorKind::Broken,
            },
            _ if is_unreachable(error) => WriteErrorKind::Unreachable,
            _ => WriteErrorKind::Broken,
        }
    }
}

/// True when the API server says that the object does not exist. The page of a proxy with the code 404 does not say that, nor does that
/// of an API server that does not serve the kind.
pub(crate) fn is_gone(status: &Status) -> bool {
    status.reason == reason::NOT_FOUND
}

/// True when nothing was sent because nobody listens at the address.
fn is_unreachable(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let of_socket = error.downcast_ref::<std::io::Error>();
        if of_socket.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}
