use anyhow::bail;

use super::*;
use crate::fault::Fault;

fn lost(name: &str) -> Occasion {
    Occasion {
        fault: Fault::Lost,
        name: name.to_owned(),
        count: 1,
    }
}

#[test]
fn a_smaller_world_that_cannot_be_run_shows_nothing_and_others_are_tried() {
    let mut story = Story {
        about: String::new(),
        rule: Rule::Ends,
        options: Options {
            clusters: 4,
            canaries: 2,
            chaos_seconds: 600,
            ..Options::default()
        },
        faults: ["a", "b", "c"].map(lost).into(),
    };
    reduce(&mut story, |smaller| {
        let (options, faults) = (&smaller.options, &smaller.faults);
        if options.canaries == 0 || options.clusters < 3 || !faults.contains(&lost("b")) {
            bail!("the fleet");
        }
        Ok(options.chaos_seconds >= 100)
    });
    assert_eq!(story.faults, BTreeSet::from([lost("b")]));
    let left = Options {
        clusters: 3,
        canaries: 2,
        chaos_seconds: 150,
        max_latency_millis: 1,
        ..Options::default()
    };
    assert_eq!(story.options, left);
}
