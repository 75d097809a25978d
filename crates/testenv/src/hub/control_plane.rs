//! Command lines of the control plane's processes, and what "ready" means for each.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::controllers::Controllers;
use crate::assets::{Assets, Tool};
use crate::ports;
use crate::process::{Process, ProcessSpec};

/// How long a process may take to be ready; generous, since compilers may share the machine.
const READY_TIMEOUT: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(50);
/// What an API server refuses (a flag, a port that is taken) it refuses sooner than this.
const REFUSAL: Duration = Duration::from_secs(10);
/// How often an API server is started again if it ends by itself.
const STARTS: usize = 3;
const LOG_LINES: usize = 15;

const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";

/// Where a hub's own keys are in its store.
const HUB_PREFIX: &str = "/hub";

/// An etcd, and the prefix of one API server's keys in it.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub port: u16,
    pub prefix: String,
}

/// What may differ between two control planes.
pub(super) struct Shape<'a> {
    pub audit: bool,
    /// The store of another control plane to use; `None` starts its own.
    pub store: Option<&'a Store>,
    pub apiserver_args: &'a [String],
}

/// The command lines of one control plane; ports are chosen.
pub(super) struct Plan {
    assets: Assets,
    dir: PathBuf,
    pub server: String,
    pub store: Store,
    /// Nothing where the store is another's.
    pub etcd: Option<ProcessSpec>,
    pub apiserver: ProcessSpec,
}

impl Plan {
    pub(super) fn new(assets: &Assets, dir: &Path, shape: &Shape<'_>) -> Result<Self> {
        let (own_port, port) = (ports::free()?, ports::free()?);
        let store = shape.store.cloned().unwrap_or_else(|| Store {
            port: own_port,
            prefix: HUB_PREFIX.to_owned(),
        });
        let etcd = match shape.store {
            Some(_) => None,
            None => Some(etcd(assets, dir, store.port)?),
        };
        let apiserver = apiserver(assets, dir, &store, port, shape)?.args(shape.apiserver_args);
        Ok(Self {
            assets: assets.clone(),
            dir: dir.to_path_buf(),
            server: format!("https://127.0.0.1:{port}"),
            store,
            etcd,
            apiserver,
        })
    }

    /// kube-controller-manager; it serves nothing.
    pub(super) fn controller_manager(&self, kubeconfig: &Path, controllers: &Controllers) -> ProcessSpec {
        program(&self.assets, &self.dir, Tool::KubeControllerManager)
            .args([
                format!("--kubeconfig={}", kubeconfig.display()),
                controllers.flag(),
            ])
            .args([
                "--leader-elect=false",
                "--secure-port=0",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
            ])
    }

    /// OCM's placement controller, and a client for its health.
    pub(super) fn placement(&self, kubeconfig: &Path) -> Result<(ProcessSpec, Client)> {
        let spec = program(&self.assets, &self.dir, Tool::Placement).args(["controller"]);
        ocm(spec, kubeconfig, "default")
    }

    /// OCM's registration controller, and a client for its health.
    pub(super) fn registration(&self, kubeconfig: &Path) -> Result<(ProcessSpec, Client)> {
        let spec = program(&self.assets, &self.dir, Tool::Registration).args(["controller"]);
        ocm(spec, kubeconfig, "default")
    }
}

/// The flags that every component of OCM needs outside a cluster, and a client for its health.
pub(crate) fn ocm(spec: ProcessSpec, kubeconfig: &Path, namespace: &str) -> Result<(ProcessSpec, Client)> {
    let listen = format!("127.0.0.1:{}", ports::free()?);
    let mut probe = Config::new(format!("https://{listen}").parse()?);
    probe.accept_invalid_certs = true;
    // Port 0 and an unset address crash it or collide; leader election costs up to 163 s.
    let spec = spec.args([
        format!("--kubeconfig={}", kubeconfig.display()),
        "--disable-leader-election".to_owned(),
        format!("--namespace={namespace}"),
        format!("--listen={listen}"),
    ]);
    Ok((spec, Client::try_from(probe)?))
}

pub(crate) fn program(assets: &Assets, dir: &Path, tool: Tool) -> ProcessSpec {
    // Serving certificates that some of them leave in the temporary directory go with the hub.
    // A third of an API server's time goes into collecting its garbage. Much more than this is no gain: a heap that
    // grows touches new memory, which costs virtual machines more than collecting does, and all of it at once.
    ProcessSpec::new(tool.binary(), &assets.path(tool))
        .env("TMPDIR", dir)
        .env("GOGC", "150")
}

fn etcd(assets: &Assets, dir: &Path, port: u16) -> Result<ProcessSpec> {
    let (client, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{}", ports::free()?),
    );
    Ok(program(assets, dir, Tool::Etcd).args([
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        // The data is thrown away with the directory.
        "--unsafe-no-fsync=true".to_owned(),
        // Ten thousand clusters' works times their revisions come near the default of 2 GiB.
        "--quota-backend-bytes=8589934592".to_owned(),
        "--log-level=warn".to_owned(),
    ]))
}

fn apiserver(
    assets: &Assets,
    dir: &Path,
    store: &Store,
    port: u16,
    shape: &Shape<'_>,
) -> Result<ProcessSpec> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut spec = program(assets, dir, Tool::KubeApiserver)
        .args([
            format!("--etcd-servers=http://127.0.0.1:{}", store.port),
            format!("--etcd-prefix={}", store.prefix),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", file("apiserver")),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--token-auth-file={}", file("tokens.csv")),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
        ])
        .args([
            "--bind-address=127.0.0.1",
            // Nothing reaches it from outside; without these it needs a routed interface to start.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=1000",
        ]);
    spec = match shape.store {
        // No pod runs on a hub, and without its controller no `ServiceAccount` exists to be mounted.
        None => spec.args(["--disable-admission-plugins=ServiceAccount"]),
        // Several of them share a machine.
        Some(_) => spec.env("GOGC", "100"),
    };
    if shape.audit {
        let policy = dir.join("audit-policy.yaml");
        std::fs::write(&policy, AUDIT_POLICY).context("cannot write the audit policy")?;
        spec = spec.args([
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", file("audit.log")),
            // One file: readers follow it.
            "--audit-log-maxsize=1000000".to_owned(),
        ]);
    }
    Ok(spec)
}

pub(crate) fn launch(spec: &ProcessSpec, dir: &Path, detached: bool) -> Result<Process> {
    if detached {
        Process::start_detached(spec, dir)
    } else {
        Process::start(spec, dir)
    }
}

/// Waits until the store answers on its health path.
pub(super) async fn wait_store(process: &Process, port: u16) -> Result<()> {
    poll(process, async || match health(port).await {
        Ok(answer) if answer.contains("\"true\"") => Ok(()),
        Ok(answer) => bail!("{answer}"),
        Err(error) => Err(error),
    })
    .await
}

async fn health(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream
        .write_all(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Waits until a server answers 200 on a path.
pub(crate) async fn wait_ready(process: &Process, client: &Client, path: &str) -> Result<()> {
    poll(process, async || {
        let request = http::Request::get(path).body(Vec::new())?;
        client.request_text(request).await.map(drop).map_err(Into::into)
    })
    .await
}

/// Waits until an API server is ready. False: it is to be started again. Its first steps (roles, priority classes, address
/// ranges) have half a minute to a minute each, and it ends when one takes longer, as on a machine that was suspended
/// meanwhile; a kubelet would start it again.
///
/// # Errors
/// It was refused, ended on its `nth` start (counted from 1) of [`STARTS`], or is not ready in time.
pub(super) async fn apiserver_ready(process: &Process, client: &Client, nth: usize) -> Result<bool> {
    let begun = Instant::now();
    let Err(error) = wait_ready(process, client, "/readyz").await else {
        return Ok(true);
    };
    if nth < STARTS && begun.elapsed() > REFUSAL && process.exited()?.is_some() {
        eprintln!("{error:#}\nstarting it again");
        return Ok(false);
    }
    Err(error)
}

/// Waits until the namespaces that the API server makes itself are there: it is ready before.
pub(super) async fn wait_namespaces(process: &Process, client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    poll(process, async || {
        for name in ["default", "kube-system"] {
            namespaces.get(name).await?;
        }
        Ok(())
    })
    .await
}

/// Asks until the answer is good, the process has ended, or the time is over.
async fn poll(process: &Process, ask: impl AsyncFn() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let Err(error) = ask().await else { return Ok(()) };
        let ended = process.exited()?;
        if ended.is_none() && Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
            continue;
        }
        let why = match ended {
            Some(status) => format!("ended with {status}"),
            None => format!("is not ready after {READY_TIMEOUT:?} ({error:#})"),
        };
        bail!(
            "{} {why}; the end of {}:\n{}",
            process.name(),
            process.log().display(),
            process.log_tail(LOG_LINES)
        );
    }
}
