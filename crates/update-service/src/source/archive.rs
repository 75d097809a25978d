//! Members of a tar archive, found while its bytes arrive.
//!
//! Owns decompression and the tar format as far as it is needed: names (ustar, GNU long names, pax), sizes and plain
//! files. Bytes are pushed in as they come from a connection, so that nobody has to hold a whole layer to find one
//! file in it. Refuses to trust sizes: what is kept and what is unpacked are both bounded.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

const BLOCK: usize = 512;
/// Longest GNU or pax name record that is read, in bytes.
const MAX_NAME_RECORD: u64 = 64 * 1024;

/// How much of an archive is taken in, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest wanted member.
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

/// One wanted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Path without leading `/` or `./`.
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Decides by path which members are kept.
pub type Wanted = Box<dyn FnMut(&str) -> bool + Send>;

/// Unpacks an archive, gzipped or not, that is pushed in piece by piece.
pub struct Unpacker {
    stage: Stage,
}

enum Stage {
    /// Too few bytes seen to know the compression.
    Start(Vec<u8>, Tar),
    Plain(Tar),
    Gzip(Box<MultiGzDecoder<Tar>>),
    /// Left behind by an error.
    Broken,
}

impl Unpacker {
    /// Keeps the members that `wanted` says yes to.
    #[must_use]
    pub fn new(wanted: Wanted, limits: Limits) -> Self {
        Self {
            stage: Stage::Start(Vec::new(), Tar::new(wanted, limits)),
        }
    }

    /// Takes in the next bytes.
    ///
    /// # Errors
    /// [`ArchiveError`]; the unpacker is of no use afterwards.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let result = match std::mem::replace(&mut self.stage, Stage::Broken) {
            Stage::Start(mut head, tar) => {
                head.extend_from_slice(bytes);
                self.start(head, tar)
            }
            Stage::Plain(mut tar) => {
                let result = tar.take(bytes);
                self.stage = Stage::Plain(tar);
                result
            }
            Stage::Gzip(mut decoder) => {
                let result = decoder.write_all(bytes).map_err(unwrap_io);
                self.stage = Stage::Gzip(decoder);
                result
            }
            Stage::Broken => Err(ArchiveError::Malformed("read after an error".to_owned())),
        };
        if result.is_err() {
            self.stage = Stage::Broken;
        }
        result
    }

    fn start(&mut self, head: Vec<u8>, tar: Tar) -> Result<(), ArchiveError> {
        if head.len() < 4 {
            self.stage = Stage::Start(head, tar);
            return Ok(());
        }
        self.stage = match head.as_slice() {
            [0x1f, 0x8b, ..] => Stage::Gzip(Box::new(MultiGzDecoder::new(tar))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => return Err(ArchiveError::Unsupported("zstd")),
            [b'B', b'Z', b'h', ..] => return Err(ArchiveError::Unsupported("bzip2")),
            [0xfd, b'7', b'z', b'X', ..] => return Err(ArchiveError::Unsupported("xz")),
            _ => Stage::Plain(tar),
        };
        self.push(&head)
    }

    /// The wanted members so far, complete ones only.
    #[must_use]
    pub fn found(&self) -> &[Member] {
        match &self.stage {
            Stage::Start(_, tar) | Stage::Plain(tar) => &tar.found,
            Stage::Gzip(decoder) => &decoder.get_ref().found,
            Stage::Broken => &[],
        }
    }

    /// The wanted members of an archive that was pushed in to its end.
    ///
    /// # Errors
    /// When the archive ends in the middle of something.
    pub fn finish(self) -> Result<Vec<Member>, ArchiveError> {
        match self.stage {
            Stage::Start(head, tar) if head.is_empty() => tar.finish(),
            Stage::Start(..) => Err(ArchiveError::Malformed("too short".to_owned())),
            Stage::Plain(tar) => tar.finish(),
            Stage::Gzip(decoder) => decoder.finish().map_err(unwrap_io)?.finish(),
            Stage::Broken => Err(ArchiveError::Malformed("read after an error".to_owned())),
        }
    }

    /// The wanted members so far, of an archive whose rest is of no interest.
    #[must_use]
    pub fn into_found(self) -> Vec<Member> {
        match self.stage {
            Stage::Start(_, tar) | Stage::Plain(tar) => tar.found,
            Stage::Gzip(mut decoder) => std::mem::take(&mut decoder.get_mut().found),
            Stage::Broken => Vec::new(),
        }
    }
}

/// Reads a whole archive that is in memory.
///
/// # Errors
/// As for [`Unpacker::push`] and [`Unpacker::finish`].
pub fn unpack(bytes: &[u8], wanted: Wanted, limits: Limits) -> Result<Vec<Member>, ArchiveError> {
    let mut unpacker = Unpacker::new(wanted, limits);
    unpacker.push(bytes)?;
    unpacker.finish()
}

fn unwrap_io(error: io::Error) -> ArchiveError {
    match error.downcast::<ArchiveError>() {
        Ok(ours) => ours,
        Err(error) => ArchiveError::Malformed(error.to_string()),
    }
}

/// What the bytes that come next belong to.
enum Part {
    Header,
    /// A member's content, wanted or not, with the bytes still missing.
    Content {
        kind: Kind,
        left: u64,
    },
    /// Filling up to the block.
    Padding {
        left: usize,
    },
    End,
}

enum Kind {
    Wanted(String),
    Skipped,
    GnuName,
    Pax,
}

struct Tar {
    wanted: Wanted,
    limits: Limits,
    part: Part,
    block: Vec<u8>,
    content: Vec<u8>,
    /// Name and size for the next header, from GNU or pax records.
    next_name: Option<String>,
    next_size: Option<u64>,
    padding: usize,
    unpacked: u64,
    kept: u64,
    found: Vec<Member>,
}

impl Tar {
    fn new(wanted: Wanted, limits: Limits) -> Self {
        Self {
            wanted,
            limits,
            part: Part::Header,
            block: Vec::with_capacity(BLOCK),
            content: Vec::new(),
            next_name: None,
            next_size: None,
            padding: 0,
            unpacked: 0,
            kept: 0,
            found: Vec::new(),
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        self.unpacked += bytes.len() as u64;
        if self.unpacked > self.limits.unpacked {
            let limit = self.limits.unpacked;
            return Err(ArchiveError::TooLarge(format!(
                "unpacks to more than {limit} bytes"
            )));
        }
        while !bytes.is_empty() {
            match &mut self.part {
                Part::End => return Ok(()),
                Part::Padding { left } => {
                    let step = bytes.len().min(*left);
                    *left -= step;
                    bytes = &bytes[step..];
                    if *left == 0 {
                        self.part = Part::Header;
                    }
                }
                Part::Header => {
                    let step = bytes.len().min(BLOCK - self.block.len());
                    self.block.extend_from_slice(&bytes[..step]);
                    bytes = &bytes[step..];
                    if self.block.len() == BLOCK {
                        let block = std::mem::take(&mut self.block);
                        self.header(&block)?;
                        self.block = block;
                        self.block.clear();
                    }
                }
                Part::Content { kind, left } => {
                    let step = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    if !matches!(kind, Kind::Skipped) {
                        self.content.extend_from_slice(&bytes[..step]);
                    }
                    *left -= step as u64;
                    bytes = &bytes[step..];
                    if *left == 0 {
                        self.content_read()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn header(&mut self, block: &[u8]) -> Result<(), ArchiveError> {
        if block.iter().all(|byte| *byte == 0) {
            self.part = Part::End;
            return Ok(());
        }
        check_sum(block)?;
        let size = match self.next_size.take() {
            Some(size) => size,
            None => number(&block[124..136])?,
        };
        let kind = match block[156] {
            b'L' => Kind::GnuName,
            b'x' => Kind::Pax,
            b'0' | 0 | b'7' => {
                let path = self.next_name.take().unwrap_or_else(|| ustar_name(block));
                self.file(&path, size)?
            }
            // Directories and links have names that must not stick to the next member; a global pax header has none.
            b'g' => Kind::Skipped,
            _ => {
                self.next_name = None;
                Kind::Skipped
            }
        };
        if matches!(kind, Kind::GnuName | Kind::Pax) && size > MAX_NAME_RECORD {
            return Err(ArchiveError::TooLarge(format!("a name record of {size} bytes")));
        }
        // Links and devices carry no content whatever their size field says, except in hard links of old pax.
        let left = if matches!(block[156], b'1'..=b'6') {
            0
        } else {
            size
        };
        self.padding = usize::try_from(left % BLOCK as u64).map_or(0, |rest| (BLOCK - rest) % BLOCK);
        self.content.clear();
        self.part = Part::Content { kind, left };
        if left == 0 {
            self.content_read()?;
        }
        Ok(())
    }

    fn file(&mut self, path: &str, size: u64) -> Result<Kind, ArchiveError> {
        let path = path.trim_start_matches("./").trim_start_matches('/');
        if !(self.wanted)(path) {
            return Ok(Kind::Skipped);
        }
        if size > self.limits.member {
            let limit = self.limits.member;
            let text = format!("{path} has {size} bytes, more than {limit}");
            return Err(ArchiveError::TooLarge(text));
        }
        self.kept += taken_by(path, size);
        if self.kept > self.limits.kept {
            let limit = self.limits.kept;
            return Err(ArchiveError::TooLarge(format!("its files exceed {limit} bytes")));
        }
        Ok(Kind::Wanted(path.to_owned()))
    }

    fn content_read(&mut self) -> Result<(), ArchiveError> {
        let next = match self.padding {
            0 => Part::Header,
            left => Part::Padding { left },
        };
        let Part::Content { kind, .. } = std::mem::replace(&mut self.part, next) else {
            return Ok(());
        };
        let content = std::mem::take(&mut self.content);
        match kind {
            Kind::Skipped => {}
            Kind::Wanted(path) => self.found.push(Member { path, bytes: content }),
            Kind::GnuName => self.next_name = Some(text(&content)),
            Kind::Pax => self.pax(&content)?,
        }
        Ok(())
    }

    /// Records `LENGTH KEY=VALUE\n`; only path and size matter here.
    fn pax(&mut self, mut records: &[u8]) -> Result<(), ArchiveError> {
        let broken = || ArchiveError::Malformed("a pax record that cannot be read".to_owned());
        while !records.is_empty() {
            let space = records.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
            let length: usize = std::str::from_utf8(&records[..space])
                .ok()
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(broken)?;
            let record = records.get(space + 1..length).ok_or_else(broken)?;
            records = &records[length..];
            let record = record.strip_suffix(b"\n").ok_or_else(broken)?;
            if let Some(path) = record.strip_prefix(b"path=") {
                self.next_name = Some(text(path));
            } else if let Some(size) = record.strip_prefix(b"size=") {
                self.next_size = Some(text(size).parse().map_err(|_| broken())?);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Member>, ArchiveError> {
        // The end marker may be missing; ending between two members is an end too.
        match self.part {
            Part::End | Part::Padding { .. } => Ok(self.found),
            Part::Header if self.block.is_empty() => Ok(self.found),
            Part::Header | Part::Content { .. } => Err(ArchiveError::Malformed(
                "it ends in the middle of a file".to_owned(),
            )),
        }
    }
}

impl Write for Tar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn ustar_name(block: &[u8]) -> String {
    let name = text(&block[..100]);
    let prefix = if &block[257..262] == b"ustar" && block[263] == b'0' {
        text(&block[345..500])
    } else {
        String::new()
    };
    if prefix.is_empty() {
        name
    } else {
        format!("{prefix}/{name}")
    }
}

/// Octal digits, or base 256 with the highest bit set.
fn number(field: &[u8]) -> Result<u64, ArchiveError> {
    let broken = || ArchiveError::Malformed("a number in a header cannot be read".to_owned());
    if field[0] & 0x80 != 0 {
        return field[1..]
            .iter()
            .try_fold(u64::from(field[0] & 0x7f), |sum, byte| {
                sum.checked_mul(256)
                    .map(|sum| sum + u64::from(*byte))
                    .ok_or_else(broken)
            });
    }
    let digits = text(field);
    let digits = digits.trim();
    if digits.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(digits, 8).map_err(|_| broken())
}

fn check_sum(block: &[u8]) -> Result<(), ArchiveError> {
    let stated = number(&block[148..156])?;
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(index, byte)| u64::from(if (148..156).contains(&index) { b' ' } else { *byte }))
        .sum();
    if sum == stated {
        Ok(())
    } else {
        Err(ArchiveError::Malformed("a header's checksum is wrong".to_owned()))
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
