//! Every story that was kept is replayed: what it showed was fixed, and must not come back.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::path::Path;

use simulation::story::Story;
use simulation::trace::Trace;

#[test]
fn no_story_violates_a_rule_any_more() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("stories");
    let mut played = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let outcome = Story::read(&path).unwrap().play(Trace::default()).unwrap();
            assert!(
                outcome.violations.is_empty(),
                "{}: {:?}",
                path.display(),
                outcome.violations
            );
            played += 1;
        }
    }
    println!("{played} stories");
}
