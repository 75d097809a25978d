//! `status` without `-w`, `clusters` and `why`. Each reads the hub once and prints the result.

use api::conditions;
use chrono::Utc;

use crate::args::{ClustersArgs, Common, Output, WhyArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render;
use crate::rows::Rows;
use crate::screen::Screen;

pub(super) async fn list(common: &Common, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrades = hub.list(common.all_namespaces).await?;
    if let Some(text) = render::objects::upgrades(common.output, &upgrades) {
        screen.print(&text);
    } else if upgrades.is_empty() {
        screen.note(&if common.all_namespaces {
            "No resources found\n".to_owned()
        } else {
            format!("No resources found in {} namespace.\n", hub.namespace())
        });
    } else {
        let view = render::list::View {
            wide: common.output == Some(Output::Wide),
            namespaces: common.all_namespaces,
        };
        screen.print(&render::list::table(&upgrades, view, Utc::now(), screen.paint));
    }
    note_policies(&hub, screen).await;
    Ok(Exit::Done)
}

pub(super) async fn status(common: &Common, name: &str, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(name).await?;
    let wide = common.output == Some(Output::Wide);
    let text = render::objects::upgrade(common.output, &upgrade)
        .unwrap_or_else(|| render::status::render(&upgrade, wide, Utc::now(), screen.paint));
    screen.print(&text);
    note_policies(&hub, screen).await;
    Ok(Exit::Done)
}

pub(super) async fn clusters(common: &Common, args: &ClustersArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let rows = hub.rows(&upgrade).await?;
    note_unreadable(&rows, screen);
    let shown = rows.in_phases(&args.phases);
    let for_humans = matches!(common.output, None | Some(Output::Wide));
    if shown.is_empty() && for_humans {
        screen.note(&render::clusters::none_found(
            &args.name,
            hub.namespace(),
            &args.phases,
        ));
    } else {
        screen.print(&render::clusters::render(
            &shown,
            common.output,
            Utc::now(),
            screen.paint,
        ));
    }
    Ok(Exit::Done)
}

pub(super) async fn why(common: &Common, args: &WhyArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let rows = hub.rows(&upgrade).await?;
    note_unreadable(&rows, screen);
    let Some(row) = rows.of(&args.cluster) else {
        let invalid = upgrade
            .condition(conditions::STALLED)
            .is_some_and(|stalled| stalled.reason == conditions::reason::INVALID_SPEC);
        let observed = if !upgrade.is_observed() {
            "the controller has not processed the newest spec yet"
        } else if invalid {
            "its spec is invalid, so it selects no clusters; run kubectl mcu status to see what to fix"
        } else {
            "check its placements and its cluster selector"
        };
        return Err(Failure::Other(format!(
            "cluster {:?} is not part of upgrade {}/{}: {observed}",
            args.cluster,
            hub.namespace(),
            args.name
        )));
    };
    screen.print(&render::why::render(
        &upgrade,
        row,
        common.output,
        Utc::now(),
        screen.paint,
    ));
    Ok(Exit::Done)
}

/// Warns if the hub does not enforce the admission policies, because other users could then forge what the controller trusts.
async fn note_policies(hub: &Hub, screen: Screen) {
    if let Some(warning) = hub.policy_warning().await {
        screen.note(&warning);
    }
}

fn note_unreadable(rows: &Rows, screen: Screen) {
    if rows.unreadable > 0 {
        screen.note(&format!(
            "Warning: {} report rows cannot be read. If a row names its cluster, the cluster is shown as Blocked. A newer release may have written the rows: update the plugin.\n",
            rows.unreadable
        ));
    }
}
