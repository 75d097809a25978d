//! `cargo xtask fence`: which crate may depend on which, what pure crates must not use, imports within crates, names of
//! types, the order of `select!`, references to texts, and style.
//!
//! It changes nothing: it names what is wrong and where.

mod crates;
mod dependencies;
mod imports;
mod names;
mod promises;
mod purity;
mod references;
mod selects;
mod source;
mod style;

use std::path::Path;

use anyhow::{Result, bail};
use repository::{Metadata, root};

/// Everything that breaks a rule, as sentences; empty if nothing does.
///
/// # Errors
/// Cargo or a file cannot be read.
pub fn violations(root: &Path) -> Result<Vec<String>> {
    let metadata = Metadata::load()?;
    let mut found = crates::violations(&metadata);
    found.extend(crates::stale(&metadata));
    for package in crates::pure(&metadata) {
        found.extend(purity::violations(&package)?);
    }
    for package in &metadata.packages {
        let directory = package.manifest_path.with_file_name("src");
        let directory = directory
            .strip_prefix(root)
            .unwrap_or(&directory)
            .display()
            .to_string();
        found.extend(imports::violations(root, &directory)?);
    }
    found.extend(names::violations(root)?);
    found.extend(selects::violations(root)?);
    let texts = style::texts(root)?;
    found.extend(dependencies::violations(&texts));
    found.extend(references::violations(&texts));
    found.extend(promises::violations(&texts));
    found.extend(style::violations(root, &metadata, &texts)?);
    Ok(found)
}

/// Checks the repository.
///
/// # Errors
/// As [`violations`], or there are some: they are the message.
pub fn run() -> Result<()> {
    let found = violations(root())?;
    if found.is_empty() {
        return Ok(());
    }
    bail!(
        "{} rules of this repository are broken:\n  {}",
        found.len(),
        found.join("\n  ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_its_rules() {
        assert_eq!(violations(root()).unwrap(), Vec::<String>::new());
    }
}
