//! Hubs that outlive the process that started them: `cargo xtask hub up` and `hub down`.
//!
//! A user has at most one detached hub. Its record lists named pipes instead of process ids, so a stale record after a
//! reboot kills no other process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::process::{Process, kill_detached};

/// The administrator's kubeconfig, in the directory of a hub.
pub(crate) const KUBECONFIG: &str = "admin.kubeconfig";

/// What there is to know about a detached hub.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Its directory: data, certificates, logs.
    pub dir: PathBuf,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The named pipes of its processes, in the order they were started.
    pub controls: Vec<PathBuf>,
}

impl Record {
    /// The record of the running detached hub, if there is one.
    ///
    /// # Errors
    /// There is a record and it cannot be read.
    pub fn load() -> Result<Option<Self>> {
        let path = place()?;
        match std::fs::read(&path) {
            Ok(bytes) => {
                let record: Self = serde_json::from_slice(&bytes)
                    .with_context(|| format!("{} is no record of a hub", path.display()))?;
                Ok(record.dir.is_dir().then_some(record))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// What these processes of a hub in `dir` are recorded as.
    pub(crate) fn of(dir: &Path, processes: &[Process]) -> Self {
        Self {
            dir: dir.to_path_buf(),
            kubeconfig: dir.join(KUBECONFIG),
            controls: processes
                .iter()
                .filter_map(Process::control)
                .map(Path::to_path_buf)
                .collect(),
        }
    }

    pub(crate) fn save(&self) -> Result<()> {
        let path = place()?;
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Stops the detached hub; says whether there was one.
///
/// # Errors
/// The record cannot be read, or a process or the directory cannot be removed.
pub async fn down() -> Result<bool> {
    let Some(record) = Record::load()? else {
        return Ok(false);
    };
    stop(&record).await?;
    Ok(true)
}

/// Kills what a record lists, last started first, and removes directory and record.
pub(crate) async fn stop(record: &Record) -> Result<()> {
    for control in record.controls.iter().rev() {
        if let Err(error) = kill_detached(control).await {
            tracing::warn!("{error:#}; it died with an earlier boot or was killed");
        }
    }
    std::fs::remove_dir_all(&record.dir)
        .with_context(|| format!("cannot remove {}", record.dir.display()))?;
    if Record::load().is_ok_and(|current| current.is_none()) {
        let _ = std::fs::remove_file(place()?);
    }
    Ok(())
}

/// `mcu/hub.json` under `XDG_RUNTIME_DIR`, else under the cache directory.
fn place() -> Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_RUNTIME_DIR")
        .or_else(|| set("XDG_CACHE_HOME"))
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|base| base.join("mcu/hub.json"))
        .ok_or_else(|| anyhow!("no place for the record of the hub: set XDG_RUNTIME_DIR"))
}
