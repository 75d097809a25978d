//! `history`: the upgrades by start, or what happened on the clusters of one; and `export`, the record of all clusters.

use chrono::Utc;

use super::show::{note_gaps, print};
use crate::args::{Common, HistoryArgs, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render;
use crate::screen::Screen;

pub(super) async fn run(common: &Common, args: &HistoryArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let text = match &args.name {
        None => {
            let all = hub.list(common.all_namespaces).await?;
            if all.is_empty() && Output::is_for_humans(common.output) {
                screen.note("No resources found\n");
                return Ok(Exit::Done);
            }
            render::history::upgrades(
                &all,
                common.all_namespaces,
                common.output,
                Utc::now(),
                screen.paint,
            )
        }
        Some(name) => {
            let upgrade = hub.upgrade(name).await?;
            let rows = hub.rows(&upgrade).await?;
            note_gaps(&upgrade, &rows, screen);
            render::history::steps(&rows.rows, common.output, screen.paint)
        }
    };
    print(common, &text, screen);
    Ok(Exit::Done)
}

pub(super) async fn export(common: &Common, name: &str, screen: Screen) -> Result<Exit, Failure> {
    if !matches!(common.output, None | Some(Output::Csv | Output::Json)) {
        return Err(Failure::Usage("export writes -o csv or -o json".to_owned()));
    }
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(name).await?;
    let rows = hub.rows(&upgrade).await?;
    note_gaps(&upgrade, &rows, screen);
    let text = render::export::render(&upgrade, &rows.rows, common.output, !common.no_headers);
    if screen.deliver(&text) {
        Ok(Exit::Done)
    } else {
        Ok(Exit::Error)
    }
}
