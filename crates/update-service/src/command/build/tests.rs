use super::*;

fn graph(versions: &[&str], channel: &str) -> Graph {
    let list: Vec<String> = versions
        .iter()
        .map(|version| format!(r#"{{"version": "{version}", "payload": "p@sha256:{version}"}}"#))
        .collect();
    let list = update_graph::release_list::parse(format!("[{}]", list.join(",")).as_bytes(), &Arch::amd64());
    let text = format!("name: {channel}\nversions: [{}]\n", versions.join(", "));
    let files = [
        ("version".to_owned(), b"1.1.0\n".to_vec()),
        (format!("channels/{channel}.yaml"), text.into_bytes()),
    ];
    let (data, _) = GraphData::from_files(files, 1).unwrap();
    Builder::new()
        .list(list.unwrap())
        .graph_data(data.into())
        .build()
        .0
}

#[test]
fn every_graph_is_a_file_and_those_of_the_past_go() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let first = graph(&["4.1.0", "4.1.1"], "stable-4.1");
    assert_eq!(write(&first, out).unwrap(), 1);
    let path = out.join("graph/amd64/stable-4.1.json");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        first.body("stable-4.1", &Arch::amd64())
    );
    assert!(out.join("graph/amd64/stable-4.1.json.gz").exists());
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("index.json")).unwrap()).unwrap();
    assert_eq!(index["graphs"][0]["releases"], 2);

    let written = std::fs::metadata(&path).unwrap().modified().unwrap();
    write(&first, out).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), written);

    std::fs::write(out.join("own.txt"), "mine").unwrap();
    write(&graph(&["4.1.0"], "fast-4.1"), out).unwrap();
    assert!(!path.exists());
    assert!(out.join("graph/amd64/fast-4.1.json").exists() && out.join("own.txt").exists());
}

#[test]
fn names_that_are_no_file_names_are_left_out() {
    for (name, expected) in [
        ("stable-4.1", true),
        ("..", false),
        ("a/b", false),
        ("", false),
        ("A", false),
    ] {
        assert_eq!(nameable(name), expected, "{name}");
    }
}
