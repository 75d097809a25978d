//! What a hub is made of, and its start.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use kube::Client;
use tempfile::TempDir;

use super::control_plane::{Shape, Store};
use super::controllers::Controllers;
use super::{Directory, Hub, control_plane};
use crate::apply::apply_objects;
use crate::assets::Assets;
use crate::crds;
use crate::detached::Record;
use crate::kubeconfig::HubKubeconfig;
use crate::pki;
use crate::process::Process;

/// Prefix of temporary directories; the owner's process id follows.
const PREFIX: &str = "mcu-hub-";

/// A user that the API server knows by a token.
#[derive(Debug, Clone)]
pub struct User {
    /// User name.
    pub name: String,
    /// Bearer token.
    pub token: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// How much of OCM a hub has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ocm {
    crds: bool,
    placement: bool,
    registration: bool,
}

/// Describes a hub before its start.
#[derive(Debug, Default)]
pub struct HubBuilder {
    assets: Option<Assets>,
    pub(super) controllers: Option<Controllers>,
    ocm: Ocm,
    audit: bool,
    users: Vec<User>,
    detached: bool,
    apiserver_args: Vec<String>,
    store: Option<Store>,
}

impl HubBuilder {
    /// Uses these binaries; by default [`Assets::shared`].
    #[must_use]
    pub fn assets(mut self, assets: Assets) -> Self {
        self.assets = Some(assets);
        self
    }

    /// Runs kube-controller-manager with these controllers.
    #[must_use]
    pub fn controller_manager(mut self, controllers: Controllers) -> Self {
        self.controllers = Some(controllers);
        self
    }

    /// Installs OCM's hub CRDs.
    #[must_use]
    pub fn ocm_crds(mut self) -> Self {
        self.ocm.crds = true;
        self
    }

    /// Runs OCM's placement controller; implies [`HubBuilder::ocm_crds`].
    #[must_use]
    pub fn placement(mut self) -> Self {
        self.ocm.placement = true;
        self.ocm_crds()
    }

    /// Runs OCM's registration controller: permissions of agents, leases, taints, sets. Implies
    /// [`HubBuilder::ocm_crds`]; needs [`Assets::of_fleets`].
    #[must_use]
    pub fn registration(mut self) -> Self {
        self.ocm.registration = true;
        self.ocm_crds()
    }

    /// Keeps its keys in another hub's store under a separate prefix; that hub must outlive it. Such a control plane admits
    /// pods with their `ServiceAccount`s, as a cluster does.
    #[must_use]
    pub(crate) fn beside(mut self, hub: &Hub, prefix: &str) -> Self {
        self.store = Some(Store {
            port: hub.store.port,
            prefix: prefix.to_owned(),
        });
        self
    }

    /// Writes an audit log at level Metadata: every request with user, verb, resource and code.
    #[must_use]
    pub fn audit(mut self) -> Self {
        self.audit = true;
        self
    }

    /// Adds a user with groups, known by a random token; see [`Hub::kubeconfig_for_user`].
    #[must_use]
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self.users.push(User {
            name: name.to_owned(),
            token: String::new(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        });
        self
    }

    /// Adds a flag to the API server's command line.
    #[must_use]
    pub fn apiserver_arg(mut self, arg: &str) -> Self {
        self.apiserver_args.push(arg.to_owned());
        self
    }

    /// Lets the hub outlive this process, until [`crate::detached::down`].
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Starts the hub: returns when the API server is ready, the CRDs are established and the placement
    /// controller is healthy.
    ///
    /// # Errors
    /// A binary is missing and cannot be built, or a process is not ready in time; the message then ends with
    /// the last lines of its log.
    pub async fn start(mut self) -> Result<Hub> {
        // Fails when a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let assets = match self.assets.take() {
            Some(assets) => assets,
            None => Assets::shared().await?.clone(),
        };
        let dir = self.directory()?;
        let ca_pem = pki::write(dir.path())?;
        let admin_token = random_token()?;
        for user in &mut self.users {
            user.token = random_token()?;
        }
        write_tokens(dir.path(), &admin_token, &self.users)?;

        let shape = Shape {
            audit: self.audit,
            store: self.store.as_ref(),
            apiserver_args: &self.apiserver_args,
        };
        let plan = control_plane::Plan::new(&assets, dir.path(), &shape)?;
        let admin = HubKubeconfig::new(&plan.server, &ca_pem, "admin", &admin_token);
        let kubeconfig = admin.write(&dir.path().join("admin.kubeconfig"))?;
        let client = admin.client().await?;

        let mut started = Started {
            processes: Vec::new(),
            dir: dir.path().to_path_buf(),
            detached: self.detached,
        };
        self.start_processes(&mut started, &plan, &client, &kubeconfig)
            .await
            .with_context(|| "the hub does not start")?;
        Ok(Hub {
            client,
            admin,
            assets,
            users: std::mem::take(&mut self.users),
            audit_log: self.audit.then(|| dir.path().join("audit.log")),
            apiserver: plan.apiserver,
            store: plan.store,
            processes: Mutex::new(std::mem::take(&mut started.processes)),
            detached: self.detached,
            dir: if self.detached {
                Directory::Kept(dir.keep())
            } else {
                Directory::Temporary(dir)
            },
        })
    }

    async fn start_processes(
        &self,
        started: &mut Started,
        plan: &control_plane::Plan,
        client: &Client,
        kubeconfig: &Path,
    ) -> Result<()> {
        if let Some(etcd) = &plan.etcd {
            let etcd = started.launch(etcd)?;
            control_plane::wait_store(etcd, plan.store.port).await?;
        }
        let apiserver = started.launch_apiserver(&plan.apiserver, client).await?;
        control_plane::wait_namespaces(apiserver, client).await?;
        if let Some(controllers) = &self.controllers {
            started.launch(&plan.controller_manager(kubeconfig, controllers))?;
        }
        if self.ocm.crds {
            apply_objects(client, &crds::ocm_hub_crds().await?).await?;
        }
        let mut components = Vec::new();
        if self.ocm.registration {
            apply_objects(client, &crds::ocm_registration_crds().await?).await?;
            components.push(plan.registration(kubeconfig)?);
        }
        if self.ocm.placement {
            components.push(plan.placement(kubeconfig)?);
        }
        for (spec, probe) in components {
            let component = started.launch(&spec)?;
            control_plane::wait_ready(component, &probe, "/healthz").await?;
        }
        Ok(())
    }

    fn directory(&self) -> Result<TempDir> {
        let base = std::env::temp_dir();
        let prefix = if self.detached {
            format!("{PREFIX}detached-")
        } else {
            remove_stale(&base);
            format!("{PREFIX}{}-", std::process::id())
        };
        tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&base)
            .context("no directory for the hub")
    }
}

/// The processes of a hub that is not whole yet; a failed start kills them, detached ones too.
struct Started {
    processes: Vec<Process>,
    dir: PathBuf,
    detached: bool,
}

impl Started {
    fn launch(&mut self, spec: &crate::process::ProcessSpec) -> Result<&Process> {
        self.processes
            .push(control_plane::launch(spec, &self.dir, self.detached)?);
        if self.detached {
            // At once: who interrupts the start can still take it down.
            Record::of(&self.dir, &self.processes).save()?;
        }
        self.processes.last().context("just pushed")
    }

    async fn launch_apiserver(
        &mut self,
        spec: &crate::process::ProcessSpec,
        client: &Client,
    ) -> Result<&Process> {
        let mut nth = 1;
        while !control_plane::apiserver_ready(self.launch(spec)?, client, nth).await? {
            self.processes.pop();
            nth += 1;
        }
        self.processes.last().context("just launched")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        while let Some(process) = self.processes.pop() {
            process.kill_blocking();
        }
    }
}

/// Removes directories whose owner ended without removing them. Owners are looked up in `/proc`; without
/// `/proc` nothing is removed.
fn remove_stale(base: &Path) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in std::fs::read_dir(base)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn write_tokens(dir: &Path, admin_token: &str, users: &[User]) -> Result<()> {
    use std::fmt::Write as _;
    let mut lines = format!("{admin_token},admin,admin,\"system:masters\"\n");
    for user in users {
        writeln!(
            lines,
            "{},{},{},\"{}\"",
            user.token,
            user.name,
            user.name,
            user.groups.join(",")
        )?;
    }
    std::fs::write(dir.join("tokens.csv"), lines).context("cannot write tokens.csv")
}

/// 128 random bits in hexadecimal: a detached hub is open to every local user but for its token.
fn random_token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("no random numbers")?;
    Ok(crate::assets::hex(&bytes, bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_as_long_as_they_should_be() {
        let (one, other) = (random_token().unwrap(), random_token().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
    }

    #[test]
    fn directories_of_dead_owners_go_and_all_others_stay() {
        let base = tempfile::tempdir().unwrap();
        let live = format!("{PREFIX}{}-abc", std::process::id());
        let names = [
            live.as_str(),
            "mcu-hub-999999999-abc",
            "mcu-hub-detached-abc",
            "other",
        ];
        for name in names {
            std::fs::create_dir(base.path().join(name)).unwrap();
        }
        remove_stale(base.path());
        let left = names.map(|name| base.path().join(name).exists());
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn users_are_written_with_their_groups() {
        let dir = tempfile::tempdir().unwrap();
        let user = User {
            name: "alice".into(),
            token: "t1".into(),
            groups: vec!["dev".into(), "ops".into()],
        };
        write_tokens(dir.path(), "t0", &[user]).unwrap();
        let text = std::fs::read_to_string(dir.path().join("tokens.csv")).unwrap();
        assert_eq!(
            text,
            "t0,admin,admin,\"system:masters\"\nt1,alice,alice,\"dev,ops\"\n"
        );
    }
}
