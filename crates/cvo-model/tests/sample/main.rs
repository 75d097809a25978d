//! The model and the readers of a ClusterVersion, on the sample objects and graphs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../checks/mod.rs"]
mod checks;

use checks::{File, files, graph, graphs, preflight, recorded};
use cvo_model::retrieval::{GraphAnswer, GraphQuery, read};
use repository::data::sample;

fn sample_files() -> Vec<File> {
    let files = files(&sample("clusterversions"));
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        ["completed.yaml", "failing.yaml", "fresh.yaml", "updating.yaml"]
    );
    files
}

#[test]
fn the_objects_are_read_and_written_back_without_loss() {
    recorded::objects_are_written_back(&sample_files());
}

#[test]
fn every_recommendation_follows_from_one_verdict_per_query() {
    assert_eq!(recorded::recommendations_follow(&sample_files()), 5);
}

#[test]
fn a_cluster_is_ready_exactly_if_the_update_may_be_requested() {
    assert_eq!(preflight::verdicts_agree_with_requests(&sample_files()), 22);
}

#[test]
fn promotion_and_order_follow_from_the_recommendations() {
    recorded::promotion_and_order_follow(&sample_files());
}

#[test]
fn every_edge_of_a_graph_is_offered_with_its_metadata() {
    graph::edges_are_offered(graphs(&sample("update-graph").join("expected")), 1);
}

#[test]
fn the_completed_cluster_was_offered_what_the_graph_serves() {
    let files = sample_files();
    let status = &files[0].objects[0].status;
    let (_, body) = graphs(&sample("update-graph").join("expected"))
        .into_iter()
        .find(|(channel, _)| channel == "stable-4.14")
        .unwrap();
    let question = GraphQuery {
        service: "https://u".to_owned(),
        architecture: "amd64".to_owned(),
        current_architecture: "amd64".to_owned(),
        channel: "stable-4.14".to_owned(),
        cluster_id: files[0].objects[0].spec.cluster_id.clone(),
        version: status.desired.version.clone(),
    };
    let served = read(&question, &GraphAnswer::ok(body)).unwrap();
    let with_risks =
        |updates: &[clusterversion::types::ConditionalUpdate]| -> Vec<(String, String, Vec<String>)> {
            let mut all: Vec<_> = updates
                .iter()
                .map(|update| {
                    let risks = update.risks.iter().map(|risk| format!("{risk:?}")).collect();
                    (
                        update.release.version.clone(),
                        update.release.image.clone(),
                        risks,
                    )
                })
                .collect();
            all.sort();
            all
        };
    assert_eq!(
        with_risks(&served.conditional),
        with_risks(&status.conditional_updates)
    );
    let open: Vec<&str> = served
        .updates
        .iter()
        .map(|release| release.version.as_str())
        .collect();
    assert_eq!(open, ["4.14.10"]);
}
