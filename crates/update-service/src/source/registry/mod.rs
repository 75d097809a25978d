//! Releases from a registry: an OCI or Docker v2 repository whose images carry release metadata.
//!
//! A scrape reads every tag, with a bounded number of images at a time; an image that fails affects no other. A listing is
//! always complete: without the whole list of tags there is no listing, and an image that cannot be read now is listed as
//! unreadable.

pub mod cache;
pub mod challenge;
pub mod client;
pub mod credentials;
pub mod image;
pub mod manifest;
pub mod name;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use futures::StreamExt;
use update_graph::metadata::key;
use update_graph::{Arch, Release, ReleaseMetadata};

use cache::{Cache, Content};
use client::{Client, RegistryError};
use image::ImageError;
use name::Digest;

use super::{Listed, Listing, Trouble};

/// So many failures of the registry without a success between them end a scrape.
const BREAKER: u32 = 24;
/// What the release metadata of one repository may take, in bytes. Those of one release have a few KiB.
const MAX_METADATA: usize = 64 * 1024 * 1024;

/// Scrapes one repository.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    cache: Cache,
    concurrency: usize,
}

/// What ends a scrape early.
#[derive(Default)]
struct Brakes {
    /// Failures of the registry without a success between them.
    failures: AtomicU32,
    /// Bytes of release metadata so far.
    metadata: AtomicUsize,
}

impl Brakes {
    fn failed(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= BREAKER
    }

    fn full(&self) -> bool {
        self.metadata.load(Ordering::Relaxed) > MAX_METADATA
    }
}

/// What one tag turned out to be.
enum Outcome {
    Release(Box<Listed>),
    /// No release, or a part of one, for certain.
    Nothing,
    Unreadable(Trouble),
    /// Not tried: the registry seems to be down.
    Skipped,
}

impl Registry {
    /// Scrapes with at most `concurrency` images in work.
    #[must_use]
    pub fn new(client: Client, cache: Cache, concurrency: usize) -> Self {
        Self {
            client,
            cache,
            concurrency: concurrency.max(1),
        }
    }

    /// The releases of all tags.
    ///
    /// # Errors
    /// When the tags cannot be listed, or the registry fails again and again in between.
    pub async fn list(&self) -> Result<Listing, RegistryError> {
        let tags = self.client.tags().await?;
        let brakes = Brakes::default();
        let outcomes: Vec<(String, Outcome)> =
            futures::stream::iter(tags.into_iter().filter(|tag| names_an_image(tag)))
                .map(|tag| async {
                    let outcome = self.tag(&tag, &brakes).await;
                    (tag, outcome)
                })
                .buffer_unordered(self.concurrency)
                .collect()
                .await;
        let why = if brakes.failed() {
            format!("the registry failed {BREAKER} times in a row; the scrape was given up")
        } else if brakes.full() {
            format!("the release metadata of its images exceed {MAX_METADATA} bytes; the scrape was given up")
        } else {
            return Ok(listing(outcomes));
        };
        Err(RegistryError::Answer {
            url: self.client.repository().origin(),
            why,
        })
    }

    async fn tag(&self, tag: &str, brakes: &Brakes) -> Outcome {
        if brakes.failed() || brakes.full() {
            return Outcome::Skipped;
        }
        let read = image::read(&self.client, &self.cache, tag).await;
        let outage = matches!(&read, Err(ImageError::Registry(error)) if error.is_outage());
        if outage {
            brakes.failures.fetch_add(1, Ordering::Relaxed);
        } else if !brakes.failed() {
            brakes.failures.store(0, Ordering::Relaxed);
        }
        match read {
            Err(error) => Outcome::Unreadable(Trouble {
                name: tag.to_owned(),
                why: error.to_string(),
            }),
            Ok((digest, content)) => match &*content {
                Content::NoRelease => Outcome::Nothing,
                Content::Release {
                    architecture,
                    document,
                } => {
                    brakes.metadata.fetch_add(document.len(), Ordering::Relaxed);
                    self.release(tag, digest, architecture, document)
                }
            },
        }
    }

    fn release(&self, tag: &str, digest: Digest, architecture: &str, document: &str) -> Outcome {
        let payload = format!("{}@{digest}", self.client.repository());
        match read_release(tag, payload, digest, architecture, document) {
            Ok(Some(listed)) => Outcome::Release(Box::new(listed)),
            Ok(None) => Outcome::Nothing,
            Err(why) => Outcome::Unreadable(Trouble {
                name: tag.to_owned(),
                why,
            }),
        }
    }
}

/// Signatures and attestations are in the same repository under separate tags.
fn names_an_image(tag: &str) -> bool {
    let attached = ["sig", "att", "sbom"]
        .iter()
        .any(|kind| tag.rsplit_once('.').is_some_and(|(_, end)| end == *kind));
    // cosign's and the referrers' fallback tags: sha256-<digest>, with or without an ending.
    !attached && !tag.starts_with("sha256-") && !tag.contains(".sig")
}

/// The release that a document describes; `None` for one architecture's part of a multi-architecture release, which is
/// listed beside the whole in some repositories.
fn read_release(
    tag: &str,
    payload: String,
    digest: Digest,
    architecture: &str,
    document: &str,
) -> Result<Option<Listed>, String> {
    let document = ReleaseMetadata::parse(document.as_bytes()).map_err(|error| error.to_string())?;
    let says_multi = document.metadata.get_str(key::IMAGE_ARCH).as_deref() == Some("multi");
    if says_multi && architecture != "multi" {
        return Ok(None);
    }
    let arch = Arch::parse(architecture).map_err(|error| error.to_string())?;
    let mut release = Release::from_metadata(document, arch, payload);
    release.metadata.insert_str(key::MANIFESTREF, &digest.to_string());
    Ok(Some(Listed {
        name: tag.to_owned(),
        release,
    }))
}

fn listing(mut outcomes: Vec<(String, Outcome)>) -> Listing {
    // Downloads end in any order; what is made of them must not depend on it.
    outcomes.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut listing = Listing::default();
    for (tag, outcome) in outcomes {
        match outcome {
            Outcome::Release(listed) => listing.releases.push(*listed),
            Outcome::Nothing => {}
            Outcome::Unreadable(trouble) => listing.unreadable.push(trouble),
            Outcome::Skipped => listing.unreadable.push(Trouble {
                name: tag,
                why: "not tried".to_owned(),
            }),
        }
    }
    listing
}

#[cfg(test)]
mod tests;
