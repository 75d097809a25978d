//! Releases through a registry, those of the sample and all real ones: equal graphs in spite of broken images and a registry
//! that stumbles, and no layer fetched twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use repository::data::ServedGraph;
use testenv::Registry;
use testenv::image::{Family, Image, layer};

use crate::data::{Corpus, Release};
use crate::proxy::{Proxy, Seen, Verdict};
use crate::service::Service;

const REPOSITORY: &str = "openshift/release-images";
const WAIT_TIMEOUT: Duration = Duration::from_mins(3);
/// Long enough to be noticed, short enough for a hundred of them.
const SLOW: Duration = Duration::from_millis(400);

/// Pushes every release for amd64, every third as a list of one image, families in turn; returns the digests by
/// version.
async fn fill(registry: &Registry, releases: &[Release]) -> Result<BTreeMap<String, String>> {
    let (mut single, mut digests) = (Vec::new(), BTreeMap::new());
    for (number, release) in releases.iter().enumerate() {
        let family = if number % 2 == 0 {
            Family::Oci
        } else {
            Family::Docker
        };
        let image = release.image(family, "amd64")?;
        let tag = format!("{}-x86_64", release.version);
        if number % 3 == 0 {
            let digest = registry
                .pusher()
                .push_index(REPOSITORY, &tag, family, &[image])
                .await?;
            digests.insert(release.version.clone(), digest);
        } else {
            single.push((tag, image));
        }
    }
    for (tag, digest) in registry.pusher().push_all(REPOSITORY, single).await? {
        let version = tag.trim_end_matches("-x86_64").to_owned();
        digests.insert(version, digest);
    }
    ensure!(
        digests.len() == releases.len(),
        "{} of {}",
        digests.len(),
        releases.len()
    );
    Ok(digests)
}

/// Pushes images that must not disturb a scrape. Returns the digests of the blobs of those that cannot be read: nothing about
/// them is certain, so the service fetches them again after a restart.
async fn spoil(registry: &Registry) -> Result<BTreeSet<String>> {
    let good = Image::release(Family::Oci, "amd64", b"{}")?;
    let with_top = |bytes: testenv::image::Blob| Image {
        layers: vec![good.layers[0].clone(), bytes],
        ..good.clone()
    };
    let metadata = |text: &str| Image::release(Family::Docker, "amd64", text.as_bytes());
    let broken = [
        (
            "not-gzip",
            with_top(testenv::image::Blob::new(b"neither gzip nor tar".to_vec())),
        ),
        ("no-metadata", with_top(layer(&[("etc/hosts", b"")])?)),
        ("not-json", metadata("{")?),
        (
            "other-kind",
            metadata(r#"{"kind":"other","version":"4.14.99","previous":[]}"#)?,
        ),
        (
            "no-version",
            metadata(r#"{"kind":"cincinnati-metadata-v0","version":"newest","previous":[]}"#)?,
        ),
    ];
    let mut unreadable = blobs(&broken[0].1);
    let broken = broken.map(|(tag, image)| (tag.to_owned(), image));
    registry.pusher().push_all(REPOSITORY, broken).await?;

    let lost = |version: &str| {
        let text = format!(r#"{{"kind":"cincinnati-metadata-v0","version":"{version}","previous":[]}}"#);
        Image::release(Family::Oci, "amd64", text.as_bytes())
    };
    let image = lost("4.14.97")?;
    let digest = registry
        .pusher()
        .push(REPOSITORY, "lost-manifest", &image)
        .await?;
    registry.lose_manifest(REPOSITORY, &digest)?;
    let image = lost("4.14.98")?;
    registry.pusher().push(REPOSITORY, "lost-layer", &image).await?;
    registry.lose_blob(&image.layers[1].digest)?;
    unreadable.extend(blobs(&image));
    Ok(unreadable)
}

/// The digests of an image's config and of its own layers, without the base layer that all images share.
fn blobs(image: &Image) -> BTreeSet<String> {
    let own = image.layers.iter().skip(1).map(|layer| layer.digest.clone());
    own.chain([image.config().digest]).collect()
}

/// Some releases for arm64, and for amd64 and arm64 at once.
async fn more_architectures(registry: &Registry, corpus: &Corpus) -> Result<()> {
    for release in &corpus.releases {
        if !corpus.shared.contains(&release.version.as_str()) {
            continue;
        }
        let arm = release.image(Family::Docker, "arm64")?;
        let tag = format!("{}-aarch64", release.version);
        registry.pusher().push(REPOSITORY, &tag, &arm).await?;
        let mut multi = release.clone();
        multi
            .metadata
            .insert("release.openshift.io/architecture".to_owned(), "multi".into());
        let images = [
            multi.image(Family::Oci, "amd64")?,
            multi.image(Family::Oci, "arm64")?,
        ];
        let tag = format!("{}-multi", release.version);
        registry
            .pusher()
            .push_index(REPOSITORY, &tag, Family::Oci, &images)
            .await?;
    }
    Ok(())
}

/// The first request for each path may go wrong, by a number made of the path: one in ten each is refused, slow, or
/// ends in the middle.
fn stumbling() -> impl FnMut(&Method, &str) -> Verdict + Send + 'static {
    let mut met = BTreeSet::new();
    move |_, path| {
        if !met.insert(path.to_owned()) {
            return Verdict::Pass;
        }
        match path.bytes().map(u32::from).sum::<u32>() % 10 {
            0 => Verdict::Answer(500),
            1 => Verdict::Delay(SLOW),
            2 => Verdict::CutOff,
            3 => Verdict::Answer(429),
            _ => Verdict::Pass,
        }
    }
}

/// How often the bytes of each blob were sent whole.
fn fetches(log: &[Seen]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for digest in log.iter().filter_map(Seen::fetched_blob) {
        *counted.entry(digest.to_owned()).or_default() += 1;
    }
    counted
}

/// Compares every captured channel.
async fn compare(
    service: &Service,
    expected: &[(String, ServedGraph)],
    payload: impl Fn(&str) -> String,
) -> Result<()> {
    for (channel, graph) in expected {
        let served = service.graph(channel, "amd64").await?;
        let wanted = graph.clone().with_payloads(&payload);
        let differences = served.differences(&wanted);
        ensure!(differences.is_empty(), "{channel}: {}", differences.join("\n"));
    }
    Ok(())
}

#[tokio::test]
async fn the_releases_of_the_sample_are_served_as_expected_from_a_registry_that_stumbles() -> Result<()> {
    releases_are_served_as_expected(&Corpus::sample()?).await
}

#[tokio::test]
async fn all_releases_are_served_as_production_does_from_a_registry_that_stumbles() -> Result<()> {
    match Corpus::real()? {
        Some(corpus) => releases_are_served_as_expected(&corpus).await,
        None => Ok(()),
    }
}

async fn releases_are_served_as_expected(corpus: &Corpus) -> Result<()> {
    let expected = &corpus.expected;
    let registry = Registry::start().await?;
    let digests = fill(&registry, &corpus.releases).await?;
    let unreadable = spoil(&registry).await?;
    more_architectures(&registry, corpus).await?;

    let proxy = Proxy::start(registry.address()).await?;
    proxy.judge(stumbling());
    let repository = format!("{}/{REPOSITORY}", proxy.address());
    let payload = |version: &str| {
        let digest = digests.get(version).map_or("no digest", String::as_str);
        format!("{repository}@{digest}")
    };
    let dir = tempfile::tempdir()?;
    let state = dir.path().join("state");
    let args = [
        format!("--registry={repository}"),
        format!("--graph-data={}", corpus.graph_data.display()),
        format!("--state-dir={}", state.display()),
    ];
    let first = Service::start(dir.path(), "first", &args).await?;
    first.ready(WAIT_TIMEOUT).await?;
    compare(&first, expected, payload).await?;
    other_architectures(&first, corpus).await?;
    let log = proxy.take_log();
    let stumbles = log.iter().filter(|seen| seen.verdict != Verdict::Pass).count();
    ensure!(
        stumbles > corpus.stumbles,
        "only {stumbles} of {} requests went wrong",
        log.len()
    );
    let (digest, times) = fetches(&log)
        .into_iter()
        .max_by_key(|(_, times)| *times)
        .context("blobs were fetched")?;
    let base = &Image::release(Family::Oci, "amd64", b"{}")?.layers[0].digest;
    ensure!(
        times == 1,
        "{digest} was fetched {times} times; the base layer is {base}"
    );
    first.stop().await?;

    let second = Service::start(dir.path(), "second", &args).await?;
    second.ready(WAIT_TIMEOUT).await?;
    compare(&second, expected, payload).await?;
    other_architectures(&second, corpus).await?;
    let again = fetches(&proxy.take_log());
    let twice: Vec<&String> = again
        .keys()
        .filter(|digest| fetches(&log).contains_key(*digest) && !unreadable.contains(*digest))
        .collect();
    ensure!(twice.is_empty(), "fetched again in spite of the cache: {twice:?}");
    second.stop().await
}

/// The releases that exist for other architectures are served for these, and nothing else is.
async fn other_architectures(service: &Service, corpus: &Corpus) -> Result<()> {
    for arch in ["arm64", "multi"] {
        let graph = service.graph(corpus.shared_channel, arch).await?;
        let versions: Vec<&str> = graph.nodes.keys().map(String::as_str).collect();
        ensure!(versions == corpus.shared, "{arch}: {versions:?}");
    }
    let nothing = service.graph(corpus.shared_channel, "s390x").await?;
    ensure!(nothing == ServedGraph::default(), "{nothing:?}");
    Ok(())
}
