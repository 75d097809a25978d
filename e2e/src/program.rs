//! Runs the programs of the workspace as processes: finds their binaries, and builds them if they are out of date.
//!
//! All programs have the profile of the test, so release and debug builds are never mixed.

use std::path::PathBuf;

use anyhow::Result;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use repository::{Profile, Programs};
use tokio::sync::Mutex;

/// The programs, once this process has built them. The lock is held while it does.
static BUILT: Mutex<Option<Programs>> = Mutex::const_new(None);

/// The binary of a package that has its name: the one that the environment variable names, or that of this workspace,
/// built if it is not fresh.
///
/// # Errors
/// The build fails.
pub async fn binary(package: &'static str, variable: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(PathBuf::from(path));
    }
    let mut built = BUILT.lock().await;
    if let Some(programs) = &*built {
        return Ok(programs.path(package));
    }
    let programs = tokio::task::spawn_blocking(|| Programs::build(Profile::own())).await??;
    let path = programs.path(package);
    *built = Some(programs);
    Ok(path)
}

/// An unused address, which no client's connection takes before the server listens there.
///
/// # Errors
/// No port is free.
pub fn free_address() -> Result<String> {
    Ok(format!("127.0.0.1:{}", testenv::ports::free()?))
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
