//! The controller as a separate process: finds its binary, starts it with the flags of all test runs, reads its metrics.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use testenv::hub::wait_until;
use testenv::{HubKubeconfig, Process, ProcessSpec, Signal};

use crate::program;

/// Environment variable that names a controller binary to use as it is.
pub const BINARY: &str = "MCU_CONTROLLER";
/// The flag that makes it ready only on a hub with its admission policies.
const POLICIES: &str = "--require-admission-policies";

/// The controller's binary: the one named by [`BINARY`], or that of this workspace, built if it is not fresh.
///
/// # Errors
/// As [`program::binary`].
pub async fn binary() -> Result<PathBuf> {
    program::binary("mcu-controller", BINARY).await
}

/// A running controller. Dropping it kills the process.
#[derive(Debug)]
pub struct ControllerProcess {
    process: Process,
    listen: String,
}

impl ControllerProcess {
    /// Starts the controller with a kubeconfig and flags; `name` is unique in `dir`.
    ///
    /// # Errors
    /// The binary cannot be built or started, or the kubeconfig not written.
    pub async fn start(dir: &Path, name: &str, kubeconfig: &HubKubeconfig, flags: &[&str]) -> Result<Self> {
        let file = kubeconfig.write(&dir.join(format!("{name}.kubeconfig")))?;
        Self::start_with_file(dir, name, &file, flags).await
    }

    /// As [`ControllerProcess::start`], with a kubeconfig that exists already. Most hubs of tests have no admission policies,
    /// so the controller does not require them unless a flag says so.
    ///
    /// # Errors
    /// As [`ControllerProcess::start`].
    pub async fn start_with_file(dir: &Path, name: &str, kubeconfig: &Path, flags: &[&str]) -> Result<Self> {
        let listen = program::free_address()?;
        let says = flags.iter().any(|flag| flag.starts_with(POLICIES));
        let policies = (!says).then(|| format!("{POLICIES}=false"));
        let spec = ProcessSpec::new(name, &binary().await?)
            .args([OsString::from(format!("--listen={listen}"))])
            .args(policies.map(OsString::from))
            .args(flags.iter().map(OsString::from))
            .env("KUBECONFIG", kubeconfig)
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1");
        let process = Process::start(&spec, dir)?;
        Ok(Self { process, listen })
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// It ended or is not ready in time; the message ends with its log.
    pub async fn ready(&self) -> Result<()> {
        let ready = wait_until("the controller is ready", crate::WAIT_TIMEOUT, || async {
            if let Some(status) = self.process.exited()? {
                bail!("the controller ended: {status}");
            }
            Ok(matches!(self.get("/readyz").await, Ok((200, _))))
        })
        .await;
        ready.with_context(|| self.process.log_tail(30))
    }

    /// Where it listens, as host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.listen
    }

    /// Asks its own listener; returns status code and body.
    ///
    /// # Errors
    /// It does not listen.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        program::get(&self.listen, path).await
    }

    /// Kills it with SIGKILL and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be killed.
    pub async fn kill(&self) -> Result<()> {
        self.process.kill().await?;
        Ok(())
    }

    /// Asks it to end and waits for that.
    ///
    /// # Errors
    /// It still runs after `grace`.
    pub async fn terminate(&self, grace: Duration) -> Result<ExitStatus> {
        self.process.signal(Signal::Term)?;
        self.process.wait(grace).await
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// How it ended, or nothing while it runs.
    ///
    /// # Errors
    /// The operating system cannot say.
    pub fn exited(&self) -> Result<Option<ExitStatus>> {
        self.process.exited()
    }

    /// Lines of its log that contain `word`, the last `count` of them.
    #[must_use]
    pub fn log_lines(&self, word: &str, count: usize) -> String {
        log_lines(self.process.log(), word, count)
    }
}

pub(crate) fn log_lines(log: &Path, word: &str, count: usize) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
