//! A container registry of this machine: CNCF distribution with its files in a temporary directory.
//!
//! Images are pushed through its API. To simulate damaged storage, tests change its files. It listens only on the loopback
//! interface, without TLS and without users.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tempfile::TempDir;

use crate::assets::{Assets, Progress, Tool, ToolCache, stderr_progress};
use crate::image::{self, Blob, Family, Image};
use crate::ports;
use crate::process::{Process, ProcessSpec};

/// Images that are pushed at a time.
const PUSHES: usize = 16;
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
const LOG_LINES: usize = 15;

/// A running registry. Dropping it kills the process and removes its files.
#[derive(Debug)]
pub struct Registry {
    address: String,
    spec: ProcessSpec,
    process: Process,
    client: Pusher,
    // Last: removed after the process is gone.
    dir: TempDir,
}

impl Registry {
    /// Starts a registry on a free port of the loopback interface; returns when it answers. Progress of a build goes
    /// to standard error.
    ///
    /// # Errors
    /// The binary is missing and cannot be built, or the registry does not answer; the message ends with its log.
    pub async fn start() -> Result<Self> {
        Self::start_with(&binary(&stderr_progress).await?).await
    }

    async fn start_with(program: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("mcu-registry-").tempdir()?;
        let address = format!("127.0.0.1:{}", ports::free()?);
        let file = dir.path().join("config.json");
        std::fs::write(&file, config(&address, &dir.path().join("storage")).to_string())?;
        let spec = ProcessSpec::new("registry", program)
            .args(["serve".into(), file.into_os_string()])
            // Otherwise it searches for a collector on this machine and logs errors.
            .env("OTEL_TRACES_EXPORTER", "none");
        let process = Process::start(&spec, dir.path())?;
        let registry = Self {
            client: Pusher::new(&address),
            address,
            spec,
            process,
            dir,
        };
        registry.ready().await?;
        Ok(registry)
    }

    /// Where it listens, `127.0.0.1:<port>`; plain HTTP.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its files and its log.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What pushes images to it.
    #[must_use]
    pub fn pusher(&self) -> &Pusher {
        &self.client
    }

    /// Kills it; its files stay.
    ///
    /// # Errors
    /// It cannot be killed.
    pub async fn stop(&self) -> Result<()> {
        self.process.kill().await.map(drop)
    }

    /// Starts it again on the same port and files.
    ///
    /// # Errors
    /// As [`Registry::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.process = Process::start(&self.spec, self.dir.path())?;
        self.ready().await
    }

    /// Breaks storage so that a manifest is missing although its tag is listed.
    ///
    /// # Errors
    /// There is no such manifest.
    pub fn lose_manifest(&self, repository: &str, digest: &str) -> Result<()> {
        let path = self
            .storage()
            .join("repositories")
            .join(repository)
            .join("_manifests/revisions")
            .join(digest.replace(':', "/"));
        std::fs::remove_dir_all(&path).with_context(|| format!("no manifest {}", path.display()))
    }

    /// Breaks storage so that the bytes of a blob are missing.
    ///
    /// # Errors
    /// There is no such blob.
    pub fn lose_blob(&self, digest: &str) -> Result<()> {
        let (algorithm, hex) = digest.split_once(':').context("not a digest")?;
        let path = self
            .storage()
            .join("blobs")
            .join(algorithm)
            .join(hex.get(..2).context("not a digest")?)
            .join(hex)
            .join("data");
        std::fs::remove_file(&path).with_context(|| format!("no blob {}", path.display()))
    }

    fn storage(&self) -> PathBuf {
        self.dir.path().join("storage/docker/registry/v2")
    }

    async fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let answer = self.client.send(Method::GET, "/v2/", None, Bytes::new()).await;
            if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                return Ok(());
            }
            let ended = self.process.exited()?;
            if ended.is_some() || Instant::now() > deadline {
                bail!(
                    "the registry does not answer; the end of {}:\n{}",
                    self.process.log().display(),
                    self.process.log_tail(LOG_LINES)
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The registry's binary, located or built once per process.
async fn binary(progress: Progress<'_>) -> Result<PathBuf> {
    static BINARY: tokio::sync::OnceCell<PathBuf> = tokio::sync::OnceCell::const_new();
    let path = BINARY
        .get_or_try_init(|| async {
            let assets =
                Assets::locate_or_build_in(&ToolCache::from_env()?, &[Tool::Registry], progress).await?;
            anyhow::Ok(assets.path(Tool::Registry))
        })
        .await?;
    Ok(path.clone())
}

/// JSON, which is YAML.
fn config(address: &str, storage: &Path) -> serde_json::Value {
    serde_json::json!({
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": true}},
        "storage": {"filesystem": {"rootdirectory": storage}, "delete": {"enabled": true}},
        "http": {"addr": address},
    })
}

/// Pushes images to a registry over plain HTTP.
#[derive(Debug, Clone)]
pub struct Pusher {
    address: String,
    http: Client<HttpConnector, Full<Bytes>>,
    /// Repository and digest of every stored blob. Images share blobs.
    pushed: Arc<Mutex<HashSet<(String, String)>>>,
}

impl Pusher {
    fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            http: Client::builder(TokioExecutor::new()).build_http(),
            pushed: Arc::default(),
        }
    }

    /// Pushes an image under a tag; returns the digest of its manifest.
    ///
    /// # Errors
    /// The registry refuses something; the message names it.
    pub async fn push(&self, repository: &str, tag: &str, image: &Image) -> Result<String> {
        for layer in &image.layers {
            self.blob(repository, layer).await?;
        }
        self.blob(repository, &image.config()).await?;
        self.manifest(repository, tag, image.family.manifest(), &image.manifest())
            .await
    }

    /// Pushes images and the index that lists them; returns the digest of the index.
    ///
    /// # Errors
    /// As [`Pusher::push`].
    pub async fn push_index(
        &self,
        repository: &str,
        tag: &str,
        family: Family,
        images: &[Image],
    ) -> Result<String> {
        for image in images {
            let digest = image.manifest().digest;
            self.push(repository, &digest, image).await?;
        }
        self.manifest(repository, tag, family.index(), &image::index(family, images))
            .await
    }

    /// Pushes many images, some at a time; returns tags with the digests of their manifests.
    ///
    /// # Errors
    /// As [`Pusher::push`].
    pub async fn push_all(
        &self,
        repository: &str,
        images: impl IntoIterator<Item = (String, Image)>,
    ) -> Result<BTreeMap<String, String>> {
        stream::iter(images)
            .map(|(tag, image)| async move {
                let digest = self.push(repository, &tag, &image).await?;
                anyhow::Ok((tag, digest))
            })
            .buffer_unordered(PUSHES)
            .try_collect()
            .await
    }

    /// Deletes a tag; manifest and layers stay.
    ///
    /// # Errors
    /// There is no such tag.
    pub async fn delete_tag(&self, repository: &str, tag: &str) -> Result<()> {
        let path = format!("/v2/{repository}/manifests/{tag}");
        let answer = self.send(Method::DELETE, &path, None, Bytes::new()).await?;
        expect(answer, StatusCode::ACCEPTED, &path).await.map(drop)
    }

    async fn manifest(
        &self,
        repository: &str,
        tag: &str,
        media_type: &str,
        manifest: &Blob,
    ) -> Result<String> {
        let path = format!("/v2/{repository}/manifests/{tag}");
        let body = Bytes::from(manifest.bytes.clone());
        let answer = self.send(Method::PUT, &path, Some(media_type), body).await?;
        expect(answer, StatusCode::CREATED, &path).await?;
        Ok(manifest.digest.clone())
    }

    async fn blob(&self, repository: &str, blob: &Blob) -> Result<()> {
        let key = (repository.to_owned(), blob.digest.clone());
        if self.lock().contains(&key) {
            return Ok(());
        }
        let start = format!("/v2/{repository}/blobs/uploads/");
        let answer = self.send(Method::POST, &start, None, Bytes::new()).await?;
        let answer = expect(answer, StatusCode::ACCEPTED, &start).await?;
        let location = answer
            .headers()
            .get(header::LOCATION)
            .context("an upload without a location")?
            .to_str()?
            .to_owned();
        let joint = if location.contains('?') { '&' } else { '?' };
        let target = format!("{location}{joint}digest={}", blob.digest);
        let body = Bytes::from(blob.bytes.clone());
        let answer = self
            .send(Method::PUT, &target, Some("application/octet-stream"), body)
            .await?;
        expect(answer, StatusCode::CREATED, &target).await?;
        self.lock().insert(key);
        Ok(())
    }

    /// A request to a path, or to an address that the registry gave.
    async fn send(
        &self,
        method: Method,
        target: &str,
        content_type: Option<&str>,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let uri = if target.starts_with('/') {
            format!("http://{}{target}", self.address)
        } else {
            target.to_owned()
        };
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(media_type) = content_type {
            request = request.header(header::CONTENT_TYPE, media_type);
        }
        Ok(self.http.request(request.body(Full::new(body))?).await?)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<(String, String)>> {
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an answer to its end, so that its connection serves the next request.
async fn expect(answer: Response<Incoming>, status: StatusCode, path: &str) -> Result<Response<Bytes>> {
    let (parts, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    if parts.status != status {
        bail!(
            "{path}: {}: {}",
            parts.status,
            String::from_utf8_lossy(&body).trim()
        );
    }
    Ok(Response::from_parts(parts, body))
}
