//! Every story that was kept is replayed: what it showed was fixed, and must not come back.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use simulation::story::Story;
use simulation::sweep::of_each;
use simulation::trace::Trace;

fn stories() -> Vec<(PathBuf, Story)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("stories");
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|one| one == "json"))
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), Story::read(&path).unwrap()))
        .collect()
}

/// A story whose faults do not happen, or whose rule is not tried, would prove nothing.
#[test]
fn every_story_happens_and_violates_no_rule() {
    let wrong = of_each(&stories(), |(path, story)| {
        let mut wrong = Vec::new();
        let outcome = story.play(Trace::default()).unwrap();
        let name = path.file_stem().unwrap().display();
        for violation in &outcome.violations {
            wrong.push(format!("{name}: {violation}"));
        }
        let lacks = story.lacks(&outcome).into_iter();
        wrong.extend(lacks.map(|lack| format!("{name} shows nothing any more: {lack}")));
        wrong
    })
    .concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_story_says_what_it_is_about() {
    let stories = stories();
    assert!(!stories.is_empty());
    for (path, story) in stories {
        assert!(story.about.len() > 30, "{}", path.display());
        // What clusters answer, and when their windows open, may be story enough.
        let has_matter = !story.faults.is_empty() || story.options.preflight.is_some();
        assert!(has_matter, "{}", path.display());
    }
}
