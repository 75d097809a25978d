//! A detached hub that is one program, such as a simulated one.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::detached::{KUBECONFIG, Record, stop};
use crate::hub::wait_until;
use crate::process::{Process, ProcessSpec};

/// How long it may take to start, ten thousand clusters included.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
const LOG_LINES: usize = 15;

/// Starts a hub that is one program, which writes its kubeconfig when it is ready. The program gets these arguments and
/// `--kubeconfig=FILE`.
///
/// # Errors
/// It ends, or is not ready in time; the message ends with its log.
pub async fn start(name: &str, program: &Path, arguments: &[String]) -> Result<Record> {
    let dir = tempfile::Builder::new().prefix("mcu-hub-").tempdir()?.keep();
    let kubeconfig = dir.join(KUBECONFIG);
    let spec = ProcessSpec::new(name, program)
        .args(arguments)
        .args([format!("--kubeconfig={}", kubeconfig.display())]);
    let process = Process::start_detached(&spec, &dir)?;
    let record = Record::of(&dir, std::slice::from_ref(&process));
    record.save()?;
    let ready = wait_until("the kubeconfig of the hub", READY_TIMEOUT, || async {
        ensure!(process.exited()?.is_none(), "{name} ended");
        Ok(kubeconfig.exists())
    });
    if let Err(error) = ready.await {
        let log = process.log_tail(LOG_LINES);
        stop(&record).await?;
        return Err(error.context(format!("the end of its log:\n{log}")));
    }
    Ok(record)
}
