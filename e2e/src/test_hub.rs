//! The hub of a test binary: an API server with our CRDs, RBAC and admission policies, and the controller beside it.
//!
//! It installs `deploy/` (`kubectl apply -k deploy`). The controller runs as the `ServiceAccount` of `deploy/`, by a
//! `TokenRequest`, and never as another user.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, Result, anyhow};
use kube::Client;
use testenv::{Assets, Controllers, Hub, HubKubeconfig};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::controller::ControllerProcess;
use crate::view::View;

/// Namespace of the controller.
pub const NAMESPACE: &str = "mcu-system";
/// `ServiceAccount` of the controller.
pub const ACCOUNT: &str = "mcu-controller";

/// Watches and hubs outlive the test that starts them, and with it its runtime.
static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(Runtime::new);
static SHARED: OnceCell<Arc<TestHub>> = OnceCell::const_new();
static NAMES: AtomicUsize = AtomicUsize::new(1);

/// What a test hub has besides the hub.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorldOptions {
    /// Run a controller over all namespaces.
    pub controller: bool,
    /// Write an audit log.
    pub audit: bool,
    /// Clusters with real agents: OCM's placement and registration controllers run, and the agents are users.
    pub spokes: &'static [&'static str],
}

/// A hub with everything installed.
#[derive(Debug)]
pub struct TestHub {
    // First: killed before the hub goes.
    controller: Option<ControllerProcess>,
    view: Arc<View>,
    identity: HubKubeconfig,
    hub: Hub,
}

impl TestHub {
    /// The test hub that the tests of a binary share, with a controller.
    ///
    /// # Errors
    /// As [`TestHub::start`].
    pub async fn shared() -> Result<Arc<Self>> {
        let test_hub = SHARED
            .get_or_try_init(|| {
                Self::start(WorldOptions {
                    controller: true,
                    audit: true,
                    ..WorldOptions::default()
                })
            })
            .await?;
        Ok(Arc::clone(test_hub))
    }

    /// Starts a separate test hub.
    ///
    /// # Errors
    /// The hub does not start, `deploy/` is refused, or the controller does not become ready.
    pub async fn start(options: WorldOptions) -> Result<Arc<Self>> {
        let test_hub = Self::outliving(move || Self::start_here(options)).await?;
        Ok(Arc::new(test_hub))
    }

    async fn start_here(options: WorldOptions) -> Result<Self> {
        let mut builder = Hub::builder()
            .controller_manager(Controllers::collectors())
            .ocm_crds();
        if options.audit {
            builder = builder.audit();
        }
        if !options.spokes.is_empty() {
            builder = builder
                .assets(Assets::of_fleets().await?.clone())
                .agents_of(options.spokes)
                .placement()
                .registration();
        }
        let hub = builder.start().await?;
        let deploy = deploy_dir();
        let directory = deploy.to_str().context("the path of deploy/ is not text")?;
        hub.kubectl(&["apply", "--server-side", "-k", directory]).await?;
        let crds = [
            "managedclustersupgrades",
            "managedclustersupgradereports",
            "managedclustersupgradeapprovals",
        ]
        .map(|name| format!("{name}.{}", api::GROUP));
        testenv::apply::wait_established(hub.client(), &crds.each_ref().map(String::as_str)).await?;
        let identity = hub.service_account_kubeconfig(NAMESPACE, ACCOUNT).await?;
        let view = View::follow(hub.client());
        let mut test_hub = Self {
            controller: None,
            view,
            identity,
            hub,
        };
        if options.controller {
            let flags = ["--leader-elect=false", "--allow-hub"];
            let controller = test_hub.controller("controller", &flags).await?;
            controller.ready().await?;
            test_hub.controller = Some(controller);
        }
        Ok(test_hub)
    }

    /// Runs something on the runtime that outlives all tests: what it starts lives as long as the process.
    ///
    /// # Errors
    /// It fails, or there is no runtime.
    pub async fn outliving<T, F>(start: impl FnOnce() -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>>,
    {
        let runtime = RUNTIME.as_ref().map_err(|error| anyhow!("no runtime: {error}"))?;
        runtime.spawn_blocking(move || runtime.block_on(start())).await?
    }

    /// Starts a controller as the shipped `ServiceAccount`; `name` is unique in this test hub.
    ///
    /// # Errors
    /// As [`ControllerProcess::start`].
    pub async fn controller(&self, name: &str, flags: &[&str]) -> Result<ControllerProcess> {
        ControllerProcess::start(self.hub.dir(), name, &self.identity, flags).await
    }

    /// The controller of this test hub.
    ///
    /// # Errors
    /// It runs none.
    pub fn own_controller(&self) -> Result<&ControllerProcess> {
        self.controller.as_ref().context("this world runs no controller")
    }

    /// The hub.
    #[must_use]
    pub const fn hub(&self) -> &Hub {
        &self.hub
    }

    /// What was seen on it.
    #[must_use]
    pub const fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The controller's kubeconfig.
    #[must_use]
    pub const fn identity(&self) -> &HubKubeconfig {
        &self.identity
    }

    /// A client of the administrator that lives on the caller's runtime.
    ///
    /// # Errors
    /// As [`HubKubeconfig::client`].
    pub async fn client(&self) -> Result<Client> {
        self.hub.kubeconfig().client().await
    }

    /// Lines of all controllers' logs that contain `word`; of a log that has it in its name, every line: that controller is the
    /// test's own, and why it did nothing stands in lines that name no upgrade.
    #[must_use]
    pub fn log_lines(&self, word: &str, count: usize) -> String {
        let logs = std::fs::read_dir(self.hub.dir()).into_iter().flatten().flatten();
        logs.filter(|entry| entry.file_name().to_string_lossy().starts_with("controller"))
            .filter(|entry| {
                entry
                    .path()
                    .extension()
                    .is_some_and(|extension| extension == "log")
            })
            .map(|entry| {
                let own = entry.file_name().to_string_lossy().contains(word);
                crate::controller::log_lines(&entry.path(), if own { "" } else { word }, count)
            })
            .filter(|lines| !lines.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// A name that no other test of this process has.
#[must_use]
pub fn unique(prefix: &str) -> String {
    format!("{prefix}{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

/// The kustomization that users install.
#[must_use]
pub fn deploy_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}
