//! What the tests on the sample and the tests on the real data share: objects, served graphs, and checks that hold of both.

pub mod derive;
pub mod graph;
pub mod preflight;
pub mod recorded;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clusterversion::ClusterVersion;
use clusterversion::types::read_documents;

/// A file with one or more objects.
pub struct File {
    pub name: String,
    pub text: String,
    pub objects: Vec<ClusterVersion>,
}

/// The files of a directory whose names end in one of some ways, by name.
fn paths(dir: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries
        .filter(|path| ends.iter().any(|end| path.to_string_lossy().ends_with(end)))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "nothing in {}", dir.display());
    paths
}

/// The objects in the files of a directory.
pub fn files(dir: &Path) -> Vec<File> {
    paths(dir, &[".yaml", ".yml", ".json"])
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let objects = read_documents(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            File { name, text, objects }
        })
        .collect()
}

/// The served graphs by channel, from the files of a directory, plain or gzipped.
pub fn graphs(dir: &Path) -> Vec<(String, Vec<u8>)> {
    paths(dir, &[".json", ".json.gz"])
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let mut plain = Vec::new();
            let mut file = std::fs::File::open(&path).unwrap();
            if path.extension().is_some_and(|extension| extension == "gz") {
                flate2::read::GzDecoder::new(file)
                    .read_to_end(&mut plain)
                    .unwrap();
            } else {
                file.read_to_end(&mut plain).unwrap();
            }
            let channel = name.trim_end_matches(".gz").trim_end_matches(".json");
            (channel.to_owned(), plain)
        })
        .collect()
}
