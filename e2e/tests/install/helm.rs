//! Helm, with directories of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use package::base::objects;
use repository::root;
use serde_json::Value;
use tempfile::TempDir;
use testenv::assets::{ToolCache, stderr_progress};
use testenv::{Assets, Tool};
use tokio::process::Command;

/// The tools of this test, located or built.
pub async fn tool(tool: Tool) -> Result<PathBuf> {
    let assets = Assets::locate_or_build_in(&ToolCache::from_env()?, &[tool], &stderr_progress).await?;
    Ok(assets.path(tool))
}

/// A program's standard output and standard error.
///
/// # Errors
/// It does not start, or it fails; the message ends with what it said.
pub async fn output(command: &mut Command) -> Result<(String, String)> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if !output.status.success() {
        bail!("{:?}: {}: {out}{err}", command.as_std(), output.status);
    }
    Ok((out, err))
}

/// Helm for one test.
pub struct Helm {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
    home: TempDir,
}

/// The directory of the chart.
pub fn chart() -> PathBuf {
    root().join(package::chart::DIRECTORY)
}

impl Helm {
    /// Helm for a hub, or for rendering alone.
    ///
    /// # Errors
    /// It is missing and cannot be built.
    pub async fn new(kubeconfig: Option<&Path>) -> Result<Self> {
        Ok(Self {
            program: tool(Tool::Helm).await?,
            kubeconfig: kubeconfig.map(Path::to_path_buf),
            home: tempfile::tempdir()?,
        })
    }

    /// Runs it; returns its standard output.
    ///
    /// # Errors
    /// It fails; the message ends with what it said.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_remove("KUBECONFIG");
        for (name, directory) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            command.env(name, self.home.path().join(directory));
        }
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        Ok(output(&mut command).await?.0)
    }

    /// The objects of the chart in a namespace with some values set, each as `name=value`.
    ///
    /// # Errors
    /// The chart does not accept the values.
    pub async fn render(&self, namespace: &str, values: &[&str]) -> Result<Vec<Value>> {
        let chart = chart();
        let mut arguments = vec!["template", "mcu", chart.to_str().unwrap_or_default()];
        arguments.extend(["--namespace", namespace, "--kube-version", "1.35.0"]);
        for value in values {
            arguments.extend(["--set", value]);
        }
        objects(&self.run(&arguments).await?)
    }

    /// What the chart says after an installation with some values set.
    ///
    /// # Errors
    /// The chart does not accept the values, or says nothing.
    pub async fn notes(&self, values: &[&str]) -> Result<String> {
        let chart = chart();
        let mut arguments = vec!["install", "mcu", chart.to_str().unwrap_or_default()];
        arguments.extend(["--namespace", "mcu-system", "--dry-run=client"]);
        for value in values {
            arguments.extend(["--set", value]);
        }
        let told = self.run(&arguments).await?;
        let notes = told.split_once("\nNOTES:\n").context("no notes")?.1;
        Ok(notes.to_owned())
    }
}

/// Kind and name of an object.
pub fn identity(object: &Value) -> String {
    let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", part(&object["kind"]), part(&object["metadata"]["name"]))
}
