use super::*;

const WHOLE: &str = r#"{"version":1,"nodes":[
        {"version":"4.1.0","payload":"a","metadata":{"x":1.10}},
        {"version":"4.1.1","payload":"b","metadata":{}},
        {"version":"4.1.2","payload":"c","metadata":{}}],
        "edges":[[0,1],[1,2]],
        "conditionalEdges":[{"edges":[{"from":"4.1.0","to":"4.1.2"}],"risks":[{"name":"R"}]}]}"#;
const LESS: &str = r#"{"nodes":[{"version":"4.1.2","payload":"c","metadata":{}},
        {"version":"4.1.1","payload":"b","metadata":{}}],"edges":[[1,0]]}"#;

fn keeper() -> GraphKeeper {
    GraphKeeper::in_memory("s", Arch::amd64())
}

/// Nodes, edges and conditional edges by version, sorted.
fn shape(bytes: &[u8]) -> (Vec<String>, Vec<String>, Vec<String>) {
    let body: Body = serde_json::from_slice(bytes).unwrap();
    let versions = names(&body, &Arch::amd64()).unwrap();
    let edges = body
        .edges
        .iter()
        .map(|(a, b)| format!("{} {}", versions[*a], versions[*b]));
    let conditional = body.conditional.iter().flat_map(|group| &group.edges);
    let conditional = conditional.map(|pair| format!("{} {}", pair.from, pair.to));
    let sorted = |texts: Vec<String>| {
        let mut texts = texts;
        texts.sort();
        texts
    };
    (
        sorted(versions.clone()),
        sorted(edges.collect()),
        sorted(conditional.collect()),
    )
}

#[test]
fn a_lost_node_stays_with_its_edges_for_two_answers_and_leaves_with_the_third() {
    let mut keeper = keeper();
    let (first, _) = keeper.take(WHOLE.as_bytes()).unwrap();
    for _ in 0..2 {
        let (kept, change) = keeper.take(LESS.as_bytes()).unwrap();
        assert_eq!(shape(&kept), shape(&first));
        assert!(
            String::from_utf8_lossy(&kept).contains("1.10"),
            "opaque values stay as they are"
        );
        assert!(change.lost.is_empty());
        assert_eq!(keeper.retained(), 1);
    }
    let (kept, change) = keeper.take(LESS.as_bytes()).unwrap();
    assert_eq!(shape(&kept), shape(LESS.as_bytes()));
    assert_eq!(change.lost[0].version.to_string(), "4.1.0");
}

/// The same graph, its architecture in every version and in its metadata, as in a graph of all architectures.
fn with_arch(graph: &str) -> String {
    let built = ["4.1.0", "4.1.1", "4.1.2"]
        .iter()
        .fold(graph.to_owned(), |graph, version| {
            graph.replace(&format!("\"{version}\""), &format!("\"{version}+amd64\""))
        });
    let arch = format!(
        r#""metadata":{{"{}":"amd64"}}"#,
        update_graph::metadata::key::ARCH
    );
    built.replace(r#""metadata":{}"#, &arch)
}

#[test]
fn a_node_whose_version_is_written_with_and_without_architecture_is_one_node() {
    let mut keeper = keeper();
    keeper.take(WHOLE.as_bytes()).unwrap();
    for answer in [with_arch(WHOLE), WHOLE.to_owned(), with_arch(WHOLE)] {
        let (kept, change) = keeper.take(answer.as_bytes()).unwrap();
        assert_eq!(shape(&kept).0, ["4.1.0+amd64", "4.1.1+amd64", "4.1.2+amd64"]);
        assert_eq!((keeper.retained(), change.lost.len()), (0, 0));
    }
    // Whatever the answers are written like, they count as in a row.
    for answer in [LESS.to_owned(), with_arch(LESS)] {
        let (kept, change) = keeper.take(answer.as_bytes()).unwrap();
        let (nodes, edges, conditional) = shape(&kept);
        assert_eq!((nodes.len(), edges.len(), conditional.len()), (3, 2, 1));
        assert!(change.lost.is_empty());
        update_graph::v1::Served::parse(&kept, &Arch::amd64()).unwrap();
    }
    let in_metadata = with_arch(LESS).replace("+amd64", "");
    let (_, change) = keeper.take(in_metadata.as_bytes()).unwrap();
    assert_eq!(change.lost[0].version.to_string(), "4.1.0");
}

#[test]
fn an_unchanged_answer_counts_and_an_unusable_one_does_not() {
    let mut keeper = keeper();
    keeper.take(WHOLE.as_bytes()).unwrap();
    assert!(keeper.again().unwrap().is_none());
    keeper.take(LESS.as_bytes()).unwrap();
    for garbage in ["", "{}", "<html>", r#"{"nodes":[{}],"edges":[]}"#] {
        assert!(keeper.take(garbage.as_bytes()).is_err(), "{garbage}");
    }
    let (kept, _) = keeper.again().unwrap().unwrap();
    assert_eq!(shape(&kept).0.len(), 3);
    let (kept, change) = keeper.again().unwrap().unwrap();
    assert_eq!((shape(&kept).0.len(), change.lost.len()), (2, 1));
    assert!(keeper.again().unwrap().is_none());
}

#[test]
fn a_restart_does_not_forget() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graph");
    let mut keeper = GraphKeeper::on_disk("s", Arch::amd64(), &file);
    keeper.take(WHOLE.as_bytes()).unwrap();
    keeper.take(LESS.as_bytes()).unwrap();
    keeper.save();
    let mut keeper = GraphKeeper::on_disk("s", Arch::amd64(), &file);
    assert_eq!(keeper.retained(), 1);
    assert!(keeper.take(LESS.as_bytes()).unwrap().1.lost.is_empty());
    assert_eq!(keeper.take(LESS.as_bytes()).unwrap().1.lost.len(), 1);
}

#[test]
fn an_answer_without_nodes_takes_nothing_away() {
    let mut keeper = keeper();
    keeper.take(WHOLE.as_bytes()).unwrap();
    for _ in 0..MAX_MISSED_LISTINGS {
        let error = keeper
            .take(br#"{"nodes":[],"edges":[]}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no release"), "{error}");
    }
    assert_eq!((keeper.known(), keeper.retained()), (3, 0));
}

#[test]
fn conditional_edges_may_be_null_as_for_the_reader_of_graphs() {
    let graph = br#"{"nodes":[{"version":"4.1.0","payload":"a"}],"edges":[],"conditionalEdges":null}"#;
    assert!(update_graph::v1::Served::parse(graph, &Arch::amd64()).is_ok());
    assert!(keeper().take(graph).is_ok());
}
