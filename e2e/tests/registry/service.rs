//! The update service as a process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use e2e::program::binary;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use repository::data::ServedGraph;
use testenv::hub::wait_until;
use testenv::{Process, ProcessSpec};

/// Environment variable that names a binary to use as it is.
const BINARY: &str = "MCU_UPDATE_SERVICE";
const PREFIX: &str = "/api/upgrades_info";

/// A running service. Dropping it kills the process.
pub struct Service {
    process: Process,
    address: SocketAddr,
}

impl Service {
    /// Starts `update-service serve` with these arguments; `name` is unique in `dir`.
    pub async fn start(dir: &Path, name: &str, args: &[String]) -> Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let spec = ProcessSpec::new(name, &binary("update-service", BINARY).await?)
            .args(["serve".to_owned(), format!("--listen={address}")])
            .args(args);
        Ok(Self {
            process: Process::start(&spec, dir)?,
            address,
        })
    }

    /// Waits until it has a graph.
    pub async fn ready(&self, timeout: Duration) -> Result<()> {
        let outcome = wait_until("the service is ready", timeout, || async {
            if let Some(status) = self.process.exited()? {
                bail!("the service ended with {status}");
            }
            Ok(self.get("/readyz").await.is_ok_and(|(status, _)| status == 200))
        })
        .await;
        outcome.with_context(|| format!("the end of its log:\n{}", self.process.log_tail(20)))
    }

    /// Status and body of a GET.
    pub async fn get(&self, path: &str) -> Result<(u16, Bytes)> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let answer = client
            .get(format!("http://{}{path}", self.address).parse()?)
            .await?;
        let status = answer.status().as_u16();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// What it serves for a channel.
    pub async fn graph(&self, channel: &str, arch: &str) -> Result<ServedGraph> {
        let path = format!("{PREFIX}/v1/graph?channel={channel}&arch={arch}");
        let (status, body) = self.get(&path).await?;
        if status != 200 {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        ServedGraph::read(&body).with_context(|| path)
    }

    /// The sum of a metric over its labels; zero when it is not there.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let (_, text) = self.get("/metrics").await?;
        let text = String::from_utf8(text.to_vec())?;
        let samples = text
            .lines()
            .filter(|line| line.split(['{', ' ']).next() == Some(name))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        Ok(samples.sum())
    }

    /// The last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(&self) -> Result<()> {
        let status = self.process.stop(Duration::from_secs(10)).await?;
        if !status.success() {
            bail!("the service ended with {status}");
        }
        Ok(())
    }
}
