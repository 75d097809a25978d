//! The registry of the test environment: real, filled through its own API, broken in its files.

use anyhow::Result;
use testenv::Registry;
use testenv::image::{Family, Image};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const REPOSITORY: &str = "openshift/release";

/// Status and body of a GET; any manifest is acceptable.
async fn get(registry: &Registry, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(registry.address()).await?;
    let accept = [Family::Oci, Family::Docker]
        .map(|family| format!("{}, {}", family.manifest(), family.index()))
        .join(", ");
    let request = format!("GET {path} HTTP/1.0\r\nHost: registry\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split_whitespace().nth(1).unwrap_or_default().parse()?;
    let body = answer.split_once("\r\n\r\n").unwrap_or_default().1.to_owned();
    Ok((status, body))
}

#[tokio::test]
async fn images_and_indexes_of_both_families_are_pushed_and_served() -> Result<()> {
    let mut registry = Registry::start().await?;
    for family in [Family::Oci, Family::Docker] {
        let image = Image::release(family, "amd64", b"{}")?;
        let other = Image::release(family, "arm64", b"{}")?;
        let tag = format!("{family:?}").to_lowercase();
        let digest = registry.pusher().push(REPOSITORY, &tag, &image).await?;
        let multi = format!("{tag}-multi");
        let index = registry
            .pusher()
            .push_index(REPOSITORY, &multi, family, &[image.clone(), other])
            .await?;
        for reference in [&tag, &digest, &multi, &index] {
            let (status, body) = get(&registry, &format!("/v2/{REPOSITORY}/manifests/{reference}")).await?;
            assert_eq!(status, 200, "{reference}: {body}");
        }
    }
    let (_, tags) = get(&registry, &format!("/v2/{REPOSITORY}/tags/list")).await?;
    let expected = r#""tags":["docker","docker-multi","oci","oci-multi"]"#;
    assert!(tags.contains(expected), "{tags}");

    registry.pusher().delete_tag(REPOSITORY, "oci-multi").await?;
    registry.restart().await?;
    let (_, tags) = get(&registry, &format!("/v2/{REPOSITORY}/tags/list")).await?;
    assert!(
        tags.contains(r#""tags":["docker","docker-multi","oci"]"#),
        "{tags}"
    );
    registry.stop().await
}

#[tokio::test]
async fn a_lost_manifest_is_missing_though_its_tag_is_listed() -> Result<()> {
    let registry = Registry::start().await?;
    let images = ["1.0.0", "1.0.1"].map(|tag| {
        let image = Image::release(Family::Oci, "amd64", tag.as_bytes())?;
        anyhow::Ok((tag.to_owned(), image))
    });
    let images = images.into_iter().collect::<Result<Vec<_>>>()?;
    let layer = images[1].1.layers[1].digest.clone();
    let digests = registry.pusher().push_all(REPOSITORY, images).await?;
    registry.lose_manifest(REPOSITORY, &digests["1.0.0"])?;
    let (status, _) = get(&registry, &format!("/v2/{REPOSITORY}/manifests/1.0.0")).await?;
    assert_eq!(status, 404);
    let (_, tags) = get(&registry, &format!("/v2/{REPOSITORY}/tags/list")).await?;
    assert!(tags.contains("1.0.0"), "{tags}");

    let blob = format!("/v2/{REPOSITORY}/blobs/{layer}");
    assert_eq!(get(&registry, &blob).await?.0, 200);
    registry.lose_blob(&layer)?;
    assert_eq!(get(&registry, &blob).await?.0, 404);
    assert!(registry.lose_blob(&layer).is_err());
    Ok(())
}
