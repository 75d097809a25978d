//! `orphans`: lists ManifestWorks whose upgrade no longer exists.

use chrono::Utc;

use super::show::print;
use crate::args::{Common, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::orphans::find;
use crate::render;
use crate::screen::Screen;

pub(super) async fn run(common: &Common, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    // Works are read before upgrades. Otherwise the work of an upgrade that is created in between would look like an orphan.
    let works = hub.works().await?;
    let upgrades = hub.upgrade_names().await?;
    let orphans = find(works, &upgrades, common.namespace.as_deref());
    let for_humans = Output::is_for_humans(common.output);
    if orphans.is_empty() && for_humans {
        screen.note("No ManifestWork is left over from an upgrade that no longer exists.\n");
    } else {
        let text = render::orphans::render(&orphans, common.output, Utc::now(), screen.paint);
        print(common, &text, screen);
    }
    Ok(Exit::Done)
}
