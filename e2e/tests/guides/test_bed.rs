//! What the commands of the pages run on: a hub with the controller and simulated clusters, a hub for Helm, an update service, and
//! a directory of programs.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::program::{free_address, get};
use e2e::{ControllerProcess, WAIT_TIMEOUT, testbed};
use package::image::Commit;
use package::plugin;
use repository::{Profile, Programs, UPDATE_SERVICE};
use tempfile::TempDir;
use testenv::apply::{apply_objects, parse_yaml};
use testenv::assets::{ToolCache, stderr_progress};
use testenv::crds::{FeatureSet, olm_crds, openshift_crds};
use testenv::fleet::{self, VERSION_CLAIM};
use testenv::hub::wait_until;
use testenv::{Assets, ClusterSpec, Controllers, FleetSpec, Hub, ProcessSpec, Tool};

use crate::files;
use crate::shell::{SUCCESS, Shell, Step};

/// A simulated minute is a second, and an update takes three minutes.
const PACE: [&str; 2] = ["--time-scale=0.0166667", "--update-duration=3m"];
const FLAGS: [&str; 3] = [
    "--leader-elect=true",
    "--lease-namespace=mcu-system",
    "--require-admission-policies",
];
/// Objects of the hub and, since the hub also stands for edge-1 and edge-17, of these clusters.
const PREPARED: &str = include_str!("prepared.yaml");
const CLUSTER_VERSION: &str = include_str!("cluster-version-status.yaml");
/// There is no kubelet: this is what pods would make of the Deployment.
const ROLLED_OUT: &str = r#"{"status":{"observedGeneration":1000000,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}"#;
/// Runs the command here that it would run on the other machine.
const SSH: &str = r#"
while true; do case "$1" in -t) shift ;; -L) shift 2 ;; *) break ;; esac; done
shift; exec "$@""#;
/// What is there before the first page, as steps of a user.
const SET_UP: [&str; 7] = [
    "kubectl config set-context --current --namespace=upgrades",
    "kubectl apply -f prepared.yaml",
    "kubectl patch clusterversion version --subresource=status --type=merge --patch-file=cluster-version-status.yaml",
    "kubectl -n mcu-system patch deployment mcu-controller --subresource=status --type=merge --patch-file=rolled-out.json",
    "kubectl mcu create a -n upgrades --name prod-1 --to 4.20.4",
    "kubectl mcu create to-4-19 -n upgrades --name prod-2 --to 4.20.4",
    "kubectl wait mcu/a mcu/to-4-19 -n upgrades --for=condition=Ready --timeout=60s",
];

/// See the module.
pub struct TestBed {
    // First: killed before the hub goes.
    controller: ControllerProcess,
    hub: Hub,
    _helm_hub: Hub,
    /// Address of the update service.
    service: String,
    dir: TempDir,
    environment: Vec<(&'static str, OsString)>,
}

impl TestBed {
    /// Starts everything.
    pub async fn start() -> Result<Self> {
        let programs = tokio::task::spawn_blocking(|| Programs::build(Profile::own())).await??;
        let dir = tempfile::tempdir()?;
        let hub = fleet_hub(&programs).await?;
        let account = hub
            .service_account_kubeconfig("mcu-system", "mcu-controller")
            .await?;
        let controller = ControllerProcess::start(hub.dir(), "controller", &account, &FLAGS).await?;
        controller.ready().await?;
        let collectors = Controllers::collectors();
        let helm_hub = Hub::builder().ocm_crds().controller_manager(collectors);
        let helm_hub = helm_hub.start().await?;
        files::write_graph(dir.path())?;
        let service = update_service(&hub, &programs, dir.path()).await?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::copy(hub.kubeconfig_path(), &kubeconfig)?;
        write_home(dir.path())?;
        write_programs(dir.path(), &programs, &hub, &helm_hub).await?;
        let environment = environment(dir.path(), &kubeconfig)?;
        Ok(Self {
            controller,
            hub,
            _helm_hub: helm_hub,
            service,
            dir,
            environment,
        })
    }

    /// Creates what the pages presume. Nothing works without it.
    pub async fn set_up(&self) -> Result<()> {
        let directory = self.dir.path().join("set-up");
        for (name, text) in [
            ("prepared.yaml", PREPARED),
            ("cluster-version-status.yaml", CLUSTER_VERSION),
            ("rolled-out.json", ROLLED_OUT),
        ] {
            files::write(&directory.join(name), text.as_bytes())?;
        }
        let failures = self
            .run("what the pages presume", &directory, &SET_UP.map(step))
            .await?;
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(())
    }

    /// Stops a hub that a page has started and not stopped.
    pub async fn clean_up(&self) -> Result<Vec<String>> {
        let stop = [step("cargo xtask hub down")];
        self.run("at the end", self.dir.path(), &stop).await
    }

    /// A new directory for the commands of a page.
    pub fn directory(&self, page: &str) -> Result<PathBuf> {
        let directory = self.dir.path().join("pages").join(page.replace('/', "-"));
        files::fill(&directory, &self.dir.path().join("kubeconfig"))?;
        Ok(directory)
    }

    /// Runs commands of a page with the addresses of this test bed.
    pub async fn run(&self, page: &str, directory: &Path, steps: &[Step]) -> Result<Vec<String>> {
        let mut steps = steps.to_vec();
        for step in &mut steps {
            step.text = self.localized(page, &step.text)?;
        }
        let shell = Shell {
            directory,
            environment: &self.environment,
        };
        shell.run(page, &steps).await
    }

    /// The end of the controller's log.
    pub fn log(&self) -> String {
        testenv::process::tail(&self.hub.dir().join("controller.log"), 20)
    }

    /// A command with addresses that answer here.
    fn localized(&self, page: &str, text: &str) -> Result<String> {
        let service = format!("http://{}", self.service);
        // One page speaks of the update service, all others of the controller.
        let on_8080 = match page {
            "docs/guide/serve-your-own-graph.md" => self.service.as_str(),
            _ => self.controller.address(),
        };
        let free = free_address()?;
        let free_port = free.rsplit(':').next().context("an address has a port")?;
        let graph_data = "https://api.openshift.com/api/upgrades_info/graph-data";
        let archive = format!("file://{}", self.dir.path().join("graph-data.tar.gz").display());
        // No change is part of a later one, and none of a text that an earlier one has written.
        let changes = [
            ("8090", free_port.to_owned()),
            (graph_data, archive),
            ("https://api.openshift.com", service.clone()),
            ("https://updates.example.com", service),
            ("--listen 127.0.0.1:8080", format!("--listen {free}")),
            ("--listen :8080", format!("--listen {free}")),
            ("localhost:8080", on_8080.to_owned()),
            ("/var/lib/update-service", "state".to_owned()),
        ];
        let localized = changes
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        Ok(localized)
    }
}

fn step(text: &str) -> Step {
    Step {
        line: 0,
        text: text.to_owned(),
        codes: SUCCESS,
    }
}

/// The clusters of the pages. Those named `edge-N` run in the set `fleet`, which edge-17 joins later.
fn clusters() -> FleetSpec {
    let cluster = |name: &str| {
        ClusterSpec::new(name)
            .claim(VERSION_CLAIM, "4.20.1")
            .label("region", "eu")
    };
    let mut clusters: Vec<ClusterSpec> = (1..=6)
        .map(|number| cluster(&format!("edge-{number}")).in_set("fleet"))
        .collect();
    clusters.extend([
        cluster("edge-17"),
        cluster("prod-1").in_set("prod"),
        cluster("prod-2").in_set("prod"),
        cluster("site-01").in_set("sites").label("group", "sites"),
        cluster("spoke-0003"),
    ]);
    let bindings = ["fleet", "prod", "sites"].map(|set| ("upgrades".to_owned(), set.to_owned()));
    FleetSpec {
        clusters,
        bindings: bindings.to_vec(),
    }
}

/// A hub with `deploy/`, the kinds of an OpenShift cluster, and simulated clusters behind their agents.
async fn fleet_hub(programs: &Programs) -> Result<Hub> {
    let collectors = Controllers::collectors();
    let builder = Hub::builder().ocm_crds().controller_manager(collectors);
    let hub = testbed::with_agents(builder).start().await?;
    testbed::deploy(&hub).await?;
    let mut crds = openshift_crds(FeatureSet::TechPreview).await?;
    crds.extend(olm_crds().await?);
    apply_objects(hub.client(), &crds).await?;
    fleet::create(hub.client(), &clusters()).await?;
    testbed::agents(&hub, programs, &PACE.map(str::to_owned)).await?;
    Ok(hub)
}

/// Starts an update service as a process of the hub; returns its address.
async fn update_service(hub: &Hub, programs: &Programs, data: &Path) -> Result<String> {
    let address = free_address()?;
    let spec = ProcessSpec::new(UPDATE_SERVICE, &programs.path(UPDATE_SERVICE)).args([
        "serve".to_owned(),
        format!("--listen={address}"),
        format!("--releases={}", data.join("releases.json.gz").display()),
        format!("--graph-data={}", data.join("graph-data").display()),
    ]);
    hub.spawn(&spec)?;
    wait_until("the update service is ready", WAIT_TIMEOUT, || async {
        Ok(get(&address, "/readyz")
            .await
            .is_ok_and(|(status, _)| status == 200))
    })
    .await?;
    Ok(address)
}

/// The home directory, and what a release would publish.
fn write_home(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir.join("home/.local/bin"))?;
    // An answer of 400 and above is a failure.
    files::write(&dir.join("home/.curlrc"), b"fail\nsilent\nshow-error\n")?;
    let archive = plugin::archive(b"#!/bin/sh\n".to_vec(), &Commit::read()?)?;
    let releases = dir.join(format!("releases/v{}", env!("CARGO_PKG_VERSION")));
    for (os, architecture) in [
        ("linux", "amd64"),
        ("linux", "arm64"),
        ("darwin", "amd64"),
        ("darwin", "arm64"),
    ] {
        let name = plugin::file_name(os, architecture);
        files::write(&releases.join(name), &archive.bytes)?;
    }
    let checksums = plugin::checksums(&releases)?;
    files::write(&releases.join(plugin::CHECKSUMS), checksums.as_bytes())?;
    Ok(())
}

/// The directory of programs that stands first in PATH. Some stand for programs that are not here, by others that do the same: oc is
/// kubectl with more commands, kustomize is in kubectl, ssh runs its command here, and cargo starts what it would build.
async fn write_programs(dir: &Path, programs: &Programs, hub: &Hub, helm_hub: &Hub) -> Result<()> {
    let helm = Assets::locate_or_build_in(&ToolCache::from_env()?, &[Tool::Helm], &stderr_progress).await?;
    let (kubectl, helm) = (hub.assets().path(Tool::Kubectl), helm.path(Tool::Helm));
    let (kubectl, helm) = (kubectl.display(), helm.display());
    let built = programs.dir().display();
    let path = std::env::var("PATH").unwrap_or_default();
    let helm_kubeconfig = helm_hub.kubeconfig_path();
    for (name, script) in [
        ("kubectl", format!("exec '{kubectl}' \"$@\"")),
        ("oc", format!("exec '{kubectl}' \"$@\"")),
        ("kustomize", format!("shift; exec '{kubectl}' kustomize \"$@\"")),
        ("ssh", SSH.to_owned()),
        ("kubectl-mcu", format!("exec '{built}/kubectl-mcu' \"$@\"")),
        ("update-service", format!("exec '{built}/update-service' \"$@\"")),
        (
            "helm",
            format!(
                "export KUBECONFIG='{}'\n\
                 # Several pages install it.\n\
                 if [ \"$1 $2\" = 'install mcu' ]; then '{helm}' uninstall mcu -n mcu-system --ignore-not-found; fi\n\
                 exec '{helm}' \"$@\"",
                helm_kubeconfig.display()
            ),
        ),
        (
            "cargo",
            format!(
                "export PATH='{path}'\n\
                 case \"$1 $2\" in\n\
                 'xtask hub') shift 2; exec '{built}/testenv' \"$@\" ;;\n\
                 'xtask '*) shift; exec '{built}/xtask' \"$@\" ;;\n\
                 'run -p') program=$3; shift 4; exec \"{built}/$program\" \"$@\" ;;\n\
                 esac\n\
                 echo \"the tests do not run cargo $*\" >&2; exit 1"
            ),
        ),
    ] {
        let file = dir.join("bin").join(name);
        files::write(&file, format!("#!/bin/sh\n{script}\n").as_bytes())?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn environment(dir: &Path, kubeconfig: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(dir.join("bin")).chain(std::env::split_paths(&path));
    let releases = format!("file://{}", dir.join("releases").display());
    let no_proxy = OsString::from("127.0.0.1,localhost");
    std::fs::create_dir_all(dir.join("runtime"))?;
    Ok(vec![
        ("PATH", std::env::join_paths(path)?),
        ("KUBECONFIG", kubeconfig.into()),
        ("HOME", dir.join("home").into()),
        // The record of a hub that a page starts, apart from that of the user's own.
        ("XDG_RUNTIME_DIR", dir.join("runtime").into()),
        ("MCU_TOOL_CACHE", repository::tool_cache()?.into()),
        ("NO_PROXY", no_proxy.clone()),
        ("no_proxy", no_proxy),
        // Variables of the pages.
        ("repository", "registry.example.com/fleet/mcu-controller".into()),
        ("MCU_RELEASES", releases.into()),
    ])
}

#[test]
fn what_is_prepared_can_be_read() -> Result<()> {
    assert!(parse_yaml(PREPARED)?.len() >= 8);
    assert!(parse_yaml(CLUSTER_VERSION)?[0]["status"]["conditionalUpdates"].is_array());
    assert!(parse_yaml(ROLLED_OUT)?[0]["status"].is_object());
    Ok(())
}
