//! The programs of the workspace as processes: where their binaries are, built if they are not fresh.
//!
//! Refuses a release build of one beside a debug build of another: the profile is that of the test.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::process::Command;

/// What was built by this process.
static BUILT: LazyLock<Mutex<BTreeMap<&'static str, PathBuf>>> = LazyLock::new(Mutex::default);
/// One build at a time.
static BUILDING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The binary of a package that has its name: the one that the environment variable names, or that of this workspace,
/// built if it is not fresh.
///
/// # Errors
/// The build fails, or the test does not run from cargo's target directory.
pub async fn binary(package: &'static str, variable: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(PathBuf::from(path));
    }
    let _one = BUILDING.lock().await;
    let known = BUILT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(package)
        .cloned();
    if let Some(path) = known {
        return Ok(path);
    }
    let path = build(package).await?;
    BUILT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(package, path.clone());
    Ok(path)
}

async fn build(package: &str) -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let profile = here
        .parent()
        .and_then(Path::parent)
        .ok_or_else(|| anyhow!("{} is in no target directory", here.display()))?;
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args(["build", "--quiet", "--package", package, "--bin", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    if !build.status().await.context("cargo does not start")?.success() {
        bail!("{package} does not build");
    }
    Ok(profile.join(package))
}

/// An address nobody listens on. Another process may take it first; the start then fails with a clear message.
///
/// # Errors
/// No port is free.
pub fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.to_string())
}

/// Status and body of a GET over plain HTTP.
///
/// # Errors
/// Nobody answers there.
pub async fn get(address: &str, path: &str) -> Result<(u16, String)> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let answer = client.get(format!("http://{address}{path}").parse()?).await?;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}
