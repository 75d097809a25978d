//! `cargo xtask fence`: which room may depend on which, what the pure rooms must not reach, and house manners.
//!
//! Owns the table of rooms. Refuses to mend anything: it names what is wrong and where.

mod manners;
mod promises;
mod purity;
mod rooms;

use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::{Metadata, root};

/// Everything that is wrong with the house, as sentences; empty if nothing is.
///
/// # Errors
/// Cargo or a file cannot be read.
pub fn violations(root: &Path) -> Result<Vec<String>> {
    let metadata = Metadata::load()?;
    let mut found = rooms::violations(&metadata);
    for room in rooms::pure(&metadata) {
        found.extend(purity::violations(&room)?);
    }
    found.extend(manners::violations(root, &metadata)?);
    Ok(found)
}

/// Checks the house.
///
/// # Errors
/// As [`violations`], or there are some: they are the message.
pub fn run() -> Result<()> {
    let found = violations(root())?;
    if found.is_empty() {
        return Ok(());
    }
    bail!(
        "{} violations of the house's rules:\n  {}",
        found.len(),
        found.join("\n  ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_keeps_its_rules() {
        assert_eq!(violations(root()).unwrap(), Vec::<String>::new());
    }
}
