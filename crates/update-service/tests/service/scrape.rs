//! Scrapes of a registry that misbehaves.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use update_service::source::Listing;
use update_service::source::registry::Registry;
use update_service::source::registry::cache::Cache;
use update_service::source::registry::client::{Client, RegistryError, Settings};
use update_service::source::registry::credentials::Login;

use crate::fake::{Auth, Fake, Fault, layer, metadata};
use crate::running::{QUICK, install_ring};

pub fn client(fake: &Fake, login: Option<&str>) -> Client {
    install_ring();
    let login = login.map(|login| {
        let (username, password) = login.split_once(':').unwrap();
        Login {
            username: username.to_owned(),
            password: password.to_owned(),
        }
    });
    let settings = Settings {
        backoff: QUICK,
        timeout: Duration::from_millis(300),
        ca: Vec::new(),
    };
    Client::new(fake.name().parse().unwrap(), login, &settings).unwrap()
}

pub fn registry(fake: &Fake) -> Registry {
    Registry::new(client(fake, None), Cache::in_memory(), 4)
}

fn on_disk(fake: &Fake, directory: &Path) -> Registry {
    Registry::new(client(fake, None), Cache::on_disk(directory).unwrap(), 4)
}

pub fn names(listing: &Listing) -> Vec<String> {
    let releases = listing.releases.iter().map(|listed| &listed.release);
    releases
        .map(|release| format!("{}+{}", release.version, release.arch))
        .collect()
}

pub fn unreadable(listing: &Listing) -> Vec<&str> {
    listing
        .unreadable
        .iter()
        .map(|trouble| trouble.name.as_str())
        .collect()
}

fn requests(fake: &Fake, part: &str) -> usize {
    fake.requests()
        .iter()
        .filter(|request| request.contains(part))
        .count()
}

#[tokio::test]
async fn every_page_of_tags_is_read_and_every_image_says_what_it_is() {
    let fake = Fake::start(Auth::Anyone).await;
    let digest = fake.release("4.1.0", &[]);
    fake.release("4.1.1", &["4.1.0"]);
    fake.release("4.1.2", &["4.1.0", "4.1.1"]);
    fake.tag("sha256-123.sig", digest);
    fake.tag("sha256-123", digest);
    fake.tag("4.1.0.att", digest);
    let listing = registry(&fake).list().await.unwrap();
    assert_eq!(names(&listing), ["4.1.0+amd64", "4.1.1+amd64", "4.1.2+amd64"]);
    assert_eq!(listing.unreadable, []);
    let first = &listing.releases[0];
    assert_eq!(first.name, "4.1.0");
    assert_eq!(first.release.payload, format!("{}@{digest}", fake.name()));
    let key = update_graph::metadata::key::MANIFESTREF;
    assert_eq!(first.release.metadata.get_str(key).unwrap(), digest.to_string());
    assert_eq!(listing.releases[2].release.previous.len(), 2);
}

#[tokio::test]
async fn architectures_come_from_lists_and_configs() {
    let fake = Fake::start(Auth::Anyone).await;
    let multi = r#""release.openshift.io/architecture":"multi""#;
    let layer_of = |version: &str, extra: &str| {
        let document = metadata(version, &[], extra);
        layer(
            &[("release-manifests/release-metadata", document.as_bytes())],
            true,
        )
    };
    let shard = fake.image("arm64", &[layer_of("4.1.0", multi)]);
    let shard_amd64 = fake.image("amd64", &[layer_of("4.1.0", multi)]);
    fake.tag(
        "4.1.0-multi",
        fake.index(&[("amd64", shard_amd64), ("arm64", shard), ("unknown", shard)]),
    );
    // One architecture of a multi-architecture release, as a separate tag.
    fake.tag("4.1.0-multi-aarch64", shard);
    let single = fake.image("s390x", &[layer_of("4.1.1", "")]);
    fake.tag("4.1.1-s390x", fake.index(&[("s390x", single)]));
    fake.tag("4.1.2-ppc64le", fake.image("ppc64le", &[layer_of("4.1.2", "")]));
    fake.tag("4.1.3-odd", fake.image("x86_64", &[layer_of("4.1.3", "")]));
    fake.tag("4.1.4-none", fake.index(&[]));
    let listing = registry(&fake).list().await.unwrap();
    assert_eq!(names(&listing), ["4.1.0+multi", "4.1.1+s390x", "4.1.2+ppc64le"]);
    assert_eq!(unreadable(&listing), ["4.1.3-odd", "4.1.4-none"]);
}

#[tokio::test]
async fn metadata_is_found_in_the_topmost_layer_that_has_it() {
    let fake = Fake::start(Auth::Anyone).await;
    let document = |version: &str| metadata(version, &[], "");
    let path = "release-manifests/release-metadata";
    let old = layer(&[(path, document("4.1.0").as_bytes())], true);
    let new = layer(&[(path, document("4.1.9").as_bytes())], false);
    let other = layer(&[("etc/x", b"x")], true);
    let deleted = layer(&[("release-manifests/.wh.release-metadata", b"")], true);
    fake.tag("a", fake.image("amd64", &[old.clone(), new]));
    fake.tag(
        "b",
        fake.image("amd64", &[old.clone(), other.clone(), other.clone()]),
    );
    fake.tag("c", fake.image("amd64", &[old, deleted]));
    fake.tag("d", fake.image("amd64", &[other]));
    let registry = registry(&fake);
    let listing = registry.list().await.unwrap();
    assert_eq!(names(&listing), ["4.1.9+amd64", "4.1.0+amd64"]);
    assert_eq!(listing.unreadable, []);
    // That an image is no release is certain, and remembered.
    fake.requests();
    registry.list().await.unwrap();
    assert_eq!(requests(&fake, "/blobs/"), 0);
}

#[tokio::test]
async fn one_bad_image_spoils_nothing_and_is_read_once_it_is_whole() {
    let fake = Fake::start(Auth::Anyone).await;
    fake.release("4.1.0", &[]);
    let bytes = layer(
        &[(
            "release-manifests/release-metadata",
            metadata("4.1.1", &[], "").as_bytes(),
        )],
        true,
    );
    let cut = fake.image("amd64", &[bytes[..bytes.len() / 2].to_vec()]);
    fake.tag("b-cut", cut);
    fake.tag("c-zstd", fake.image("amd64", &[b"\x28\xb5\x2f\xfd....".to_vec()]));
    fake.tag(
        "d-other",
        fake.image(
            "amd64",
            &[layer(&[("release-manifests/release-metadata", b"{}")], true)],
        ),
    );
    fake.tag("e-nothing", fake.manifest("{}".to_owned()));
    let healthy = fake.image("amd64", &[bytes]);
    fake.tag("f-blocked", healthy);
    fake.fail_always(&format!("manifests/{healthy}"), Fault::Status(404));
    fake.fail_always("manifests/f-blocked", Fault::Status(404));
    let registry = registry(&fake);
    let listing = registry.list().await.unwrap();
    assert_eq!(names(&listing), ["4.1.0+amd64"]);
    assert_eq!(
        unreadable(&listing),
        ["b-cut", "c-zstd", "d-other", "e-nothing", "f-blocked"]
    );
    let why = &listing.unreadable[1].why;
    assert!(why.contains("zstd"), "{why}");
    // Nothing about them was remembered.
    fake.fix();
    let listing = registry.list().await.unwrap();
    assert_eq!(names(&listing), ["4.1.0+amd64", "4.1.1+amd64"]);
}

#[tokio::test]
async fn failures_that_pass_are_waited_out() {
    let fake = Fake::start(Auth::Anyone).await;
    for patch in 0..6 {
        fake.release(&format!("4.1.{patch}"), &[]);
    }
    fake.fail("tags/list", &[Fault::Status(500), Fault::Status(503)]);
    fake.fail("manifests/4.1.0", &[Fault::Status(502)]);
    fake.fail("manifests/4.1.1", &[Fault::Busy(1)]);
    fake.fail("manifests/4.1.2", &[Fault::Slow(Duration::from_secs(5))]);
    fake.fail("manifests/4.1.3", &[Fault::Garbled, Fault::Garbled]);
    fake.fail("blobs/", &[Fault::Status(500)]);
    let listing = registry(&fake).list().await.unwrap();
    assert_eq!(
        (names(&listing).len(), listing.unreadable.len()),
        (6, 0),
        "{:?}",
        listing.unreadable
    );
}

#[tokio::test]
async fn content_with_another_digest_is_not_believed() {
    let fake = Fake::start(Auth::Anyone).await;
    fake.release("4.1.0", &[]);
    let registry = registry(&fake);
    for part in ["manifests/", "blobs/"] {
        fake.fail_always(part, Fault::Garbled);
        let listing = registry.list().await.unwrap();
        assert_eq!(
            (names(&listing).len(), unreadable(&listing)),
            (0, vec!["4.1.0"]),
            "{part}"
        );
        let why = &listing.unreadable[0].why;
        assert!(why.contains("digest"), "{why}");
        fake.fix();
    }
    assert_eq!(names(&registry.list().await.unwrap()).len(), 1);
}

#[tokio::test]
async fn a_registry_that_is_down_is_an_error_and_not_an_empty_listing() {
    let fake = Fake::start(Auth::Anyone).await;
    for patch in 0..100 {
        fake.release(&format!("4.1.{patch}"), &[]);
    }
    let registry = registry(&fake);
    fake.fail_always("tags/list", Fault::Status(500));
    let error = registry.list().await.unwrap_err();
    assert!(matches!(error, RegistryError::Status { .. }), "{error}");
    fake.fix();
    // The registry goes down meanwhile: the scrape ends long before every image was tried.
    fake.fail_always("manifests/", Fault::Status(503));
    fake.requests();
    let error = registry.list().await.unwrap_err();
    assert!(error.to_string().contains("in a row"), "{error}");
    assert!(
        requests(&fake, "manifests/") < 100,
        "three attempts each would be 300"
    );
    fake.fix();
    assert_eq!(names(&registry.list().await.unwrap()).len(), 100);
    // A page that fails for good is no shorter list.
    fake.fail_always("last=4.1.3", Fault::Status(500));
    assert!(registry.list().await.is_err());
    fake.fix();
    fake.content.lock().unwrap().link_elsewhere = true;
    let error = registry.list().await.unwrap_err().to_string();
    assert!(error.contains("another host"), "{error}");
}

#[tokio::test]
async fn a_restart_fetches_nothing_that_is_on_disk_and_everything_that_is_damaged() {
    let fake = Fake::start(Auth::Anyone).await;
    let directory = tempfile::tempdir().unwrap();
    for patch in 0..5 {
        fake.release(&format!("4.1.{patch}"), &[]);
    }
    let first = on_disk(&fake, directory.path()).list().await.unwrap();
    fake.requests();
    let second = on_disk(&fake, directory.path()).list().await.unwrap();
    assert_eq!(second.releases, first.releases);
    let asked = fake.requests();
    assert!(
        asked
            .iter()
            .all(|request| request.starts_with("HEAD") || request.contains("tags/list")),
        "{asked:?}"
    );

    let damaged = std::fs::read_dir(directory.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::write(damaged, "damaged").unwrap();
    let third = on_disk(&fake, directory.path()).list().await.unwrap();
    assert_eq!(third.releases, first.releases);
    assert_eq!(requests(&fake, "GET /v2/ocp/release/manifests/"), 1);
    fake.requests();
    on_disk(&fake, directory.path()).list().await.unwrap();
    assert_eq!(requests(&fake, "GET /v2/ocp/release/manifests/"), 0);
}

#[tokio::test]
async fn no_more_images_are_in_work_than_allowed() {
    let fake = Fake::start(Auth::Anyone).await;
    for patch in 0..40 {
        fake.release(&format!("4.1.{patch}"), &[]);
    }
    fake.fail_always("manifests/", Fault::Slow(Duration::from_millis(5)));
    let registry = Registry::new(client(&fake, None), Cache::in_memory(), 3);
    assert_eq!(names(&registry.list().await.unwrap()).len(), 40);
    let busiest = fake.busiest.load(Ordering::SeqCst);
    assert!((2..=3).contains(&busiest), "{busiest}");
}

#[tokio::test]
async fn logins_and_tokens_are_given_when_they_are_asked_for() {
    for (auth, login, works) in [
        (Auth::Basic("me:secret"), Some("me:secret"), true),
        (Auth::Basic("me:secret"), Some("me:wrong"), false),
        (Auth::Basic("me:secret"), None, false),
        (Auth::Bearer(None, usize::MAX), None, true),
        (
            Auth::Bearer(Some("me:secret"), usize::MAX),
            Some("me:secret"),
            true,
        ),
        (Auth::Bearer(Some("me:secret"), usize::MAX), None, false),
    ] {
        let fake = Fake::start(auth.clone()).await;
        fake.release("4.1.0", &[]);
        fake.release("4.1.1", &[]);
        let registry = Registry::new(client(&fake, login), Cache::in_memory(), 4);
        match registry.list().await {
            Ok(listing) => assert!(
                works && names(&listing).len() == 2,
                "{auth:?} {login:?} {listing:?}"
            ),
            Err(error) => {
                assert!(
                    !works && matches!(error, RegistryError::Denied { .. }),
                    "{auth:?} {login:?} {error}"
                );
                assert!(!error.to_string().contains("secret"));
            }
        }
        let tokens = requests(&fake, "/token");
        assert!(tokens <= 1, "{tokens} tokens were fetched");
    }
}

#[tokio::test]
async fn a_token_that_runs_out_is_renewed_on_the_way() {
    let fake = Fake::start(Auth::Bearer(None, 4)).await;
    for patch in 0..10 {
        fake.release(&format!("4.1.{patch}"), &[]);
    }
    let registry = Registry::new(client(&fake, None), Cache::in_memory(), 1);
    assert_eq!(names(&registry.list().await.unwrap()).len(), 10);
    assert!(requests(&fake, "/token") > 2);
}

#[tokio::test]
async fn a_token_that_claims_to_live_for_ever_is_used_and_kills_nobody() {
    let fake = Fake::start(Auth::Bearer(None, usize::MAX)).await;
    fake.release("4.1.0", &[]);
    let forever = format!(r#"{{"token":"t0","expires_in":{}}}"#, u64::MAX);
    fake.fail("/token", &[Fault::Instead(forever.into())]);
    let listing = registry(&fake).list().await.unwrap();
    assert_eq!(names(&listing), ["4.1.0+amd64"]);
}

#[tokio::test]
async fn the_answer_of_a_token_server_is_read_up_to_a_bound() {
    let fake = Fake::start(Auth::Bearer(None, usize::MAX)).await;
    let endless = vec![b' '; 5 * 1024 * 1024];
    fake.fail_always("/token", Fault::Instead(endless.into()));
    let error = client(&fake, None).tags().await.unwrap_err();
    assert!(error.to_string().contains("more than 4194304 bytes"), "{error}");
}

#[tokio::test]
async fn a_server_of_blobs_cannot_forge_metadata_by_sending_a_large_layer() {
    let fake = Fake::start(Auth::Anyone).await;
    fake.release("4.1.0", &[]);
    let document = metadata("4.1.0", &["4.0.0"], "");
    let filling = vec![7; 17 * 1024 * 1024];
    let forged = layer(
        &[
            ("release-manifests/release-metadata", document.as_bytes()),
            ("etc/filling", &filling),
        ],
        false,
    );
    fake.fail_always("blobs/", Fault::Instead(forged.into()));
    let registry = registry(&fake);
    let listing = registry.list().await.unwrap();
    assert_eq!((names(&listing).len(), unreadable(&listing)), (0, vec!["4.1.0"]));
    fake.fix();
    assert_eq!(names(&registry.list().await.unwrap()), ["4.1.0+amd64"]);
}

#[tokio::test]
async fn a_large_layer_counts_only_after_all_of_it_was_checked() {
    let fake = Fake::start(Auth::Anyone).await;
    let document = metadata("4.1.0", &[], "");
    let filling = vec![7; 17 * 1024 * 1024];
    let path = "release-manifests/release-metadata";
    let large = |filling: &[u8]| layer(&[(path, document.as_bytes()), ("etc/filling", filling)], false);
    let honest = large(&filling);
    let digest = update_service::source::registry::name::Digest::of(&honest);
    fake.tag("4.1.0", fake.image("amd64", &[honest]));
    // The same length, and another last byte, long after the metadata.
    let mut filling = filling;
    filling[17 * 1024 * 1024 - 1] = 8;
    fake.fail_always(&digest.to_string(), Fault::Instead(large(&filling).into()));
    let registry = registry(&fake);
    assert_eq!(unreadable(&registry.list().await.unwrap()), ["4.1.0"]);
    fake.fix();
    assert_eq!(names(&registry.list().await.unwrap()), ["4.1.0+amd64"]);
}
