//! The real data: captured bodies of production come out equal, and every channel is what the plain rules say. Without the
//! data (`repository::data`) these tests say that they are skipped; the tests in `tests/graph` run on a sample instead.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../checks/mod.rs"]
mod checks;

use std::collections::BTreeMap;

use serde_json::Value;
use update_graph::graph_data::Effect;
use update_graph::query::{
    ExplainQuery, NextQuery, PathQuery, Target, Verdict, explain, next, path, stranded,
};
use update_graph::{Arch, Counts, GraphData, Rule, lint};

use checks::{
    Corpus, bodies_are_as_expected, bytes, channels_are_as_the_oracle_says, expected, gunzip, old_reader,
    test_each_check,
};

/// The real data. `None`, and a line on standard error that says so, where they are missing.
fn corpus() -> Option<Corpus> {
    let dir = repository::data::directory("update-graph")?;
    Some(Corpus {
        releases: gunzip(&bytes(&dir, "releases-amd64.json.gz")),
        extra: gunzip(&bytes(&dir, "extra-previous-amd64.json.gz")),
        archive: bytes(&dir, "graph-data.tar.gz"),
        expected: expected(&dir, ".json.gz"),
        three: ["eus-4.16", "candidate-4.6", "stable-4.9"],
    })
}

test_each_check!(corpus());

#[test]
fn a_reader_that_knows_only_to_and_from_sees_every_risky_edge_gone() {
    let Some(corpus) = corpus() else { return };
    old_reader::risky_edges_are_gone(
        &corpus,
        &["eus-4.16", "candidate-4.14", "stable-4.22", "fast-4.6"],
    );
}

#[test]
fn captured_bodies_come_out_equal_with_and_without_extra_edges() {
    let Some(corpus) = corpus() else { return };
    assert_eq!(bodies_are_as_expected(&corpus), 12);
}

#[test]
fn every_channel_is_what_the_plain_rules_say() {
    let Some(corpus) = corpus() else { return };
    assert_eq!(channels_are_as_the_oracle_says(&corpus), 76);
    let (graph, problems) = corpus.graph(true);
    let nothing = r#"{"version":1,"nodes":[],"edges":[],"conditionalEdges":[]}"#;
    assert_eq!(graph.body("stable-9.9", &Arch::amd64()), nothing.as_bytes());
    assert_eq!(graph.body("stable-4.16", &Arch::multi()), nothing.as_bytes());
    // Nothing in real data but three releases without edges.
    assert_eq!(
        problems.iter().map(|p| p.rule).collect::<Vec<_>>(),
        [Rule::Disconnected],
        "{problems:?}"
    );
    assert_eq!(
        graph.counts(None),
        Counts {
            releases: 1365,
            edges: 43_044 + 14,
            conditional_edges: 15_715,
            blocked_edges: 804
        }
    );
}

#[test]
fn every_block_is_read_as_the_yaml_parser_reads_its_whole_file() {
    let Some(corpus) = corpus() else { return };
    let (data, _) = GraphData::from_tar(&corpus.archive, 2).unwrap();
    let mut files = corpus.files();
    files.retain(|(path, _)| path.starts_with("blocked-edges/"));
    files.sort();
    assert_eq!((files.len(), data.blocks.len()), (1717, 1717));
    let mut risks = BTreeMap::new();
    for ((path, content), block) in files.iter().zip(data.blocks.iter()) {
        let whole: Value = serde_saphyr::from_str(std::str::from_utf8(content).unwrap()).unwrap();
        assert_eq!(block.file, path);
        let to = block
            .arch
            .as_ref()
            .map_or_else(|| block.to.to_string(), |arch| block.to.with_arch(arch));
        assert_eq!(
            whole["to"].as_str().unwrap().replace("-s390x", "+s390x"),
            to,
            "{path}"
        );
        assert_eq!(whole["from"], block.from.as_ref().unwrap().as_str(), "{path}");
        assert_eq!(whole["fixedIn"].as_str(), block.fixed_in.as_deref(), "{path}");
        match &block.effect {
            Effect::Silent => assert_eq!(whole.as_object().unwrap().len(), 2, "{path}"),
            Effect::Broken => panic!("{path}"),
            Effect::Risk(risk) => {
                // A query that the end of the file cuts off has no line break at its end; `risks.json` knows.
                for key in ["url", "name", "message"] {
                    assert_eq!(
                        serde_json::to_value(risk.as_ref()).unwrap()[key],
                        whole[key],
                        "{path}"
                    );
                }
                risks.insert(
                    risk.name.to_string(),
                    serde_json::to_value(risk.as_ref()).unwrap(),
                );
            }
        }
    }
    let dir = repository::data::directory("update-graph").unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&bytes(&dir, "risks.json")).unwrap();
    assert_eq!(risks.len(), listed.len());
    for risk in listed {
        assert_eq!(risks[risk["name"].as_str().unwrap()], risk);
    }
}

#[test]
fn real_graph_data_pass_the_lint_but_for_known_findings() {
    let Some(corpus) = corpus() else { return };
    let problems = lint::files(corpus.files());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for problem in &problems {
        *counts.entry(problem.rule.as_str()).or_default() += 1;
        assert!(!problem.file.is_empty(), "{problem}");
    }
    assert!(
        !counts.contains_key("promql-syntax") && !counts.contains_key("promql-feature"),
        "{problems:#?}"
    );
    assert!(
        !counts.contains_key("risk-text"),
        "one name has one text everywhere: {problems:#?}"
    );
    assert!(!counts.contains_key("block-unreadable"));
    println!("{counts:?}");
}

#[test]
fn known_ways_through_the_real_graph_are_found() {
    let Some(corpus) = corpus() else { return };
    let (graph, _) = corpus.graph(true);
    let query = |from: &str, to: &str| {
        let mut query = PathQuery::new(
            Arch::amd64(),
            from.parse().unwrap(),
            to.parse::<Target>().unwrap(),
        );
        query.channels = vec!["stable".into()];
        query
    };
    // Found once by hand in the same data: 11 hops, no risk.
    let answer = path(&graph, &query("4.12.0", "4.22.9")).unwrap();
    assert_eq!(answer.paths[0].hops.len(), 11);
    assert!(
        answer.paths[0]
            .hops
            .iter()
            .all(|hop| hop.risks.is_empty() && hop.channel.starts_with("stable-"))
    );
    // Only over an Always risk.
    let mut always = query("4.12.28", "4.14.16");
    let refused = path(&graph, &always).unwrap();
    let why = refused.unreachable.unwrap();
    assert!(refused.paths.is_empty());
    assert!(
        why.obstacles
            .iter()
            .all(|o| !o.risks.is_empty() && !o.causes.is_empty()),
        "{why:?}"
    );
    always.conditional = true;
    let answer = path(&graph, &always).unwrap();
    assert_eq!(answer.paths[0].hops.len(), 2, "{answer:?}");
    // Accepting the risks by name is as good.
    let named = answer.paths[0]
        .hops
        .iter()
        .flat_map(|hop| &hop.risks)
        .map(|risk| risk.name.clone())
        .collect();
    let accepted = PathQuery {
        conditional: false,
        accepted: named,
        ..always
    };
    assert!(!path(&graph, &accepted).unwrap().paths.is_empty());
    // The bogus edge across two minor versions is never used.
    let mut bogus = query("4.14.30", "4.16.0-rc.5");
    bogus.channels.clear();
    bogus.conditional = true;
    bogus.pre_releases = true;
    assert!(
        path(&graph, &bogus)
            .unwrap()
            .paths
            .iter()
            .all(|path| path.hops.len() > 1)
    );
    // EUS to EUS stays in one channel.
    let mut eus = query("4.14.30", "4.16");
    eus.channels = vec!["eus".into(), "stable".into()];
    let answer = path(&graph, &eus).unwrap();
    assert!(
        answer.paths[0].hops.iter().all(|hop| hop.channel == "eus-4.16"),
        "{answer:?}"
    );
}

#[test]
fn an_edge_of_the_real_graph_is_explained() {
    let Some(corpus) = corpus() else { return };
    let (graph, _) = corpus.graph(true);
    let ask = |from: &str, to: &str| {
        explain(
            &graph,
            &ExplainQuery {
                arch: Arch::amd64(),
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
                channels: Vec::new(),
            },
        )
    };
    let risky = ask("4.12.28", "4.13.37");
    assert_eq!(risky.verdict, Verdict::Conditional, "{risky:?}");
    assert_eq!(
        risky.risks.len(),
        risky.causes.iter().filter(|c| c.risk.is_some()).count()
    );
    assert!(
        risky
            .causes
            .iter()
            .all(|c| c.file.starts_with("blocked-edges/4.13.37-")),
        "{risky:?}"
    );
    let silent = ask("4.1.0", "4.1.10");
    assert_eq!(silent.verdict, Verdict::Blocked, "{silent:?}");
    assert_eq!(silent.causes[0].file, "blocked-edges/4.1.10.yaml");
    assert_eq!(ask("4.1.0", "4.22.9").verdict, Verdict::NotDeclared);
    assert_eq!(ask("4.22.9", "4.1.0").verdict, Verdict::NotUp);
    assert_eq!(ask("4.0.0", "4.1.0").verdict, Verdict::UnknownSource);
    assert_eq!(ask("4.1.0", "4.99.0").verdict, Verdict::UnknownTarget);
}

#[test]
fn next_and_stranded_agree_on_the_real_graph() {
    let Some(corpus) = corpus() else { return };
    let (graph, _) = corpus.graph(true);
    let channels = vec!["stable".to_owned()];
    let stuck = stranded(&graph, &channels, &Arch::amd64());
    for release in graph.releases(&Arch::amd64()) {
        if !release.channels().any(|c| c.starts_with("stable-")) {
            continue;
        }
        let query = NextQuery {
            arch: Arch::amd64(),
            from: release.version().clone(),
            channels: channels.clone(),
        };
        let open = next(&graph, &query)
            .unwrap()
            .iter()
            .any(|next| next.risks.is_empty());
        let is_stuck = stuck.iter().any(|s| s.version == *release.version());
        assert!(
            open != is_stuck || release.version().to_string() == newest(&graph),
            "{}",
            release.version()
        );
    }
    // A hotfix of 2020 is stuck, and so are releases that are too new to lead anywhere.
    assert!(stuck.len() < 40, "{stuck:?}");
}

fn newest(graph: &update_graph::Graph) -> String {
    let stable = |r: &update_graph::ReleaseRef<'_>| r.channels().any(|c| c.starts_with("stable-"));
    graph
        .releases(&Arch::amd64())
        .filter(stable)
        .last()
        .unwrap()
        .version()
        .to_string()
}
