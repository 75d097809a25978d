//! `updates`: shows the updates of one cluster and requests one.

use std::io::Read as _;
use std::path::Path;

use chrono::Utc;
use clusterversion::ClusterVersion;
use clusterversion::updates::{self, ClusterUpdates, RequestOptions, UpdateRequest};

use crate::args::{Common, UpdatesArgs};
use crate::cluster::{self, Cluster};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::render::updates::quoted_json;
use crate::screen::Screen;
use crate::table::{lines, one_line, or_none};

pub(super) async fn run(common: &Common, args: &UpdatesArgs, screen: Screen) -> Result<Exit, Failure> {
    check(common, args)?;
    match (&args.file, &args.to) {
        (Some(file), None) => {
            let object = read(file)?;
            // The file may be old, so its own times are used instead of the current time.
            show(
                common,
                args,
                &updates::cluster_updates(&object, None, None),
                screen,
            );
            Ok(Exit::Done)
        }
        (Some(file), Some(version)) => {
            let request = judge(&read(file)?, version, args)?;
            screen.print(&format!(
                "kubectl patch clusterversion version --type merge -p {}\n",
                quoted_json(&request.patch)
            ));
            note(&request.notes, screen);
            Ok(Exit::Done)
        }
        (None, None) => {
            let cluster = Cluster::connect(common).await?;
            let object = cluster.version().await?;
            let (gates, acks) = cluster.gates_and_acks().await;
            let shown = updates::cluster_updates(&object, Some((&gates, &acks)), Some(Utc::now()));
            show(common, args, &shown, screen);
            Ok(Exit::Done)
        }
        (None, Some(version)) => {
            let cluster = Cluster::connect(common).await?;
            let object = cluster.version().await?;
            let request = judge(&object, version, args)?;
            cluster.request(&object, request.patch).await?;
            screen.print(&format!("Requested update to {version}\n"));
            note(&request.notes, screen);
            Ok(Exit::Done)
        }
    }
}

/// Prints what the administrator should know about a request.
fn note(notes: &[String], screen: Screen) {
    let notes = notes.iter().map(|note| one_line(note));
    screen.note(&lines(notes.map(|note| format!("Note: {note}"))));
}

/// Rejects flags that would have no effect, because the user expects one.
fn check(common: &Common, args: &UpdatesArgs) -> Result<(), Failure> {
    let flags = &common.connection;
    let useless = [
        (
            args.to.is_some() && common.output.is_some(),
            "--output has no effect with --to; leave it out",
        ),
        (
            common.namespace.is_some() || common.all_namespaces,
            "a ClusterVersion has no namespace; leave out --namespace and --all-namespaces",
        ),
        (
            args.file.is_some()
                && (flags.kubeconfig.is_some() || flags.context.is_some() || flags.impersonate.is_some()),
            "a file is checked without its cluster; leave out either --filename, or --kubeconfig, --context and --as",
        ),
    ];
    match useless.into_iter().find(|(given, _)| *given) {
        Some((_, why)) => Err(Failure::Other(why.to_owned())),
        None => Ok(()),
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

fn show(common: &Common, args: &UpdatesArgs, view: &ClusterUpdates, screen: Screen) {
    let all = args.include_not_recommended;
    screen.print(&render::updates::render(view, all, common.output, screen.paint));
}

fn judge(object: &ClusterVersion, version: &str, args: &UpdatesArgs) -> Result<UpdateRequest, Failure> {
    let allowed = RequestOptions {
        not_recommended: args.allow_not_recommended,
        warnings: args.allow_upgrade_with_warnings,
    };
    updates::update_request(object, version, allowed).map_err(|reasons| {
        let list = lines(reasons.iter().map(|reason| format!("* {}", one_line(reason))));
        Failure::Other(format!(
            "the update to {} was not requested:\n{}",
            or_none(&one_line(version)),
            list.trim_end()
        ))
    })
}
