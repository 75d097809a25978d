//! Prometheus as a plain process: scrapes configured targets, answers queries, and tests rules.
//!
//! There is no service discovery: targets are addresses of this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::assets::{Assets, Tool, ToolCache, stderr_progress};
use crate::ports;
use crate::process::{Process, ProcessSpec};

const READY_TIMEOUT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);
const LOG_LINES: usize = 15;

/// One target to be scraped.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    /// The label `job` of its series.
    pub job: String,
    /// `127.0.0.1:<port>`; `/metrics` is read over plain HTTP.
    pub address: String,
    /// Further labels of its series.
    pub labels: BTreeMap<String, String>,
}

impl Scrape {
    /// A cluster-version operator's metrics, with the labels that its alerts expect of every series.
    #[must_use]
    pub fn cluster_version_operator(address: &str) -> Self {
        let labels = [
            ("endpoint", "metrics"),
            ("namespace", "openshift-cluster-version"),
        ];
        Self {
            job: "cluster-version-operator".to_owned(),
            address: address.to_owned(),
            labels: labels
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }
}

/// A series that a rule keeps at a value: what a cluster's other exporters would say of it.
#[derive(Debug, Clone)]
pub struct Constant {
    /// Name of the metric.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Constant {
    /// A series of value 1.
    #[must_use]
    pub fn one(name: &str, labels: &[(&str, &str)]) -> Self {
        Self {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            value: 1.0,
        }
    }
}

/// What a Prometheus scrapes and computes.
#[derive(Debug, Clone, Default)]
pub struct PrometheusSpec {
    /// Targets.
    pub scrapes: Vec<Scrape>,
    /// Series of rules of our own.
    pub constants: Vec<Constant>,
    /// Rule files.
    pub rules: Vec<PathBuf>,
}

impl PrometheusSpec {
    fn config(&self, own_rules: &Path) -> Value {
        let jobs: Vec<Value> = self
            .scrapes
            .iter()
            .map(|scrape| {
                json!({
                    "job_name": scrape.job,
                    "static_configs": [{"targets": [scrape.address], "labels": scrape.labels}],
                })
            })
            .collect();
        let mut rules = self.rules.clone();
        rules.push(own_rules.to_path_buf());
        json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": rules,
            "scrape_configs": jobs,
        })
    }

    fn own_rules(&self) -> Value {
        let rules: Vec<Value> = self
            .constants
            .iter()
            .map(|series| {
                json!({
                    "record": series.name, "labels": series.labels,
                    "expr": format!("vector({})", series.value),
                })
            })
            .collect();
        json!({"groups": [{"name": "constants", "rules": rules}]})
    }
}

/// A running Prometheus. Dropping it kills the process and removes its data.
#[derive(Debug)]
pub struct Prometheus {
    address: String,
    spec: ProcessSpec,
    process: Option<Process>,
    // Last: removed after the process is gone.
    dir: TempDir,
}

impl Prometheus {
    /// Starts on a free port of the loopback interface; returns when it answers queries.
    ///
    /// # Errors
    /// The binary is missing and cannot be built, the configuration is refused, or it does not answer in time; the
    /// message ends with its log.
    pub async fn start(spec: &PrometheusSpec) -> Result<Self> {
        let program = binary(Tool::Prometheus).await?;
        let dir = tempfile::Builder::new().prefix("mcu-prometheus-").tempdir()?;
        let address = format!("127.0.0.1:{}", ports::free()?);
        let (config, rules) = (dir.path().join("prometheus.yml"), dir.path().join("rules.yml"));
        // JSON is YAML.
        std::fs::write(&config, spec.config(&rules).to_string())?;
        std::fs::write(&rules, spec.own_rules().to_string())?;
        let process = ProcessSpec::new("prometheus", &program).args([
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", dir.path().join("data").display()),
            "--storage.tsdb.retention.time=2h".to_owned(),
            format!("--web.listen-address={address}"),
            "--log.level=warn".to_owned(),
        ]);
        let mut prometheus = Self {
            address,
            spec: process,
            process: None,
            dir,
        };
        prometheus.restart().await?;
        Ok(prometheus)
    }

    /// `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills it; its data stay.
    ///
    /// # Errors
    /// It cannot be killed.
    pub async fn stop(&mut self) -> Result<()> {
        match self.process.take() {
            Some(process) => process.kill().await.map(drop),
            None => Ok(()),
        }
    }

    /// Starts it again on the same port and data; kills it first if it runs.
    ///
    /// # Errors
    /// As [`Prometheus::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let process = Process::start(&self.spec, self.dir.path())?;
        let deadline = Instant::now() + READY_TIMEOUT;
        while !matches!(self.get("/-/ready").await, Ok((200, _))) {
            let ended = process.exited()?;
            if ended.is_some() || Instant::now() > deadline {
                bail!(
                    "prometheus is not ready; the end of its log:\n{}",
                    process.log_tail(LOG_LINES)
                );
            }
            tokio::time::sleep(POLL).await;
        }
        self.process = Some(process);
        Ok(())
    }

    /// The result of an instant query: the list of samples for a vector.
    ///
    /// # Errors
    /// It does not answer, or refuses the query.
    pub async fn query(&self, promql: &str) -> Result<Value> {
        let path = format!("/api/v1/query?query={}", encode(promql));
        let (status, body) = self.get(&path).await?;
        let mut answer: Value = serde_json::from_slice(&body)?;
        if status != 200 {
            bail!(
                "{promql}: {status}: {}",
                answer["error"].as_str().unwrap_or_default()
            );
        }
        Ok(answer["data"]["result"].take())
    }

    async fn get(&self, path: &str) -> Result<(u16, Bytes)> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let answer = client.get(format!("{}{path}", self.url()).parse()?).await?;
        let status = answer.status().as_u16();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}

/// Runs promtool with these arguments, e.g. `test rules FILE`; returns what it prints.
///
/// # Errors
/// The binary is missing and cannot be built, or promtool fails; the message is what it printed.
pub async fn promtool(args: &[&str]) -> Result<String> {
    let output = Command::new(binary(Tool::Promtool).await?)
        .args(args)
        .kill_on_drop(true)
        .output()
        .await
        .context("promtool does not start")?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("promtool {}:\n{}", args.join(" "), text.trim());
    }
    Ok(text.into_owned())
}

async fn binary(tool: Tool) -> Result<PathBuf> {
    let cache = ToolCache::from_env()?;
    let assets = Assets::locate_or_build_in(&cache, &[tool], &stderr_progress).await?;
    Ok(assets.path(tool))
}

/// Percent-encodes a query string's value.
fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_the_labels_of_the_operators_service() {
        let spec = PrometheusSpec {
            scrapes: vec![Scrape::cluster_version_operator("127.0.0.1:9")],
            ..PrometheusSpec::default()
        };
        let config = spec.config(Path::new("/own.yml"));
        let job = &config["scrape_configs"][0];
        assert_eq!(job["job_name"], "cluster-version-operator");
        let target = &job["static_configs"][0];
        assert_eq!(target["labels"]["namespace"], "openshift-cluster-version");
        assert_eq!(config["rule_files"], json!(["/own.yml"]));
    }

    #[test]
    fn a_query_is_encoded() {
        assert_eq!(encode("a{b=\"c\"} + 1"), "a%7Bb%3D%22c%22%7D%20%2B%201");
    }
}
