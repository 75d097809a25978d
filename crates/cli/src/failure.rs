//! The errors of the plugin, worded as kubectl words them.

use crate::exit::Exit;

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The API server rejected the request.
    Server {
        /// The reason, such as `NotFound` or `Forbidden`; may be empty.
        reason: String,
        /// The message of the API server.
        message: String,
    },
    /// The API server does not serve this resource.
    NoResourceType {
        /// The plural of the resource, such as `clusterversions`.
        plural: &'static str,
        /// What the user can do so that the server serves it, if anything.
        remedy: Option<&'static str>,
    },
    /// The server could not be reached.
    Unreachable(String),
    /// The time limit of `status -w --timeout` passed.
    TimedOut(String),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The command line is invalid in a way that its parser does not know.
    Usage(String),
    /// Any other error. The text says what is wrong and what to do.
    Other(String),
}

impl Failure {
    /// The exit code for this failure.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Failure::TimedOut(_) => Exit::TimedOut,
            Failure::Interrupted => Exit::Interrupted,
            Failure::Usage(_) => Exit::Usage,
            _ => Exit::Error,
        }
    }

    /// The text of the failure, without the prefix `error: `, so that it can be part of another text.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Failure::Server { reason, message } if reason.is_empty() => {
                format!("Error from server: {message}")
            }
            Failure::Server { reason, message } => format!("Error from server ({reason}): {message}"),
            Failure::NoResourceType { plural, remedy } => {
                let what = format!("the server doesn't have a resource type {plural:?}");
                remedy.map_or_else(|| what.clone(), |remedy| format!("{what}; {remedy}"))
            }
            Failure::Unreachable(cause) => format!("Unable to connect to the server: {cause}"),
            Failure::TimedOut(what) => format!("timed out waiting for {what}"),
            Failure::Interrupted => "interrupted".to_owned(),
            Failure::Usage(text) | Failure::Other(text) => text.clone(),
        }
    }

    /// The failure for an object that does not exist.
    #[must_use]
    pub fn not_found(plural: &str, name: &str) -> Failure {
        Failure::Server {
            reason: "NotFound".to_owned(),
            message: format!("{plural}.{} {name:?} not found", api::GROUP),
        }
    }

    /// The failure for an error that an API server returned for resources of this plural. `remedy` is used if the server does
    /// not serve the resource.
    #[must_use]
    pub fn from_answer(error: &kube::Error, plural: &'static str, remedy: Option<&'static str>) -> Failure {
        match error {
            kube::Error::Api(status) if status.code == 404 && !names_object(status) => {
                Failure::NoResourceType { plural, remedy }
            }
            kube::Error::Api(status) => Failure::Server {
                reason: status.reason.clone(),
                message: status.message.clone(),
            },
            kube::Error::SerdeError(error) => {
                Failure::Other(format!("the response of the server cannot be read: {error}"))
            }
            error => Failure::Unreachable(with_cause(error)),
        }
    }
}

/// Whether a status names an object. A 404 for a missing object does; a 404 for a path that is not served does not.
fn names_object(status: &kube::core::Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| !details.name.is_empty())
}

/// An error with its innermost cause, which says most. The layers in between only name libraries, so they are left out.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let (outer, inner) = (error.to_string(), cause.to_string());
    if outer.contains(&inner) {
        outer
    } else {
        format!("{outer}: {inner}")
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::NoResourceType { .. } | Failure::TimedOut(_) | Failure::Usage(_) | Failure::Other(_) => {
                write!(f, "error: {}", self.sentence())
            }
            Failure::Server { .. } | Failure::Unreachable(_) | Failure::Interrupted => {
                f.write_str(&self.sentence())
            }
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    fn not_found(details: Option<StatusDetails>) -> kube::Error {
        kube::Error::Api(
            Status {
                code: 404,
                reason: "NotFound".to_owned(),
                message: "managedclustersupgrades.cluster.open-cluster-management.io \"x\" not found"
                    .to_owned(),
                details,
                ..Status::default()
            }
            .boxed(),
        )
    }

    #[test]
    fn a_missing_object_reads_as_kubectl_says_it() {
        let details = StatusDetails {
            name: "x".to_owned(),
            group: api::GROUP.to_owned(),
            kind: "managedclustersupgrades".to_owned(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        let failure = Failure::from_answer(&not_found(Some(details)), "managedclustersupgrades", None);
        assert_eq!(
            failure.to_string(),
            "Error from server (NotFound): managedclustersupgrades.cluster.open-cluster-management.io \"x\" not found"
        );
        assert_eq!(failure, Failure::not_found("managedclustersupgrades", "x"));
        assert_eq!(failure.exit(), Exit::Error);
    }

    #[test]
    fn a_hub_without_our_crds_is_told_apart_from_a_missing_object() {
        let text =
            |remedy| Failure::from_answer(&not_found(None), "managedclustersupgrades", remedy).to_string();
        let what = "error: the server doesn't have a resource type \"managedclustersupgrades\"";
        assert_eq!(text(None), what);
        assert_eq!(text(Some("install it")), format!("{what}; install it"));
    }

    #[test]
    fn time_out_interruption_and_an_invalid_command_line_have_codes_of_their_own() {
        assert_eq!(Failure::Usage(String::new()).exit(), Exit::Usage);
        assert_eq!(Failure::TimedOut(String::new()).exit(), Exit::TimedOut);
        assert_eq!(Failure::Interrupted.exit(), Exit::Interrupted);
    }
}
