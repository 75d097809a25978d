//! Data of tests: releases, graph-data and ClusterVersion objects.
//!
//! A small [`sample`] of each is in the repository, so that a clean clone can run its tests. The real data are too large for
//! the repository. They are in the directory that `MCU_DATA` names, or else in `../shared/data` beside the repository. A test
//! that needs them calls [`directory`], and is skipped if they are missing. To be sure that such tests run, set `MCU_DATA`:
//! then missing data are an error.

mod served_graph;

use std::path::PathBuf;

pub use served_graph::{ServedGraph, ServedNode};

use crate::root;

/// The variable that names the directory of the data.
const VARIABLE: &str = "MCU_DATA";

/// The parts of the data, as directories.
const PARTS: [&str; 2] = ["update-graph", "clusterversions"];

/// The directory of the sample of one part of the data, such as `update-graph`. It is always there. The samples were written
/// for the tests; they contain no data of real releases or clusters.
#[must_use]
pub fn sample(part: &str) -> PathBuf {
    root().join("crates/repository/samples").join(part)
}

/// The directory of one part of the real data, such as `update-graph`. `None`, and a line on standard error that says so, where
/// nobody named a directory and the default one is missing.
///
/// # Panics
/// `MCU_DATA` is set and the part is missing, although tests on the real data were requested.
#[must_use]
pub fn directory(part: &str) -> Option<PathBuf> {
    let (named, dir) = place();
    let dir = dir.join(part);
    if dir.is_dir() {
        return Some(dir);
    }
    let why = format!(
        "no real data in {}: set {VARIABLE} to the directory that holds {part}/",
        dir.display()
    );
    assert!(!named, "{why}");
    eprintln!("skipped: {why}");
    None
}

/// One line for the end of a run of tests: whether the tests on the real data ran.
#[must_use]
pub fn summary() -> String {
    let (_, dir) = place();
    let missing: Vec<&str> = PARTS
        .into_iter()
        .filter(|part| !dir.join(part).is_dir())
        .collect();
    if missing.is_empty() {
        format!("the tests on real data ran, with {}", dir.display())
    } else {
        format!(
            "the tests on real data did NOT run: no {} in {}; set {VARIABLE} to a directory that holds the data",
            missing.join(", "),
            dir.display()
        )
    }
}

/// Whether somebody named the directory, and the directory.
fn place() -> (bool, PathBuf) {
    match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(dir) => (true, root().join(dir)),
        None => (false, root().join("../shared/data")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_sample_of_each_part() {
        for part in PARTS {
            assert!(sample(part).is_dir(), "{part}");
        }
    }

    #[test]
    fn the_summary_says_whether_each_part_is_there() {
        let all = PARTS.iter().all(|part| directory(part).is_some());
        assert_eq!(all, !summary().contains("NOT"));
    }
}
