//! Every dependency is used: a crate's own by its code, and one of the workspace by a crate.

use std::collections::BTreeSet;
use std::path::Path;

use super::references::Text;
use super::source::{Token, tokens, without_texts};

/// Dependencies that no code names, by crate and dependency, with the reason. Example: a crate that is there only to switch
/// on a feature of another one.
const UNNAMED: [(&str, &str, &str); 1] = [(
    "crates/hub-sim",
    "k8s-openapi",
    "chooses the version of the Kubernetes API that kube is built with",
)];

/// The sections of a manifest with dependencies of a crate.
const OF_A_CRATE: [&str; 3] = ["[dependencies]", "[dev-dependencies]", "[build-dependencies]"];
const OF_THE_WORKSPACE: [&str; 1] = ["[workspace.dependencies]"];

/// Dependencies that nothing uses. Crates that are excluded from the workspace count as well: what they need from it stays.
pub(super) fn violations(texts: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    let is_manifest = |name: &Path| name.ends_with("Cargo.toml") && name != Path::new("Cargo.toml");
    for (name, manifest) in texts.iter().filter(|(name, _)| is_manifest(name)) {
        let Some(directory) = name.parent() else { continue };
        let mut words = BTreeSet::new();
        let is_code =
            |file: &Path| file.starts_with(directory) && file.extension().is_some_and(|end| end == "rs");
        for (_, text) in texts.iter().filter(|(file, _)| is_code(file)) {
            let code = without_texts(text);
            words.extend(tokens(&code).into_iter().filter_map(|token| match token {
                Token::Word(word) => Some(word.to_owned()),
                Token::Path | Token::Other(_) => None,
            }));
        }
        let package = directory.display().to_string();
        for dependency in keys(manifest, &OF_A_CRATE) {
            let is_excused = UNNAMED
                .iter()
                .any(|(of, on, _)| *of == package && *on == dependency);
            if !words.contains(&dependency.replace('-', "_")) && !is_excused {
                found.push(format!(
                    "{}: no code of the crate names {dependency}",
                    name.display()
                ));
            }
            used.insert(dependency);
        }
    }
    let root = texts.iter().find(|(name, _)| name == Path::new("Cargo.toml"));
    let all = root
        .map(|(_, text)| keys(text, &OF_THE_WORKSPACE))
        .unwrap_or_default();
    let unused = all.into_iter().filter(|dependency| !used.contains(dependency));
    found.extend(unused.map(|dependency| format!("Cargo.toml: no crate depends on {dependency}")));
    found
}

/// The keys of these sections of a manifest.
fn keys(manifest: &str, sections: &[&str]) -> Vec<String> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            is_inside = sections.contains(&line);
        } else if is_inside && !line.starts_with('#') {
            let key = line.split(['.', ' ', '=']).next().unwrap_or_default();
            found.extend((!key.is_empty()).then(|| key.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[(&str, &str)]) -> Vec<Text> {
        let text = |(name, text): &(&str, &str)| (Path::new(name).to_path_buf(), (*text).to_owned());
        files.iter().map(text).collect()
    }

    #[test]
    fn a_dependency_that_no_code_names_is_found_and_a_comment_is_no_code() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\n# why\nb-c.workspace = true\nd = { workspace = true }\n\n\
                        [dev-dependencies]\ne = \"1\"\n\n[lints]\nworkspace = true\n";
        let given = texts(&[
            ("crates/a/Cargo.toml", manifest),
            (
                "crates/a/src/lib.rs",
                "use b_c::X;\n// d is not used\nconst T: &str = \"d\";\n",
            ),
            ("crates/a/tests/t.rs", "#[e::test]\nfn t() {}\n"),
            ("crates/other/src/lib.rs", "use d::X;\n"),
        ]);
        assert_eq!(
            violations(&given),
            ["crates/a/Cargo.toml: no code of the crate names d"]
        );
    }

    #[test]
    fn a_dependency_of_the_workspace_that_no_crate_has_is_found() {
        let given = texts(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\n# data\nb = \"1\"\nc = { version = \"1\" }\n\n[profile.dev]\ndebug = 1\n",
            ),
            (
                "crates/a/Cargo.toml",
                "[build-dependencies]\nb.workspace = true\n",
            ),
            ("crates/a/build.rs", "use b::X;\n"),
        ]);
        assert_eq!(violations(&given), ["Cargo.toml: no crate depends on c"]);
    }
}
