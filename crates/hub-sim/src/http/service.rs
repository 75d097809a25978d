//! A hub as a tower service.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes};
use futures::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, DATE, USER_AGENT, WARNING};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::{Value, json};

use super::answer::Form;
use super::request::{Path, Place, Query, Verb};
use super::watch::Watch;
use super::{discovery, events, list, protobuf};
use crate::error::ApiError;
use crate::hub::Hub;
use crate::json::{self, Unreadable};
use crate::object::{Object, Unseen, key};
use crate::schema::{Cause, CauseKind};
use crate::state::KindId;
use crate::write::{
    DeleteOptions, Deleted, FieldValidation, PatchKind, WriteOptions, Writer, Written, dry_run_cause,
};

/// The body of a response. That of a watch arrives line by line.
pub type Body = BoxBody<Bytes, Infallible>;

/// The bytes of a body.
const MOST_SENT: usize = 3 * 1024 * 1024;
/// The bytes of the name of a field manager.
const LONGEST_MANAGER: usize = 128;

/// A client's connection to a hub.
#[derive(Clone, Debug)]
pub struct Service {
    hub: Hub,
    user: Arc<str>,
    /// How many revisions the cache of this API server is behind.
    behind: u64,
}

/// What a request is answered with.
enum Reply {
    Whole { code: u16, text: String },
    Watch(Box<Watch>),
}

impl Reply {
    fn ok(text: String) -> Self {
        Self::Whole { code: 200, text }
    }
}

impl Service {
    /// A connection of this user. Every user may do everything.
    #[must_use]
    pub fn new(hub: &Hub, user: &str) -> Self {
        Self {
            hub: hub.clone(),
            user: Arc::from(user),
            behind: 0,
        }
    }

    /// The same connection to an API server whose cache is some revisions behind: one that has just started, or is slow. Only
    /// requests with `resourceVersion=0` show it; all others wait for the cache.
    #[must_use]
    pub fn behind(self, revisions: u64) -> Self {
        Self {
            behind: revisions,
            ..self
        }
    }

    /// Answers one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
    {
        let (parts, body) = request.into_parts();
        let mut warnings = Vec::new();
        let reply = match read(body).await {
            Ok(body) => self.reply(&parts, &body, &mut warnings),
            Err(error) => Err(error),
        };
        let reply = reply.unwrap_or_else(|error| Reply::Whole {
            code: error.code,
            text: error.to_body(),
        });
        self.respond(reply, &warnings)
    }

    fn respond(&self, reply: Reply, warnings: &[String]) -> Response<Body> {
        let (code, body) = match reply {
            Reply::Whole { code, text } => (code, Full::new(Bytes::from(text)).boxed()),
            Reply::Watch(watch) => {
                let frames = watch.into_stream().map(|line| Ok(http_body::Frame::data(line)));
                (200, BoxBody::new(StreamBody::new(frames)))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(self.hub.now().into())) {
            headers.insert(DATE, date);
        }
        for warning in warnings {
            let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
            if let Ok(text) = HeaderValue::from_str(&text) {
                headers.append(WARNING, text);
            }
        }
        response
    }

    fn reply(
        &self,
        parts: &http::request::Parts,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Reply, ApiError> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let place = match Path::parse(parts.uri.path()) {
            Path::Objects(place) => place,
            Path::Other(path) => return self.other(&path),
        };
        if let Some(reply) = self.review(&place, body)? {
            return Ok(reply);
        }
        let is_core_event = place.group.is_empty() && place.plural == "events";
        let id = self.find(&place, is_core_event)?;
        let accept = header(parts, &ACCEPT);
        let form = Form::of(accept, is_core_event);
        let is_custom = self.hub.read(|state| state.collection(id).kind.is_custom);
        match Verb::of(&parts.method, &place, &query, is_custom)? {
            Verb::Get if is_core_event => self
                .get(id, &place, &query, form)
                .map_err(ApiError::about_core_event),
            Verb::Get => self.get(id, &place, &query, form),
            Verb::List => {
                let listed = list::list(&self.hub, id, &place, &query, self.behind)?;
                let objects: Vec<&Object> = listed.page.objects.iter().map(|object| &**object).collect();
                Ok(Reply::ok(form.list(&self.hub, id, &objects, &listed.metadata)))
            }
            Verb::Watch => Ok(Reply::Watch(Box::new(Watch::new(
                &self.hub,
                id,
                &place,
                &query,
                form,
                self.behind,
            )?))),
            Verb::Delete => self.delete(id, &place, &query, form, body),
            // Namespaces are deleted one by one.
            Verb::DeleteCollection
                if self
                    .hub
                    .read(|state| state.collection(id).kind.qualified() == "namespaces") =>
            {
                Err(ApiError::method_not_allowed())
            }
            Verb::DeleteCollection => self.delete_all(id, &place, &query, form, body),
            verb => {
                let mut options = write_options(verb, parts, &query)?;
                let mut object = parse(body, &mut options.duplicates)?;
                if is_core_event {
                    object = events::from_core(&object);
                }
                let patch = patch_kind(verb, parts)?;
                let written = self.write(id, &place, &options, warnings, |writer| match verb {
                    Verb::Create => writer.create(object),
                    Verb::Update => writer.update(object),
                    _ => writer.patch(patch, &object),
                });
                let written = written.map_err(|error| {
                    if is_core_event {
                        error.about_core_event()
                    } else {
                        error
                    }
                })?;
                Ok(Reply::Whole {
                    code: if written.created { 201 } else { 200 },
                    text: form.one(&self.hub, id, &written.object),
                })
            }
        }
    }

    fn find(&self, place: &Place, is_core_event: bool) -> Result<KindId, ApiError> {
        let group = if is_core_event {
            "events.k8s.io"
        } else {
            &place.group
        };
        self.hub
            .read(|state| {
                let id = state.find(group, &place.plural)?;
                let kind = &state.collection(id).kind;
                let is_served = kind.version == place.version
                    && (kind.namespaced || place.namespace.is_empty())
                    && (place.subresource.is_empty() || (place.subresource == "status" && kind.has_status));
                // An object of a kind with namespaces is always in one.
                let is_complete = !kind.namespaced || !place.namespace.is_empty() || place.name.is_empty();
                let is_known = kind.version == place.version && !place.name.is_empty();
                match is_served && is_complete {
                    true => Some(Ok(id)),
                    // The objects are there, but not what is asked of them.
                    false if is_known => Some(Err(ApiError::no_such_resource())),
                    false => None,
                }
            })
            .unwrap_or_else(|| Err(ApiError::no_such_path()))
    }

    fn other(&self, path: &str) -> Result<Reply, ApiError> {
        match self.hub.read(|state| discovery::answer(state, path)) {
            Some(Value::String(text)) => Ok(Reply::ok(text)),
            Some(value) => Ok(Reply::ok(value.to_string())),
            None => Err(ApiError::no_such_path()),
        }
    }

    /// Answers who the user is and what it may do.
    fn review(&self, place: &Place, body: &[u8]) -> Result<Option<Reply>, ApiError> {
        let status = match (place.group.as_str(), place.plural.as_str()) {
            ("authentication.k8s.io", "selfsubjectreviews") => {
                json!({"userInfo": {"username": &*self.user, "groups": ["system:masters", "system:authenticated"]}})
            }
            ("authorization.k8s.io", "selfsubjectaccessreviews") => json!({"allowed": true}),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => json!({
                "incomplete": false,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }),
            _ => return Ok(None),
        };
        let mut review = parse(body, &mut Vec::new())?;
        if !review.is_object() {
            return Err(ApiError::bad_request("the body is not an object"));
        }
        review["status"] = status;
        Ok(Some(Reply::Whole {
            code: 201,
            text: review.to_string(),
        }))
    }

    fn get(&self, id: KindId, place: &Place, query: &Query, form: Form) -> Result<Reply, ApiError> {
        let wanted = query.revision("resourceVersion")?.unwrap_or_default();
        let found = self.hub.read(|state| {
            let (collection, current) = (state.collection(id), state.revision());
            if wanted > current {
                return Err(ApiError::too_large_resource_version(wanted, current));
            }
            let behind = if query.text("resourceVersion").is_empty() {
                0
            } else {
                self.behind
            };
            let revision = collection.revision_behind(current, behind).max(wanted);
            let object = collection.get_at(&key(&place.namespace, &place.name), revision);
            let object = object.ok().flatten().cloned();
            object.ok_or_else(|| ApiError::not_found(&collection.kind, &place.name))
        });
        Ok(Reply::ok(form.one(&self.hub, id, &*found?)))
    }

    fn write(
        &self,
        id: KindId,
        place: &Place,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
        write: impl FnOnce(Writer<'_>) -> Result<Written, ApiError>,
    ) -> Result<Written, ApiError> {
        let now = self.hub.now_text();
        self.hub.change(|state| {
            let kind = Arc::clone(&state.collection(id).kind);
            if kind.namespaced && place.namespace.is_empty() {
                return Err(ApiError::bad_request(
                    "an empty namespace may not be set during creation",
                ));
            }
            write(Writer {
                state,
                id,
                kind,
                namespace: &place.namespace,
                name: &place.name,
                subresource: &place.subresource,
                options,
                now: &now,
                warnings,
                unseen: Unseen::default(),
            })
        })
    }

    fn delete_one(&self, id: KindId, place: &Place, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let now = self.hub.now_text();
        self.hub.change(|state| {
            let kind = Arc::clone(&state.collection(id).kind);
            let writer = Writer {
                state,
                id,
                kind,
                namespace: &place.namespace,
                name: &place.name,
                subresource: "",
                options: &WriteOptions::default(),
                now: &now,
                warnings: &mut Vec::new(),
                unseen: Unseen::default(),
            };
            writer.delete(options)
        })
    }

    fn delete(
        &self,
        id: KindId,
        place: &Place,
        query: &Query,
        form: Form,
        body: &[u8],
    ) -> Result<Reply, ApiError> {
        let options = delete_options(query, body)?;
        let deleted = self.delete_one(id, place, &options)?;
        let kind = self.hub.read(|state| Arc::clone(&state.collection(id).kind));
        Ok(Reply::ok(match deleted {
            Deleted::Held(object) => form.one(&self.hub, id, &object),
            Deleted::Gone(object) => {
                let mut details = json!({"name": object.name(), "kind": kind.plural, "uid": object.uid});
                if !kind.group.is_empty() {
                    details["group"] = kind.group.clone().into();
                }
                success(&details).to_string()
            }
        }))
    }

    fn delete_all(
        &self,
        id: KindId,
        place: &Place,
        query: &Query,
        form: Form,
        body: &[u8],
    ) -> Result<Reply, ApiError> {
        let options = delete_options(query, body)?;
        let listed = list::list(&self.hub, id, place, query, 0)?;
        for object in &listed.page.objects {
            let one = Place {
                namespace: object.namespace().to_owned(),
                name: object.name().to_owned(),
                ..place.clone()
            };
            // One that is gone meanwhile needs no deletion.
            let _ = self.delete_one(id, &one, &options);
        }
        let objects: Vec<&Object> = listed.page.objects.iter().map(|object| &**object).collect();
        Ok(Reply::ok(form.list(&self.hub, id, &objects, &listed.metadata)))
    }
}

/// Reads a body, which the server does to a limit.
async fn read<B: http_body::Body>(body: B) -> Result<Vec<u8>, ApiError> {
    let mut body = std::pin::pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body of the request ended early"))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.remaining() > MOST_SENT {
                return Err(ApiError::too_large(&format!("limit is {MOST_SENT}")));
            }
            bytes.put(data);
        }
    }
    Ok(bytes)
}

fn success(details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// The options of a deletion. The server reads the query only if there is no body.
fn delete_options(query: &Query, body: &[u8]) -> Result<DeleteOptions, ApiError> {
    let options = if body.is_empty() {
        let policy = query.text("propagationPolicy");
        DeleteOptions::default()
            .with_policy((!policy.is_empty()).then(|| policy.to_owned()))
            .with_dry_run(query.dry_run())
    } else {
        serde_json::from_value(parse(body, &mut Vec::new())?)
            .map_err(|error| ApiError::bad_request(error.to_string()))?
    };
    options.checked()
}

/// Reads JSON or YAML, or the protobuf of kubectl. `duplicates` receives the fields of JSON that are there twice.
fn parse(body: &[u8], duplicates: &mut Vec<String>) -> Result<Value, ApiError> {
    if protobuf::is_protobuf(body) {
        return protobuf::parse(body);
    }
    match json::parse(body, duplicates) {
        Ok(value) => return Ok(value),
        Err(Unreadable::TooDeep) => return Err(ApiError::bad_request("exceeded max depth")),
        Err(Unreadable::Malformed) => {}
    }
    let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
    serde_saphyr::from_str(text)
        .map_err(|error| ApiError::bad_request(format!("error decoding the body: {error}")))
}

fn header<'a>(parts: &'a http::request::Parts, name: &http::HeaderName) -> &'a str {
    parts
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn write_options(verb: Verb, parts: &http::request::Parts, query: &Query) -> Result<WriteOptions, ApiError> {
    let options = match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        _ => "PatchOptions",
    };
    let patch = patch_kind(verb, parts)?;
    let given = query.text("fieldManager");
    let mut causes = Vec::new();
    if patch == PatchKind::Apply && given.is_empty() {
        let why = "Required value: is required for apply patch";
        causes.push(Cause::new("fieldManager", CauseKind::Required, why));
    }
    if verb == Verb::Patch && patch != PatchKind::Apply && !query.text("force").is_empty() {
        let why = "Forbidden: may not be specified for non-apply patch";
        causes.push(Cause::new("force", CauseKind::Forbidden, why));
    }
    if given.len() > LONGEST_MANAGER {
        let why = format!("Too long: may not be more than {LONGEST_MANAGER} bytes");
        causes.push(Cause::new("fieldManager", CauseKind::TooLong, why));
    }
    let dry_run = query.dry_run();
    causes.extend(dry_run_cause(&dry_run));
    let validation = query.validation().unwrap_or_else(|cause| {
        causes.push(cause);
        FieldValidation::default()
    });
    if !causes.is_empty() {
        return Err(ApiError::invalid_options(options, &causes));
    }
    let agent = header(parts, &USER_AGENT).split('/').next().unwrap_or_default();
    let manager = match (given, agent) {
        ("", "") => "unknown",
        ("", agent) => agent,
        (manager, _) => manager,
    };
    Ok(WriteOptions {
        manager: manager.to_owned(),
        dry_run: !dry_run.is_empty(),
        validation,
        force: query.flag("force"),
        duplicates: Vec::new(),
    })
}

fn patch_kind(verb: Verb, parts: &http::request::Parts) -> Result<PatchKind, ApiError> {
    if verb != Verb::Patch {
        return Ok(PatchKind::Merge);
    }
    let media_type = header(parts, &CONTENT_TYPE).split(';').next().unwrap_or_default();
    match media_type {
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" => Ok(PatchKind::Strategic),
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, not {other:?}"
        ))),
    }
}

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}
