//! `check`: reads the facts of a hub, and prints the judgement.

use chrono::Utc;

use crate::args::{CheckArgs, Common};
use crate::check::facts::{Before, Installed};
use crate::check::{self, Level};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render;
use crate::screen::Screen;

pub(super) async fn run(common: &Common, args: &CheckArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let before = Before::read(&hub, args.pre).await;
    let mut checks = check::before(&before);
    if !args.pre && before.version.is_ok() {
        let installed = Box::pin(Installed::read(&hub, &before, &args.controller_namespace)).await;
        checks.extend(check::installed(
            &installed,
            hub.namespace(),
            &args.controller_namespace,
            Utc::now(),
        ));
    }
    screen.print(&render::check::render(&checks, common.output, screen.paint));
    Ok(match check::worst(&checks) {
        Level::Ok | Level::Warning => Exit::Done,
        Level::Failed => Exit::Error,
    })
}
