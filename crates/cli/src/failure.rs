//! What goes wrong between the plugin and the hub, worded as kubectl words it.

use std::error::Error as _;

use kube::config::{InferConfigError, KubeconfigError};

use crate::exit::Exit;

/// A command that could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The API server refused: its reason (may be empty) and message.
    Server {
        /// Such as `NotFound` or `Forbidden`.
        reason: String,
        /// The API server's own sentence.
        message: String,
    },
    /// The hub does not know the resource.
    NoResourceType(&'static str),
    /// The hub could not be reached.
    Unreachable(String),
    /// The time of `status -w --timeout` passed.
    TimedOut(String),
    /// Ctrl-C.
    Interrupted,
    /// Anything else; the text is a sentence with its remedy.
    Other(String),
}

impl Failure {
    /// The code that this failure ends the process with.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Failure::TimedOut(_) => Exit::TimedOut,
            Failure::Interrupted => Exit::Interrupted,
            _ => Exit::Error,
        }
    }

    /// An object that is not there.
    #[must_use]
    pub fn not_found(plural: &str, name: &str) -> Failure {
        Failure::Server {
            reason: "NotFound".to_owned(),
            message: format!("{plural}.{} {name:?} not found", api::GROUP),
        }
    }

    /// An answer of the API server about resources of this plural.
    #[must_use]
    pub fn from_hub(error: &kube::Error, plural: &'static str) -> Failure {
        match error {
            kube::Error::Api(status) if status.code == 404 && !names_object(status) => {
                Failure::NoResourceType(plural)
            }
            kube::Error::Api(status) => Failure::Server {
                reason: status.reason.clone(),
                message: status.message.clone(),
            },
            kube::Error::SerdeError(error) => {
                Failure::Other(format!("the hub's answer could not be read: {error}"))
            }
            error => Failure::Unreachable(chain(error)),
        }
    }
}

/// A 404 for an object names it in its details; one for a path that the API server does not serve does not.
fn names_object(status: &kube::core::Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| !details.name.is_empty())
}

/// The innermost cause says most; the outer layers only name the library that reports it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let (outer, inner) = (error.to_string(), innermost.to_string());
    if outer.contains(&inner) {
        outer
    } else {
        format!("{outer}: {inner}")
    }
}

impl From<InferConfigError> for Failure {
    fn from(error: InferConfigError) -> Failure {
        let cause = error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string);
        Failure::Other(format!(
            "no hub is configured ({cause}); set KUBECONFIG or --kubeconfig"
        ))
    }
}

impl From<KubeconfigError> for Failure {
    fn from(error: KubeconfigError) -> Failure {
        Failure::Other(format!(
            "the kubeconfig cannot be used: {}; give another by --kubeconfig, --context or KUBECONFIG",
            chain(&error)
        ))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Server { reason, message } if reason.is_empty() => {
                write!(f, "Error from server: {message}")
            }
            Failure::Server { reason, message } => write!(f, "Error from server ({reason}): {message}"),
            Failure::NoResourceType(plural) => write!(
                f,
                "error: the server doesn't have a resource type {plural:?}; install the CRDs (kubectl apply -k deploy)"
            ),
            Failure::Unreachable(cause) => write!(f, "Unable to connect to the server: {cause}"),
            Failure::TimedOut(what) => write!(f, "error: timed out waiting for {what}"),
            Failure::Interrupted => write!(f, "interrupted"),
            Failure::Other(text) => write!(f, "error: {text}"),
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
        let failure = Failure::from_hub(&not_found(Some(details)), "managedclustersupgrades");
        assert_eq!(
            failure.to_string(),
            "Error from server (NotFound): managedclustersupgrades.cluster.open-cluster-management.io \"x\" not found"
        );
        assert_eq!(failure, Failure::not_found("managedclustersupgrades", "x"));
        assert_eq!(failure.exit(), Exit::Error);
    }

    #[test]
    fn a_hub_without_our_crds_is_told_apart_from_a_missing_object() {
        let failure = Failure::from_hub(&not_found(None), "managedclustersupgrades");
        assert!(
            failure
                .to_string()
                .starts_with("error: the server doesn't have a resource type \"managedclustersupgrades\"")
        );
    }

    #[test]
    fn time_out_and_interruption_have_codes_of_their_own() {
        assert_eq!(Failure::TimedOut(String::new()).exit(), Exit::TimedOut);
        assert_eq!(Failure::Interrupted.exit(), Exit::Interrupted);
    }
}
