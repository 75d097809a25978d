use super::*;
use crate::graph::Counts;
use crate::query::{ExplainQuery, Verdict, explain};
use crate::release_list;

const RISK: &str = "url: https://e/1\nmessage: m\nmatchingRules:\n- type: Always\n";

fn data(files: &[(&str, &str)]) -> Arc<GraphData> {
    let version = [("version".to_owned(), b"1.1.0".to_vec())];
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    Arc::new(
        GraphData::from_files(version.into_iter().chain(files), 1)
            .unwrap()
            .0,
    )
}

fn list(text: &str, arch: &str) -> ReleaseList {
    release_list::parse(text.as_bytes(), &arch.parse().unwrap()).unwrap()
}

/// Three releases, each from all before it.
const THREE: &str = r#"[{"version":"4.1.0","payload":"q@a"},{"version":"4.1.1","payload":"q@b","previous":["4.1.0"]},
    {"version":"4.2.0","payload":"q@c","previous":["4.1.0","4.1.1"]}]"#;

fn verdict(graph: &Graph, from: &str, to: &str, arch: &str) -> Verdict {
    let query = ExplainQuery {
        arch: arch.parse().unwrap(),
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        channels: Vec::new(),
    };
    explain(graph, &query).verdict
}

const CHANNEL: (&str, &str) = (
    "channels/stable-4.2.yaml",
    "name: stable-4.2\nversions: [4.1.0, 4.1.1, 4.2.0]\n",
);

#[test]
fn risk_beats_silent_block_and_an_unreadable_block_beats_both() {
    let silent = "to: 4.2.0\nfrom: .*\n";
    let risk = format!("to: 4.2.0\nfrom: ^4[.]1[.]0[+]\nname: Leak\n{RISK}");
    let broken = "to: 4.2.0\nfrom: ^4[.]1[.]0[+].*$\nname: [\n";
    let build = |files: &[(&str, &str)]| {
        Builder::new()
            .list(list(THREE, "amd64"))
            .graph_data(data(files))
            .build()
            .0
    };
    let both = build(&[
        CHANNEL,
        ("blocked-edges/1.yaml", silent),
        ("blocked-edges/2.yaml", &risk),
    ]);
    assert_eq!(verdict(&both, "4.1.0", "4.2.0", "amd64"), Verdict::Conditional);
    assert_eq!(verdict(&both, "4.1.1", "4.2.0", "amd64"), Verdict::Blocked);
    assert_eq!(verdict(&both, "4.1.0", "4.1.1", "amd64"), Verdict::Open);
    let all = build(&[
        CHANNEL,
        ("blocked-edges/2.yaml", &risk),
        ("blocked-edges/3.yaml", broken),
    ]);
    assert_eq!(verdict(&all, "4.1.0", "4.2.0", "amd64"), Verdict::Blocked);
}

#[test]
fn risks_of_one_name_with_other_rules_block_and_equal_ones_count_once() {
    let risk = format!("to: 4.2.0\nfrom: .*\nname: Leak\n{RISK}");
    let other = "to: 4.2.0\nfrom: 4[.]1[.]1\nname: Leak\nurl: u\nmessage: m\nmatchingRules:\n- type: PromQL\n  promql:\n    promql: up\n";
    let data = data(&[
        CHANNEL,
        ("blocked-edges/1.yaml", &risk),
        ("blocked-edges/2.yaml", other),
        ("blocked-edges/3.yaml", &risk),
    ]);
    let (graph, _) = Builder::new().list(list(THREE, "amd64")).graph_data(data).build();
    assert_eq!(verdict(&graph, "4.1.0", "4.2.0", "amd64"), Verdict::Conditional);
    assert_eq!(verdict(&graph, "4.1.1", "4.2.0", "amd64"), Verdict::RiskConflict);
    assert_eq!(
        graph.risk_sets.iter().map(|set| set.len()).collect::<Vec<_>>(),
        [1]
    );
}

#[test]
fn a_block_of_one_architecture_concerns_that_one_only() {
    let files = [
        CHANNEL,
        ("blocked-edges/1.yaml", "to: 4.2.0+s390x\nfrom: .*\n"),
        ("blocked-edges/2.yaml", "to: 4.1.1\nfrom: .*[+]amd64$\n"),
        (
            "channels/fast-4.2.yaml",
            "name: fast-4.2\nversions: [4.2.0+s390x]\n",
        ),
    ];
    let builder = Builder::new()
        .list(list(THREE, "amd64"))
        .list(list(THREE, "s390x"))
        .threads(2);
    let (graph, _) = builder.graph_data(data(&files)).build();
    assert_eq!(verdict(&graph, "4.1.0", "4.2.0", "amd64"), Verdict::Open);
    assert_eq!(verdict(&graph, "4.1.0", "4.2.0", "s390x"), Verdict::Blocked);
    assert_eq!(verdict(&graph, "4.1.0", "4.1.1", "amd64"), Verdict::Blocked);
    assert_eq!(verdict(&graph, "4.1.0", "4.1.1", "s390x"), Verdict::Open);
    let channels = |arch: &str| {
        let release = graph
            .release(&arch.parse().unwrap(), &"4.2.0".parse().unwrap())
            .unwrap();
        release.channels().collect::<Vec<_>>().join(",")
    };
    assert_eq!(
        (channels("amd64").as_str(), channels("s390x").as_str()),
        ("stable-4.2", "fast-4.2,stable-4.2")
    );
}

#[test]
fn metadata_adds_before_and_removes_last() {
    let text = r#"[{"version":"4.1.0","payload":"a"},{"version":"4.1.1","payload":"b","next":["4.3.0"],
        "metadata":{"io.openshift.upgrades.graph.next.remove":"4.3.1"}},
        {"version":"4.3.0","payload":"c","metadata":{"io.openshift.upgrades.graph.previous.add":"4.1.0+amd64, 4.1.2",
            "io.openshift.upgrades.graph.previous.remove":"4.1.1"}},
        {"version":"4.3.1","payload":"d","previous":["4.1.0","4.1.1","4.3.0"],
        "metadata":{"io.openshift.upgrades.graph.previous.remove_regex":"^4[.]3"}},
        {"version":"4.3.2","payload":"e","previous":["4.3.1"],"metadata":{"io.openshift.upgrades.graph.previous.remove":{}}}]"#;
    let channel = (
        "channels/a-1.yaml",
        "name: a-1\nversions: [4.1.0, 4.1.1, 4.3.0, 4.3.1, 4.3.2]\n",
    );
    let raw = (
        "raw/metadata.json",
        r#"{"4.1.1":{"io.openshift.upgrades.graph.previous.add":"4.1.0"}}"#,
    );
    let (graph, problems) = Builder::new()
        .list(list(text, "amd64"))
        .graph_data(data(&[channel, raw]))
        .build();
    for (from, to, expected) in [
        ("4.1.0", "4.1.1", Verdict::Open),
        ("4.1.0", "4.3.0", Verdict::Open),
        ("4.1.1", "4.3.0", Verdict::RemovedByMetadata),
        ("4.1.0", "4.3.1", Verdict::Open),
        ("4.1.1", "4.3.1", Verdict::RemovedByMetadata),
        ("4.3.0", "4.3.1", Verdict::RemovedByMetadata),
        // It cannot be read, so it removes everything.
        ("4.3.1", "4.3.2", Verdict::RemovedByMetadata),
        ("4.1.0", "4.3.2", Verdict::NotDeclared),
    ] {
        assert_eq!(verdict(&graph, from, to, "amd64"), expected, "{from} -> {to}");
    }
    let rules: Vec<_> = problems.iter().map(|p| p.rule).collect();
    assert_eq!(
        rules,
        [Rule::ReleaseMetadataValue, Rule::EdgeUnknown, Rule::Disconnected],
        "{problems:#?}"
    );
}

#[test]
fn an_edge_that_does_not_lead_up_is_dropped_and_nothing_else() {
    let text = r#"[{"version":"4.1.0","payload":"a","previous":["4.1.1","4.1.0"]},
        {"version":"4.1.1","payload":"b","previous":["4.1.0"],"next":["4.1.0"]}]"#;
    let (graph, problems) = Builder::new().list(list(text, "amd64")).build();
    let expected = Counts {
        releases: 2,
        edges: 1,
        conditional_edges: 0,
        blocked_edges: 0,
    };
    assert_eq!(graph.counts(None), expected);
    let messages: Vec<_> = problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "amd64: 4.1.0 -> 4.1.0 does not lead up and is dropped",
            "amd64: 4.1.1 -> 4.1.0 does not lead up and is dropped"
        ]
    );
}

#[test]
fn of_two_payloads_one_stays_and_it_is_reported() {
    let text = r#"[{"version":"4.1.0","payload":"b"},{"version":"4.1.0","payload":"a","metadata":{"x":1}},{"version":"4.1.0","payload":"a","metadata":{"y":2}}]"#;
    let (graph, problems) = Builder::new().list(list(text, "amd64")).build();
    let release = graph.releases(&Arch::amd64()).next().unwrap();
    assert_eq!(release.payload(), "a");
    assert_eq!(
        release.metadata().iter().collect::<Vec<_>>(),
        [("x", "1"), ("y", "2")]
    );
    assert_eq!(
        problems.iter().map(|p| p.rule).collect::<Vec<_>>(),
        [Rule::ReleaseDuplicate]
    );
}

#[test]
fn a_body_is_written_in_one_order_with_metadata_unchanged() {
    let text = r#"[{"version":"4.1.1","payload":"q/r@sha256:b","previous":["4.1.0"],"metadata":{"zz":[1,  2.0],"url":"https:\/\/e"}},
        {"version":"4.1.0","payload":"q/r@sha256:a"}]"#;
    let files = [
        ("channels/b-1.yaml", "name: b-1\nversions: [4.1.1, 4.1.0]\n"),
        ("channels/a-1.yaml", "name: a-1\nversions: [4.1.1]\n"),
        (
            "blocked-edges/2.yaml",
            &format!("to: 4.1.1\nfrom: 4[.]1\nname: Leak\n{RISK}"),
        ),
        (
            "blocked-edges/1.yaml",
            &format!("to: 4.1.1\nfrom: ^4\nname: Burst\n{RISK}"),
        ),
    ];
    let (graph, _) = Builder::new()
        .list(list(text, "amd64"))
        .graph_data(data(&files))
        .build();
    let body = String::from_utf8(graph.body("b-1", &Arch::amd64())).unwrap();
    assert_eq!(
        body,
        concat!(
            r#"{"version":1,"nodes":[{"version":"4.1.0","payload":"q/r@sha256:a","metadata":{"#,
            r#""io.openshift.upgrades.graph.release.channels":"b-1","#,
            r#""io.openshift.upgrades.graph.release.manifestref":"sha256:a"}},"#,
            r#"{"version":"4.1.1","payload":"q/r@sha256:b","metadata":{"#,
            r#""io.openshift.upgrades.graph.previous.remove_regex":"^4|4[.]1","#,
            r#""io.openshift.upgrades.graph.release.channels":"a-1,b-1","#,
            r#""io.openshift.upgrades.graph.release.manifestref":"sha256:b","url":"https:\/\/e","zz":[1,  2.0]}}],"#,
            r#""edges":[],"conditionalEdges":[{"edges":[{"from":"4.1.0","to":"4.1.1"}],"risks":["#,
            r#"{"url":"https://e/1","name":"Burst","message":"m","matchingRules":[{"type":"Always"}]},"#,
            r#"{"url":"https://e/1","name":"Leak","message":"m","matchingRules":[{"type":"Always"}]}]}]}"#
        )
    );
    let one = String::from_utf8(graph.body("a-1", &Arch::amd64())).unwrap();
    assert!(one.ends_with(r#"}],"edges":[],"conditionalEdges":[]}"#) && !one.contains("4.1.0\""));
}
