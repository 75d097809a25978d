//! The sample and the real data, and small made-up ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use repository::data::ServedGraph;
use update_graph::{Arch, Builder, Graph, GraphData, release_list};

/// Releases, graph-data and the bodies that they must result in.
pub struct DataSet {
    /// The list of releases.
    pub releases: PathBuf,
    /// A list with more previous versions, which changes no body.
    pub extra: Option<PathBuf>,
    pub graph_data: PathBuf,
    /// The expected bodies by channel.
    pub expected: BTreeMap<String, Vec<u8>>,
    /// The number of channels.
    pub channels: usize,
    /// Two channels to feed another service with.
    pub filtered: [&'static str; 2],
    /// Two channels with an expected body; the second one is larger.
    pub captured: [&'static str; 2],
}

impl DataSet {
    /// The lists of releases.
    pub fn lists(&self) -> Vec<PathBuf> {
        [Some(self.releases.clone()), self.extra.clone()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The expected graph of a channel.
    pub fn graph(&self, channel: &str) -> ServedGraph {
        ServedGraph::read(&self.expected[channel]).unwrap()
    }
}

/// The sample in the repository, and the real data unless they are missing, which a line on standard error then says.
pub fn sets() -> Vec<DataSet> {
    let sample = repository::data::sample("update-graph");
    let sample = DataSet {
        releases: sample.join("releases.json"),
        extra: None,
        graph_data: sample.join("graph-data"),
        expected: expected(&sample),
        channels: 6,
        filtered: ["eus-4.14", "candidate-4.14"],
        captured: ["eus-4.14", "stable-4.14"],
    };
    let real = repository::data::directory("update-graph").map(|real| {
        let expected = expected(&real);
        assert!(expected.len() >= 12);
        DataSet {
            releases: real.join("releases-amd64.json.gz"),
            extra: Some(real.join("extra-previous-amd64.json.gz")),
            graph_data: real.join("graph-data.tar.gz"),
            expected,
            channels: 76,
            filtered: ["eus-4.14", "candidate-4.21"],
            captured: ["stable-4.9", "stable-4.12"],
        }
    });
    std::iter::once(sample).chain(real).collect()
}

/// The bodies in the files of a directory, plain or gzipped.
fn expected(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir.join("expected")).unwrap();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let body = std::fs::read(&path).unwrap();
        match name.strip_suffix(".json.gz") {
            Some(channel) => (channel.to_owned(), gunzip(body)),
            None => (name.strip_suffix(".json").unwrap().to_owned(), body),
        }
    };
    entries.map(|entry| read(entry.unwrap().path())).collect()
}

pub fn gunzip(bytes: Vec<u8>) -> Vec<u8> {
    update_service::source::fetch::gunzip(bytes).unwrap()
}

/// A release list: each version reachable from all before.
pub fn list(versions: &[&str]) -> String {
    let releases: Vec<String> = versions
        .iter()
        .enumerate()
        .map(|(number, version)| {
            let previous: Vec<String> = versions[..number].iter().map(|v| format!("\"{v}\"")).collect();
            let payload = format!("r.example/p@sha256:{}", version.replace('.', "0"));
            format!(
                r#"{{"version": "{version}", "payload": "{payload}", "previous": [{}]}}"#,
                previous.join(",")
            )
        })
        .collect();
    format!("[{}]", releases.join(","))
}

/// The graph of this many releases from 4.1.0 on, all of them in stable-4.1.
pub fn graph(count: usize) -> Graph {
    let versions: Vec<String> = (0..count).map(|patch| format!("4.1.{patch}")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let list = release_list::parse(list(&versions).as_bytes(), &Arch::amd64()).unwrap();
    let channel = format!("name: stable-4.1\nversions: [{}]\n", versions.join(", "));
    let files = [
        ("version".to_owned(), b"1.1.0\n".to_vec()),
        ("channels/stable-4.1.yaml".to_owned(), channel.into_bytes()),
    ];
    let (graph_data, _) = GraphData::from_files(files, 1).unwrap();
    Builder::new().list(list).graph_data(graph_data.into()).build().0
}

/// Graph-data with these releases in stable-4.1, and the blocks.
pub fn graph_data(directory: &Path, versions: &[&str], blocks: &[(&str, &str)]) {
    std::fs::create_dir_all(directory.join("channels")).unwrap();
    std::fs::create_dir_all(directory.join("blocked-edges")).unwrap();
    std::fs::write(directory.join("version"), "1.1.0\n").unwrap();
    let channel = format!("name: stable-4.1\nversions: [{}]\n", versions.join(", "));
    std::fs::write(directory.join("channels/stable-4.1.yaml"), channel).unwrap();
    for (name, text) in blocks {
        std::fs::write(directory.join("blocked-edges").join(name), text).unwrap();
    }
}
