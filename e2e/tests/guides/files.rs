//! The files that the commands of the pages read, in the directory where they run.

use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use repository::{data, root};
use serde_json::{Value, json};

use crate::pages::Page;

/// Directories of the repository that commands name.
const OF_THE_REPOSITORY: [&str; 3] = ["crds", "deploy", "examples"];
/// The releases of the graph, the oldest first.
const RELEASES: [&str; 10] = [
    "4.18.10", "4.18.20", "4.19.9", "4.19.30", "4.19.37", "4.20.1", "4.20.3", "4.20.4", "4.20.16", "4.20.20",
];
/// Channels, each with the minor versions of its releases.
const CHANNELS: [(&str, &[&str]); 4] = [
    ("stable-4.18", &["4.18"]),
    ("stable-4.19", &["4.18", "4.19"]),
    ("stable-4.20", &["4.19", "4.20"]),
    ("eus-4.20", &["4.18", "4.19", "4.20"]),
];
const RISK: &str = "to: 4.20.3
from: ^4[.]19[.].*$
url: https://example.com/risks/SlowDrain
name: SlowDrain
message: Nodes drain slowly.
matchingRules:
- type: Always
";
const OVERLAY: &str = "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [spring.yaml]
";
/// An upgrade for whoever waits for another one.
const NEXT: &str = "apiVersion: cluster.open-cluster-management.io/v1beta1
kind: ManagedClustersUpgrade
metadata: {name: b, namespace: upgrades}
spec:
  clusterSelector:
    matchExpressions:
      - {key: metadata.name, operator: In, values: [prod-1]}
  clusterVersion: {version: 4.20.4}
";
const WORK: &str = "apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: edge-17-cluster-upgrade, namespace: edge-17}
spec: {workload: {manifests: []}}
";

/// Fills a directory as the reader of a page has it: a clone, a kubeconfig of a cluster, and what other pages wrote.
pub fn fill(directory: &Path, kubeconfig: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    for name in OF_THE_REPOSITORY {
        symlink(root().join(name), directory.join(name)).with_context(|| format!("no link to {name}"))?;
    }
    for cluster in ["edge-1", "edge-17"] {
        std::fs::copy(kubeconfig, directory.join(format!("{cluster}.kubeconfig")))?;
    }
    let first = Page::read("docs/guide/first-upgrade.md")?;
    let spring = first.yaml("# spring.yaml")?;
    let install = Page::read("docs/guide/install.md")?;
    let winter = std::fs::read_to_string(data::sample("rehearsal").join("winter.yaml"))?;
    let winter = winter.replace("canary-1, canary-2, edge-01", "edge-1");
    for (name, text) in [
        ("spring.yaml", spring),
        ("winter.yaml", winter.as_str()),
        ("b.yaml", NEXT),
        ("work.yaml", WORK),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\n"),
        ("overlays/prod/spring.yaml", spring),
        ("overlays/prod/kustomization.yaml", OVERLAY),
        ("my-hub/kustomization.yaml", install.yaml("newName:")?),
    ] {
        write(&directory.join(name), text.as_bytes())?;
    }
    write_graph(directory)
}

/// Writes releases and graph-data, plain and packed.
pub fn write_graph(directory: &Path) -> Result<()> {
    let releases = Value::Array((0..RELEASES.len()).map(release).collect());
    write(
        &directory.join("releases.json.gz"),
        &gzip(releases.to_string().as_bytes())?,
    )?;
    let mut archive = tar::Builder::new(Vec::new());
    for (name, text) in graph_data() {
        write(&directory.join("graph-data").join(&name), text.as_bytes())?;
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(text.len())?);
        header.set_mode(0o644);
        archive.append_data(&mut header, &name, text.as_bytes())?;
    }
    write(
        &directory.join("graph-data.tar.gz"),
        &gzip(&archive.into_inner()?)?,
    )
}

/// A release, which can be reached from all earlier ones of its minor version and of the one before.
fn release(number: usize) -> Value {
    let version = RELEASES[number];
    let earlier = RELEASES[..number].iter().copied();
    let previous: Vec<&str> = earlier.filter(|earlier| leads(earlier, version)).collect();
    json!({
        "version": version, "previous": previous,
        "payload": format!("registry.example.com/release@sha256:{number:064x}"),
        "metadata": {"url": format!("https://example.com/releases/{version}")},
    })
}

/// True if an update leads to the same minor version or to the next one.
fn leads(from: &str, to: &str) -> bool {
    let minor = |version: &str| -> Option<u32> { version.split('.').nth(1)?.parse().ok() };
    match (minor(from), minor(to)) {
        (Some(from), Some(to)) => from == to || from + 1 == to,
        _ => false,
    }
}

fn graph_data() -> Vec<(String, String)> {
    let mut files = vec![
        ("version".to_owned(), "1.1.0\n".to_owned()),
        ("blocked-edges/4.20.3-SlowDrain.yaml".to_owned(), RISK.to_owned()),
    ];
    for (channel, minors) in CHANNELS {
        let is_in = |version: &str| minors.iter().any(|minor| version.starts_with(minor));
        let versions = RELEASES.iter().copied().filter(|version| is_in(version));
        let versions = versions.collect::<Vec<_>>().join(", ");
        let text = format!("name: {channel}\nversions: [{versions}]\n");
        files.push((format!("channels/{channel}.yaml"), text));
    }
    files
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    use std::io::Write as _;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Writes a file, and the directories above it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
