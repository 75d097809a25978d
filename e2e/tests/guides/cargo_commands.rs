//! The commands of cargo on the pages, of which most take too long to run them here: their programs must know their flags, and the
//! packages and tests that they name must exist.

use anyhow::{Context as _, Result, ensure};
use repository::{Metadata, Package, Profile, Programs};
use tokio::process::Command;

use crate::expected::PAGES;
use crate::pages::Page;

/// The words of each command of cargo in a text, such as `export A=$(cargo xtask hub up) # why`.
fn commands_of_cargo(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let ends = |c: char| ")#&;\n".contains(c);
    text.split("cargo ")
        .skip(1)
        .map(|part| {
            let words = part.split(ends).next().unwrap_or_default().split_whitespace();
            let words = words.filter(|word| !word.starts_with('['));
            words.map(str::to_owned).collect()
        })
        .collect()
}

/// The program that a command of cargo starts, and its arguments: what `crates/xtask/src/main.rs` does.
fn program<'a>(words: &[&'a str]) -> Option<(&'a str, Vec<&'a str>)> {
    let (name, arguments) = match words {
        ["xtask", "demo", arguments @ ..] => ("demo", arguments),
        ["xtask", "hub", arguments @ ..] => ("testenv", arguments),
        ["xtask", "bench", arguments @ ..] => ("bench", arguments),
        ["xtask", "sim", arguments @ ..] => ("simulation", arguments),
        ["xtask", arguments @ ..] => match arguments.first() {
            Some(&("crds" | "docs")) => ("generate", arguments),
            Some(&("manifests" | "image" | "plugin")) => ("package", arguments),
            _ => ("xtask", arguments),
        },
        ["run", "-p", package, "--", arguments @ ..] => (*package, arguments),
        _ => return None,
    };
    // The placeholder of a number.
    let filled = arguments.iter().map(|word| if *word == "N" { "1" } else { word });
    Some((name, filled.collect()))
}

/// Fails if the words name a package or a test that does not exist, or a test without the feature that it needs.
fn exists(words: &[&str], packages: &[Package]) -> Result<()> {
    for pair in words.windows(2) {
        match pair {
            ["-p", "CRATE"] => {}
            ["-p", name] => {
                let found = packages.iter().any(|package| package.name == *name);
                ensure!(found, "no package {name}");
            }
            ["--test", name] => {
                let mut targets = packages.iter().flat_map(|package| &package.targets);
                let target = targets.find(|target| target.name == *name && target.kind == ["test"]);
                let target = target.with_context(|| format!("no test {name}"))?;
                let has = |feature: &String| words.iter().any(|word| word == feature);
                ensure!(
                    target.required_features.iter().all(has),
                    "{name} needs {:?}",
                    target.required_features
                );
            }
            _ => {}
        }
    }
    Ok(())
}

#[tokio::test]
async fn programs_know_the_flags_that_pages_give_them_and_packages_and_tests_exist() -> Result<()> {
    let programs = tokio::task::spawn_blocking(|| Programs::build(Profile::own())).await??;
    let packages = Metadata::load()?.packages;
    let (mut wrong, mut known) = (Vec::new(), 0);
    for page in PAGES {
        let page = Page::read(page)?;
        for command in page.commands() {
            for words in commands_of_cargo(&command.text) {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let place = format!("{}:{}: {}", page.name, command.line, words.join(" "));
                if let Err(error) = exists(&words, &packages) {
                    wrong.push(format!("{place}: {error}"));
                }
                let Some((name, arguments)) = program(&words) else {
                    continue;
                };
                // Everything before it is read, and nothing is done.
                let help = Command::new(programs.path(name))
                    .args(arguments)
                    .arg("--help")
                    .output()
                    .await
                    .with_context(|| format!("{place}: {name}"))?;
                known += 1;
                if !help.status.success() {
                    wrong.push(format!("{place}: {}", String::from_utf8_lossy(&help.stderr)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(known >= 20, "{known}");
    Ok(())
}

#[test]
fn commands_of_cargo_are_found_in_a_line_and_lead_to_their_programs() {
    let found = commands_of_cargo("export A=$(cargo xtask hub up \\\n--sim)   # why");
    assert_eq!(found, [["xtask", "hub", "up", "--sim"]]);
    let started = |line: &'static str| {
        let words: Vec<&str> = line.split(' ').collect();
        program(&words).map(|(name, arguments)| format!("{name} {}", arguments.join(" ")))
    };
    for (line, expected) in [
        ("xtask hub up", Some("testenv up")),
        ("xtask crds --check", Some("generate crds --check")),
        ("xtask image --push a", Some("package image --push a")),
        ("xtask sim --seed N", Some("simulation --seed 1")),
        ("xtask test --fast", Some("xtask test --fast")),
        ("run -p spoke-sim -- agents", Some("spoke-sim agents")),
        ("test -p rollout", None),
    ] {
        assert_eq!(started(line).as_deref(), expected, "{line}");
    }
}
