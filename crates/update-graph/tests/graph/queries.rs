//! Explanations, next versions and differences on small made-up data.

use update_graph::query::{
    Change, EdgeState, ExplainQuery, Explanation, NextQuery, PathQuery, Verdict, diff, explain, next, path,
    stranded,
};
use update_graph::{Arch, Builder, Graph, GraphData, release_list};

const LIST: &str = r#"[{"version":"4.1.0","payload":"q@sha256:a"},
    {"version":"4.1.1","payload":"q@sha256:b","previous":["4.1.0"],"metadata":{"url":"https://e/1"}},
    {"version":"4.1.2","payload":"q@sha256:c","previous":["4.1.0","4.1.1"]},
    {"version":"4.2.0","payload":"q@sha256:d","previous":["4.1.1","4.1.2","4.0.9"]}]"#;
const RISK: &str = "to: 4.2.0\nfrom: ^4[.]1[.]2[+]\nfixedIn: 4.2.1\nurl: u\nname: Leak\nmessage: m\nmatchingRules: [{type: Always}]\n";

fn graph(list: &str, files: &[(&str, &str)]) -> Graph {
    let channels = [
        ("version", "1.1.0"),
        (
            "channels/stable-4.1.yaml",
            "name: stable-4.1\nversions: [4.1.0, 4.1.1, 4.1.2]\n",
        ),
        (
            "channels/stable-4.2.yaml",
            "name: stable-4.2\nversions: [4.1.2, 4.2.0]\n",
        ),
    ];
    let files = channels
        .iter()
        .chain(files)
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    let (data, _) = GraphData::from_files(files, 1).unwrap();
    let list = release_list::parse(list.as_bytes(), &Arch::amd64()).unwrap();
    Builder::new().list(list).graph_data(data.into()).build().0
}

pub fn ask(graph: &Graph, from: &str, to: &str) -> Explanation {
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
}

#[test]
fn an_explanation_names_file_risk_and_expression() {
    let graph = graph(LIST, &[("blocked-edges/4.2.0-Leak.yaml", RISK)]);
    let risky = ask(&graph, "4.1.2", "4.2.0");
    assert_eq!(risky.verdict, Verdict::Conditional);
    assert_eq!(risky.channels, ["stable-4.2"]);
    assert_eq!(
        risky.message,
        "4.1.2 may update to 4.2.0 unless exposed to Leak (blocked-edges/4.2.0-Leak.yaml)"
    );
    let cause = serde_json::to_value(&risky.causes).unwrap();
    let expected = serde_json::json!([{"file": "blocked-edges/4.2.0-Leak.yaml", "kind": "risk", "risk": "Leak",
        "regex": "^4[.]1[.]2[+]", "fixedIn": "4.2.1"}]);
    assert_eq!(cause, expected);
    assert_eq!(ask(&graph, "4.1.1", "4.2.0").verdict, Verdict::NoCommonChannel);
    let unknown = ask(&graph, "4.0.9", "4.2.0");
    assert_eq!(
        unknown.message,
        "release 4.0.9 for amd64 is not known; the edge is declared"
    );
}

#[test]
fn next_versions_come_newest_first_with_url_channels_and_risks() {
    let graph = graph(LIST, &[("blocked-edges/4.2.0-Leak.yaml", RISK)]);
    let ask = |from: &str, channels: &[&str]| {
        let channels = channels.iter().map(|&channel| channel.to_owned()).collect();
        next(
            &graph,
            &NextQuery {
                arch: Arch::amd64(),
                from: from.parse().unwrap(),
                channels,
            },
        )
        .unwrap()
    };
    let all = ask("4.1.0", &[]);
    let versions: Vec<_> = all.iter().map(|next| next.version.to_string()).collect();
    assert_eq!(versions, ["4.1.2", "4.1.1"]);
    assert_eq!(all[1].url.as_deref(), Some("https://e/1"));
    assert_eq!(
        (all[0].channels.len(), all[0].via.as_slice()),
        (2, &["stable-4.1".to_owned()][..])
    );
    let risky = ask("4.1.2", &["stable"]);
    assert_eq!((risky.len(), risky[0].risks[0].name.as_str()), (1, "Leak"));
    assert!(ask("4.1.2", &["fast", "stable-4.1"]).is_empty());
    let stuck = stranded(&graph, &[], &Arch::amd64());
    assert_eq!(
        stuck.iter().map(|s| s.version.to_string()).collect::<Vec<_>>(),
        ["4.1.2"]
    );
}

#[test]
fn a_target_out_of_reach_is_explained_by_what_is_in_the_way() {
    let graph = graph(LIST, &[("blocked-edges/4.2.0-Leak.yaml", RISK)]);
    let mut query = PathQuery::new(Arch::amd64(), "4.1.0".parse().unwrap(), "4.2".parse().unwrap());
    let why = path(&graph, &query).unwrap().unreachable.unwrap();
    assert_eq!(
        why.message,
        "from 4.1.0 to 4.2.0: 4.1.2 -> 4.2.0 has risks that were not accepted"
    );
    assert_eq!(why.nearest.unwrap().to_string(), "4.1.2");
    assert_eq!(why.obstacles[0].causes[0].fixed_in.as_deref(), Some("4.2.1"));
    query.accepted.insert("Leak".to_owned());
    let found = path(&graph, &query).unwrap();
    assert_eq!(
        found.paths[0]
            .hops
            .iter()
            .map(|hop| hop.risks.len())
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(found.paths[0].hops[1].digest.as_deref(), Some("sha256:d"));
    query.to = "4.0".parse().unwrap();
    assert!(
        path(&graph, &query)
            .unwrap()
            .unreachable
            .unwrap()
            .message
            .contains("no release of 4.0")
    );
}

#[test]
fn a_difference_names_releases_channels_and_edges_that_changed() {
    let before = graph(LIST, &[]);
    let other = LIST
        .replace("sha256:c", "sha256:e")
        .replace(r#"{"version":"4.1.0","payload":"q@sha256:a"},"#, "");
    let channel = ("channels/fast-4.2.yaml", "name: fast-4.2\nversions: [4.2.0]\n");
    let after = graph(&other, &[channel, ("blocked-edges/4.2.0-Leak.yaml", RISK)]);
    let found = diff(&before, &after);
    assert_eq!(found.channels_added, ["fast-4.2"]);
    assert_eq!(found.removed[0].version.to_string(), "4.1.0");
    assert_eq!(found.risks, ["Leak"]);
    let differences: Vec<_> = found
        .changed
        .iter()
        .map(|c| (c.release.version.to_string(), c.changes.clone()))
        .collect();
    assert_eq!(
        differences,
        [
            ("4.1.2".to_owned(), vec![Change::Payload]),
            ("4.2.0".to_owned(), vec![Change::Channels])
        ]
    );
    let edges: Vec<_> = found
        .edges
        .iter()
        .map(|e| (e.from.to_string(), e.to.to_string(), e.after.clone()))
        .collect();
    assert_eq!(
        edges,
        [
            ("4.1.0".to_owned(), "4.1.1".to_owned(), EdgeState::Absent),
            ("4.1.0".to_owned(), "4.1.2".to_owned(), EdgeState::Absent),
            (
                "4.1.2".to_owned(),
                "4.2.0".to_owned(),
                EdgeState::Conditional(vec!["Leak".to_owned()])
            ),
        ]
    );
    assert!(diff(&after, &after).is_empty());
}
