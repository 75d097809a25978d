//! Lists, page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::request::{Place, Query};
use crate::error::ApiError;
use crate::hub::Hub;
use crate::selector::Selector;
use crate::state::KindId;
use crate::store::Page;

/// Where the next page of a list begins.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    rv: u64,
    start: String,
    left: u64,
}

/// A page and what its metadata says.
pub(super) struct Listed {
    pub page: Page,
    pub metadata: Value,
}

const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                       without the continue parameter, or use the continue token in this response to retrieve the remainder \
                       of the results. Continuing with the provided token results in an inconsistent list - objects that were \
                       created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";

/// Answers a list. The cache of the server is `behind` so many revisions.
pub(super) fn list(
    hub: &Hub,
    id: KindId,
    place: &Place,
    query: &Query,
    behind: u64,
) -> Result<Listed, ApiError> {
    query.check_begin(false)?;
    let selector = selector(hub, id, place, query)?;
    query.count("timeoutSeconds")?;
    let limit = usize::try_from(query.count("limit")?.unwrap_or_default()).unwrap_or_default();
    let limit = if selector.is_one_name() { 0 } else { limit };
    let token = match query.text("continue") {
        "" => None,
        text => Some(decode(text)?),
    };
    let wanted = query.revision("resourceVersion")?.unwrap_or_default();
    if token.is_some() && wanted > 0 {
        return Err(ApiError::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    // The server answers from its cache, which has no pages.
    let is_cached = token.is_none() && query.text("resourceVersion") == "0";
    let limit = if is_cached { 0 } else { limit };
    let exact = match query.text("resourceVersionMatch") {
        "" => limit > 0 && wanted > 0,
        text => text == "Exact",
    };
    let is_fresh = query.text("resourceVersion").is_empty();
    hub.read(|state| {
        let collection = state.collection(id);
        let current = state.revision();
        let revision = match &token {
            // The storage has gone back since the first page.
            Some(token) if token.rv > current => return Err(ApiError::internal(FUTURE)),
            Some(token) => token.rv,
            None if wanted > current => return Err(ApiError::too_large_resource_version(wanted, current)),
            None if exact => wanted,
            None if is_fresh => current,
            None => collection.revision_behind(current, behind).max(wanted),
        };
        let after = token.as_ref().map(|token| token.start.as_str());
        let page = collection
            .page(revision, &place.namespace, after, limit, |object| {
                selector.matches(object)
            })
            .map_err(|_| ApiError::expired(EXPIRED))?;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        // Lists of custom resources name an empty token.
        if collection.kind.is_custom {
            metadata["continue"] = "".into();
        }
        if let Some(next) = &page.next {
            let total = match &token {
                Some(token) => token.left,
                None if exact => collection
                    .page(revision, &place.namespace, None, 0, |_| true)
                    .map_or(0, |all| all.objects.len() as u64),
                None if place.namespace.is_empty() => collection.len() as u64,
                None => collection.in_namespace(&place.namespace).count() as u64,
            };
            let left = total.saturating_sub(page.objects.len() as u64);
            let token = Token {
                v: "meta.k8s.io/v1".to_owned(),
                rv: revision,
                start: next.to_string(),
                left,
            };
            metadata["continue"] = encode(&token).into();
            if selector.is_everything() {
                metadata["remainingItemCount"] = left.into();
            }
        }
        Ok(Listed { page, metadata })
    })
}

/// The selectors of a list or watch.
pub(super) fn selector(hub: &Hub, id: KindId, place: &Place, query: &Query) -> Result<Selector, ApiError> {
    let (labels, fields) = (query.text("labelSelector"), query.text("fieldSelector"));
    let selector = hub.read(|state| {
        let kind = &state.collection(id).kind;
        Selector::parse(kind, place.group.is_empty(), labels, fields)
    });
    selector.map_err(ApiError::bad_request)
}

fn encode(token: &Token) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(token).unwrap_or_default())
}

fn decode(text: &str) -> Result<Token, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let token = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    token.ok_or_else(|| ApiError::bad_request("continue key is not valid"))
}
