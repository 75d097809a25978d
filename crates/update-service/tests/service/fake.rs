//! A registry that misbehaves on demand.
//!
//! It knows the distribution API as far as a reader needs it, checks what it is asked for, and can fail any request by
//! its path. That the service gets along with a real registry is shown elsewhere, with a real one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use update_service::source::registry::name::Digest;

pub const REPOSITORY: &str = "ocp/release";

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    Status(u16),
    /// 429 with `Retry-After` in seconds.
    Busy(u64),
    /// No answer for this long.
    Slow(Duration),
    /// Other bytes of the same length.
    Garbled,
    /// Success with this body.
    Instead(Bytes),
}

/// Who may read.
#[derive(Clone, Debug)]
pub enum Auth {
    Anyone,
    Basic(&'static str),
    /// A token for this login, valid for this number of requests.
    Bearer(Option<&'static str>, usize),
}

#[derive(Default)]
pub struct Content {
    blobs: HashMap<String, Bytes>,
    manifests: HashMap<String, Bytes>,
    pub tags: BTreeMap<String, String>,
    faults: Vec<(String, VecDeque<Fault>, bool)>,
    pub requests: Vec<String>,
    tokens: usize,
    token_uses: usize,
    pub link_elsewhere: bool,
}

pub struct Fake {
    pub address: SocketAddr,
    pub content: Arc<Mutex<Content>>,
    pub busiest: Arc<AtomicUsize>,
    auth: Arc<Auth>,
}

/// One file of a layer.
pub type File<'a> = (&'a str, &'a [u8]);

pub fn layer(files: &[File<'_>], packed: bool) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    let tar = builder.into_inner().unwrap();
    if !packed {
        return tar;
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    gzip.finish().unwrap()
}

pub fn metadata(version: &str, previous: &[&str], extra: &str) -> String {
    let previous: Vec<String> = previous.iter().map(|version| format!("\"{version}\"")).collect();
    format!(
        r#"{{"kind":"cincinnati-metadata-v0","version":"{version}","previous":[{}],"metadata":{{{extra}}}}}"#,
        previous.join(",")
    )
}

impl Fake {
    pub async fn start(auth: Auth) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self {
            address: listener.local_addr().unwrap(),
            content: Arc::default(),
            busiest: Arc::default(),
            auth: Arc::new(auth),
        };
        let (content, busiest, auth) = (
            Arc::clone(&fake.content),
            Arc::clone(&fake.busiest),
            Arc::clone(&fake.auth),
        );
        let (busy, address) = (Arc::new(AtomicUsize::new(0)), fake.address);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (content, busy, busiest, auth) = (
                    Arc::clone(&content),
                    Arc::clone(&busy),
                    Arc::clone(&busiest),
                    Arc::clone(&auth),
                );
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (content, busy, busiest, auth) = (
                        Arc::clone(&content),
                        Arc::clone(&busy),
                        Arc::clone(&busiest),
                        Arc::clone(&auth),
                    );
                    async move {
                        let now = busy.fetch_add(1, Ordering::SeqCst) + 1;
                        busiest.fetch_max(now, Ordering::SeqCst);
                        let answer = answer(&content, &auth, address, &request).await;
                        busy.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, Infallible>(answer)
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        fake
    }

    pub fn name(&self) -> String {
        format!("{}/{REPOSITORY}", self.address)
    }

    fn content(&self) -> std::sync::MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }

    pub fn blob(&self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.content().blobs.insert(digest.to_string(), bytes.into());
        digest
    }

    /// Puts a manifest under its digest.
    pub fn manifest(&self, text: String) -> Digest {
        let digest = Digest::of(text.as_bytes());
        self.content().manifests.insert(digest.to_string(), text.into());
        digest
    }

    pub fn tag(&self, tag: &str, digest: Digest) {
        self.content().tags.insert(tag.to_owned(), digest.to_string());
    }

    pub fn untag(&self, tag: &str) {
        self.content().tags.remove(tag);
    }

    /// An image of layers, bottom first.
    pub fn image(&self, architecture: &str, layers: &[Vec<u8>]) -> Digest {
        let config = self.blob(format!(r#"{{"architecture":"{architecture}"}}"#).into_bytes());
        let layers: Vec<String> = layers
            .iter()
            .map(|bytes| {
                let digest = self.blob(bytes.clone());
                format!(
                    r#"{{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","digest":"{digest}","size":{}}}"#,
                    bytes.len()
                )
            })
            .collect();
        self.manifest(format!(
            r#"{{"schemaVersion":2,"config":{{"digest":"{config}","size":1}},"layers":[{}]}}"#,
            layers.join(",")
        ))
    }

    /// A release image with a layer below the one with the metadata; tagged by its version.
    pub fn release(&self, version: &str, previous: &[&str]) -> Digest {
        let document = metadata(version, previous, r#""url":"https://e""#);
        let digest = self.image(
            "amd64",
            &[
                layer(&[("etc/os-release", b"x")], true),
                layer(
                    &[
                        ("release-manifests/image-references", b"{}"),
                        ("release-manifests/release-metadata", document.as_bytes()),
                    ],
                    true,
                ),
            ],
        );
        self.tag(version, digest);
        digest
    }

    pub fn index(&self, children: &[(&str, Digest)]) -> Digest {
        let children: Vec<String> = children
            .iter()
            .map(|(arch, digest)| {
                format!(r#"{{"digest":"{digest}","platform":{{"architecture":"{arch}","os":"linux"}}}}"#)
            })
            .collect();
        self.manifest(format!(
            r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
            children.join(",")
        ))
    }

    /// Requests whose path holds `part` fail so, one after the other.
    pub fn fail(&self, part: &str, faults: &[Fault]) {
        self.content()
            .faults
            .push((part.to_owned(), faults.iter().cloned().collect(), false));
    }

    /// All requests whose path holds `part` fail so.
    pub fn fail_always(&self, part: &str, fault: Fault) {
        self.content()
            .faults
            .push((part.to_owned(), VecDeque::from([fault]), true));
    }

    pub fn fix(&self) {
        self.content().faults.clear();
    }

    /// Requests since the last time, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.content().requests)
    }
}

async fn answer(
    content: &Mutex<Content>,
    auth: &Auth,
    address: SocketAddr,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path_and_query().unwrap().as_str().to_owned();
    let fault = {
        let mut content = content.lock().unwrap();
        content.requests.push(format!("{} {path}", request.method()));
        let found = content
            .faults
            .iter_mut()
            .find(|(part, faults, _)| path.contains(part.as_str()) && !faults.is_empty());
        found.and_then(|(_, faults, always)| {
            if *always {
                faults.front().cloned()
            } else {
                faults.pop_front()
            }
        })
    };
    match fault {
        Some(Fault::Status(code)) => return status(code),
        Some(Fault::Instead(body)) => return Response::new(Full::new(body)),
        Some(Fault::Busy(seconds)) => {
            let mut answer = status(429);
            answer.headers_mut().insert("retry-after", seconds.into());
            return answer;
        }
        Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
        Some(Fault::Garbled) | None => {}
    }
    let mut content = content.lock().unwrap();
    if path.starts_with("/token") {
        return token(&mut content, auth, request);
    }
    if let Some(refusal) = refuse(&mut content, auth, address, request) {
        return refusal;
    }
    let mut answer = find(&content, request, &path);
    if matches!(fault, Some(Fault::Garbled)) {
        let digest = answer.headers().get("docker-content-digest").cloned();
        answer = Response::new(Full::new(Bytes::from_static(b"{\"garbled\": true}")));
        answer
            .headers_mut()
            .extend(digest.map(|digest| (http::HeaderName::from_static("docker-content-digest"), digest)));
    }
    answer
}

fn status(code: u16) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(b"{\"errors\":[]}")));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

fn login(request: &Request<Incoming>) -> Option<String> {
    use base64::Engine;
    let value = request
        .headers()
        .get("authorization")?
        .to_str()
        .unwrap()
        .strip_prefix("Basic ")?
        .to_owned();
    let bytes = base64::engine::general_purpose::STANDARD.decode(value).unwrap();
    Some(String::from_utf8(bytes).unwrap())
}

fn token(content: &mut Content, auth: &Auth, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let Auth::Bearer(wanted, _) = auth else {
        return status(404);
    };
    let query = request.uri().query().unwrap();
    let scope = format!("scope=repository%3A{}%3Apull", REPOSITORY.replace('/', "%2F"));
    assert!(
        query.contains(&scope) && query.contains("service=fake"),
        "{query}"
    );
    if login(request).as_deref() != *wanted {
        return status(401);
    }
    content.tokens += 1;
    content.token_uses = 0;
    let body = format!(r#"{{"token":"t{}","expires_in":300}}"#, content.tokens);
    Response::new(Full::new(body.into()))
}

fn refuse(
    content: &mut Content,
    auth: &Auth,
    address: SocketAddr,
    request: &Request<Incoming>,
) -> Option<Response<Full<Bytes>>> {
    let challenge = match auth {
        Auth::Anyone => return None,
        Auth::Basic(wanted) => {
            if login(request).as_deref() == Some(wanted) {
                return None;
            }
            "Basic realm=\"fake\"".to_owned()
        }
        Auth::Bearer(_, uses) => {
            let sent = request
                .headers()
                .get("authorization")
                .map(|value| value.to_str().unwrap());
            content.token_uses += 1;
            if sent == Some(format!("Bearer t{}", content.tokens).as_str()) && content.token_uses <= *uses {
                return None;
            }
            format!(
                "Bearer realm=\"http://{address}/token\",service=\"fake\",scope=\"repository:{REPOSITORY}:pull\""
            )
        }
    };
    let mut answer = status(401);
    answer
        .headers_mut()
        .insert("www-authenticate", challenge.parse().unwrap());
    Some(answer)
}

/// Pages have two tags, whatever number is requested.
fn find(content: &Content, request: &Request<Incoming>, path: &str) -> Response<Full<Bytes>> {
    let rest = path
        .strip_prefix(&format!("/v2/{REPOSITORY}/"))
        .unwrap_or_default();
    if rest.starts_with("tags/list") {
        let last = rest.split("last=").nth(1).unwrap_or_default();
        let mut left = content.tags.keys().filter(|tag| tag.as_str() > last);
        let page: Vec<&String> = left.by_ref().take(2).collect();
        let body = serde_json::json!({"name": REPOSITORY, "tags": page}).to_string();
        let mut answer = Response::new(Full::new(body.into()));
        if left.next().is_some() {
            let host = if content.link_elsewhere {
                "http://127.0.0.2:1"
            } else {
                ""
            };
            let link = format!(
                "<{host}/v2/{REPOSITORY}/tags/list?n=2&last={}>; rel=\"next\"",
                page[1]
            );
            answer.headers_mut().insert("link", link.parse().unwrap());
        }
        return answer;
    }
    let (kind, name) = rest.split_once('/').unwrap_or_default();
    let found = match kind {
        "manifests" => {
            let digest = content.tags.get(name).map_or(name, String::as_str);
            let accept = request.headers()["accept"].to_str().unwrap();
            assert!(accept.contains("manifest.list.v2+json") && accept.contains("oci.image.index.v1+json"));
            content.manifests.get(digest).map(|bytes| (digest, bytes))
        }
        "blobs" => content.blobs.get(name).map(|bytes| (name, bytes)),
        _ => None,
    };
    let Some((digest, bytes)) = found else {
        return status(404);
    };
    let body = if request.method() == Method::HEAD {
        Bytes::new()
    } else {
        bytes.clone()
    };
    let mut answer = Response::new(Full::new(body));
    answer
        .headers_mut()
        .insert("docker-content-digest", digest.parse().unwrap());
    answer
}
