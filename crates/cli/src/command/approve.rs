//! `approvals` and `approve`: what waits for an approval, and the approval of it.

use chrono::Utc;
use serde_json::Value;

use super::show::print;
use crate::approval::{approval, summary, waiting};
use crate::args::{ApprovalsArgs, ApproveArgs, Common, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render;
use crate::render::objects::{machine, to_yaml};
use crate::screen::Screen;

pub(super) async fn list(common: &Common, args: &ApprovalsArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrades = match &args.name {
        Some(name) => {
            super::refuse_all_namespaces(common)?;
            vec![hub.upgrade(name).await?]
        }
        None => hub.list(common.all_namespaces).await?,
    };
    if Output::is_for_humans(common.output)
        && let Some(none) = render::approvals::none(&upgrades, args.name.is_some())
    {
        screen.note(none);
        return Ok(Exit::Done);
    }
    let text = render::approvals::render(
        &upgrades,
        common.all_namespaces,
        common.output,
        Utc::now(),
        screen.paint,
    );
    print(common, &text, screen);
    Ok(Exit::Done)
}

pub(super) async fn run(common: &Common, args: &ApproveArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let checkpoint = waiting(&upgrade, args.checkpoint.as_deref()).map_err(Failure::Other)?;
    let approver = hub.user_name().await?;
    let times = (Utc::now(), args.expires_in);
    let made = approval(&upgrade, checkpoint, &approver, &args.message, times).map_err(Failure::Other)?;
    screen.note(&summary(&upgrade, checkpoint));
    if args.dry_run {
        let shown = serde_json::to_value(&made).unwrap_or(Value::Null);
        screen.print(&machine(common.output, || shown.clone()).unwrap_or_else(|| to_yaml(&shown)));
        return Ok(Exit::Done);
    }
    if !args.yes && !screen.confirms("Approve this plan") {
        return Err(Failure::Other("nothing was approved".to_owned()));
    }
    let stored = hub.approve(&made).await?;
    let text = machine(common.output, || stored.clone());
    screen.print(&text.unwrap_or_else(|| {
        let name = stored["metadata"]["name"].as_str().unwrap_or_default();
        format!("managedclustersupgradeapproval.cluster.open-cluster-management.io/{name} created\n")
    }));
    Ok(Exit::Done)
}
