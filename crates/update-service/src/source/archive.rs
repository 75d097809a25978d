//! Wanted files of a tar archive, gzipped or not.
//!
//! Crate `tar` walks through the headers. Long names and pax records are read here, because `tar` would take them into
//! memory whatever their size, and would split a pax record at every line break although its value may hold some. Nobody
//! who sends an archive is trusted with sizes: what is kept and what is unpacked are both bounded.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use flate2::read::MultiGzDecoder;
use tokio::sync::mpsc;

/// Longest GNU or pax name record that is read, in bytes.
const MAX_NAME_RECORD: u64 = 64 * 1024;

/// How much of an archive is taken in, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Size limit of a requested member.
    pub member: u64,
    /// Sum of what all wanted members take by [`taken_by`].
    pub kept: u64,
    /// Size of the archive when unpacked, wanted or not.
    pub unpacked: u64,
}

/// What a file takes in memory: its content, its path, and what goes with every file however small it is.
#[must_use]
pub fn taken_by(path: &str, size: u64) -> u64 {
    size + path.len() as u64 + 512
}

/// An archive that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Not a tar archive, or a damaged one.
    #[error("not a readable archive: {0}")]
    Malformed(String),
    /// Larger than allowed.
    #[error("{0}")]
    TooLarge(String),
    /// A compression that is not supported.
    #[error("compressed with {0}, which is not supported; gzip and none are")]
    Unsupported(&'static str),
}

/// Our own errors come back from `tar` as they went in.
impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        error
            .downcast::<Self>()
            .unwrap_or_else(|error| Self::Malformed(error.to_string()))
    }
}

/// One requested file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Path without leading `/` or `./`.
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Reads an archive to its end and keeps the files whose paths `wanted` accepts.
///
/// # Errors
/// [`ArchiveError`] when the archive is damaged, cut off, or larger than `limits`.
pub fn unpack(
    mut source: impl Read,
    wanted: impl FnMut(&str) -> bool,
    limits: Limits,
) -> Result<Vec<Member>, ArchiveError> {
    let mut head = Vec::new();
    source.by_ref().take(4).read_to_end(&mut head)?;
    let gzip = match head.as_slice() {
        [] => return Ok(Vec::new()),
        [_] | [_, _] | [_, _, _] => return Err(ArchiveError::Malformed("too short".to_owned())),
        [0x1f, 0x8b, ..] => true,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return Err(ArchiveError::Unsupported("zstd")),
        [b'B', b'Z', b'h', ..] => return Err(ArchiveError::Unsupported("bzip2")),
        [0xfd, b'7', b'z', b'X', ..] => return Err(ArchiveError::Unsupported("xz")),
        _ => false,
    };
    let source = Read::chain(io::Cursor::new(head), source);
    if gzip {
        members(MultiGzDecoder::new(source), wanted, limits)
    } else {
        members(source, wanted, limits)
    }
}

fn members(
    source: impl Read,
    mut wanted: impl FnMut(&str) -> bool,
    limits: Limits,
) -> Result<Vec<Member>, ArchiveError> {
    let mut archive = tar::Archive::new(Bounded {
        source,
        limit: limits.unpacked,
        unpacked: 0,
    });
    let (mut found, mut kept) = (Vec::new(), 0);
    let mut record = Record::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let (kind, size) = (entry.header().entry_type(), entry.size());
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            if size > MAX_NAME_RECORD {
                return Err(ArchiveError::TooLarge(format!("a name record of {size} bytes")));
            }
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            if kind.is_gnu_longname() {
                record.name = Some(text(&content));
            } else {
                record.read_pax(&content)?;
            }
            continue;
        }
        if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
            continue;
        }
        // The record describes this member, whatever it is, and no other.
        let record = std::mem::take(&mut record);
        if record.size.is_some_and(|stated| stated != size) {
            let text = "a member of more than 8 GiB, or one with two sizes".to_owned();
            return Err(ArchiveError::Malformed(text));
        }
        if !kind.is_file() && !kind.is_contiguous() {
            continue;
        }
        let path = record.name.unwrap_or_else(|| text(&entry.header().path_bytes()));
        let path = path.trim_start_matches("./").trim_start_matches('/');
        if !wanted(path) {
            continue;
        }
        if size > limits.member {
            let text = format!("{path} has {size} bytes, more than {}", limits.member);
            return Err(ArchiveError::TooLarge(text));
        }
        kept += taken_by(path, size);
        if kept > limits.kept {
            let text = format!("its files exceed {} bytes", limits.kept);
            return Err(ArchiveError::TooLarge(text));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        found.push(Member {
            path: path.to_owned(),
            bytes,
        });
    }
    // The checksum of gzip is at its end.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(found)
}

/// What GNU and pax records say of the next member.
#[derive(Default)]
struct Record {
    name: Option<String>,
    size: Option<u64>,
}

impl Record {
    /// Reads `LENGTH KEY=VALUE\n`, again and again. Only path and size matter here.
    fn read_pax(&mut self, mut records: &[u8]) -> Result<(), ArchiveError> {
        let broken = || ArchiveError::Malformed("a pax record that cannot be read".to_owned());
        while !records.is_empty() {
            let space = records.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
            let length: usize = text(&records[..space]).parse().map_err(|_| broken())?;
            let record = records.get(space + 1..length).ok_or_else(broken)?;
            records = &records[length..];
            let record = record.strip_suffix(b"\n").ok_or_else(broken)?;
            if let Some(path) = record.strip_prefix(b"path=") {
                self.name = Some(text(path));
            } else if let Some(size) = record.strip_prefix(b"size=") {
                self.size = Some(text(size).parse().map_err(|_| broken())?);
            }
        }
        Ok(())
    }
}

/// The part before the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Ends an archive that unpacks to more than allowed.
struct Bounded<R> {
    source: R,
    limit: u64,
    unpacked: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        self.unpacked += length as u64;
        if self.unpacked > self.limit {
            let text = format!("unpacks to more than {} bytes", self.limit);
            return Err(io::Error::other(ArchiveError::TooLarge(text)));
        }
        Ok(length)
    }
}

/// Pieces of an archive as they come from a connection, for a reader on a thread that may wait for them.
#[derive(Debug)]
pub struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl From<mpsc::Receiver<Bytes>> for Pieces {
    fn from(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self {
            receiver,
            piece: Bytes::new(),
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        (&mut self.piece).reader().read(buffer)
    }
}

#[cfg(test)]
mod tests;
