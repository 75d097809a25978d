//! Requests to a registry: the parts of the distribution API that reading needs.
//!
//! It handles authentication, retries, paging of tags and the check of digests. It sends no credentials and follows no
//! redirects over plain HTTP, except on the loopback interface.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, StatusCode, header};
use serde::Deserialize;
use update_graph::text::is_steering;

use super::challenge::{self, Challenge};
use super::credentials::Login;
use super::manifest::{self, Descriptor};
use super::name::{Digest, Repository, is_loopback};
use crate::source::retry::{self, Backoff, Failure};
use crate::source::tls;

/// Tags requested per page; registries may send fewer.
const PAGE: usize = 1000;
/// What the tags of one repository may take in memory, in bytes: there is room for more than 100,000.
const MAX_TAGS: usize = 64 * 1024 * 1024;
/// What a tag takes besides its text: its place in the list, and what is said of it if it cannot be read.
const TAG_OVERHEAD: usize = 512;
/// Largest manifest, image config, tag page or token answer, in bytes.
const MAX_DOCUMENT: usize = 4 * 1024 * 1024;
/// A token that does not say how long it lasts lasts this long (distribution token specification).
const TOKEN_LIFE: Duration = Duration::from_mins(1);
/// No token is used for longer than this, whatever its server says.
const MAX_TOKEN_LIFE: Duration = Duration::from_hours(24);
/// A token is renewed this long before its end.
const TOKEN_MARGIN: Duration = Duration::from_secs(10);

/// A request that failed, after all its attempts.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {
    /// No answer, or one that broke off.
    #[error("{url}: {why}")]
    Transport {
        /// What was asked for.
        url: String,
        /// Cause, innermost last.
        why: String,
    },
    /// An answer other than success.
    #[error("{url}: the registry answers {status}{text}")]
    Status {
        /// What was asked for.
        url: String,
        /// Status.
        status: StatusCode,
        /// Start of the body, may be empty.
        text: String,
    },
    /// An answer that makes no sense.
    #[error("{url}: {why}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// Credentials are missing or not accepted.
    #[error("{url}: {why}")]
    Denied {
        /// What was asked for.
        url: String,
        /// What is wrong.
        why: String,
    },
}

impl RegistryError {
    /// Whether the registry as a whole seems to be in trouble, not one image.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Transport { .. } | Self::Denied { .. } => true,
            Self::Status { status, .. } => retry::passing(*status),
            Self::Answer { .. } => false,
        }
    }
}

/// The client's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Attempts and pauses.
    pub backoff: Backoff,
    /// No answer, or no further byte of it, for this long is a failure.
    pub timeout: Duration,
    /// PEM certificates trusted besides the system's.
    pub ca: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            timeout: Duration::from_secs(30),
            ca: Vec::new(),
        }
    }
}

/// A client for one repository. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    repository: Repository,
    login: Option<Login>,
    backoff: Backoff,
    authorization: Mutex<Option<Authorization>>,
    /// Held while a token is fetched, so that one is fetched at a time.
    renewal: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
enum Authorization {
    Basic(Login),
    Bearer { token: String, until: Instant },
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct TagPage {
    tags: Option<Vec<String>>,
}

/// A manifest with the digest of its bytes.
#[derive(Clone, Debug)]
pub struct Document {
    /// Digest of `bytes`.
    pub digest: Digest,
    /// Content.
    pub bytes: Vec<u8>,
}

impl Client {
    /// A client that logs in as `login` when the registry requires it.
    ///
    /// # Errors
    /// When the certificates cannot be read or no TLS provider is installed.
    pub fn new(
        repository: Repository,
        login: Option<Login>,
        settings: &Settings,
    ) -> Result<Self, reqwest::Error> {
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("update-service/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(settings.timeout.min(Duration::from_secs(10)))
                .read_timeout(settings.timeout)
                .redirect(reqwest::redirect::Policy::custom(redirect))
        };
        Ok(Self {
            inner: Arc::new(Inner {
                http: tls::client(builder, &settings.ca)?,
                repository,
                login,
                backoff: settings.backoff,
                authorization: Mutex::new(None),
                renewal: tokio::sync::Mutex::new(()),
            }),
        })
    }

    /// The repository.
    #[must_use]
    pub fn repository(&self) -> &Repository {
        &self.inner.repository
    }

    /// Every tag of the repository, page after page.
    ///
    /// # Errors
    /// [`RegistryError`] when any page cannot be had: a part of the list is worth nothing.
    pub async fn tags(&self) -> Result<Vec<String>, RegistryError> {
        let (mut tags, mut taken) = (Vec::new(), 0);
        let mut url = self.inner.repository.url(&format!("tags/list?n={PAGE}"));
        loop {
            let (headers, bytes) = self.document(&url, "application/json", |_| None).await?;
            let page: TagPage = serde_json::from_slice(&bytes).map_err(|error| answer(&url, &error))?;
            let page = page.tags.unwrap_or_default();
            let empty = page.is_empty();
            taken += page.iter().map(|tag| tag.len() + TAG_OVERHEAD).sum::<usize>();
            if taken > MAX_TAGS {
                let why =
                    format!("its tags take more than {MAX_TAGS} bytes, {TAG_OVERHEAD} of them for each");
                return Err(answer(&url, &why));
            }
            tags.extend(page);
            match next_page(&headers) {
                None => return Ok(tags),
                // An empty page that has a successor could cause an endless loop.
                Some(_) if empty => return Err(answer(&url, &"an empty page that has a successor")),
                Some(next) => url = Self::same_origin(&url, &next)?,
            }
        }
    }

    fn same_origin(url: &str, next: &str) -> Result<String, RegistryError> {
        let base = reqwest::Url::parse(url).map_err(|error| answer(url, &error))?;
        let next = base.join(next).map_err(|error| answer(url, &error))?;
        if next.origin() != base.origin() {
            return Err(answer(url, &format!("its next page is on another host: {next}")));
        }
        Ok(next.into())
    }

    /// The digest of what a tag points to, if the registry says it without sending the manifest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn resolve(&self, reference: &str) -> Result<Option<Digest>, RegistryError> {
        let url = self.inner.repository.url(&format!("manifests/{reference}"));
        let response = self
            .patiently(|| self.attempt(Method::HEAD, &url, manifest::ACCEPT))
            .await?;
        Ok(content_digest(response.headers()))
    }

    /// A manifest by tag or digest; its bytes are checked against the requested or stated digest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn manifest(&self, reference: &str) -> Result<Document, RegistryError> {
        let url = self.inner.repository.url(&format!("manifests/{reference}"));
        let named: Option<Digest> = reference.parse().ok();
        let expected = |headers: &HeaderMap| named.or_else(|| content_digest(headers));
        let (_, bytes) = self.document(&url, manifest::ACCEPT, expected).await?;
        let digest = Digest::of(&bytes);
        Ok(Document { digest, bytes })
    }

    /// A small blob, checked against its digest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn blob(&self, blob: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        let (_, bytes) = self
            .document(&self.blob_url(blob), "*/*", |_| Some(blob.digest))
            .await?;
        Ok(bytes)
    }

    /// Starts the download of a blob, in one attempt.
    ///
    /// # Errors
    /// [`RegistryError`], with whether another attempt may help.
    pub(super) async fn stream(
        &self,
        blob: &Descriptor,
    ) -> Result<reqwest::Response, Failure<RegistryError>> {
        self.attempt(Method::GET, &self.blob_url(blob), "*/*").await
    }

    /// URL of a blob, for messages.
    #[must_use]
    pub fn blob_url(&self, blob: &Descriptor) -> String {
        self.inner.repository.url(&format!("blobs/{}", blob.digest))
    }

    /// Runs something that downloads within the client's time limits.
    ///
    /// # Errors
    /// The last attempt's.
    pub(super) async fn patiently<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, RegistryError>
    where
        F: Future<Output = Result<T, Failure<RegistryError>>>,
    {
        self.inner.backoff.run(attempt).await
    }

    /// A small document, whole, with the digest that is expected of it if any is.
    async fn document(
        &self,
        url: &str,
        accept: &str,
        expected: impl Fn(&HeaderMap) -> Option<Digest>,
    ) -> Result<(HeaderMap, Vec<u8>), RegistryError> {
        self.patiently(|| async {
            let mut response = self.attempt(Method::GET, url, accept).await?;
            let bytes = body(url, &mut response).await?;
            if expected(response.headers()).is_some_and(|expected| expected != Digest::of(&bytes)) {
                // The content was damaged in transit or at the source; another attempt may succeed.
                let error = answer(url, &"the content has another digest");
                return Err(Failure::Passing(error, None));
            }
            Ok((std::mem::take(response.headers_mut()), bytes))
        })
        .await
    }

    async fn attempt(
        &self,
        method: Method,
        url: &str,
        accept: &str,
    ) -> Result<reqwest::Response, Failure<RegistryError>> {
        let authorization = self.authorization();
        let response = self.request(&method, url, accept, authorization.as_ref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return check(url, response).await;
        }
        let authorization = self.log_in(url, response.headers(), authorization).await?;
        let response = self.request(&method, url, accept, Some(&authorization)).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            *self.lock() = None;
            return Err(Failure::Final(denied(
                url,
                "the registry does not accept our credentials",
            )));
        }
        check(url, response).await
    }

    async fn request(
        &self,
        method: &Method,
        url: &str,
        accept: &str,
        authorization: Option<&Authorization>,
    ) -> Result<reqwest::Response, Failure<RegistryError>> {
        let request = self
            .inner
            .http
            .request(method.clone(), url)
            .header(header::ACCEPT, accept);
        let request = match authorization {
            None => request,
            Some(Authorization::Basic(login)) => request.basic_auth(&login.username, Some(&login.password)),
            Some(Authorization::Bearer { token, .. }) => request.bearer_auth(token),
        };
        request
            .send()
            .await
            .map_err(|error| Failure::Passing(transport(url, &error), None))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Authorization>> {
        self.inner
            .authorization
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in force, if it has not run out.
    fn authorization(&self) -> Option<Authorization> {
        self.lock().clone().filter(|authorization| match authorization {
            Authorization::Basic(_) => true,
            Authorization::Bearer { until, .. } => *until > Instant::now(),
        })
    }

    async fn log_in(
        &self,
        url: &str,
        headers: &HeaderMap,
        refused: Option<Authorization>,
    ) -> Result<Authorization, Failure<RegistryError>> {
        let _one_at_a_time = self.inner.renewal.lock().await;
        // Another task may have logged in meanwhile.
        if let (Some(Authorization::Bearer { token, until }), old) = (self.authorization(), &refused) {
            let same = matches!(old, Some(Authorization::Bearer { token: old, .. }) if *old == token);
            if !same {
                return Ok(Authorization::Bearer { token, until });
            }
        }
        let challenges = headers.get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = challenge::choose(challenges.filter_map(|value| value.to_str().ok()))
            .ok_or_else(|| Failure::Final(denied(url, "401 without a challenge that is understood")))?;
        let new = match challenge {
            Challenge::Basic => {
                let login = self.inner.login.clone().ok_or_else(|| {
                    Failure::Final(denied(
                        url,
                        "the registry wants a login and no credentials cover it",
                    ))
                })?;
                Authorization::Basic(login)
            }
            Challenge::Bearer {
                realm,
                service,
                scope,
            } => self.token(&realm, service.as_deref(), scope.as_deref()).await?,
        };
        *self.lock() = Some(new.clone());
        Ok(new)
    }

    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<Authorization, Failure<RegistryError>> {
        let mut url = reqwest::Url::parse(realm).map_err(|error| Failure::Final(answer(realm, &error)))?;
        if url.scheme() != "https" && !url.host_str().is_some_and(is_loopback) {
            return Err(Failure::Final(denied(realm, "the token server is not https")));
        }
        let default_scope = format!("repository:{}:pull", self.inner.repository.path);
        url.query_pairs_mut()
            .append_pair("scope", scope.unwrap_or(&default_scope))
            .extend_pairs(service.map(|service| ("service", service)));
        let mut request = self.inner.http.get(url);
        if let Some(login) = &self.inner.login {
            request = request.basic_auth(&login.username, Some(&login.password));
        }
        let asked = Instant::now();
        let response = request
            .send()
            .await
            .map_err(|error| Failure::Passing(transport(realm, &error), None))?;
        if matches!(
            response.status(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
        ) {
            return Err(Failure::Final(denied(
                realm,
                "the token server does not accept our credentials",
            )));
        }
        let bytes = body(realm, &mut check(realm, response).await?).await?;
        let answered: TokenAnswer =
            serde_json::from_slice(&bytes).map_err(|error| Failure::Final(answer(realm, &error)))?;
        let life = answered.expires_in.map_or(TOKEN_LIFE, Duration::from_secs);
        let life = life.min(MAX_TOKEN_LIFE);
        let margin = TOKEN_MARGIN.min(life / 2);
        let token = answered
            .token
            .or(answered.access_token)
            .ok_or_else(|| Failure::Final(answer(realm, &"no token in the answer")))?;
        Ok(Authorization::Bearer {
            token,
            until: asked + life.saturating_sub(margin),
        })
    }
}

/// Blobs are often kept elsewhere; the way there must be as safe as the registry.
fn redirect(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    let plain = attempt.url().scheme() != "https";
    if plain && !attempt.url().host_str().is_some_and(is_loopback) {
        return attempt.stop();
    }
    tls::redirect(attempt)
}

/// The body of an answer, up to [`MAX_DOCUMENT`] bytes.
async fn body(url: &str, response: &mut reqwest::Response) -> Result<Vec<u8>, Failure<RegistryError>> {
    let mut bytes = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| Failure::Passing(transport(url, &error), None))?;
        let Some(chunk) = chunk else { return Ok(bytes) };
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_DOCUMENT {
            let why = format!("more than {MAX_DOCUMENT} bytes");
            return Err(Failure::Final(answer(url, &why)));
        }
    }
}

async fn check(url: &str, response: reqwest::Response) -> Result<reqwest::Response, Failure<RegistryError>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let after = retry::retry_after(response.headers());
    let text = excerpt(response).await;
    let url = url.to_owned();
    let error = RegistryError::Status { url, status, text };
    Err(if retry::passing(status) {
        Failure::Passing(error, after)
    } else {
        Failure::Final(error)
    })
}

/// The start of an answer's body, for a message.
async fn excerpt(mut response: reqwest::Response) -> String {
    match response.chunk().await {
        Ok(Some(bytes)) if !bytes.is_empty() => {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
            format!(": {}", text.replace(is_steering, " ").trim())
        }
        _ => String::new(),
    }
}

fn content_digest(headers: &HeaderMap) -> Option<Digest> {
    headers.get("docker-content-digest")?.to_str().ok()?.parse().ok()
}

/// The target of `Link: <…>; rel="next"`.
fn next_page(headers: &HeaderMap) -> Option<String> {
    headers
        .get_all(header::LINK)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|link| {
            let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            parameters
                .to_ascii_lowercase()
                .replace('"', "")
                .contains("rel=next")
                .then(|| target.to_owned())
        })
}

/// An error of a connection with its causes.
pub(super) fn transport(url: &str, error: &reqwest::Error) -> RegistryError {
    RegistryError::Transport {
        url: url.to_owned(),
        why: crate::source::causes(error),
    }
}

fn answer(url: &str, why: &impl ToString) -> RegistryError {
    RegistryError::Answer {
        url: url.to_owned(),
        why: why.to_string(),
    }
}

fn denied(url: &str, why: &str) -> RegistryError {
    RegistryError::Denied {
        url: url.to_owned(),
        why: why.to_owned(),
    }
}
