//! `preflight`: what clusters say to an update before they start.

use resolve::spec::{ResolvedSpec, resolve_spec};
use resolve::works::WorkFlags;

use super::consent::probes;
use crate::args::{Common, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::preflight::{Overview, overview};
use crate::render;
use crate::screen::Screen;
use crate::upgrade::Upgrade;

pub(super) async fn run(common: &Common, name: &str, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(name).await?;
    let rows = hub.rows(&upgrade).await?;
    let spec = resolved(&upgrade);
    let question = spec.as_ref().and_then(|spec| spec.preflight.as_ref());
    let Some(question) = question.map(|preflight| &preflight.question) else {
        return Err(Failure::Other(format!(
            "the clusters of {}/{name} are not asked: set spec.preflight.mode to Report or Require, or fix the spec",
            hub.namespace()
        )));
    };
    let answers = probes(&hub, &upgrade, screen).await?;
    let summary = upgrade.status.as_ref().and_then(|status| status.preflight);
    let overview = overview(
        (&upgrade.namespace, &upgrade.name),
        &rows.rows,
        (answers.as_ref(), &question.update),
        summary,
    );
    if overview.groups.is_empty() && Output::is_for_humans(common.output) {
        screen.note(nothing_against(&overview, answers.is_some()));
    }
    screen.print(&render::preflight::render(&overview, common.output, screen.paint));
    Ok(Exit::Done)
}

/// What an overview without causes means.
fn nothing_against(overview: &Overview, are_answers_known: bool) -> &'static str {
    if !are_answers_known {
        "The reports name no cluster that an answer holds back.\n"
    } else if overview.unanswered_clusters() > 0 {
        "No cluster that has answered says anything against the update.\n"
    } else {
        "No cluster that has not started says anything against the update.\n"
    }
}

fn resolved(upgrade: &Upgrade) -> Option<ResolvedSpec> {
    let object = serde_json::from_value(upgrade.object.clone()).ok()?;
    resolve_spec(&object, &WorkFlags::default(), chrono::TimeDelta::zero()).ok()
}
