//! Why a simulated cluster cannot be started.

use std::net::SocketAddr;

use super::install::InstallError;

/// The simulated cluster cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The cluster cannot be installed.
    #[error("cannot install the cluster")]
    Install(#[from] InstallError),
    /// The client of the API server cannot be created.
    #[error("cannot create the client of the API server")]
    Client(#[source] Box<kube::Error>),
    /// The client of the update service and Prometheus cannot be created.
    #[error("cannot create the HTTP client")]
    Http(#[from] reqwest::Error),
    /// The directory of the pods cannot be created, or the certificate authorities cannot be read.
    #[error("cannot prepare the files of the pods")]
    Directory(#[source] std::io::Error),
}
