//! `windows`: when the clusters of an upgrade may start.

use api::maintenance::Zone;
use resolve::snapshot::{ControllerSettings, Snapshot};

use super::rehearse::{Asked, Prepared, prepare, refused};
use super::show::print;
use crate::args::{Common, Output, WindowsArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::rehearse::NoRehearsal;
use crate::render;
use crate::screen::Screen;
use crate::windows::groups;

pub(super) async fn run(common: &Common, args: &WindowsArgs, screen: Screen) -> Result<Exit, Failure> {
    let asked = Asked {
        name: args.name.as_deref(),
        file: args.file.as_deref(),
        from: args.from.as_deref(),
    };
    let Some(prepared) = prepare(common, asked, screen).await? else {
        return Ok(Exit::Error);
    };
    let Prepared {
        read,
        subject,
        lists,
        uid,
    } = prepared;
    let place = (subject.namespace.as_str(), subject.name.as_str());
    let now = read.about.read_at;
    let mut snapshot = Snapshot::new(lists, ControllerSettings::default(), now);
    let input = match snapshot.planner_input(&uid) {
        Ok(input) => input,
        Err(no_plan) => return refused(NoRehearsal::NoPlan(no_plan), place, screen),
    };
    let groups = groups(&input.fleet, now, args.managed_cluster.as_deref(), args.next);
    if groups.is_empty() {
        let (namespace, name) = place;
        return Err(Failure::Other(args.managed_cluster.as_deref().map_or_else(
            || format!("upgrade {namespace}/{name} selects no cluster"),
            |cluster| format!("cluster {cluster} is not in upgrade {namespace}/{name}"),
        )));
    }
    let is_free = input.fleet.calendars.is_empty() && groups.iter().all(|group| group.open);
    if is_free && Output::is_for_humans(common.output) {
        screen.note("Without spec.maintenance.windows and exclusions, clusters may start at any time.\n");
    }
    let text = render::windows::render(&groups, common.output, screen.paint);
    print(common, &text, screen);
    if Output::is_for_humans(common.output) {
        screen.note(&format!(
            "Time zones are those of the IANA data {}.\n",
            Zone::data_version()
        ));
    }
    Ok(Exit::Done)
}
