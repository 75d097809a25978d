//! `updates`: one cluster's updates, and the request for one.

use std::io::Read as _;
use std::path::Path;

use chrono::Utc;
use clusterversion::ClusterVersion;
use clusterversion::gates::ConfigMap;
use clusterversion::view::{self, Allowed, Request, View};

use crate::args::{Common, UpdatesArgs};
use crate::cluster::{self, Cluster};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::screen::Screen;
use crate::table::lines;

pub(super) async fn run(common: &Common, args: &UpdatesArgs, screen: Screen) -> Result<Exit, Failure> {
    match (&args.file, &args.to) {
        (Some(file), None) => {
            let object = read(file)?;
            // A file is as old as it is: its own times say more than the clock.
            show(common, args, &view::view(&object, None, None), screen);
            Ok(Exit::Done)
        }
        (Some(file), Some(version)) => {
            let request = judge(&read(file)?, version, args)?;
            screen.print(&format!(
                "kubectl patch clusterversion version --type merge -p '{}'\n",
                request.patch
            ));
            screen.note(&lines(request.notes.iter().map(|note| format!("Note: {note}"))));
            Ok(Exit::Done)
        }
        (None, None) => {
            let cluster = Cluster::connect(common).await?;
            let object = cluster.version().await?;
            let (gates, acks) = cluster.gates_and_acks().await;
            let mut shown = view::view(&object, Some((&gates, &acks)), Some(Utc::now()));
            shown
                .notes
                .extend([&gates, &acks].into_iter().filter_map(unreadable));
            show(common, args, &shown, screen);
            Ok(Exit::Done)
        }
        (None, Some(version)) => {
            let cluster = Cluster::connect(common).await?;
            let object = cluster.version().await?;
            let request = judge(&object, version, args)?;
            cluster.request(&object, request.patch).await?;
            screen.print(&format!("Requested update to {version}\n"));
            screen.note(&lines(request.notes.iter().map(|note| format!("Note: {note}"))));
            Ok(Exit::Done)
        }
    }
}

/// A note for a `ConfigMap` that could not be read: gates may then stand that are not shown.
fn unreadable(map: &ConfigMap) -> Option<String> {
    match map {
        ConfigMap::Unreadable(error) => Some(format!("gates to acknowledge may be missing here: {error}")),
        ConfigMap::Found(_) | ConfigMap::Missing => None,
    }
}

fn read(file: &Path) -> Result<ClusterVersion, Failure> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let named = |error: &dyn std::fmt::Display| Failure::Other(format!("{}: {error}", file.display()));
    let text = text.map_err(|error| named(&error))?;
    cluster::read_text(&text).map_err(|failure| match failure {
        Failure::Other(text) => named(&text),
        other => other,
    })
}

fn show(common: &Common, args: &UpdatesArgs, view: &View, screen: Screen) {
    let all = args.include_not_recommended;
    screen.print(&render::updates::render(view, all, common.output, screen.paint));
}

fn judge(object: &ClusterVersion, version: &str, args: &UpdatesArgs) -> Result<Request, Failure> {
    let allowed = Allowed {
        not_recommended: args.allow_not_recommended,
        warnings: args.allow_upgrade_with_warnings,
    };
    view::request(object, version, allowed).map_err(|reasons| {
        let list = lines(reasons.iter().map(|reason| format!("* {reason}")));
        Failure::Other(format!(
            "the update to {version} is not requested:\n{}",
            list.trim_end()
        ))
    })
}
