//! Every command of the README, the guides and `examples/README.md` is run, page by page, on a real hub with simulated clusters, and
//! every YAML block is tried on its API server.
//!
//! A command is run as it is written; only addresses and the placeholders of sentences are replaced. So a command that somebody adds
//! to a page is run, too, and fails if it does not work. What it needs is in `expected.rs`. A command that cannot run here is in
//! `elsewhere.rs`.

mod cargo_commands;
mod elsewhere;
mod expected;
mod files;
mod manifests;
mod pages;
mod shell;
mod test_bed;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use repository::root;

use self::elsewhere::{ELSEWHERE, Elsewhere};
use self::expected::PAGES;
use self::pages::{Item, Page};
use self::shell::Step;
use self::test_bed::TestBed;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_and_every_yaml_block_of_the_pages_works() -> Result<()> {
    let bed = Box::pin(TestBed::start()).await?;
    bed.set_up().await?;
    let tried = try_pages(&bed).await;
    // Also after an error, since that hub outlives this process.
    let left = bed.clean_up().await?;
    let mut failures = tried?;
    failures.extend(left);
    ensure!(
        failures.is_empty(),
        "{} commands of pages do not work:\n\n{}\nThe end of the controller's log:\n{}",
        failures.len(),
        failures.join("\n"),
        bed.log()
    );
    Ok(())
}

async fn try_pages(bed: &TestBed) -> Result<Vec<String>> {
    let (mut failures, mut helps) = (Vec::new(), BTreeSet::new());
    for name in PAGES {
        let page = Page::read(name)?;
        let directory = bed.directory(name)?;
        for item in &page.items {
            let mut steps: Vec<Step> = match item {
                Item::Script(script) => script
                    .iter()
                    .flat_map(|command| expected::of_a_block(name, command))
                    .collect(),
                Item::Inline(command) => expected::of_a_sentence(name, command),
                Item::Yaml { line, text } => manifests::steps(&directory, *line, text)?,
            };
            // Many pages name the same commands.
            steps.retain(|step| !step.text.ends_with("--help") || helps.insert(step.text.clone()));
            if !steps.is_empty() {
                failures.extend(bed.run(name, &directory, &steps).await?);
            }
        }
    }
    Ok(failures)
}

#[test]
fn every_guide_is_among_the_pages() -> Result<()> {
    let mut found = BTreeSet::from(["README.md", "CONTRIBUTING.md", "examples/README.md"].map(str::to_owned));
    for entry in std::fs::read_dir(root().join("docs/guide"))? {
        let name = entry?.file_name();
        found.insert(format!("docs/guide/{}", name.to_string_lossy()));
    }
    assert_eq!(found, BTreeSet::from(PAGES.map(str::to_owned)));
    Ok(())
}

#[test]
fn commands_that_are_not_run_here_are_on_a_page_and_what_runs_them_exists() -> Result<()> {
    let pages = PAGES.map(Page::read).into_iter().collect::<Result<Vec<_>>>()?;
    let commands: Vec<_> = pages.iter().flat_map(Page::commands).collect();
    assert!(commands.len() >= 200, "{}", commands.len());
    for (position, (part, elsewhere)) in ELSEWHERE.iter().enumerate() {
        // Of the texts that a command contains, the first one counts.
        let earlier = &ELSEWHERE[..position];
        let is_first = |text: &str| !earlier.iter().any(|(part, _)| text.contains(part));
        let counts = commands
            .iter()
            .any(|command| command.text.contains(part) && is_first(&command.text));
        assert!(counts, "no page has the command {part}");
        match elsewhere {
            Elsewhere::Runs(file, text) => {
                let source = std::fs::read_to_string(root().join(file))?;
                assert!(source.contains(text), "{part}: {file} has no {text}");
            }
            Elsewhere::Never(reason) => assert!(!reason.is_empty(), "{part}"),
        }
    }
    Ok(())
}
