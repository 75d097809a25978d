//! No name of a type is defined twice within the crates that work on the same objects, so that a name says what is meant.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::source;

/// The crates, by the directory of their sources. One that does not exist yet has no names.
const CRATES: [&str; 7] = [
    "api",
    "rollout",
    "observe",
    "resolve",
    "clusterversion",
    "controller",
    "telemetry",
];

/// Where each name is defined.
type Definitions = BTreeMap<String, Vec<String>>;

/// Names that are defined more than once.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let mut found = Definitions::new();
    for name in CRATES {
        let directory = format!("crates/{name}/src");
        let start = root.join(&directory).join("lib.rs");
        if !start.is_file() {
            continue;
        }
        for module in source::modules(&start)? {
            add(&mut found, &format!("{directory}/{}", module.file), &module.code);
        }
    }
    Ok(defined_twice(&found))
}

fn add(found: &mut Definitions, file: &str, code: &str) {
    for (name, times) in source::types(code) {
        let places = found.entry(name).or_default();
        places.extend(std::iter::repeat_n(file.to_owned(), times));
    }
}

fn defined_twice(found: &Definitions) -> Vec<String> {
    found
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("type {name} is defined more than once: {}", places.join(", ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_files_and_of_two_modules_of_one_file_is_told_with_its_places() {
        let mut found = Definitions::new();
        add(&mut found, "a.rs", "pub struct Step; pub enum Only {}");
        add(
            &mut found,
            "b.rs",
            "pub enum Step {} mod x { struct Twice; } mod y { struct Twice; }",
        );
        assert_eq!(
            defined_twice(&found),
            [
                "type Step is defined more than once: a.rs, b.rs",
                "type Twice is defined more than once: b.rs, b.rs",
            ]
        );
    }
}
