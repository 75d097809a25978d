//! `graph`: queries an update graph and prints the answer.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use update_client::Service;
use update_graph::Graph;
use update_graph::policy::{Chain, Policy};
use update_graph::query::{ExplainQuery, NextQuery, PathQuery, Target, diff, explain, next, path, stranded};

use crate::args::Common;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::graph::args::{
    ChannelsArgs, DiffArgs, ExplainArgs, GraphCommand, NextArgs, Part, PathArgs, Source, StrandedArgs,
};
use crate::graph::discovery::Need;
use crate::graph::load::{self, Loaded};
use crate::graph::service;
use crate::render::graph as render;
use crate::screen::Screen;

/// The note for graphs that cannot explain why an update is missing.
const SERVED_ONLY: &str = "Note: a served graph shows what became of an update, but not why. To see files and expressions, use --releases with \
                           --graph-data, or the update service of this project.\n";

pub(super) async fn run(common: &Common, command: &GraphCommand, screen: Screen) -> Result<Exit, Failure> {
    match command {
        GraphCommand::Channels(args) => channels(common, args, screen).await,
        GraphCommand::Next(args) => next_releases(common, args, screen).await,
        GraphCommand::Path(args) => find_path(common, args, screen).await,
        GraphCommand::Explain(args) => explain_update(common, args, screen).await,
        GraphCommand::Stranded(args) => list_stranded(common, args, screen).await,
        GraphCommand::Diff(args) => compare(common, args, screen).await,
    }
}

fn timeout(common: &Common) -> Option<Duration> {
    common
        .connection
        .request_timeout
        .to_std()
        .ok()
        .filter(|limit| !limit.is_zero())
}

async fn loaded(
    common: &Common,
    source: &Source,
    part: &Part,
    need: Need,
    screen: Screen,
) -> Result<Loaded, Failure> {
    let loaded = load::load(source, part, &need, timeout(common)).await?;
    screen.note(&loaded.warnings());
    load::demand_arch(&loaded, source, &part.arch)?;
    load::demand_channels(&loaded, source, &part.channels)?;
    Ok(loaded)
}

/// The failure for a release or update that is not in the graph.
fn not_known(error: &dyn Display) -> Failure {
    Failure::Other(format!("{error}; check --arch, --channel and the source"))
}

async fn channels(common: &Common, args: &ChannelsArgs, screen: Screen) -> Result<Exit, Failure> {
    let part = &args.part;
    let loaded = loaded(common, &args.source, part, Need::All, screen).await?;
    let found = render::channels::channels(&loaded.graph, &part.arch, &part.channels);
    if found.is_empty() && common.output.is_none() {
        screen.note(&format!("No channel contains releases for {}.\n", part.arch));
    } else {
        screen.print(&render::channels::render(&found, common.output, screen.paint));
    }
    Ok(Exit::Done)
}

async fn next_releases(common: &Common, args: &NextArgs, screen: Screen) -> Result<Exit, Failure> {
    let need = Need::From(args.from.clone());
    let loaded = loaded(common, &args.source, &args.part, need, screen).await?;
    let query = NextQuery {
        arch: args.part.arch.clone(),
        from: args.from.clone(),
        channels: args.part.channels.clone(),
    };
    let found = next(&loaded.graph, &query).map_err(|error| not_known(&error))?;
    if found.is_empty() && common.output.is_none() {
        screen.note(&format!("{} has no updates.\n", args.from));
    } else {
        screen.print(&render::next::render(&found, common.output, screen.paint));
    }
    Ok(Exit::Done)
}

async fn find_path(common: &Common, args: &PathArgs, screen: Screen) -> Result<Exit, Failure> {
    let minor = match &args.to {
        Target::Version(version) => (version.major(), version.minor()),
        Target::Minor { major, minor } => (*major, *minor),
    };
    let need = Need::Between(args.from.clone(), minor);
    let loaded = loaded(common, &args.source, &args.part, need, screen).await?;
    let query = PathQuery {
        conditional: args.conditional,
        accepted: args.accept_risks.iter().cloned().collect::<BTreeSet<_>>(),
        pre_releases: args.pre_releases,
        channels: args.part.channels.clone(),
        limit: args.alternatives.saturating_add(1),
        ..PathQuery::new(args.part.arch.clone(), args.from.clone(), args.to.clone())
    };
    let paths = path(&loaded.graph, &query).map_err(|error| not_known(&error))?;
    screen.print(&render::path::render(
        &args.from,
        &paths,
        common.output,
        screen.paint,
    ));
    Ok(if paths.unreachable.is_some() {
        Exit::Error
    } else {
        Exit::Done
    })
}

async fn explain_update(common: &Common, args: &ExplainArgs, screen: Screen) -> Result<Exit, Failure> {
    let part = &args.part;
    let asked = match &args.source.url {
        Some(url) => ask_service(&service(url, timeout(common))?, args).await?,
        None => None,
    };
    let shown = if let Some(shown) = asked {
        shown
    } else {
        let need = Need::Between(args.from.clone(), (args.to.major(), args.to.minor()));
        let loaded = loaded(common, &args.source, part, need, screen).await?;
        if !loaded.knows_why {
            screen.note(SERVED_ONLY);
        }
        let query = ExplainQuery {
            arch: part.arch.clone(),
            from: args.from.clone(),
            to: args.to.clone(),
            channels: part.channels.clone(),
        };
        let explanation = explain(&loaded.graph, &query);
        if explanation.verdict.is_unknown() {
            return Err(not_known(&explanation.message));
        }
        render::explain::Shown::try_from(&explanation).map_err(|error| Failure::Other(error.to_string()))?
    };
    screen.print(&render::explain::render(&shown, common.output, screen.paint));
    Ok(Exit::Done)
}

/// The explanation from a service; `None` if the service does not explain updates.
async fn ask_service(
    service: &Service,
    args: &ExplainArgs,
) -> Result<Option<render::explain::Shown>, Failure> {
    let (from, to) = (args.from.to_string(), args.to.to_string());
    let mut query = vec![
        ("from", from.as_str()),
        ("to", to.as_str()),
        ("arch", args.part.arch.as_str()),
    ];
    let channels = args.part.channels.join(",");
    if !channels.is_empty() {
        query.push(("channels", &channels));
    }
    let answer = service.extra("/v1/explain", &query).await?;
    let read = |body: Vec<u8>| {
        serde_json::from_slice(&body)
            .map_err(|error| Failure::Other(format!("{}: not an explanation: {error}", service.base())))
    };
    answer.map(read).transpose()
}

async fn list_stranded(common: &Common, args: &StrandedArgs, screen: Screen) -> Result<Exit, Failure> {
    let part = &args.part;
    let loaded = loaded(common, &args.source, part, Need::All, screen).await?;
    let found = stranded(&loaded.graph, &part.channels, &part.arch);
    if found.is_empty() && common.output.is_none() {
        screen.note("Every release except the newest has an update.\n");
    } else {
        screen.print(&render::stranded::render(&found, common.output, screen.paint));
    }
    Ok(Exit::Done)
}

async fn compare(common: &Common, args: &DiffArgs, screen: Screen) -> Result<Exit, Failure> {
    for text in [&args.old, &args.new] {
        if args.releases.is_empty() && Path::new(text).is_dir() {
            let message = format!(
                "{text} is a directory: to compare graph-data, also give their releases with --releases"
            );
            return Err(Failure::Other(message));
        }
    }
    let (from, to) = (side(args, &args.old), side(args, &args.new));
    // No check for the channels here: that only one of the graphs has a channel is a difference to show.
    let old = load::load(&from, &args.part, &Need::All, timeout(common)).await?;
    let new = load::load(&to, &args.part, &Need::All, timeout(common)).await?;
    let arch = &args.part.arch;
    load::demand_arch(&old, &from, arch).or_else(|nothing| {
        // Only one of the graphs needs to have the architecture, because it may be new.
        load::demand_arch(&new, &to, arch).map_err(|_| nothing)
    })?;
    for side in [&old, &new] {
        screen.note(&side.warnings());
    }
    let found = diff(&only(old.graph, &args.part), &only(new.graph, &args.part));
    screen.print(&render::diff::render(&found, common.output, screen.paint));
    Ok(Exit::Done)
}

/// The requested part of a graph. A service returns only this part, but a file may contain more.
fn only(graph: Graph, part: &Part) -> Graph {
    let mut chain = vec![Policy::ArchFilter {
        arches: vec![part.arch.clone()],
    }];
    if !part.channels.is_empty() {
        let channels = part.channels.clone();
        chain.push(Policy::ChannelFilter { channels });
    }
    Chain(chain).apply(graph).0
}

/// One of the two graphs to compare: a service, a served graph, or graph-data for the given releases.
fn side(args: &DiffArgs, text: &str) -> Source {
    if text.starts_with("http://") || text.starts_with("https://") {
        return Source {
            url: Some(text.to_owned()),
            ..Source::default()
        };
    }
    if args.releases.is_empty() {
        return Source {
            graph: vec![PathBuf::from(text)],
            default_arch: args.default_arch.clone(),
            ..Source::default()
        };
    }
    Source {
        releases: args.releases.clone(),
        graph_data: Some(PathBuf::from(text)),
        default_arch: args.default_arch.clone(),
        ..Source::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::fixtures::graph;
    use update_graph::Arch;

    fn diff_args(releases: &[&str]) -> DiffArgs {
        DiffArgs {
            old: String::new(),
            new: String::new(),
            releases: releases.iter().map(PathBuf::from).collect(),
            default_arch: Arch::default(),
            part: Part::default(),
        }
    }

    #[test]
    fn a_comparison_is_of_the_part_asked_for() {
        let graph = graph();
        let part = |arch: &str, channels: &[&str]| Part {
            arch: arch.parse().unwrap(),
            channels: channels.iter().map(|&name| name.to_owned()).collect(),
        };
        let all = part("amd64", &[]);
        let counts = |part: &Part| only(graph.clone(), part).counts(None).releases;
        assert!(counts(&all) > 0);
        assert_eq!(
            counts(&part("s390x", &[])),
            graph.counts(Some(&"s390x".parse().unwrap())).releases
        );
        assert_eq!(counts(&part("amd64", &["nowhere"])), 0);
        let name = graph.channels().next().unwrap().to_owned();
        let left = only(graph.clone(), &part("amd64", &[&name]));
        assert_eq!(left.channels().collect::<Vec<_>>(), [name.as_str()]);
    }

    #[test]
    fn a_side_of_a_comparison_is_told_by_its_form() {
        let (plain, with_releases) = (diff_args(&[]), diff_args(&["releases.json"]));
        assert!(side(&plain, "https://updates.example.com").url.is_some());
        assert!(side(&with_releases, "http://127.0.0.1:8080").url.is_some());
        assert_eq!(side(&plain, "graph.json").graph, [PathBuf::from("graph.json")]);
        let data = side(&with_releases, "graph-data");
        assert_eq!(
            (data.graph_data, data.releases.len()),
            (Some(PathBuf::from("graph-data")), 1)
        );
    }
}
