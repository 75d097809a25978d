//! Graph-data: a directory, a tar.gz file or URL, or an image.
//!
//! It is read completely or not at all: a directory that changes while it is read is read again later. The parser decides
//! whether the files are valid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use update_graph::graph_data::{self, wanted};

use super::archive::{Limits, Member, taken_by};
use super::fetch::{FetchError, Fetched, Fetcher, Fingerprint};
use super::location::Location;
use super::registry::client::Client;
use super::registry::image;
use super::registry::manifest::{ImageManifest, Manifest};
use super::registry::name::{Digest, Image};

/// Where images keep graph-data, as every recipe for them does.
pub const IMAGE_DIRECTORY: &str = "var/lib/cincinnati-graph-data/";

/// Real graph-data takes 2 MiB. What may be kept is the sum over all layers of an image.
const LIMITS: Limits = Limits {
    member: 16 * 1024 * 1024,
    kept: 64 * 1024 * 1024,
    unpacked: 16 * 1024 * 1024 * 1024,
};

/// Paths below the top with their content.
pub type Files = Vec<(String, Vec<u8>)>;

/// What names the content that was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    Print(Fingerprint),
    ETag(Option<String>),
    Digest(Digest),
}

/// Reads graph-data from one place.
#[derive(Debug)]
pub struct GraphDataSource {
    location: Location,
    fetcher: Fetcher,
    client: Option<Client>,
    /// Set when what was read was taken over.
    mark: Option<Mark>,
    offered: Option<Mark>,
}

impl GraphDataSource {
    /// `client` is for the repository of an image.
    #[must_use]
    pub fn new(location: Location, fetcher: Fetcher, client: Option<Client>) -> Self {
        Self {
            location,
            fetcher,
            client,
            mark: None,
            offered: None,
        }
    }

    /// Where it reads from.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The files, `None` if they are those that were accepted last.
    ///
    /// # Errors
    /// When they cannot be read in full.
    pub async fn read(&mut self) -> Result<Option<Files>, FetchError> {
        match self.location.clone() {
            Location::Path(path) => {
                let known = self.mark.clone();
                let read = tokio::task::spawn_blocking(move || read_path(&path, known.as_ref())).await;
                let read = read.map_err(|error| FetchError::new(&self.location, error))??;
                Ok(read.map(|(mark, files)| {
                    self.offered = Some(mark);
                    files
                }))
            }
            Location::Url(url) => {
                let etag = match &self.mark {
                    Some(Mark::ETag(Some(etag))) => Some(etag.clone()),
                    _ => None,
                };
                match self
                    .fetcher
                    .get(&url, "application/gzip, */*", etag.as_deref())
                    .await?
                {
                    Fetched::Unchanged => Ok(None),
                    Fetched::New(bytes, etag) => {
                        self.offered = Some(Mark::ETag(etag));
                        unpack(&self.location, bytes).await.map(Some)
                    }
                }
            }
            Location::Image(image) => self.read_image(&image).await,
        }
    }

    /// What was read last is in use: it is not offered again until it changes.
    pub fn accept(&mut self) {
        self.mark = self.offered.take();
    }

    async fn read_image(&mut self, name: &Image) -> Result<Option<Files>, FetchError> {
        let error = |why: &dyn std::fmt::Display| FetchError::new(format!("oci://{name}"), why);
        let client = self.client.as_ref().ok_or_else(|| error(&"no registry client"))?;
        let known = match &self.mark {
            Some(Mark::Digest(digest)) => Some(*digest),
            _ => None,
        };
        let resolved = client.resolve(&name.reference).await.map_err(|e| error(&e))?;
        if resolved.is_some() && resolved == known {
            return Ok(None);
        }
        let document = client.manifest(&name.reference).await.map_err(|e| error(&e))?;
        let manifest = match Manifest::parse(&document.bytes).map_err(|e| error(&e))? {
            Manifest::Image(image) => image,
            Manifest::List(children) => {
                let child = children.first().ok_or_else(|| error(&"an empty manifest list"))?;
                let child = client
                    .manifest(&child.digest.to_string())
                    .await
                    .map_err(|e| error(&e))?;
                match Manifest::parse(&child.bytes).map_err(|e| error(&e))? {
                    Manifest::Image(image) => image,
                    Manifest::List(_) => return Err(error(&"a list in a list")),
                }
            }
        };
        let files = image_files(client, &manifest).await.map_err(|e| error(&e))?;
        if files.is_empty() {
            return Err(error(&format!("no files in /{IMAGE_DIRECTORY}")));
        }
        self.offered = Some(Mark::Digest(document.digest));
        Ok(Some(files))
    }
}

/// The files that all layers together have: what a layer has or deletes is hidden in those below it, with all below its path.
async fn image_files(client: &Client, image: &ImageManifest) -> Result<Files, image::ImageError> {
    let (mut files, mut hidden) = (BTreeMap::new(), BTreeSet::new());
    let mut limits = LIMITS;
    for layer in image.layers.iter().rev() {
        if is_hidden(IMAGE_DIRECTORY, &hidden) {
            break;
        }
        let mut members = image::layer_members(client, layer, is_part, limits).await?;
        members.retain(|member| !is_hidden(&member.path, &hidden));
        for Member { path, bytes } in members {
            limits.kept -= taken_by(&path, bytes.len() as u64);
            if let Some(deleted) = deleted_by(&path) {
                hidden.insert(deleted);
            } else if let Some(name) = path.strip_prefix(IMAGE_DIRECTORY) {
                files.insert(name.to_owned(), bytes);
                hidden.insert(path);
            }
        }
    }
    Ok(files.into_iter().collect())
}

/// True for a file of graph-data, and for a whiteout of one or of a directory that holds them.
fn is_part(path: &str) -> bool {
    match (path.strip_prefix(IMAGE_DIRECTORY), deleted_by(path)) {
        (Some(name), deleted) => deleted.is_some() || wanted(name),
        (None, Some(deleted)) => is_hidden(IMAGE_DIRECTORY, &BTreeSet::from([deleted])),
        (None, None) => false,
    }
}

/// What a whiteout deletes of the layers below it: `.wh.NAME` the path NAME, `.wh..wh..opq` all of its directory.
fn deleted_by(path: &str) -> Option<String> {
    let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
    Some(match (directory, file.strip_prefix(".wh.")?) {
        (directory, ".wh..opq") => directory.to_owned(),
        ("", name) => name.to_owned(),
        (directory, name) => format!("{directory}/{name}"),
    })
}

/// True if the path, or a directory that it is in, is among these. The empty path is the top.
fn is_hidden(path: &str, hidden: &BTreeSet<String>) -> bool {
    std::iter::successors(Some(path), |path| {
        path.rsplit_once('/').map(|(directory, _)| directory)
    })
    .chain([""])
    .any(|path| hidden.contains(path))
}

async fn unpack(location: &Location, bytes: Vec<u8>) -> Result<Files, FetchError> {
    let unpacked = tokio::task::spawn_blocking(move || graph_data::tar_files(&bytes)).await;
    unpacked
        .map_err(|error| FetchError::new(location, error))?
        .map_err(|error| FetchError::new(location, error))
}

fn read_path(path: &Path, known: Option<&Mark>) -> Result<Option<(Mark, Files)>, FetchError> {
    let error = |why: std::io::Error| FetchError::new(path.display(), why);
    let before = Fingerprint::of(path).map_err(error)?;
    let mark = Mark::Print(before);
    if known == Some(&mark) {
        return Ok(None);
    }
    let files = files_at(path)?;
    if Fingerprint::of(path).map_err(error)? != before {
        return Err(FetchError::new(path.display(), "it is being written"));
    }
    Ok(Some((mark, files)))
}

/// The files of graph-data in a directory or an archive.
///
/// # Errors
/// When something cannot be read.
pub fn files_at(path: &Path) -> Result<Files, FetchError> {
    let error = |path: &Path, why: std::io::Error| FetchError::new(path.display(), why);
    if !std::fs::metadata(path).map_err(|why| error(path, why))?.is_dir() {
        let bytes = super::fetch::file(path)?;
        return graph_data::tar_files(&bytes).map_err(|why| FetchError::new(path.display(), why));
    }
    let (mut files, mut taken) = (Vec::new(), 0);
    let mut left = vec![(String::new(), path.to_owned())];
    while let Some((name, place)) = left.pop() {
        for entry in std::fs::read_dir(&place).map_err(|why| error(&place, why))? {
            let entry = entry.map_err(|why| error(&place, why))?;
            let below = match (name.as_str(), entry.file_name().to_string_lossy()) {
                ("", file) => file.into_owned(),
                (name, file) => format!("{name}/{file}"),
            };
            let target = entry.path();
            // Mounted ConfigMaps are made of links: what counts is what they point to.
            let metadata = std::fs::metadata(&target).map_err(|why| error(&target, why))?;
            let directory = matches!(below.as_str(), "channels" | "blocked-edges" | "raw");
            if metadata.is_dir() && directory {
                left.push((below, target));
            } else if metadata.is_file() && wanted(&below) {
                taken += taken_by(&below, metadata.len());
                if taken > LIMITS.kept {
                    let why = format!("its files exceed {} bytes", LIMITS.kept);
                    return Err(FetchError::new(path.display(), why));
                }
                let bytes = std::fs::read(&target).map_err(|why| error(&target, why))?;
                files.push((below, bytes));
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetcher() -> Fetcher {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Fetcher::new(
            &[],
            std::time::Duration::from_secs(1),
            crate::source::retry::Backoff::default(),
        )
        .unwrap()
    }

    #[tokio::test]
    async fn a_directory_is_read_whole_and_offered_until_it_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for (name, content) in [
            ("version", "1.1.0\n"),
            ("channels/stable-4.1.yaml", "name: stable-4.1"),
            ("blocked-edges/4.1.1.yaml", "to: 4.1.1"),
            ("raw/metadata.json", "{}"),
            ("build-suggestions/4.1.yaml", "x"),
            ("README.md", "x"),
        ] {
            let file = path.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        let mut source = GraphDataSource::new(Location::Path(path.to_owned()), fetcher(), None);
        let files = source.read().await.unwrap().unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "blocked-edges/4.1.1.yaml",
            "channels/stable-4.1.yaml",
            "raw/metadata.json",
            "version",
        ];
        assert_eq!(names, expected);
        assert!(source.read().await.unwrap().is_some());
        source.accept();
        assert!(source.read().await.unwrap().is_none());
        std::fs::write(path.join("version"), "1.2.0\n").unwrap();
        assert!(source.read().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn what_is_not_there_is_an_error_that_names_it() {
        let mut source = GraphDataSource::new(Location::Path("/nowhere/x".into()), fetcher(), None);
        let error = source.read().await.unwrap_err().to_string();
        assert!(error.contains("/nowhere/x"), "{error}");
    }
}
