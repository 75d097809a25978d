use super::*;
use crate::query::{ExplainQuery, Verdict, explain};
use crate::{Builder, GraphData, release_list};

fn graph() -> Graph {
    let list = r#"[{"version":"4.1.0","payload":"a"},{"version":"4.1.1","payload":"b","previous":["4.1.0"]},
        {"version":"4.1.2","payload":"c","previous":["4.1.0","4.1.1"],"metadata":{"io.openshift.upgrades.graph.release.remove":"true"}},
        {"version":"4.2.0","payload":"d","previous":["4.1.1","4.1.2"]},{"version":"4.2.1","payload":"e","previous":["4.2.0"]}]"#;
    let files = [
        ("version", "1.1.0".to_owned()),
        (
            "channels/a",
            "name: stable-4.1\nversions: [4.1.0, 4.1.1, 4.1.2]\n".to_owned(),
        ),
        (
            "channels/b",
            "name: stable-4.2\nversions: [4.1.1, 4.1.2, 4.2.0]\n".to_owned(),
        ),
        (
            "channels/c",
            "name: fast-4.2\nversions: [4.1.1, 4.1.2, 4.2.0, 4.2.1]\n".to_owned(),
        ),
        ("blocked-edges/1", "to: 4.2.1\nfrom: 4[.]1[.]0\n".to_owned()),
        (
            "blocked-edges/2",
            "to: 4.2.1\nfrom: 4[.]1[.]1\nurl: u\nname: Late\nmessage: m\nmatchingRules: [{type: Always}]\n"
                .to_owned(),
        ),
        (
            "blocked-edges/3",
            "to: 4.2.0\nfrom: 4[.]1[.]2\nurl: u\nname: Early\nmessage: m\nmatchingRules: [{type: Always}]\n"
                .to_owned(),
        ),
    ];
    let files = files.map(|(path, text)| {
        let path = if path == "version" {
            path.to_owned()
        } else {
            format!("{path}.yaml")
        };
        (path, text.into_bytes())
    });
    let (data, problems) = GraphData::from_files(files, 1).unwrap();
    assert_eq!(problems, []);
    let mut builder = Builder::new().graph_data(data.into());
    for arch in ["amd64", "s390x"] {
        builder = builder.list(release_list::parse(list.as_bytes(), &arch.parse().unwrap()).unwrap());
    }
    builder.build().0
}

fn chain(yaml: &str) -> Chain {
    serde_saphyr::from_str(yaml).unwrap()
}

fn apply(yaml: &str) -> (Graph, Vec<Rule>) {
    let (graph, problems) = chain(yaml).apply(graph());
    (graph, problems.iter().map(|problem| problem.rule).collect())
}

fn verdict(graph: &Graph, from: &str, to: &str) -> Verdict {
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    explain(
        graph,
        &ExplainQuery {
            arch: Arch::amd64(),
            from,
            to,
            channels: Vec::new(),
        },
    )
    .verdict
}

#[test]
fn a_channel_filter_leaves_the_channels_and_their_releases() {
    let (graph, problems) = apply("- {policy: channel-filter, channels: [stable, eus-4.2]}");
    assert_eq!(graph.channels().collect::<Vec<_>>(), ["stable-4.1", "stable-4.2"]);
    assert_eq!(graph.counts(None).releases, 8);
    assert_eq!(problems, [Rule::PolicyUnmatched]);
    // A graph that is not filtered serves the channel alike.
    let channels = |graph: &Graph| graph.view(Some("stable-4.2"), &Arch::amd64()).releases().count();
    assert_eq!(channels(&graph), channels(&super::tests::graph()));
    assert!(
        graph
            .body("fast-4.2", &Arch::amd64())
            .starts_with(br#"{"version":1,"nodes":[],"#)
    );
}

#[test]
fn an_architecture_filter_leaves_the_architectures() {
    let (graph, problems) = apply("- {policy: arch-filter, arches: [s390x, multi]}");
    assert_eq!(graph.arches().map(Arch::as_str).collect::<Vec<_>>(), ["s390x"]);
    assert_eq!(problems, [Rule::PolicyUnmatched]);
}

#[test]
fn nodes_go_with_their_edges_by_name_by_expression_or_by_mark() {
    for (yaml, left, edges) in [
        ("- {policy: node-remove, versions: [4.1.1]}", 8, 6),
        ("- {policy: node-remove, regex: '^4[.]2.*amd64$'}", 8, 9),
        ("- {policy: node-remove, marked: true}", 8, 6),
    ] {
        let (graph, problems) = apply(yaml);
        let counts = graph.counts(None);
        assert_eq!(
            (counts.releases, counts.edges + counts.conditional_edges),
            (left, edges),
            "{yaml}"
        );
        assert_eq!(problems, []);
        for channel in ["stable-4.1", "fast-4.2"] {
            crate::v1::Served::parse(&graph.body(channel, &Arch::amd64()), &Arch::amd64()).unwrap();
        }
    }
    assert_eq!(
        apply("- {policy: node-remove, versions: [4.9.9]}").1,
        [Rule::PolicyUnmatched]
    );
}

#[test]
fn an_added_edge_is_what_graph_data_makes_of_it() {
    let yaml = "- policy: edge-add\n  edges:\n  - {from: 4.1.2, to: 4.2.1}\n  - {from: 4.1.1, to: 4.2.1, arch: amd64}\n  - {from: 4.1.0, to: 4.2.1}\n  - {from: 4.2.0, to: 4.1.0}\n  - {from: 4.1.0, to: 9.9.9}\n";
    let (graph, problems) = apply(yaml);
    assert_eq!(verdict(&graph, "4.1.2", "4.2.1"), Verdict::Open);
    assert_eq!(verdict(&graph, "4.1.1", "4.2.1"), Verdict::Conditional);
    assert_eq!(verdict(&graph, "4.1.2", "4.2.0"), Verdict::Conditional);
    assert_eq!(verdict(&graph, "4.1.0", "4.2.1"), Verdict::Blocked);
    assert_eq!(
        problems,
        [
            Rule::EdgeDown,
            Rule::PolicyUnmatched,
            Rule::PolicyBlocked,
            Rule::PolicyBlocked
        ]
    );
    // Sets of risks stay numbered in order: a chained service writes the same bytes.
    assert!(graph.risk_sets.is_sorted());
    let whole = graph.whole();
    let served = crate::v1::Served::parse(&whole, &Arch::amd64()).unwrap();
    assert!(Builder::new().served(served).build().0.whole() == whole);
}

#[test]
fn an_added_edge_is_not_open_where_another_service_or_metadata_removed_it() {
    let yaml = "- policy: edge-add\n  edges: [{from: 4.1.0, to: 4.2.1}, {from: 4.1.2, to: 4.2.1}]\n";
    let body = graph().body("fast-4.2", &Arch::amd64());
    let text = String::from_utf8(body).unwrap();
    let with = |node: &str, entry: &str| {
        let (version, metadata) = (format!("\"version\":\"{node}\""), "\"metadata\":{");
        let at = text.find(&version).unwrap();
        let at = at + text[at..].find(metadata).unwrap() + metadata.len();
        format!("{}{entry},{}", &text[..at], &text[at..])
    };
    let outcome = |text: &str| {
        let served = crate::v1::Served::parse(text.as_bytes(), &Arch::amd64()).unwrap();
        let (graph, _) = chain(yaml).apply(Builder::new().served(served).build().0);
        verdict(&graph, "4.1.2", "4.2.1")
    };
    assert_eq!(outcome(&text), Verdict::Open);
    let prefix = "\"io.openshift.upgrades.graph.";
    for (node, entry) in [
        ("4.2.1", "previous.remove\":\"4.1.9, 4.1.2+amd64\""),
        ("4.2.1", "previous.remove\":\"*\""),
        ("4.1.2", "next.remove\":\"4.2.1\""),
    ] {
        assert_eq!(
            outcome(&with(node, &format!("{prefix}{entry}"))),
            Verdict::RemovedByMetadata,
            "{entry}"
        );
    }
    // What the other service blocks is there as an expression only.
    let served = text.replace("4[.]1[.]0|4[.]1[.]1", "4[.]1[.](0|2)|4[.]1[.]1");
    assert_ne!(served, text);
    assert_eq!(outcome(&served), Verdict::RemovedByMetadata);
}

#[test]
fn an_edge_is_removed_by_its_ends_or_by_expressions() {
    let yaml = "- policy: edge-remove\n  edges: [{from: 4.1.0, to: 4.1.1}, {from: 4.1.0, to: 4.2.1}]\n- policy: edge-remove\n  from: ^4[.]1\n  to: ^4[.]2\n";
    let (graph, problems) = apply(yaml);
    assert_eq!(verdict(&graph, "4.1.0", "4.1.1"), Verdict::RemovedByPolicy);
    assert_eq!(verdict(&graph, "4.1.2", "4.2.0"), Verdict::RemovedByPolicy);
    assert_eq!(verdict(&graph, "4.1.0", "4.1.2"), Verdict::Open);
    assert_eq!(verdict(&graph, "4.2.0", "4.2.1"), Verdict::Open);
    assert_eq!(problems, [Rule::PolicyUnmatched]);
}

#[test]
fn slimming_leaves_what_a_version_can_reach() {
    assert!(chain("- policy: slim\n").slims() && !Chain::default().slims());
    let graph = graph();
    let view = graph.view(Some("fast-4.2"), &Arch::amd64());
    let reach = |from: &str| {
        let slim = view.reachable_from(&from.parse().unwrap());
        slim.releases()
            .map(|release| release.version().to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(reach("4.1.2"), "4.1.2 4.2.0 4.2.1");
    assert_eq!(reach("4.2.1"), "4.2.1");
    assert_eq!(reach("4.1.0"), "", "not in the channel");
    assert_eq!(reach("4.9.9"), "");
}

#[test]
fn configuration_with_a_typing_error_is_refused() {
    for yaml in [
        "- {policy: node-removal}",
        "- {policy: node-remove, version: [4.1.0]}",
        "- {policy: node-remove, regex: '('}",
        "- {policy: edge-add, edges: [{from: 4.1, to: 4.2.0}]}",
        "- {policy: arch-filter, arches: ['x 86']}",
    ] {
        assert!(serde_saphyr::from_str::<Chain>(yaml).is_err(), "{yaml}");
    }
}
