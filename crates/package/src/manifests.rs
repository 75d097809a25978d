//! `cargo xtask manifests`: the generated files of `deploy/`, written or compared.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::base::{Base, Files, HEADER};
use crate::{bundle, chart, install, rules};

/// Directories in which every file is generated.
const GENERATED: [&str; 4] = [
    bundle::DIRECTORY,
    "deploy/chart/alerts",
    "deploy/chart/dashboards",
    "deploy/chart/templates/crds",
];
/// A directory with files that are generated, which [`HEADER`] says, and files that are not.
const MIXED: &str = "deploy/chart/templates";

/// All generated files of `deploy/` for the base below `root`, the repository.
///
/// # Errors
/// The base cannot be read, or lacks what an edit of it expects.
pub fn render(root: &Path) -> Result<Files> {
    let base = Base::read(root)?;
    let mut files = Files::from([
        (install::PATH.into(), install::render(&base)),
        (rules::PATH.into(), rules::render(root)?),
    ]);
    files.extend(chart::render(root, &base)?);
    files.extend(bundle::render(root, &base)?);
    Ok(files)
}

/// Writes the files below `root` and removes those that are not generated any more.
///
/// # Errors
/// As [`render`], or a file cannot be written or removed.
pub fn write(root: &Path) -> Result<()> {
    let files = render(root)?;
    for path in stale(root, &files)? {
        std::fs::remove_file(root.join(&path))
            .with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for (path, text) in &files {
        let path = root.join(path);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Compares the files below `root` with what the base says.
///
/// # Errors
/// A file is missing, differs or should not be there; the message says what to run.
pub fn check(root: &Path) -> Result<()> {
    let files = render(root)?;
    let mut drift: Vec<String> = files
        .iter()
        .filter_map(|(path, wanted)| match std::fs::read_to_string(root.join(path)) {
            Ok(found) if found == *wanted => None,
            Ok(_) => Some(format!("{} differs", path.display())),
            Err(_) => Some(format!("{} is missing", path.display())),
        })
        .collect();
    let stale = stale(root, &files)?;
    drift.extend(
        stale
            .iter()
            .map(|path| format!("{} is not generated", path.display())),
    );
    ensure!(
        drift.is_empty(),
        "generated manifests have drifted from deploy/ ({}): run cargo xtask manifests",
        drift.join("; ")
    );
    Ok(())
}

/// Files that an earlier run has generated and this one does not.
fn stale(root: &Path, files: &Files) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for directory in GENERATED.into_iter().chain([MIXED]) {
        for path in below(&root.join(directory))? {
            let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            let in_mixed = directory == MIXED;
            let is_ours = || std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with(HEADER));
            if !files.contains_key(&name) && !found.contains(&name) && (!in_mixed || is_ours()) {
                found.push(name);
            }
        }
    }
    Ok(found)
}

/// Files of a directory and of those in it; none where there is no such directory.
fn below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !directory.is_dir() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(below(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
