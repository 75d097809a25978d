//! `status` without `-w`, `causes` and `why`. Each reads the hub once and prints the result.

use api::conditions;
use chrono::Utc;

use crate::args::{Common, Output, WhyArgs};
use crate::causes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render;
use crate::render::objects::without_headers;
use crate::rows::{Rows, missing_text, unreadable_text};
use crate::screen::Screen;
use crate::table::one_line;
use crate::upgrade::Upgrade;

pub(super) async fn list(common: &Common, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrades = hub.list(common.all_namespaces).await?;
    if let Some(text) = render::objects::upgrades(common.output, &upgrades) {
        print(common, &text, screen);
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
        let table = render::list::table(&upgrades, view, Utc::now(), screen.paint);
        print(common, &table, screen);
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

/// `causes`: the groups of clusters that failed or wait. Users who may not read reports get those that the status names.
pub(super) async fn causes(common: &Common, name: &str, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(name).await?;
    let causes = match hub.rows(&upgrade).await {
        Ok(rows) => {
            note_gaps(&upgrade, &rows, screen);
            if rows.rows.is_empty() {
                causes::of_status(&upgrade)
            } else {
                causes::of_rows(&upgrade, &rows.rows)
            }
        }
        Err(Failure::Server { reason, message }) if reason == "Forbidden" => {
            screen.note(&format!(
                "Warning: {message}. The status names the causes of some clusters only.\n"
            ));
            causes::of_status(&upgrade)
        }
        Err(failure) => return Err(failure),
    };
    if causes.is_empty() && Output::is_for_humans(common.output) {
        screen.note(&no_causes(&upgrade));
    } else {
        print(
            common,
            &render::causes::render(&causes, common.output, screen.paint),
            screen,
        );
    }
    Ok(Exit::Done)
}

/// What to say if no cluster has a cause: the upgrade as a whole may have one, or its clusters are not known yet.
fn no_causes(upgrade: &Upgrade) -> String {
    let stalled = upgrade.condition(conditions::STALLED);
    if let Some(stalled) = stalled.filter(|stalled| stalled.status == "True") {
        return format!(
            "No cluster has a cause, but the upgrade is stalled ({}): {}\n",
            one_line(&stalled.reason),
            one_line(&stalled.message)
        );
    }
    if upgrade.is_observed() {
        "No cluster failed or waits for a reason.\n".to_owned()
    } else {
        "The controller has not processed this upgrade yet.\n".to_owned()
    }
}

pub(super) async fn why(common: &Common, args: &WhyArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let rows = hub.rows(&upgrade).await?;
    note_gaps(&upgrade, &rows, screen);
    let Some(row) = rows.of(&args.cluster) else {
        let invalid = upgrade
            .condition(conditions::STALLED)
            .is_some_and(|stalled| stalled.reason == conditions::reason::INVALID_SPEC);
        let observed = if !upgrade.is_observed() {
            "the controller has not processed the newest spec yet"
        } else if invalid {
            "its spec is invalid, so it selects no clusters; run kubectl mcu status to see what to fix"
        } else {
            "check its placements and its cluster selector; of one that joined a moment ago, the report may not be written yet"
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

/// Prints a table or what machines read, with or without the line of headers.
pub(super) fn print(common: &Common, text: &str, screen: Screen) {
    screen.print(if common.no_headers {
        without_headers(common.output, text)
    } else {
        text
    });
}

/// Warns if the hub does not enforce the admission policies, because other users could then forge what the controller trusts.
async fn note_policies(hub: &Hub, screen: Screen) {
    if let Some(warning) = hub.policy_warning().await {
        screen.note(&warning);
    }
}

/// Warns if rows cannot be read or are missing, because what is shown of clusters is then not all.
pub(super) fn note_gaps(upgrade: &Upgrade, rows: &Rows, screen: Screen) {
    let missing = missing_text(upgrade, rows);
    if !missing.is_empty() {
        screen.note(&format!("Warning: {missing}.\n"));
    }
    if rows.unreadable > 0 {
        screen.note(&format!("Warning: {}\n", unreadable_text(rows.unreadable)));
    }
}
