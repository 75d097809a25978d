//! The real objects.

#![expect(
    clippy::disallowed_methods,
    reason = "a test is told by its environment where the data are"
)]

use std::path::{Path, PathBuf};

use clusterversion::ClusterVersion;
use clusterversion::types::read_documents;

/// A file of the real data.
pub struct File {
    pub name: String,
    pub text: String,
    pub objects: Vec<ClusterVersion>,
}

/// All files; none, with a line that says why, where they may be missing.
pub fn files() -> Vec<File> {
    let root = std::env::var_os("MCU_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let dir = root.join("clusterversions");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&dir)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        let why = format!(
            "no real data in {}: set MCU_DATA to the directory that holds clusterversions/",
            dir.display()
        );
        assert!(!std::env::var("CI").is_ok_and(|value| value == "true"), "{why}");
        eprintln!("skipped: {why}");
    }
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let objects = read_documents(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            File { name, text, objects }
        })
        .collect()
}
