//! Registries that send more than a service has memory for.

use std::time::Duration;

use update_service::source::fetch::Fetcher;
use update_service::source::graph_data::{Files, GraphDataSource};
use update_service::source::location::Location;
use update_service::source::registry::name::Digest;

use crate::fake::{Auth, Fake, Fault, layer, metadata};
use crate::running::{QUICK, install_ring};
use crate::scrape::{client, names, registry, unreadable};

const MIB: usize = 1024 * 1024;

async fn graph_data(fake: &Fake, image: Digest) -> Result<Files, String> {
    install_ring();
    let location: Location = format!("oci://{}@{image}", fake.name()).parse().unwrap();
    let fetcher = Fetcher::new(&[], Duration::from_secs(2), QUICK).unwrap();
    let mut source = GraphDataSource::new(location, fetcher, Some(client(fake, None)));
    let files = source.read().await.map_err(|error| error.to_string())?;
    Ok(files.expect("files that are new"))
}

/// A layer of graph-data files, each of 10 MiB.
fn large_layer(name: &str, files: usize) -> Vec<u8> {
    let content = vec![b'#'; 10 * MIB];
    let paths: Vec<String> = (0..files)
        .map(|number| format!("var/lib/cincinnati-graph-data/channels/{name}-{number}.yaml"))
        .collect();
    let files: Vec<(&str, &[u8])> = paths
        .iter()
        .map(|path| (path.as_str(), content.as_slice()))
        .collect();
    layer(&files, true)
}

#[tokio::test]
async fn the_files_of_all_layers_of_graph_data_together_are_bounded() {
    let fake = Fake::start(Auth::Anyone).await;
    let below = large_layer("a", 4);
    let files = graph_data(&fake, fake.image("amd64", std::slice::from_ref(&below))).await;
    assert_eq!(files.unwrap().len(), 4);
    for name in ["b", ".wh.b"] {
        let image = fake.image("amd64", &[below.clone(), large_layer(name, 4)]);
        let refused = graph_data(&fake, image).await.unwrap_err();
        assert!(refused.contains("exceed"), "{refused}");
    }
}

/// The graph-data of an image of these layers, bottom first; paths are below the directory of graph-data, or below the top with `/`.
async fn overlaid(fake: &Fake, layers: &[&[(&str, &str)]]) -> String {
    let path = |name: &str| match name.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None => format!("var/lib/cincinnati-graph-data/{name}"),
    };
    let layers: Vec<Vec<u8>> = layers
        .iter()
        .map(|files| {
            let paths: Vec<String> = files.iter().map(|(name, _)| path(name)).collect();
            let contents = files.iter().map(|(_, content)| content.as_bytes());
            let files: Vec<(&str, &[u8])> = paths.iter().map(String::as_str).zip(contents).collect();
            layer(&files, true)
        })
        .collect();
    let files = graph_data(fake, fake.image("amd64", &layers)).await.unwrap();
    let files = files
        .iter()
        .map(|(path, content)| format!("{path}={}", String::from_utf8_lossy(content)));
    files.collect::<Vec<_>>().join(" ")
}

const LOWEST: &[(&str, &str)] = &[
    ("version", "1"),
    ("channels/a.yaml", "1"),
    ("channels/b.yaml", "1"),
    ("blocked-edges/c.yaml", "1"),
];

#[tokio::test]
async fn a_layer_over_another_hides_its_files_and_no_others() {
    let fake = Fake::start(Auth::Anyone).await;
    for file in ["version", "channels/a.yaml"] {
        let files = overlaid(&fake, &[LOWEST, &[(file, "2")]]).await;
        let all = "blocked-edges/c.yaml=1 channels/a.yaml=1 channels/b.yaml=1 version=1";
        assert_eq!(files, all.replace(&format!("{file}=1"), &format!("{file}=2")));
    }
}

#[tokio::test]
async fn whiteouts_delete_what_lower_layers_have_and_nothing_else() {
    let fake = Fake::start(Auth::Anyone).await;
    let new = ("channels/d.yaml", "2");
    for (whiteout, left) in [
        (
            "channels/.wh.a.yaml",
            "blocked-edges/c.yaml=1 channels/b.yaml=1 channels/d.yaml=2 version=1",
        ),
        (
            "channels/.wh..wh..opq",
            "blocked-edges/c.yaml=1 channels/d.yaml=2 version=1",
        ),
        (
            ".wh.blocked-edges",
            "channels/a.yaml=1 channels/b.yaml=1 channels/d.yaml=2 version=1",
        ),
        (".wh..wh..opq", "channels/d.yaml=2"),
        ("/var/lib/.wh.cincinnati-graph-data", "channels/d.yaml=2"),
        ("/var/.wh..wh..opq", "channels/d.yaml=2"),
        ("/.wh..wh..opq", "channels/d.yaml=2"),
    ] {
        // The place of a whiteout in its layer says nothing.
        for above in [[(whiteout, ""), new], [new, (whiteout, "")]] {
            assert_eq!(overlaid(&fake, &[LOWEST, &above]).await, left, "{whiteout}");
        }
        // What a still higher layer has is not deleted, and the lowest stays deleted.
        let files = overlaid(&fake, &[LOWEST, &[(whiteout, ""), new], &[("version", "3")]]).await;
        assert_eq!(
            files,
            format!("{} version=3", left.trim_end_matches(" version=1")),
            "{whiteout}"
        );
    }
    let elsewhere = overlaid(
        &fake,
        &[LOWEST, &[("/var/.wh.log", ""), ("/etc/.wh..wh..opq", ""), new]],
    )
    .await;
    assert_eq!(elsewhere.matches("=1").count(), 4, "{elsewhere}");
}

#[tokio::test]
async fn a_list_of_very_many_tags_is_refused() {
    let fake = Fake::start(Auth::Anyone).await;
    let tags: Vec<String> = (0..200_000).map(|number| number.to_string()).collect();
    let page = serde_json::json!({"tags": tags}).to_string();
    fake.fail_always("tags/list", Fault::Instead(page.into()));
    let refused = client(&fake, None).tags().await.unwrap_err().to_string();
    assert!(refused.contains("its tags take more than"), "{refused}");
}

/// An image of a release whose metadata are padded to about this number of bytes.
fn padded(fake: &Fake, version: &str, bytes: usize) {
    let document = metadata(version, &[], &format!(r#""padding":"{}""#, "x".repeat(bytes)));
    let layer = layer(
        &[("release-manifests/release-metadata", document.as_bytes())],
        true,
    );
    fake.tag(version, fake.image("amd64", &[layer]));
}

#[tokio::test]
async fn release_metadata_of_more_than_256_kib_cost_only_their_own_release() {
    let fake = Fake::start(Auth::Anyone).await;
    padded(&fake, "4.1.0", 255 * 1024);
    padded(&fake, "4.1.1", 257 * 1024);
    let listing = registry(&fake).list().await.unwrap();
    assert_eq!(
        (names(&listing), unreadable(&listing)),
        (vec!["4.1.0+amd64".to_owned()], vec!["4.1.1"])
    );
    let why = &listing.unreadable[0].why;
    assert!(why.contains("more than 262144"), "{why}");
}

#[tokio::test]
async fn the_release_metadata_of_a_whole_repository_are_bounded() {
    let fake = Fake::start(Auth::Anyone).await;
    for patch in 0..270 {
        padded(&fake, &format!("4.1.{patch}"), 255 * 1024);
    }
    let refused = registry(&fake).list().await.unwrap_err().to_string();
    assert!(refused.contains("release metadata"), "{refused}");
}
