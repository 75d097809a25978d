//! Unpacking: gzip and tar in memory, bounded, so that a small hostile archive cannot fill the machine.

use std::borrow::Cow;
use std::io::Read;

use crate::text::is_steering;

/// More than this is no graph: real graph-data has 2 MB as an archive, a whole graph of five architectures 11 MB. What is
/// unpacked is in memory, and the files of an archive are there a second time.
pub(crate) const MAX_UNPACKED: u64 = 64 << 20;

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
        .map(|c| if is_steering(c) { ' ' } else { c })
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

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip_of_zeros(bytes: u64) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        std::io::copy(&mut std::io::repeat(0).take(bytes), &mut encoder).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_small_archive_that_unpacks_to_more_than_64_mib_is_refused() {
        let packed = gzip_of_zeros((64 << 20) + 1);
        assert!(packed.len() < 1 << 20);
        assert!(matches!(gunzip(&packed), Err(UnpackError::TooLarge)));
        assert!(matches!(untar(&packed, |_| true), Err(UnpackError::TooLarge)));
    }

    #[test]
    fn an_archive_that_is_quoted_in_an_error_does_not_steer_a_terminal() {
        let error = std::io::Error::other("\u{1b}]0;x\u{7} \u{202e}\u{9b}2J");
        assert_eq!(words(&error), " ]0;x    2J");
    }
}
