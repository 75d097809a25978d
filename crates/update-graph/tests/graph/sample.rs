//! The sample: every kind of edge and block, each with the verdict and the cause that it is meant to show.

use flate2::Compression;
use flate2::write::GzEncoder;
use update_graph::graph_data::Effect;
use update_graph::policy::{Chain, Policy};
use update_graph::query::{NextQuery, PathQuery, Verdict, next, path, stranded};
use update_graph::{Arch, Counts, Graph, Rule, Severity, lint};

use crate::checks::{
    Corpus, bodies_are_as_expected, bytes, channels_are_as_the_oracle_says, expected, old_reader,
    test_each_check,
};
use crate::queries::ask;

/// The sample.
fn corpus() -> Corpus {
    let dir = repository::data::sample("update-graph");
    let gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    archive.append_dir_all(".", dir.join("graph-data")).unwrap();
    Corpus {
        releases: bytes(&dir, "releases.json"),
        extra: b"{}".to_vec(),
        archive: archive.into_inner().unwrap().finish().unwrap(),
        expected: expected(&dir, ".json"),
        three: ["candidate-4.13", "eus-4.14", "stable-4.14"],
    }
}

const HOTFIX: &str = "4.13.5-0.hotfix-2031-01-02-030405";

test_each_check!(Some(corpus()));

#[test]
fn a_reader_that_knows_only_to_and_from_sees_every_risky_edge_gone() {
    old_reader::risky_edges_are_gone(
        &corpus(),
        &["eus-4.14", "stable-4.14", "candidate-4.14", "fast-4.13"],
    );
}

#[test]
fn bodies_and_channels_are_what_the_plain_rules_say() {
    let corpus = self::corpus();
    assert_eq!(bodies_are_as_expected(&corpus), 3);
    assert_eq!(channels_are_as_the_oracle_says(&corpus), 6);
    assert_eq!(
        corpus.graph(true).0.counts(None),
        Counts {
            releases: 30,
            edges: 152,
            conditional_edges: 53,
            blocked_edges: 22
        }
    );
}

fn graph() -> Graph {
    corpus().graph(false).0
}

/// Updates with their verdict, the names of their risks and the files that are their causes.
type Case = (
    &'static str,
    &'static str,
    Verdict,
    &'static [&'static str],
    &'static [&'static str],
);

const CASES: [Case; 15] = [
    ("4.13.7", "4.13.8", Verdict::Open, &[], &[]),
    ("4.13.4", HOTFIX, Verdict::Open, &[], &[]),
    ("4.13.1", "4.13.6", Verdict::Blocked, &[], &["4.13.6"]),
    ("4.13.8", "4.13.9", Verdict::Blocked, &[], &["4.13.9"]),
    (
        "4.13.7",
        "4.14.5",
        Verdict::Conditional,
        &["SlowDrain"],
        &["4.14.5-SlowDrain"],
    ),
    (
        "4.13.7",
        "4.14.6",
        Verdict::Conditional,
        &["MonitoringLeak"],
        &["4.14.6-MonitoringLeak"],
    ),
    (
        "4.13.7",
        "4.14.7",
        Verdict::Conditional,
        &["MonitoringLeak", "SlowDrain"],
        &["4.14.7-MonitoringLeak", "4.14.7-SlowDrain"],
    ),
    (
        "4.14.1",
        "4.14.8",
        Verdict::Conditional,
        &["GpuNodesReboot"],
        &["4.14.8-GpuNodesReboot"],
    ),
    // A silent block and a risk: the risk makes it conditional.
    (
        "4.13.7",
        "4.14.9",
        Verdict::Conditional,
        &["SlowDrain"],
        &["4.14.9", "4.14.9-SlowDrain"],
    ),
    // The only block of 4.14.10 is for another architecture.
    ("4.13.12", "4.14.10", Verdict::Open, &[], &[]),
    ("4.14.0", "4.14.3", Verdict::RemovedByMetadata, &[], &[]),
    ("4.14.4", "4.14.5", Verdict::RemovedByMetadata, &[], &[]),
    ("4.13.12", "4.14.11", Verdict::RemovedByMetadata, &[], &[]),
    ("4.14.0", "4.13.12", Verdict::NotUp, &[], &[]),
    ("4.13.1", "4.14.1", Verdict::NotDeclared, &[], &[]),
];

#[test]
fn every_kind_of_edge_has_its_verdict_and_its_causes() {
    let graph = graph();
    for (from, to, verdict, risks, files) in CASES {
        let found = ask(&graph, from, to);
        assert_eq!(found.verdict, verdict, "{from} -> {to}: {found:?}");
        let names: Vec<&str> = found.risks.iter().map(|risk| risk.name.as_str()).collect();
        assert_eq!(names, risks, "{from} -> {to}");
        let mut blocks: Vec<&str> = found
            .causes
            .iter()
            .filter_map(|cause| cause.file.strip_prefix("blocked-edges/")?.strip_suffix(".yaml"))
            .collect();
        blocks.sort_unstable();
        assert_eq!(blocks, files, "{from} -> {to}");
    }
    assert_eq!(ask(&graph, "4.12.99", "4.13.0").verdict, Verdict::UnknownSource);
    assert_eq!(ask(&graph, "4.14.0", "4.15.0").verdict, Verdict::UnknownTarget);
    assert_eq!(ask(&graph, "4.13.12", "4.14.7").risks.len(), 2);
    assert_eq!(
        ask(&graph, "4.13.7", "4.14.8").causes[0].fixed_in.as_deref(),
        Some("4.14.9")
    );
}

#[test]
fn every_kind_of_matching_rule_is_there() {
    let data = corpus().graph_data();
    let mut kinds: Vec<String> = Vec::new();
    for block in data.blocks.iter() {
        if let Effect::Risk(risk) = &block.effect {
            let rules = serde_json::to_value(risk.as_ref()).unwrap()["matchingRules"].clone();
            let types = rules
                .as_array()
                .unwrap()
                .iter()
                .map(|rule| rule["type"].as_str().unwrap().to_owned());
            kinds.push(types.collect::<Vec<_>>().join("+"));
        }
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, ["Always", "PromQL", "PromQL+Always"]);
}

#[test]
fn a_removed_release_goes_where_the_policy_is_applied() {
    let graph = graph();
    assert_eq!(ask(&graph, "4.14.0", "4.14.2").verdict, Verdict::Open);
    let policy = Policy::NodeRemove {
        versions: Vec::new(),
        regex: None,
        marked: true,
    };
    let (without, _) = Chain(vec![policy]).apply(graph);
    assert_eq!(ask(&without, "4.14.0", "4.14.2").verdict, Verdict::UnknownTarget);
    assert_eq!(without.counts(None).releases, 29);
}

#[test]
fn paths_cross_the_minor_version_and_name_what_is_in_the_way() {
    let graph = graph();
    let hops = |query: &PathQuery| -> Vec<String> {
        let answer = path(&graph, query).unwrap();
        let first = answer.paths.first();
        first.map_or_else(Vec::new, |path| {
            path.hops.iter().map(|hop| hop.to.to_string()).collect()
        })
    };
    let mut query = PathQuery::new(Arch::amd64(), "4.13.2".parse().unwrap(), "4.14".parse().unwrap());
    query.channels = vec!["stable".to_owned()];
    assert_eq!(hops(&query), ["4.13.11", "4.14.10"]);
    // In the stable channels every update to 4.14.8 has the same risk.
    query.to = "4.14.8".parse().unwrap();
    assert_eq!(hops(&query), [""; 0]);
    let why = path(&graph, &query).unwrap().unreachable.unwrap();
    assert_eq!(why.obstacles[0].risks[0].name, "GpuNodesReboot");
    query.accepted.insert("GpuNodesReboot".to_owned());
    assert_eq!(hops(&query).last().unwrap(), "4.14.8");
    // Release candidates are passed through only on request.
    query.channels = vec!["candidate-4.13".to_owned()];
    query.from = "4.13.0-rc.0".parse().unwrap();
    query.to = "4.13.1".parse().unwrap();
    assert_eq!(hops(&query), ["4.13.0", "4.13.1"]);
}

#[test]
fn next_releases_and_stranded_ones_are_those_of_the_channels() {
    let graph = graph();
    let query = |from: &str, channel: &str| NextQuery {
        arch: Arch::amd64(),
        from: from.parse().unwrap(),
        channels: vec![channel.to_owned()],
    };
    let versions = |from, channel| -> Vec<String> {
        let found = next(&graph, &query(from, channel)).unwrap();
        found.iter().map(|next| next.version.to_string()).collect()
    };
    assert_eq!(
        versions("4.13.11", "eus-4.14"),
        ["4.14.10", "4.14.9", "4.14.8", "4.14.7", "4.14.6"]
    );
    assert_eq!(versions(HOTFIX, "candidate-4.13"), [""; 0]);
    let stuck = stranded(&graph, &["candidate".to_owned()], &Arch::amd64());
    let names: Vec<String> = stuck.iter().map(|release| release.version.to_string()).collect();
    assert_eq!(names, [HOTFIX]);
}

#[test]
fn the_sample_passes_the_lint() {
    let problems = lint::files(corpus().files());
    assert!(
        problems
            .iter()
            .all(|problem| problem.severity() != Severity::Error),
        "{problems:#?}"
    );
    assert!(
        problems.iter().all(|problem| problem.rule != Rule::BlockTarget),
        "{problems:#?}"
    );
}
