//! Style that the files themselves show: length, names, lints, absolute paths, the settings of pure crates.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use repository::Metadata;

use super::crates;
use super::references::Text;
use super::source::{blocks, without_texts};

/// Most lines of a file that is written by hand.
const MAX_LINES: usize = 600;
/// Most lines of a function, from `fn` to its last brace. Clippy counts fewer: neither signature nor comments.
const MAX_FUNCTION_LINES: usize = 80;
/// Most lines of a module of tests that is not in a file of its own.
const MAX_INLINE_TESTS: usize = 60;
/// Names that say nothing about what belongs there.
const EMPTY_NAMES: [&str; 8] = [
    "common", "helper", "helpers", "manager", "misc", "shared", "util", "utils",
];
/// The checked directories of the repository.
const LOOKED_AT: [&str; 7] = ["crates", "e2e", "deploy", "docs", "examples", "crds", ".ci"];
/// Files written by hand; go.sum, snapshots and data are not.
const BY_HAND: [&str; 5] = ["rs", "sh", "toml", "yaml", "md"];
/// First directories of absolute paths that code may name; `no` is for tests of what does not exist.
const EVERYWHERE: [&str; 7] = ["bin", "dev", "etc", "no", "proc", "sys", "usr"];
/// What a pure crate's clippy.toml must ban.
const IMPURE: [&str; 6] = [
    "chrono::Utc::now",
    "chrono::Local::now",
    "jiff::Timestamp::now",
    "std::time::SystemTime::now",
    "std::time::Instant::now",
    "std::env::var",
];
/// The crates that simulations run in virtual time.
const SIMULATED: [&str; 4] = ["mcu-controller", "hub-sim", "simulation", "spoke-sim"];
/// What their clippy.toml must ban, so that the same seed gives the same run.
const NOT_REPEATABLE: [&str; 8] = [
    "chrono::Utc::now",
    "chrono::Local::now",
    "jiff::Timestamp::now",
    "std::time::SystemTime::now",
    "std::time::Instant::now",
    "std::time::Instant::elapsed",
    "rand::random",
    "tokio::sync::watch::channel",
];

/// What in the repository is against its style.
///
/// # Errors
/// A manifest or a setting cannot be read.
pub(super) fn violations(root: &Path, metadata: &Metadata, texts: &[Text]) -> Result<Vec<String>> {
    let mut found: Vec<String> = texts
        .iter()
        .flat_map(|(name, text)| in_file(name, text))
        .collect();
    let shared = std::fs::read_to_string(root.join("clippy.toml")).context("clippy.toml")?;
    let pure = crates::pure(metadata);
    for package in &metadata.packages {
        let directory = package.manifest_path.parent().unwrap_or(root);
        let directory = directory.strip_prefix(root).unwrap_or(directory);
        let own = texts.iter().filter(|(name, _)| name.starts_with(directory));
        found.extend(own.flat_map(|(name, text)| in_source(name, text)));
        let manifest = std::fs::read_to_string(&package.manifest_path)?;
        if !has_workspace_lints(&manifest) {
            found.push(format!(
                "{}: no `[lints] workspace = true` in Cargo.toml",
                package.name
            ));
        }
        let settings = package.manifest_path.with_file_name("clippy.toml");
        let bans: &[&str] = if pure.contains(&package.name) {
            &IMPURE
        } else if SIMULATED.contains(&package.name.as_str()) {
            &NOT_REPEATABLE
        } else {
            continue;
        };
        let text = std::fs::read_to_string(&settings).unwrap_or_default();
        found.extend(in_settings(&package.name, &text, &shared, bans));
    }
    Ok(found)
}

/// Every checked text of the repository, by its path from the root.
///
/// # Errors
/// A directory cannot be read.
pub(super) fn texts(root: &Path) -> Result<Vec<Text>> {
    let read = |path: PathBuf| {
        // A file that is not UTF-8, such as an image, is not checked.
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.strip_prefix(root).unwrap_or(&path).to_path_buf(), text))
    };
    Ok(files(root)?.into_iter().filter_map(read).collect())
}

fn in_file(name: &Path, text: &str) -> Vec<String> {
    let extension = name
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    let in_crates = name.starts_with("crates") || name.starts_with("e2e");
    let mut found = Vec::new();
    let lines = text.lines().count();
    if in_crates && BY_HAND.contains(&extension) && lines > MAX_LINES {
        found.push(format!(
            "{}: {lines} lines, at most {MAX_LINES} are allowed",
            name.display()
        ));
    }
    if in_crates && extension == "rs" {
        let parts = name
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect::<Vec<_>>();
        if let Some(empty) = parts.iter().find(|part| EMPTY_NAMES.contains(&part.as_str())) {
            found.push(format!(
                "{}: `{empty}` says nothing about what belongs there",
                name.display()
            ));
        }
    }
    for (number, line) in (1..).zip(text.lines()) {
        let home = home_path(line);
        let opened = opened_path(line).filter(|_| extension == "rs");
        found.extend(home.or(opened).map(|path| {
            format!(
                "{}:{number}: {path} is an absolute path, which other machines do not have",
                name.display()
            )
        }));
    }
    found
}

/// Long functions, and tests that are not where they belong: `foo/tests.rs` has the tests of `foo.rs`.
fn in_source(name: &Path, text: &str) -> Vec<String> {
    if name.extension().is_none_or(|extension| extension != "rs") {
        return Vec::new();
    }
    let file = name.display();
    let mut found = Vec::new();
    let stem = name.file_stem().unwrap_or_default().to_string_lossy();
    if let Some(tested) = stem.strip_suffix("_tests")
        && name.iter().any(|part| part == "src")
    {
        found.push(format!(
            "{file}: the tests of {tested}.rs belong into {tested}/tests.rs"
        ));
    }
    let code = without_texts(text);
    for (line, function, lines) in blocks(&code, "fn") {
        if lines > MAX_FUNCTION_LINES {
            found.push(format!(
                "{file}:{line}: `{function}` has {lines} lines, at most {MAX_FUNCTION_LINES} are allowed"
            ));
        }
    }
    for (line, module, lines) in blocks(&code, "mod") {
        if module == "tests" && lines > MAX_INLINE_TESTS {
            found.push(format!(
                "{file}:{line}: {lines} lines of tests belong into a file of their own, tests.rs"
            ));
        }
    }
    found
}

/// A path below somebody's home directory.
fn home_path(line: &str) -> Option<&str> {
    // Put together here, so that this file passes its own check.
    ["root", "home", "Users"].iter().find_map(|top| {
        let prefix = format!("/{top}/");
        let at = line.find(&prefix)?;
        let is_part_of_a_path = line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-*})".contains(c));
        (!is_part_of_a_path).then(|| until_its_end(&line[at..]))
    })
}

/// An absolute path that code gives to the file system, unless every Linux system has its first directory.
fn opened_path(line: &str) -> Option<&str> {
    [
        "Path::new(\"/",
        "PathBuf::from(\"/",
        "File::open(\"/",
        "File::create(\"/",
    ]
    .iter()
    .chain(&[
        "fs::read(\"/",
        "fs::read_to_string(\"/",
        "fs::read_dir(\"/",
        "fs::write(\"/",
    ])
    .find_map(|call| {
        let at = line.find(call)? + call.len() - 1;
        let path = until_its_end(&line[at..]);
        let (top, below) = path[1..].split_once('/')?;
        (!below.is_empty() && !EVERYWHERE.contains(&top)).then_some(path)
    })
}

/// A path up to what cannot belong to it.
fn until_its_end(path: &str) -> &str {
    &path[..path.find([' ', '"', '`', ')', ',']).unwrap_or(path.len())]
}

fn has_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim);
    lines.any(|line| line == "[lints]") && lines.any(|line| line == "workspace = true")
}

/// Clippy reads one file only, so that of a crate with bans repeats the shared settings.
fn in_settings(package: &str, text: &str, shared: &str, bans: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = shared
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#') && !text.contains(line))
        .map(|line| format!("{package}: its clippy.toml lacks the shared setting `{line}`"))
        .collect();
    found.extend(
        bans.iter()
            .filter(|banned| !text.contains(&format!("\"{banned}\"")))
            .map(|banned| format!("{package}: its clippy.toml must disallow {banned}")),
    );
    found
}

fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut open: Vec<PathBuf> = LOOKED_AT.iter().map(|dir| root.join(dir)).collect();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        // In a second worktree `.git` is a file that says where the first one is.
        if path.is_file() && !path.ends_with(".git") {
            found.push(path);
        }
    }
    while let Some(dir) = open.pop() {
        if !dir.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
