//! One request through the proxy: judged, passed on, answered.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use http::{Request as HttpRequest, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use kube::client::Body;
use serde_json::json;

use super::body::{Answer, cuttable};
use super::{Request, State, Verdict};

/// An error ends the connection without an answer.
pub(super) async fn serve(state: Arc<State>, request: HttpRequest<Incoming>) -> Result<Response<Answer>> {
    let (parts, body) = request.into_parts();
    let (seen, verdict) = state.admit(
        &parts.method,
        parts.uri.path(),
        parts.uri.query().unwrap_or_default(),
    );
    match verdict {
        Verdict::Drop => return Err(anyhow!("dropped")),
        Verdict::FreezeBefore => return std::future::pending().await,
        Verdict::Answer(code) => {
            state.note(&seen, code);
            return refusal(code);
        }
        Verdict::Delay(time) => tokio::time::sleep(time).await,
        Verdict::Pass | Verdict::LoseAnswer | Verdict::FreezeAfter | Verdict::Postpone => {}
    }
    let body = body.collect().await?.to_bytes();
    if verdict == Verdict::Postpone {
        state.postpone(parts, body);
        return Err(anyhow!("postponed"));
    }
    let response = pass(&state, parts, body).await?;
    state.note(&seen, response.status().as_u16());
    match verdict {
        Verdict::LoseAnswer => {
            response.into_body().collect().await?;
            Err(anyhow!("the answer is lost"))
        }
        Verdict::FreezeAfter => {
            response.into_body().collect().await?;
            state.frozen.send_replace(true);
            std::future::pending().await
        }
        _ => Ok(answer(&state, &seen, response)),
    }
}

pub(super) async fn pass(
    state: &State,
    mut parts: http::request::Parts,
    body: Bytes,
) -> Result<Response<Body>> {
    for hop in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::ACCEPT_ENCODING,
    ] {
        parts.headers.remove(hop);
    }
    let path = parts
        .uri
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str)
        .to_owned();
    parts.uri = path.parse()?;
    parts.extensions = http::Extensions::new();
    let body = if body.is_empty() {
        Body::empty()
    } else {
        Body::from(body)
    };
    Ok(state.upstream.send(HttpRequest::from_parts(parts, body)).await?)
}

fn answer(state: &State, seen: &Request, response: Response<Body>) -> Response<Answer> {
    let (mut parts, body) = response.into_parts();
    for hop in [header::CONNECTION, header::TRANSFER_ENCODING] {
        parts.headers.remove(hop);
    }
    let body = if seen.is_watch() {
        cuttable(body, state.cuts.subscribe())
    } else {
        body.map_err(anyhow::Error::from).boxed_unsync()
    };
    Response::from_parts(parts, body)
}

fn refusal(code: u16) -> Result<Response<Answer>> {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": "answered by the fault proxy",
    });
    let body = Full::new(Bytes::from(status.to_string()))
        .map_err(|never| match never {})
        .boxed_unsync();
    Ok(Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)?)
}
