//! The real objects.

#![expect(
    clippy::disallowed_methods,
    reason = "a test is told by its environment where the data are"
)]

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clusterversion::ClusterVersion;
use clusterversion::types::read_documents;

/// A file of the real data.
pub struct File {
    pub name: String,
    pub text: String,
    pub objects: Vec<ClusterVersion>,
}

/// A directory of the real data; nothing, with a line that says why, where it may be missing.
fn dir(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("MCU_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let dir = root.join(name);
    if dir.is_dir() {
        return Some(dir);
    }
    let why = format!(
        "no real data in {}: set MCU_DATA to the directory that holds {name}/",
        dir.display()
    );
    assert!(!std::env::var("CI").is_ok_and(|value| value == "true"), "{why}");
    eprintln!("skipped: {why}");
    None
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

/// All objects; none where they may be missing.
pub fn files() -> Vec<File> {
    let Some(dir) = dir("clusterversions") else {
        return Vec::new();
    };
    paths(&dir, &[".yaml", ".yml", ".json"])
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let objects = read_documents(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            File { name, text, objects }
        })
        .collect()
}

/// Served graphs by channel; none where they may be missing.
pub fn graphs() -> Vec<(String, Vec<u8>)> {
    let Some(dir) = dir("update-graph") else {
        return Vec::new();
    };
    paths(&dir.join("expected"), &[".json.gz"])
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let mut plain = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            flate2::read::GzDecoder::new(file)
                .read_to_end(&mut plain)
                .unwrap();
            (name.trim_end_matches(".json.gz").to_owned(), plain)
        })
        .collect()
}
