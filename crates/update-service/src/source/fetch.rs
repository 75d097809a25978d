//! Reads files and URLs as bytes, and detects changes.
//!
//! A file is read with a fingerprint that must be equal before and after, a URL with its `ETag`. A file that changes while it
//! is read is an error, and so is an answer other than 200 and 304.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{StatusCode, header};
use sha2::{Digest, Sha256};

use super::retry::{self, Backoff, Failure};
use super::tls;

/// Largest file or answer, in bytes: several times the largest real one, and small enough that a source which sends more
/// does not take the memory of the service.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;

/// What could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}: {why}")]
pub struct FetchError {
    /// Path or URL.
    pub what: String,
    /// Cause.
    pub why: String,
}

impl FetchError {
    /// An error about this place.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "errors are made of whatever is at hand"
    )]
    pub fn new(what: impl ToString, why: impl ToString) -> Self {
        Self {
            what: what.to_string(),
            why: why.to_string(),
        }
    }
}

/// The state of files by names, sizes, times and inodes: cheap to take and different after any change that is not made
/// on purpose to hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a file, or of a directory with everything below it (hidden entries excepted).
    ///
    /// # Errors
    /// If a file or directory cannot be inspected.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut left = vec![path.to_owned()];
        while let Some(path) = left.pop() {
            let metadata = std::fs::metadata(&path)?;
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update([0]);
            if metadata.is_dir() {
                left.extend(entries(&path)?);
            } else {
                state(&mut hash, &metadata);
            }
        }
        Ok(Self(hash.finalize().into()))
    }

    /// Of several files or directories; one that is missing counts as such.
    #[must_use]
    pub fn of_all(paths: &[PathBuf]) -> Self {
        let mut hash = Sha256::new();
        for path in paths {
            match Self::of(path) {
                Ok(Self(print)) => hash.update(print),
                Err(error) => hash.update(error.kind().to_string()),
            }
        }
        Self(hash.finalize().into())
    }
}

fn state(hash: &mut Sha256, metadata: &Metadata) {
    use std::os::unix::fs::MetadataExt;
    for number in [metadata.len(), metadata.ino(), metadata.dev()] {
        hash.update(number.to_le_bytes());
    }
    for number in [
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ] {
        hash.update(number.to_le_bytes());
    }
}

/// Entries in order of their names, without hidden ones, because a `.git` changes while the data does not.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            entries.push(entry.path());
        }
    }
    entries.sort();
    Ok(entries)
}

/// A file's bytes, unchanged while they were read.
///
/// # Errors
/// When it cannot be read, is too large, or changes meanwhile.
pub fn file(path: &Path) -> Result<Vec<u8>, FetchError> {
    let error = |why: io::Error| FetchError::new(path.display(), why);
    let before = Fingerprint::of(path).map_err(error)?;
    let length = std::fs::metadata(path).map_err(error)?.len();
    if length > MAX_BYTES as u64 {
        return Err(FetchError::new(
            path.display(),
            format!("more than {MAX_BYTES} bytes"),
        ));
    }
    let bytes = std::fs::read(path).map_err(error)?;
    if Fingerprint::of(path).map_err(error)? != before {
        return Err(FetchError::new(path.display(), "it is being written"));
    }
    Ok(bytes)
}

/// The bytes themselves, or what they unpack to if they are gzip.
///
/// # Errors
/// When the gzip is broken or unpacks to more than [`MAX_BYTES`].
pub fn gunzip(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    use std::io::Read;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    flate2::read::MultiGzDecoder::new(bytes.as_slice())
        .take(limit)
        .read_to_end(&mut plain)?;
    if plain.len() > MAX_BYTES {
        return Err(io::Error::other(format!(
            "unpacks to more than {MAX_BYTES} bytes"
        )));
    }
    Ok(plain)
}

/// An answer to a request for a URL.
#[derive(Debug)]
pub enum Fetched {
    /// As before.
    Unchanged,
    /// New content, with its `ETag`.
    New(Vec<u8>, Option<String>),
}

/// Fetches URLs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fetcher {
    client: reqwest::Client,
    backoff: Backoff,
}

impl Fetcher {
    /// A fetcher that also trusts the PEM certificates in `ca`, and fails after `timeout` without a byte.
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn new(ca: &[u8], timeout: Duration, backoff: Backoff) -> Result<Self, reqwest::Error> {
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("update-service/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(timeout.min(Duration::from_secs(10)))
                .read_timeout(timeout)
                .redirect(reqwest::redirect::Policy::custom(tls::redirect))
        };
        Ok(Self {
            client: tls::client(builder, ca)?,
            backoff,
        })
    }

    /// The content of a URL, gzipped where the server does so, if it is another one than `etag` names.
    ///
    /// # Errors
    /// [`FetchError`] after all attempts.
    pub async fn get(
        &self,
        url: &reqwest::Url,
        accept: &str,
        etag: Option<&str>,
    ) -> Result<Fetched, FetchError> {
        self.backoff.run(|| self.attempt(url, accept, etag)).await
    }

    async fn attempt(
        &self,
        url: &reqwest::Url,
        accept: &str,
        etag: Option<&str>,
    ) -> Result<Fetched, Failure<FetchError>> {
        let shown = super::location::Location::Url(url.clone()).to_string();
        let passing = |error: reqwest::Error| {
            let why = super::causes(&error.without_url());
            Failure::Passing(FetchError::new(&shown, why), None)
        };
        let mut request = self
            .client
            .get(url.clone())
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, "gzip");
        if let Some(etag) = etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let mut response = request.send().await.map_err(passing)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if etag.is_some() => return Ok(Fetched::Unchanged),
            status => {
                let error = FetchError::new(&shown, format!("the server answers {status}"));
                return Err(if retry::passing(status) {
                    Failure::Passing(error, retry::retry_after(response.headers()))
                } else {
                    Failure::Final(error)
                });
            }
        }
        let tag = response.headers().get(header::ETAG);
        let tag = tag.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(passing)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_BYTES {
                let error = FetchError::new(&shown, format!("more than {MAX_BYTES} bytes"));
                return Err(Failure::Final(error));
            }
        }
        Ok(Fetched::New(bytes, tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_shows_in_the_fingerprint() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::create_dir(path.join("channels")).unwrap();
        std::fs::write(path.join("channels/a.yaml"), "one").unwrap();
        let mut seen = vec![Fingerprint::of(path).unwrap()];
        assert_eq!(Fingerprint::of(path).unwrap(), seen[0]);
        let changed = |seen: &mut Vec<Fingerprint>, what: &str| {
            let print = Fingerprint::of(path).unwrap();
            assert!(!seen.contains(&print), "{what}");
            seen.push(print);
        };
        std::fs::write(path.join("channels/a.yaml"), "three").unwrap();
        changed(&mut seen, "another length");
        std::fs::write(path.join("channels/new"), "seven").unwrap();
        std::fs::rename(path.join("channels/new"), path.join("channels/a.yaml")).unwrap();
        changed(&mut seen, "another file of the same name and length");
        std::fs::write(path.join("channels/b.yaml"), "").unwrap();
        changed(&mut seen, "one more");
        std::fs::remove_file(path.join("channels/a.yaml")).unwrap();
        changed(&mut seen, "one less");
        std::fs::create_dir(path.join(".git")).unwrap();
        std::fs::write(path.join(".git/index"), "x").unwrap();
        assert_eq!(Fingerprint::of(path).unwrap(), seen[4], "hidden");
    }

    #[test]
    fn a_missing_file_is_a_state_too() {
        let directory = tempfile::tempdir().unwrap();
        let paths = [directory.path().join("x")];
        let missing = Fingerprint::of_all(&paths);
        assert_eq!(Fingerprint::of_all(&paths), missing);
        std::fs::write(&paths[0], "x").unwrap();
        assert_ne!(Fingerprint::of_all(&paths), missing);
        let error = file(&directory.path().join("y")).unwrap_err();
        assert!(error.to_string().contains("/y"), "{error}");
    }
}
