//! Reads one image: from a tag to its release metadata.
//!
//! The way leads from the manifest (or list) over architecture and layers to the metadata. Layers are read from the top.
//! Nothing found in a layer counts before the whole layer was read and has the size and the digest that the manifest states,
//! because the server of the bytes (a CDN, a storage behind a redirect) may not be the registry.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::cache::{Cache, Content};
use super::client::{Client, RegistryError, transport};
use super::manifest::{self, BadManifest, Descriptor, ImageManifest, Manifest};
use super::name::Digest;
use crate::source::archive::{self, Limits, Member, Pieces};
use crate::source::retry::Failure;

/// The file that makes an image a release.
pub const METADATA_PATH: &str = "release-manifests/release-metadata";
/// Largest layer that is read, in bytes, as the manifest states it.
const MAX_LAYER: u64 = 4 * 1024 * 1024 * 1024;

/// Number of pieces of a layer that may wait to be unpacked. With more, the connection waits.
const PIECES: usize = 8;

const LIMITS: Limits = Limits {
    member: 256 * 1024,
    kept: 1024 * 1024,
    unpacked: 16 * 1024 * 1024 * 1024,
};

/// An image that cannot be read; says nothing of the others.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The registry does not give it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Its manifest is no good.
    #[error(transparent)]
    Manifest(#[from] BadManifest),
    /// A layer is no good.
    #[error("layer {digest}: {why}")]
    Layer {
        /// Which.
        digest: Digest,
        /// What is wrong.
        why: String,
    },
}

/// What a tag points to, and what that is.
///
/// # Errors
/// [`ImageError`].
pub async fn read(
    client: &Client,
    cache: &Cache,
    reference: &str,
) -> Result<(Digest, std::sync::Arc<Content>), ImageError> {
    if let Some(digest) = client.resolve(reference).await?
        && let Some(content) = cache.get(&digest)
    {
        return Ok((digest, content));
    }
    let document = client.manifest(reference).await?;
    if let Some(content) = cache.get(&document.digest) {
        return Ok((document.digest, content));
    }
    let content = examine(client, &document.bytes).await?;
    Ok((document.digest, cache.put(document.digest, content)))
}

async fn examine(client: &Client, bytes: &[u8]) -> Result<Content, ImageError> {
    let (architecture, image) = match Manifest::parse(bytes)? {
        Manifest::Image(image) => {
            let config = client.blob(&image.config).await?;
            (manifest::config_architecture(&config)?, image)
        }
        Manifest::List(children) => {
            let architecture = manifest::list_architecture(&children).to_owned();
            (architecture, first_child(client, &children).await?)
        }
    };
    Ok(match metadata(client, &image).await? {
        Some(document) => Content::Release {
            architecture,
            document,
        },
        None => Content::NoRelease,
    })
}

/// The image of a list's first entry: all entries of a release say the same.
async fn first_child(client: &Client, children: &[manifest::Child]) -> Result<ImageManifest, ImageError> {
    let first = children.first().ok_or(BadManifest::Empty)?;
    match Manifest::parse(&client.manifest(&first.digest.to_string()).await?.bytes)? {
        Manifest::Image(image) => Ok(image),
        Manifest::List(_) => Err(BadManifest::Unsupported("a list in a list".to_owned()).into()),
    }
}

async fn metadata(client: &Client, image: &ImageManifest) -> Result<Option<String>, ImageError> {
    for layer in image.layers.iter().rev() {
        let members = layer_members(client, layer, is_metadata, LIMITS).await?;
        if let Some(member) = members.iter().find(|member| member.path == METADATA_PATH) {
            return match String::from_utf8(member.bytes.clone()) {
                Ok(document) => Ok(Some(document)),
                Err(_) => Err(ImageError::Layer {
                    digest: layer.digest,
                    why: format!("{METADATA_PATH} is not UTF-8"),
                }),
            };
        }
        // The file is deleted here, so lower layers do not count.
        if !members.is_empty() {
            return Ok(None);
        }
    }
    Ok(None)
}

fn is_metadata(path: &str) -> bool {
    matches!(
        path,
        METADATA_PATH
            | ".wh.release-manifests"
            | "release-manifests/.wh.release-metadata"
            | "release-manifests/.wh..wh..opq"
    )
}

/// The requested files of a layer.
///
/// # Errors
/// [`ImageError`].
pub async fn layer_members(
    client: &Client,
    layer: &Descriptor,
    wanted: impl Fn(&str) -> bool + Send + Clone + 'static,
    limits: Limits,
) -> Result<Vec<Member>, ImageError> {
    let read = client
        .patiently(|| async {
            match read_layer(client, layer, wanted.clone(), limits).await {
                Ok(members) => Ok(Ok(members)),
                Err(Broken::Download(failure)) => Err(failure),
                Err(Broken::Content(why)) => Ok(Err(why)),
            }
        })
        .await?;
    read.map_err(|why| ImageError::Layer {
        digest: layer.digest,
        why,
    })
}

enum Broken {
    Download(Failure<RegistryError>),
    Content(String),
}

async fn read_layer(
    client: &Client,
    layer: &Descriptor,
    wanted: impl Fn(&str) -> bool + Send + 'static,
    limits: Limits,
) -> Result<Vec<Member>, Broken> {
    if layer.size > MAX_LAYER {
        let why = format!("its {} bytes are more than {MAX_LAYER}", layer.size);
        return Err(Broken::Content(why));
    }
    let mut response = client.stream(layer).await.map_err(Broken::Download)?;
    let url = client.blob_url(layer);
    // The content was damaged in transit or at the source; another attempt may succeed.
    let damaged = |why: String| {
        let url = url.clone();
        Broken::Download(Failure::Passing(RegistryError::Answer { url, why }, None))
    };
    // If a manifest states no size, only the digest is checked.
    let stated = Some(layer.size).filter(|size| *size > 0);
    let size_differs = |size: u64| {
        damaged(format!(
            "the content has another digest: it has {size} bytes where the manifest states {}",
            layer.size
        ))
    };
    if let (Some(stated), Some(length)) = (stated, response.content_length())
        && length != stated
    {
        return Err(size_differs(length));
    }
    let mut hash = Sha256::new();
    let (pieces, receiver) = mpsc::channel::<Bytes>(PIECES);
    let unpacking =
        tokio::task::spawn_blocking(move || archive::unpack(Pieces::from(receiver), wanted, limits));
    let mut size = 0;
    loop {
        let chunk = response.chunk().await;
        let chunk =
            chunk.map_err(|error| Broken::Download(Failure::Passing(transport(&url, &error), None)))?;
        let Some(chunk) = chunk else { break };
        size += chunk.len() as u64;
        if size > stated.unwrap_or(MAX_LAYER) {
            return Err(size_differs(size));
        }
        hash.update(&chunk);
        // Unpacking may have ended with an error. What follows counts for the digest all the same.
        let _ = pieces.send(chunk).await;
    }
    drop(pieces);
    if stated.is_some_and(|stated| stated != size) {
        return Err(size_differs(size));
    }
    if Digest::from_hash(hash.finalize().into()) != layer.digest {
        return Err(damaged("the content has another digest".to_owned()));
    }
    match unpacking.await {
        Ok(Ok(members)) => Ok(members),
        Ok(Err(error)) => Err(Broken::Content(error.to_string())),
        Err(error) => Err(Broken::Content(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use crate::source::archive::ArchiveError;

    use super::*;

    /// One header for an empty file.
    fn empty(path: &str) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_path(path).unwrap();
        header.set_size(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn a_layer_of_a_million_empty_metadata_files_is_refused() {
        for path in [METADATA_PATH, "release-manifests/.wh.release-metadata"] {
            let thousand = Bytes::from(empty(path).repeat(1000));
            let (pieces, receiver) = mpsc::channel(1);
            std::thread::spawn(move || {
                let sent = (0..1000).take_while(|_| pieces.blocking_send(thousand.clone()).is_ok());
                assert!(sent.count() < 1000, "all of it was read");
            });
            let refused = archive::unpack(Pieces::from(receiver), is_metadata, LIMITS);
            assert!(
                matches!(refused, Err(ArchiveError::TooLarge(_))),
                "{path}: {refused:?}"
            );
        }
    }
}
