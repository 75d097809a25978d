//! A running hub: etcd, kube-apiserver and, on request, kube-controller-manager and OCM's placement
//! controller, as plain processes in one temporary directory.
//!
//! A [`Hub`] ends with this process; a detached one runs until [`crate::detached::down`]. RBAC is always on.

mod builder;
pub(crate) mod control_plane;
mod controllers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use tempfile::TempDir;
use tokio::process::Command;

pub use builder::{HubBuilder, User};
pub use controllers::Controllers;

use crate::assets::{Assets, Tool};
use crate::detached::Record;
use crate::kubeconfig::HubKubeconfig;
use crate::process::{Process, ProcessSpec, Signal};

/// Lifetime of a requested `ServiceAccount` token: longer than any run.
const TOKEN_SECONDS: i64 = 365 * 24 * 3600;

/// A running hub.
///
/// Dropping it kills its processes and removes its directory, unless it was started detached.
pub struct Hub {
    client: Client,
    admin: HubKubeconfig,
    assets: Assets,
    users: Vec<User>,
    audit_log: Option<PathBuf>,
    apiserver: ProcessSpec,
    store: control_plane::Store,
    processes: Mutex<Vec<Process>>,
    detached: bool,
    // Last: removed after the processes are gone.
    dir: Directory,
}

/// Where a hub lives.
#[derive(Debug)]
enum Directory {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Directory {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(path) => path,
        }
    }
}

impl Hub {
    /// Starts to describe a hub; by default etcd and the API server alone.
    #[must_use]
    pub fn builder() -> HubBuilder {
        HubBuilder::default()
    }

    /// A client of the administrator.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The administrator's kubeconfig, a member of `system:masters`.
    #[must_use]
    pub fn kubeconfig(&self) -> &HubKubeconfig {
        &self.admin
    }

    /// The file of the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.dir().join("admin.kubeconfig")
    }

    /// The API server's address, `https://127.0.0.1:<port>`.
    #[must_use]
    pub fn server(&self) -> &str {
        self.admin.server()
    }

    /// The directory of the hub: certificates, store, one `<process>.log` each.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The audit log, one JSON event per line, if it was requested.
    #[must_use]
    pub fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    /// The binaries it runs.
    #[must_use]
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// A kubeconfig of the hub with any name and token.
    #[must_use]
    pub fn kubeconfig_for_token(&self, name: &str, token: &str) -> HubKubeconfig {
        self.admin.with_token(name, token)
    }

    /// The kubeconfig of a user given to [`HubBuilder::user`].
    #[must_use]
    pub fn kubeconfig_for_user(&self, name: &str) -> Option<HubKubeconfig> {
        let user = self.users.iter().find(|user| user.name == name)?;
        Some(self.admin.with_token(name, &user.token))
    }

    /// A kubeconfig of a `ServiceAccount`, by the `TokenRequest` API; the account must exist.
    ///
    /// # Errors
    /// The account does not exist or the API server refuses the token.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<HubKubeconfig> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..Default::default()
            },
            ..Default::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("token of ServiceAccount {namespace}/{name}"))?;
        let token = answer.status.context("the TokenRequest has no status")?.token;
        Ok(self
            .admin
            .with_token(&format!("system:serviceaccount:{namespace}:{name}"), &token))
    }

    /// A client that acts as a user with groups, by impersonation.
    ///
    /// # Errors
    /// As [`HubKubeconfig::config`].
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        self.admin.client_as(user, groups).await
    }

    /// Runs kubectl as the administrator; returns its standard output.
    ///
    /// # Errors
    /// It fails; the message ends with its standard error.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(self.assets.path(Tool::Kubectl))
            .arg("--kubeconfig")
            .arg(self.kubeconfig_path())
            .args(args)
            .env_remove("KUBECONFIG")
            .kill_on_drop(true)
            .output()
            .await
            .context("kubectl does not start")?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The process id of the API server, `None` while it is stopped.
    #[must_use]
    pub fn api_server_pid(&self) -> Option<u32> {
        self.pid_of(Tool::KubeApiserver.binary())
    }

    /// The process id of one of the hub's processes, by name.
    #[must_use]
    pub fn pid_of(&self, name: &str) -> Option<u32> {
        self.processes()
            .iter()
            .find(|process| process.name() == name)
            .map(Process::pid)
    }

    /// Names and process ids of everything that runs.
    #[must_use]
    pub fn pids(&self) -> Vec<(String, u32)> {
        self.processes()
            .iter()
            .map(|process| (process.name().to_owned(), process.pid()))
            .collect()
    }

    /// Kills the API server; the store and everything else stay.
    ///
    /// # Errors
    /// It does not run or cannot be killed.
    pub async fn stop_apiserver(&self) -> Result<()> {
        let name = Tool::KubeApiserver.binary();
        let Some(process) = self.take(name) else {
            bail!("{name} does not run")
        };
        process.kill().await?;
        Ok(())
    }

    /// Starts the API server again on the same port and data, and waits until it is ready.
    ///
    /// # Errors
    /// It runs already or is not ready in time; the message ends with its log.
    pub async fn start_apiserver(&self) -> Result<()> {
        let name = Tool::KubeApiserver.binary();
        if self.pid_of(name).is_some() {
            bail!("{name} runs already");
        }
        let mut nth = 1;
        loop {
            let process = self.launch(&self.apiserver)?;
            let ready = control_plane::apiserver_ready(&process, &self.client, nth).await;
            if !matches!(ready, Ok(false)) {
                self.processes().push(process);
                return ready.map(drop);
            }
            nth += 1;
        }
    }

    /// Freezes the API server, or lets it continue. While it is frozen, connections stay open without answers.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze_apiserver(&self, frozen: bool) -> Result<()> {
        let name = Tool::KubeApiserver.binary();
        let processes = self.processes();
        let process = processes
            .iter()
            .find(|process| process.name() == name)
            .with_context(|| format!("{name} does not run"))?;
        process.signal(if frozen { Signal::Stop } else { Signal::Cont })
    }

    /// Kills and starts the API server: every watch breaks, no data is lost.
    ///
    /// # Errors
    /// As [`Hub::stop_apiserver`] and [`Hub::start_apiserver`].
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.stop_apiserver().await?;
        self.start_apiserver().await
    }

    /// Starts a process of the caller beside the hub's own: its log is in the hub's directory, and it is
    /// stopped with the hub. Returns its process id.
    ///
    /// # Errors
    /// As [`Process::start`]; the name is taken.
    pub fn spawn(&self, spec: &ProcessSpec) -> Result<u32> {
        let process = self.launch(spec)?;
        let pid = process.pid();
        self.processes().push(process);
        if self.detached {
            self.record().save()?;
        }
        Ok(pid)
    }

    /// Takes a process out of the hub, so that the caller can signal or stop it.
    #[must_use]
    pub fn take(&self, name: &str) -> Option<Process> {
        let mut processes = self.processes();
        let index = processes.iter().position(|process| process.name() == name)?;
        Some(processes.remove(index))
    }

    /// Stops everything and removes the directory, also of a detached hub.
    ///
    /// # Errors
    /// A process cannot be killed.
    pub async fn stop(self) -> Result<()> {
        if self.detached {
            return crate::detached::stop(&self.record()).await;
        }
        let processes = std::mem::take(&mut *self.processes());
        // What talks to the API server goes before it, and the store last.
        for process in processes.iter().rev() {
            process.kill().await?;
        }
        Ok(())
    }

    fn launch(&self, spec: &ProcessSpec) -> Result<Process> {
        control_plane::launch(spec, self.dir(), self.detached)
    }

    fn record(&self) -> Record {
        Record::of(self.dir(), &self.processes())
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("server", &self.server())
            .field("pids", &self.pids())
            .finish_non_exhaustive()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // In reverse, as in `stop`; each kills and waits in its own drop.
        let mut processes = std::mem::take(&mut *self.processes());
        while processes.pop().is_some() {}
    }
}

/// Waits until a condition on the hub holds, asking every 50 ms.
///
/// # Errors
/// It does not hold within `timeout` (the message says what was waited for), or asking fails for good.
pub async fn wait_until<F, Fut>(what: &str, timeout: Duration, mut condition: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    let deadline = Instant::now() + timeout;
    while !condition().await? {
        if Instant::now() > deadline {
            bail!("not within {timeout:?}: {what}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
