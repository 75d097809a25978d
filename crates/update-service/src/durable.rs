//! Files that are complete or absent.
//!
//! A file is written under another name and renamed, with a checksum in front of its content. Content with a wrong checksum
//! is an error, whatever the file system did to it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// Length of the check sum in front of the content, with its newline.
const SUM: usize = 65;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Replaces the file by the check sum of `body` and `body`, at once or not at all.
///
/// # Errors
/// Those of the file system; the file is then as it was.
pub fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let result = (|| {
        let mut file = File::create(&beside)?;
        file.write_all(sum(body).as_bytes())?;
        file.write_all(b"\n")?;
        file.write_all(body)?;
        file.sync_data()?;
        fs::rename(&beside, path)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

/// The content behind the check sum, if it fits.
#[must_use]
pub fn open(bytes: &[u8]) -> Option<&[u8]> {
    let (stated, body) = bytes.split_at_checked(SUM)?;
    (stated[SUM - 1] == b'\n' && stated[..SUM - 1] == *sum(body).as_bytes()).then_some(body)
}

/// The content of a file that [`write`] wrote; `None` if there is no such file.
///
/// # Errors
/// Those of the file system, and `InvalidData` for a damaged file.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => match open(&bytes) {
            Some(body) => Ok(Some(body.to_vec())),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its check sum is wrong",
            )),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn sum(body: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(body)
        .iter()
        .fold(String::with_capacity(SUM), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        assert_eq!(read(&path).unwrap(), None);
        for body in [&b"one"[..], b"", b"three\n"] {
            write(&path, body).unwrap();
            assert_eq!(read(&path).unwrap().as_deref(), Some(body));
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn damage_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        write(&path, b"content").unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(read(&path).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "x").unwrap();
        assert!(write(&path, b"content").is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
