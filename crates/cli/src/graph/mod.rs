//! Loads the update graph for the command `graph`, from a service or from files. The hub is not involved.
//!
//! `update_graph::query` answers the questions; `render::graph` renders the answers.

use std::time::Duration;

use update_client::{Service, ServiceError};

use crate::failure::Failure;

pub mod args;
pub(crate) mod discovery;
pub(crate) mod load;

/// The service at an address. This function does not contact it.
pub(crate) fn service(address: &str, timeout: Option<Duration>) -> Result<Service, Failure> {
    let agent = concat!("kubectl-mcu/", env!("CARGO_PKG_VERSION"));
    Ok(Service::new(address, agent, &[], timeout)?)
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Rejected { kind, message } => Failure::Server {
                reason: kind,
                message,
            },
            ServiceError::TimedOut => {
                Failure::Unreachable(format!("{error}; --request-timeout sets the limit"))
            }
            ServiceError::Unreachable(cause) => Failure::Unreachable(cause),
            ServiceError::Address(_) | ServiceError::Unusable(_) => Failure::Other(error.to_string()),
        }
    }
}
