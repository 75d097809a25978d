//! The texts of the licences of everything in the image, as files below `/licenses`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::Package;
use repository::root;

use super::layer::Entry;
use super::sbom::Dependencies;

/// How names of files with licences begin.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];
/// What is linked into the binary and is no package of cargo.
const TOOLCHAIN: &str = "\
Rust standard library: MIT OR Apache-2.0
GNU C Library, in images that are not built with musl: LGPL-2.1-or-later, linked statically; this program's source and lock file
let you link it again with another
";

/// One file for each licence of each package, our own licence, and a list.
pub(super) fn entries(dependencies: &Dependencies) -> Result<Vec<Entry>> {
    let own = root().join("LICENSE");
    let own = std::fs::read(&own).with_context(|| format!("cannot read {}", own.display()))?;
    let mut entries = vec![Entry::file("licenses/LICENSE", own)];
    let mut list = String::new();
    for package in &dependencies.packages {
        let (name, version) = (&package.name, &package.version);
        // Members of the workspace have the licence of the whole.
        let Some(_) = &package.source else {
            continue;
        };
        let expression = package.license.as_deref().unwrap_or("see its files");
        writeln!(list, "{name} {version}: {expression}")?;
        for file in files(package)? {
            let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let file = file.file_name().unwrap_or_default();
            let path = Path::new("licenses").join(format!("{name}-{version}")).join(file);
            entries.push(Entry::file(path, bytes));
        }
    }
    list += TOOLCHAIN;
    entries.push(Entry::file("licenses/THIRD-PARTY.txt", list.into_bytes()));
    Ok(entries)
}

/// The files with licences that a package ships.
fn files(package: &Package) -> Result<Vec<PathBuf>> {
    let directory = package
        .manifest_path
        .parent()
        .context("a package without a directory")?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| format!("cannot read {directory}"))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        if path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
