//! Clusters that evaluate another channel, where an update graph of our own tells what is served.

use std::collections::BTreeMap;

use super::*;

/// A cluster that was asked at the beginning, and evaluates another channel than the planned one.
fn in_another_channel() -> World {
    let mut world = world(&["a"]);
    let mut asked = Question::clone(&question());
    asked.update.channel = "stable-4.21".to_owned();
    asked.asks_graph = true;
    world.questions.preflight = Some(Arc::new(asked));
    let mut object = answered(probe("a", UPGRADE, "h1", 2), status_of_probe(), 2);
    object.metadata.creation_timestamp = Some(api::time::from_chrono(at(0)));
    world.index.work(&Change::Applied(object), at(0));
    world
}

impl World {
    /// What the graph serves is known, or not any more.
    fn knows_graph(&mut self, is_known: bool) {
        let from = BTreeMap::from([("4.20.3".to_owned(), Vec::new())]);
        let mut asked = Question::clone(self.questions.preflight.as_ref().unwrap());
        asked.update.by_graph = is_known.then(|| Arc::new(UpdatesTo { from }));
        self.questions.preflight = Some(Arc::new(asked));
    }
}

#[test]
fn a_cluster_is_unknown_since_what_the_graph_serves_is_not_known_any_more() {
    let mut world = in_another_channel();
    world.knows_graph(true);
    world.refresh(0);
    assert_eq!(world.says("a", 5000), Preflight::Ready);
    world.knows_graph(false);
    world.refresh(5000);
    assert_eq!(world.reason("a", 5599), Some((false, Reason::ChannelDiffers)));
    assert_eq!(world.reason("a", 5600), Some((true, Reason::ChannelDiffers)));
    world.knows_graph(true);
    world.refresh(5700);
    assert_eq!(world.says("a", 5700), Preflight::Ready);
}

#[test]
fn who_has_not_read_the_graph_yet_blocks_no_cluster_at_once() {
    let mut world = in_another_channel();
    world.refresh(5000);
    assert_eq!(world.reason("a", 5000), Some((false, Reason::ChannelDiffers)));
    let mut world = in_another_channel();
    world.questions.without_graph();
    world.refresh(5000);
    assert_eq!(
        world.reason("a", 5000),
        Some((true, Reason::ChannelDiffers)),
        "there is none"
    );
}
