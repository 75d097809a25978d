//! Unpacking: gzip and tar in memory, bounded, so that a small hostile archive cannot fill the machine.

use std::borrow::Cow;
use std::io::Read;

/// More than this is no graph: real graph-data has 1 MB, a whole graph of five architectures 11 MB.
pub(crate) const MAX_UNPACKED: u64 = 256 << 20;

/// Why bytes were not unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("broken gzip or tar: {}", words(.0))]
    Io(#[from] std::io::Error),
    #[error("the end of the archive is missing: it was cut off, or is no tar")]
    CutOff,
    #[error("unpacks to more than {} MiB", MAX_UNPACKED >> 20)]
    TooLarge,
    #[error("{0} is a link; only plain files are read")]
    Link(String),
}

/// The cause in one short line: the tar reader quotes what it cannot read.
fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The bytes themselves, or what they unpack to if they are gzip.
pub(crate) fn gunzip(bytes: &[u8]) -> Result<Cow<'_, [u8]>, UnpackError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut plain = Vec::with_capacity(bytes.len().saturating_mul(8).min(16 << 20));
    flate2::read::MultiGzDecoder::new(bytes)
        .take(MAX_UNPACKED + 1)
        .read_to_end(&mut plain)?;
    if plain.len() as u64 > MAX_UNPACKED {
        return Err(UnpackError::TooLarge);
    }
    Ok(Cow::Owned(plain))
}

/// The plain files of a tar or tar.gz that `wanted` accepts, in the archive's order.
pub(crate) fn untar(
    bytes: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Vec<u8>)>, UnpackError> {
    let plain = gunzip(bytes)?;
    // Every writer ends with two blocks of zeros. Without them, reading would stop short and say nothing.
    if !plain.ends_with(&[0; 512]) {
        return Err(UnpackError::CutOff);
    }
    let mut files = Vec::new();
    for entry in tar::Archive::new(plain.as_ref()).entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        if kind.is_dir() || !wanted(&path) {
            continue;
        }
        if !kind.is_file() {
            return Err(UnpackError::Link(path));
        }
        let mut content = Vec::with_capacity(usize::try_from(entry.size()).unwrap_or(0).min(plain.len()));
        entry.read_to_end(&mut content)?;
        files.push((path, content));
    }
    Ok(files)
}
