//! The server of the page, on the loopback interface.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use chrono::Utc;
use serde::Deserialize;

use super::assets::{self, Asset};
use super::feed::Key;
use super::fleet::Fleet;
use super::guard::{self, Token};
use super::state::Dashboard;
use super::{actions, message, stream};

/// Largest body of a request, in bytes.
const MAX_BODY: usize = 4096;
/// How long a story waits for a list of reports that has begun.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Everything that the server answers.
pub fn router(dashboard: Arc<Dashboard>, token: Token) -> Router {
    let mut router = Router::new()
        .route("/api/events", get(events))
        .route("/api/story", get(story))
        .route("/api/actions", post(act))
        .with_state(dashboard);
    for asset in assets::ALL {
        router = router.route(asset.path, get(move || async move { file(asset) }));
    }
    router
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::new(token), guard::check))
}

fn file(asset: Asset) -> Response {
    ([(header::CONTENT_TYPE, asset.media_type)], asset.content).into_response()
}

/// The upgrade that a page shows.
#[derive(Deserialize)]
struct Shown {
    namespace: Option<String>,
    name: Option<String>,
}

async fn events(State(dashboard): State<Arc<Dashboard>>, Query(shown): Query<Shown>) -> Response {
    let key = shown.namespace.zip(shown.name);
    Sse::new(stream::messages(dashboard, key))
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// The cluster whose story a page wants.
#[derive(Deserialize)]
struct Wanted {
    namespace: String,
    name: String,
    cluster: String,
}

async fn story(State(dashboard): State<Arc<Dashboard>>, Query(wanted): Query<Wanted>) -> Response {
    let key: Key = (wanted.namespace, wanted.name);
    let Some(upgrade) = dashboard.upgrades.read(|all| all.get(&key).cloned()) else {
        return refused(StatusCode::NOT_FOUND, "The upgrade does not exist.");
    };
    let fleet = dashboard.fleet(&upgrade);
    let mut changes = fleet.changes();
    let listed = changes.wait_for(|_| fleet.read(Fleet::is_complete));
    if tokio::time::timeout(LIST_TIMEOUT, listed).await.is_err() {
        return refused(
            StatusCode::GATEWAY_TIMEOUT,
            "The hub has not listed the reports yet.",
        );
    }
    let told = fleet.read(|fleet| {
        let row = fleet.row(&wanted.cluster)?;
        Some(message::story(&upgrade, row, Utc::now()))
    });
    match told {
        Some(story) => Json(story).into_response(),
        None => refused(StatusCode::NOT_FOUND, "The cluster is not part of the upgrade."),
    }
}

async fn act(State(dashboard): State<Arc<Dashboard>>, Json(request): Json<actions::Request>) -> Response {
    if !dashboard.allow_actions() {
        let why = "The dashboard only reads. Start it with --allow-actions to change upgrades.";
        return refused(StatusCode::FORBIDDEN, why);
    }
    if !dashboard.shows(&request.namespace) {
        return refused(
            StatusCode::FORBIDDEN,
            "The dashboard does not show this namespace. Start it with -A, or with another -n.",
        );
    }
    match actions::perform(dashboard.hub(), &request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(failure) => refused(StatusCode::BAD_GATEWAY, &failure.sentence()),
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, message::text(why, 2048)).into_response()
}
