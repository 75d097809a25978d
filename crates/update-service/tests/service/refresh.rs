//! What becomes of a snapshot when its sources change, fail and come back.

use std::path::Path;
use std::time::Duration;

use update_service::config::ReleaseSource;
use update_service::source::location::Location;

use crate::data;
use crate::fake::{Auth, Fake, Fault};
use crate::running::{Running, metric, sources, until};

const THREE: &[&str] = &["4.1.0", "4.1.1", "4.1.2"];
const ALL_BLOCKED: (&str, &str) = ("4.1.2.yaml", "to: 4.1.2\nfrom: .*\n");

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        files.list(THREE);
        data::graph_data(&files.data(), THREE, &[]);
        files
    }

    fn data(&self) -> std::path::PathBuf {
        self.directory.path().join("graph-data")
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("releases.json")
    }

    fn list(&self, versions: &[&str]) {
        replace(&self.path(), &data::list(versions));
    }

    fn sources(&self) -> update_service::config::Sources {
        sources(
            ReleaseSource::Lists(vec![self.path()]),
            Some(Location::Path(self.data())),
        )
    }
}

fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn a_change_of_files_is_served_without_waiting_for_the_schedule() {
    let files = Files::new();
    let mut sources = files.sources();
    sources.refresh = Duration::from_hours(1);
    let running = Running::start(&sources);
    running.ready().await;
    assert_eq!((running.versions().await.len(), running.edges().await), (3, 3));
    files.list(&["4.1.0", "4.1.1", "4.1.2", "4.1.3"]);
    data::graph_data(&files.data(), &["4.1.0", "4.1.1", "4.1.2", "4.1.3"], &[]);
    until("the new release is served", async || {
        running.versions().await.len() == 4
    })
    .await;
    data::graph_data(
        &files.data(),
        &["4.1.0", "4.1.1", "4.1.2", "4.1.3"],
        &[ALL_BLOCKED],
    );
    until("the edges are blocked", async || running.edges().await == 4).await;
}

#[tokio::test]
async fn the_last_good_graph_is_served_while_a_source_is_broken() {
    let files = Files::new();
    let running = Running::start(&files.sources());
    running.ready().await;
    let failed =
        |source: &str| running.metric(&format!("update_service_source_failed{{source=\"{source}\"}}"));
    let good = running.graph("stable-4.1").await;

    std::fs::write(files.data().join("version"), "2.0.0\n").unwrap();
    until("the new data are refused", async || failed("graph_data") == 1.0).await;
    assert_eq!(running.graph("stable-4.1").await, good);
    assert_eq!(running.get("/readyz").await.0, 200);
    std::fs::write(files.data().join("version"), "1.2.0\n").unwrap();
    data::graph_data(&files.data(), THREE, &[ALL_BLOCKED]);
    until("fixed data are served", async || {
        failed("graph_data") == 0.0 && running.edges().await == 1
    })
    .await;

    replace(&files.path(), "[{");
    until("the list cannot be read", async || failed("releases") == 1.0).await;
    running.readings(3.0).await;
    assert_eq!(running.versions().await.len(), 3);
    std::fs::remove_file(files.path()).unwrap();
    running.readings(3.0).await;
    assert_eq!(running.versions().await.len(), 3);
    files.list(THREE);
    until("the list is read again", async || failed("releases") == 0.0).await;
}

#[tokio::test]
async fn data_that_never_were_good_keep_the_service_from_being_ready() {
    let files = Files::new();
    std::fs::write(files.data().join("blocked-edges/x.yaml"), "to: [\n").unwrap();
    let running = Running::start(&files.sources());
    running.readings(2.0).await;
    let (status, body) = running.get("/readyz").await;
    let body = String::from_utf8(body).unwrap();
    assert_eq!(status, 503);
    assert!(body.contains("graph_data: ") && body.contains("x.yaml"), "{body}");
}

#[tokio::test]
async fn data_without_channels_are_refused_from_the_start_and_data_without_blocks_are_complained_of() {
    let files = Files::new();
    let channels = files.data().join("channels");
    let aside = files.directory.path().join("aside");
    std::fs::rename(&channels, &aside).unwrap();
    let running = Running::start(&files.sources());
    running.readings(2.0).await;
    let (status, body) = running.get("/readyz").await;
    let body = String::from_utf8(body).unwrap();
    assert_eq!(status, 503);
    assert!(
        body.contains("graph_data: ") && body.contains("channels/*.yaml"),
        "{body}"
    );
    std::fs::rename(&aside, &channels).unwrap();
    running.ready().await;
    let warnings = "update_service_problems{severity=\"warning\"}";
    until("a missing part is counted", async || {
        running.metric(warnings) == 1.0
    })
    .await;
    data::graph_data(&files.data(), THREE, &[ALL_BLOCKED]);
    until("nothing is missing", async || running.metric(warnings) == 0.0).await;
}

#[tokio::test]
async fn an_empty_list_keeps_the_service_from_being_ready_and_says_so() {
    let files = Files::new();
    files.list(&[]);
    let running = Running::start(&files.sources());
    until("it says why it is not ready", async || {
        let (status, body) = running.get("/readyz").await;
        status == 503
            && String::from_utf8(body)
                .unwrap()
                .contains("releases: no release is listed")
    })
    .await;
}

#[tokio::test]
async fn a_release_leaves_with_the_third_listing_that_lacks_it() {
    let files = Files::new();
    let mut sources = files.sources();
    sources.refresh = Duration::from_millis(400);
    let running = Running::start(&sources);
    running.ready().await;
    let lost = || running.metric("update_service_lost_releases_total{reason=\"unlisted\"}");
    files.list(&["4.1.0", "4.1.1"]);
    until("it is missing", async || {
        running.metric("update_service_retained_releases") == 1.0
    })
    .await;
    assert_eq!((running.versions().await.len(), lost()), (3, 0.0));
    until("it leaves", async || running.versions().await.len() == 2).await;
    assert_eq!(
        (lost(), running.metric("update_service_retained_releases")),
        (1.0, 0.0)
    );
}

#[tokio::test]
async fn a_release_that_is_back_is_remembered_as_such() {
    let files = Files::new();
    let mut sources = files.sources();
    sources.refresh = Duration::from_hours(1);
    sources.state_dir = Some(files.directory.path().join("state"));
    std::fs::create_dir(files.directory.path().join("state")).unwrap();
    let running = Running::start(&sources);
    running.ready().await;
    let remembered = |text: &str| {
        let state = std::fs::read(files.directory.path().join("state/releases")).unwrap_or_default();
        String::from_utf8_lossy(&state).contains(text)
    };
    files.list(&["4.1.0", "4.1.1"]);
    until("it is missing", async || remembered("\"missed\":1")).await;
    files.list(THREE);
    until("it is back", async || !remembered("\"missed\":1")).await;
    assert!(remembered("\"missed\":0"));
}

#[tokio::test]
async fn what_no_channel_lists_leaves_as_soon_as_it_is_missing() {
    let files = Files::new();
    data::graph_data(&files.data(), &["4.1.0", "4.1.1"], &[]);
    let mut sources = files.sources();
    sources.refresh = Duration::from_hours(1);
    let running = Running::start(&sources);
    running.ready().await;
    files.list(&["4.1.0", "4.1.1"]);
    until("it leaves", async || {
        running.metric("update_service_lost_releases_total{reason=\"no_channel\"}") == 1.0
    })
    .await;
}

#[tokio::test]
async fn neither_a_failing_registry_nor_a_lost_manifest_takes_a_release_away() {
    let fake = Fake::start(Auth::Anyone).await;
    fake.release("4.1.0", &[]);
    let lost = fake.release("4.1.1", &["4.1.0"]);
    fake.release("4.1.2", &["4.1.0", "4.1.1"]);
    let files = Files::new();
    let mut sources = files.sources();
    sources.releases = ReleaseSource::Registry(fake.name().parse().unwrap());
    let running = Running::start(&sources);
    running.ready().await;
    let good = running.graph("stable-4.1").await;
    assert_eq!(good["nodes"].as_array().unwrap().len(), 3);

    for (part, fault) in [
        (format!("manifests/{lost}"), Fault::Status(404)),
        ("manifests/4.1.1".to_owned(), Fault::Status(404)),
        ("manifests/4.1.2".to_owned(), Fault::Status(500)),
        ("tags/list".to_owned(), Fault::Status(500)),
    ] {
        fake.fail_always(&part, fault);
        running.readings(5.0).await;
        assert_eq!(running.graph("stable-4.1").await, good, "{part}");
        assert_eq!(running.metric("update_service_retained_releases"), 0.0, "{part}");
    }
    fake.fix();
    fake.untag("4.1.1");
    until("it leaves", async || {
        running.versions().await == ["4.1.0", "4.1.2"]
    })
    .await;
}

#[tokio::test]
async fn blocked_edges_take_effect_while_a_slow_registry_is_read() {
    let fake = Fake::start(Auth::Anyone).await;
    for version in THREE {
        let previous: Vec<&str> = THREE
            .iter()
            .copied()
            .take_while(|other| other != version)
            .collect();
        fake.release(version, &previous);
    }
    let files = Files::new();
    let mut sources = files.sources();
    sources.releases = ReleaseSource::Registry(fake.name().parse().unwrap());
    sources.connection.timeout = Duration::from_mins(1);
    let running = Running::start(&sources);
    running.ready().await;
    fake.requests();
    fake.fail_always("tags/list", Fault::Slow(Duration::from_mins(1)));
    until("a scrape hangs", async || {
        fake.content
            .lock()
            .unwrap()
            .requests
            .last()
            .is_some_and(|r| r.contains("tags"))
    })
    .await;
    data::graph_data(&files.data(), THREE, &[ALL_BLOCKED]);
    until("the edges are blocked", async || running.edges().await == 1).await;
}

#[tokio::test]
async fn after_a_restart_what_was_known_is_served_though_the_registry_is_down() {
    let fake = Fake::start(Auth::Anyone).await;
    for version in THREE {
        fake.release(version, &[]);
    }
    let files = Files::new();
    let mut sources = files.sources();
    sources.releases = ReleaseSource::Registry(fake.name().parse().unwrap());
    sources.state_dir = Some(files.directory.path().join("state"));
    let running = Running::start(&sources);
    running.ready().await;
    fake.untag("4.1.2");
    running.readings(1.0).await;
    drop(running);

    fake.fail_always("/v2/", Fault::Status(500));
    let running = Running::start(&sources);
    running.ready().await;
    let errors = "cincinnati_gb_graph_upstream_errors_total";
    until("a scrape fails", async || metric(&running.state, errors) >= 1.0).await;
    assert_eq!(running.versions().await.len(), 3);
    fake.fix();
    // The listings that lacked it before the restart count.
    until("it leaves", async || running.versions().await.len() == 2).await;
}

#[tokio::test]
async fn a_policy_that_removes_a_release_is_said_to_have_done_so() {
    let files = Files::new();
    let mut sources = files.sources();
    let policy = "- policy: node-remove\n  versions: [4.1.2]\n";
    sources.policy = Some(serde_saphyr::from_str(policy).unwrap());
    let running = Running::start(&sources);
    running.ready().await;
    assert_eq!(running.versions().await.len(), 2);
}

#[tokio::test]
async fn a_list_that_becomes_empty_takes_nothing_away_and_blocked_edges_still_take_effect() {
    let files = Files::new();
    let mut sources = files.sources();
    sources.refresh = Duration::from_millis(200);
    let running = Running::start(&sources);
    running.ready().await;
    let before = running.edges().await;
    files.list(&[]);
    until("it is said", async || {
        running.metric("update_service_source_failed{source=\"releases\"}") == 1.0
    })
    .await;
    // Long enough for more than three readings.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(running.versions().await.len(), 3);
    data::graph_data(&files.data(), THREE, &[ALL_BLOCKED]);
    until("an edge is blocked", async || running.edges().await < before).await;
}
