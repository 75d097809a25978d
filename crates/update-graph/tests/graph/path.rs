//! Laws of paths, against an oracle that walks every path there is.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;
use update_graph::query::{PathQuery, Target, path};
use update_graph::v1::Served;
use update_graph::{Arch, Builder, Graph, Version};

/// A release: its version and the channels it is in.
type Node = (Version, BTreeSet<&'static str>);

const CHANNELS: [&str; 4] = ["stable-4.1", "stable-4.2", "fast-4.1", "eus-4.2"];

#[derive(Debug, Clone)]
struct Made {
    nodes: Vec<Node>,
    /// From and to with the risks, if any.
    edges: BTreeMap<(usize, usize), Vec<String>>,
}

fn versions() -> impl Strategy<Value = BTreeSet<Version>> {
    let version =
        (0_u64..4, 0_u64..4, prop::option::weighted(0.2, 0_u8..2)).prop_map(|(minor, patch, rc)| {
            let (major, minor) = if minor == 3 { (5, 0) } else { (4, minor) };
            let pre = rc.map_or_else(String::new, |n| format!("-rc.{n}"));
            format!("{major}.{minor}.{patch}{pre}").parse().unwrap()
        });
    prop::collection::btree_set(version, 2..10)
}

fn made() -> impl Strategy<Value = Made> {
    (versions(), any::<u64>()).prop_map(|(versions, seed)| {
        let mut rng = crate::checks::SeededRng::new(seed);
        let nodes: Vec<Node> = versions
            .into_iter()
            .map(|version| {
                (
                    version,
                    CHANNELS.into_iter().filter(|_| rng.below(3) > 0).collect(),
                )
            })
            .collect();
        let mut edges = BTreeMap::new();
        for to in 0..nodes.len() {
            for from in 0..to {
                match rng.below(8) {
                    0..=3 => drop(edges.insert((from, to), Vec::new())),
                    4 => drop(edges.insert((from, to), vec!["A".to_owned()])),
                    5 => drop(edges.insert((from, to), vec!["A".to_owned(), "B".to_owned()])),
                    _ => {}
                }
            }
        }
        Made { nodes, edges }
    })
}

fn graph(made: &Made) -> Graph {
    let nodes: Vec<_> = made
        .nodes
        .iter()
        .map(|(version, channels)| {
            let csv: Vec<_> = channels.iter().copied().collect();
            json!({"version": version, "payload": format!("q@{version}"),
                "metadata": {"io.openshift.upgrades.graph.release.channels": csv.join(",")}})
        })
        .collect();
    let open: Vec<_> = made
        .edges
        .iter()
        .filter(|(_, risks)| risks.is_empty())
        .map(|(ends, _)| json!(ends))
        .collect();
    let conditional: Vec<_> = made
        .edges
        .iter()
        .filter(|(_, risks)| !risks.is_empty())
        .map(|(&(from, to), risks)| {
            let risks: Vec<_> = risks
                .iter()
                .map(|name| json!({"url": "u", "name": name, "message": "m", "matchingRules": [{"type": "Always"}]}))
                .collect();
            json!({"edges": [{"from": made.nodes[from].0, "to": made.nodes[to].0}], "risks": risks})
        })
        .collect();
    let text = json!({"nodes": nodes, "edges": open, "conditionalEdges": conditional}).to_string();
    Builder::new()
        .served(Served::parse(text.as_bytes(), &Arch::amd64()).unwrap())
        .build()
        .0
}

/// Every usable path, best first.
fn all_paths(made: &Made, query: &PathQuery, from: usize, to: usize) -> Vec<Vec<usize>> {
    let usable = |a: usize, b: usize| {
        let Some(risks) = made.edges.get(&(a, b)) else {
            return false;
        };
        let (x, y) = (&made.nodes[a].0, &made.nodes[b].0);
        let numbers = if x.major() == y.major() {
            y.minor() - x.minor() <= 1
        } else {
            y.minor() == 0
        };
        let wanted = |c: &&&str| {
            query.channels.is_empty() || query.channels.iter().any(|w| c.split('-').next() == Some(w))
        };
        let shared = made.nodes[a]
            .1
            .intersection(&made.nodes[b].1)
            .filter(wanted)
            .count()
            > 0;
        let passes =
            |n: usize| query.pre_releases || n == from || n == to || made.nodes[n].0.pre().is_empty();
        let accepted = query.conditional || risks.iter().all(|risk| query.accepted.contains(risk));
        numbers && shared && passes(a) && passes(b) && accepted
    };
    let (mut found, mut open) = (Vec::new(), vec![vec![from]]);
    while let Some(walk) = open.pop() {
        let at = *walk.last().unwrap();
        if at == to {
            found.push(walk);
            continue;
        }
        for next in (at + 1..=to).filter(|&next| usable(at, next)) {
            open.push([walk.clone(), vec![next]].concat());
        }
    }
    found.sort_by_key(|walk| {
        (
            walk.len(),
            walk.iter().map(|&n| std::cmp::Reverse(n)).collect::<Vec<_>>(),
        )
    });
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_best_paths_are_those_that_walking_them_all_finds(
        made in made(),
        ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        conditional in any::<bool>(),
        pre_releases in any::<bool>(),
        accept in 0_u8..3,
        wanted in 0_u8..3,
        limit in 1_usize..6,
    ) {
        let graph = graph(&made);
        let (a, b) = (ends.0.index(made.nodes.len()), ends.1.index(made.nodes.len()));
        let (from, to) = (a.min(b), a.max(b));
        let version = |n: usize| made.nodes[n].0.clone();
        let mut query = PathQuery::new(Arch::amd64(), version(from), Target::Version(version(to)));
        query.conditional = conditional;
        query.pre_releases = pre_releases;
        query.accepted = ["A", "B"].into_iter().take(accept.into()).map(str::to_owned).collect();
        query.channels = [vec![], vec!["stable".to_owned()], vec!["eus".to_owned(), "fast".to_owned()]][usize::from(wanted)].clone();
        query.limit = limit;
        let answer = path(&graph, &query).unwrap();
        let mut expected = all_paths(&made, &query, from, to);
        expected.truncate(limit);
        let got: Vec<Vec<Version>> = answer
            .paths
            .iter()
            .map(|path| {
                std::iter::once(version(from)).chain(path.hops.iter().map(|hop| hop.to.clone())).collect()
            })
            .collect();
        let expected: Vec<Vec<Version>> =
            expected.iter().map(|walk| walk.iter().map(|&n| version(n)).collect()).collect();
        prop_assert_eq!(&got, &expected);
        prop_assert_eq!(answer.unreachable.is_some(), got.is_empty());
        for hop in answer.paths.iter().flat_map(|path| &path.hops) {
            let holds = |v: &Version| made.nodes.iter().any(|n| n.0 == *v && n.1.contains(hop.channel.as_str()));
            prop_assert!(holds(&hop.from) && holds(&hop.to));
            let ends = |v: &Version| made.nodes.iter().position(|n| n.0 == *v).unwrap();
            let names: Vec<_> = hop.risks.iter().map(|risk| risk.name.clone()).collect();
            prop_assert_eq!(&names, &made.edges[&(ends(&hop.from), ends(&hop.to))]);
        }
        if let Some(why) = answer.unreachable {
            // What is named in the way is all that is: with it out of the way there is a path.
            if let Some(nearest) = why.nearest {
                let at = made.nodes.iter().position(|n| n.0 == nearest).unwrap();
                query.to = Target::Version(nearest);
                prop_assert!(at > from && at < to);
                prop_assert!(!path(&graph, &query).unwrap().paths.is_empty());
            }
            for obstacle in why.obstacles {
                let ends = |v: &Version| made.nodes.iter().position(|n| n.0 == *v).unwrap();
                prop_assert!(made.edges.contains_key(&(ends(&obstacle.from), ends(&obstacle.to))));
            }
        }
    }
}

#[test]
fn a_path_stays_in_a_channel_as_long_as_it_can() {
    let nodes: Vec<Node> = [
        ("4.1.0", &["stable-4.1", "eus-4.2"][..]),
        ("4.1.1", &["stable-4.1", "stable-4.2", "eus-4.2"][..]),
        ("4.2.0", &["stable-4.2", "eus-4.2"][..]),
    ]
    .map(|(version, channels)| (version.parse().unwrap(), channels.iter().copied().collect()))
    .into();
    let edges = BTreeMap::from([((0, 1), Vec::new()), ((1, 2), Vec::new())]);
    let graph = graph(&Made { nodes, edges });
    let mut query = PathQuery::new(Arch::amd64(), "4.1.0".parse().unwrap(), "4.2".parse().unwrap());
    let channels = |query: &PathQuery| -> Vec<(String, bool)> {
        let answer = path(&graph, query).unwrap();
        answer.paths[0]
            .hops
            .iter()
            .map(|hop| (hop.channel.clone(), hop.channel_changes))
            .collect()
    };
    assert_eq!(
        channels(&query),
        [("eus-4.2".to_owned(), false), ("eus-4.2".to_owned(), false)]
    );
    query.channel = Some("stable-4.1".to_owned());
    let changed = channels(&query);
    assert_eq!(changed[0], ("stable-4.1".to_owned(), false));
    assert!(changed[1].1);
    query.channels = vec!["stable".to_owned()];
    assert_eq!(channels(&query)[1], ("stable-4.2".to_owned(), true));
}
