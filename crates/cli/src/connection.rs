//! A connection to an API server, configured as in kubectl, with a time limit for each request. It knows whether the server
//! is the hub or a cluster only for its error messages.

mod overrides;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::args::{Common, ConnectionArgs};
use crate::failure::{Failure, with_cause};
use crate::{rows, upgrade};

/// How long a connection may be silent before it counts as lost. A healthy watch is renewed more often than that
/// ([`crate::hub::RENEWAL`]).
const SILENCE_TIMEOUT: Duration = Duration::from_mins(1);

/// The resources of Open Cluster Management that the plugin reads. A server without them is no hub.
const OF_OCM: [&str; 6] = [
    "managedclusters",
    "managedclustersets",
    "managedclustersetbindings",
    "placements",
    "placementdecisions",
    "manifestworks",
];

/// The server of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The hub of the fleet.
    Hub,
    /// One cluster, through its own kubeconfig.
    Cluster,
}

impl Peer {
    const fn word(self) -> &'static str {
        match self {
            Peer::Hub => "hub",
            Peer::Cluster => "cluster",
        }
    }

    /// What the user can do if the server does not serve this resource. This project installs its own CRDs only, on hubs.
    fn remedy(self, plural: &str) -> Option<&'static str> {
        if self == Peer::Cluster {
            None
        } else if [upgrade::PLURAL, rows::PLURAL].contains(&plural) {
            Some("install the controller, or its CRDs alone (kubectl apply -k crds)")
        } else if OF_OCM.contains(&plural) {
            Some("install Open Cluster Management, or use the kubeconfig of a hub")
        } else {
            None
        }
    }
}

/// A client with its namespace and its time limit.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    /// The namespace of `-n`, or the context's.
    pub namespace: String,
    request_timeout: Option<Duration>,
    peer: Peer,
    /// URL of the API server, for errors.
    server: String,
}

impl Connection {
    /// Connects as kubectl does: through `--kubeconfig`, KUBECONFIG, `~/.kube/config` or the service account of the pod, in this
    /// order.
    ///
    /// # Errors
    /// Nothing is configured, or the configuration is invalid. This function does not contact the server.
    pub async fn open(common: &Common, peer: Peer) -> Result<Connection, Failure> {
        let mut config = config(common, peer).await?;
        let request_timeout = common
            .connection
            .request_timeout
            .to_std()
            .ok()
            .filter(|limit| !limit.is_zero());
        // This also applies to watches: a watch that is silent for longer has lost its server.
        config.read_timeout = request_timeout.map(|limit| limit.max(SILENCE_TIMEOUT));
        config.reset_reader_on_write = true;
        if let Some(user) = &common.connection.impersonate {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(common.connection.impersonate_group.clone());
            config
                .auth_info
                .impersonate_uid
                .clone_from(&common.connection.impersonate_uid);
        }
        let namespace = common
            .namespace
            .clone()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|error| Failure::Other(error.to_string()))?;
        Ok(Connection {
            client,
            namespace,
            request_timeout,
            peer,
            server,
        })
    }

    /// The client.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a request for resources of this plural, within the time limit.
    ///
    /// # Errors
    /// The server rejects the request, or does not respond in time.
    pub async fn bound<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
        plural: &'static str,
    ) -> Result<T, Failure> {
        let answer = match self.request_timeout {
            Some(limit) => tokio::time::timeout(limit, request).await.map_err(|_| {
                Failure::Unreachable(format!(
                    "{}: the server did not respond within {limit:?}; --request-timeout sets the limit",
                    self.server
                ))
            })?,
            None => request.await,
        };
        answer.map_err(
            |error| match Failure::from_answer(&error, plural, self.peer.remedy(plural)) {
                Failure::Unreachable(cause) => Failure::Unreachable(format!("{}: {cause}", self.server)),
                other => other,
            },
        )
    }
}

async fn config(common: &Common, peer: Peer) -> Result<Config, Failure> {
    let flags = &common.connection;
    let options = KubeConfigOptions {
        context: flags.context.clone(),
        cluster: flags.cluster.clone(),
        user: flags.user.clone(),
    };
    let from_variable = || present(&std::env::var_os("KUBECONFIG").unwrap_or_default());
    let found = match &flags.kubeconfig {
        Some(file) => Kubeconfig::read_from(file).map(Some),
        None => from_variable(),
    };
    let kubeconfig = match found {
        Ok(Some(kubeconfig)) => Ok(kubeconfig),
        Ok(None) if overrides::names_entries(flags) => Kubeconfig::read(),
        // kubectl needs no kubeconfig if the flags say everything.
        Ok(None) if overrides::any(flags) => Ok(Kubeconfig::read().unwrap_or_default()),
        Ok(None) => {
            return Config::infer().await.map_err(|error| {
                let cause =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                unconfigured(&cause, variable().as_deref(), peer)
            });
        }
        Err(error) => Err(error),
    };
    let flag = flags.kubeconfig.as_ref().map(|file| file.display().to_string());
    let file = flag.or_else(variable);
    let unusable = |error| unusable(&error, file.as_deref());
    let kubeconfig = kubeconfig.map_err(unusable)?;
    check_user(&kubeconfig, flags)?;
    from(kubeconfig, flags, options).await.map_err(unusable)
}

/// Refuses a user that the kubeconfig does not have. Without this the requests would be those of nobody (system:anonymous).
fn check_user(kubeconfig: &Kubeconfig, flags: &ConnectionArgs) -> Result<(), Failure> {
    let Some(user) = &flags.user else { return Ok(()) };
    if kubeconfig.auth_infos.iter().any(|entry| entry.name == *user) {
        return Ok(());
    }
    Err(Failure::Other(format!("auth info {user:?} does not exist")))
}

async fn from(
    mut kubeconfig: Kubeconfig,
    flags: &ConnectionArgs,
    mut options: KubeConfigOptions,
) -> Result<Config, KubeconfigError> {
    if overrides::any(flags) {
        overrides::apply(&mut kubeconfig, flags, &mut options);
    }
    Config::from_custom_kubeconfig(kubeconfig, &options).await
}

/// The files of KUBECONFIG, merged. Missing files count as empty, as in kubectl. `None` if no file exists.
fn present(listed: &OsStr) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut found: Option<Kubeconfig> = None;
    for file in std::env::split_paths(listed).filter(|file| !file.as_os_str().is_empty()) {
        let next = match Kubeconfig::read_from(file) {
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => continue,
            read => read?,
        };
        found = Some(found.unwrap_or_default().merge(next)?);
    }
    Ok(found)
}

/// The value of KUBECONFIG; `None` if it is unset or empty.
fn variable() -> Option<String> {
    std::env::var("KUBECONFIG").ok().filter(|files| !files.is_empty())
}

/// The failure if nothing is configured. `variable` is the value of KUBECONFIG.
fn unconfigured(cause: &str, variable: Option<&str>, peer: Peer) -> Failure {
    let word = peer.word();
    Failure::Other(match variable {
        Some(files) => {
            format!(
                "KUBECONFIG={files} does not configure a {word} ({cause}); set KUBECONFIG to another file, or use --kubeconfig"
            )
        }
        None => format!("no {word} is configured ({cause}); set KUBECONFIG, or use --kubeconfig"),
    })
}

/// The failure if a kubeconfig cannot be used. `file` is the value of `--kubeconfig` or KUBECONFIG; the message names it
/// because some causes, such as invalid YAML, do not.
fn unusable(error: &KubeconfigError, file: Option<&str>) -> Failure {
    if let KubeconfigError::LoadContext(context) = error {
        let of = file.map_or_else(String::new, |file| format!(" in the kubeconfig {file}"));
        return Failure::Other(format!(
            "context {context:?} does not exist{of}; run kubectl config get-contexts to list the contexts"
        ));
    }
    let cause = with_cause(error);
    let named = file
        .filter(|file| !cause.contains(file))
        .map_or_else(String::new, |file| format!(" {file}"));
    Failure::Other(format!(
        "the kubeconfig{named} cannot be used: {cause}; choose another one with --kubeconfig, --context or KUBECONFIG"
    ))
}

#[cfg(test)]
mod tests;
