//! Channel files: which releases a channel holds.

use serde::Deserialize;
use smol_str::SmolStr;

use super::Findings;
use crate::problem::{Problem, Rule, line_of_key};
use crate::version::{Arch, Version};

/// A channel. `feeder`, `tombstones` and other keys of a file are only for its authors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// The file it was read from.
    pub file: SmolStr,
    /// Its name; the file's name means nothing.
    pub name: SmolStr,
    /// Its releases, in the file's order.
    pub entries: Vec<ChannelEntry>,
}

/// One entry of a channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelEntry {
    /// The release.
    pub version: Version,
    /// Its architecture; `None` means all.
    pub arch: Option<Arch>,
}

#[derive(Deserialize)]
struct Document {
    name: String,
    /// Must be there: a file that was cut off before it would empty the channel.
    versions: Vec<String>,
}

/// True when the name can be in a list joined by `,` and a client can request it.
pub(crate) fn is_servable(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    !name.is_empty() && name.bytes().all(allowed)
}

pub(crate) fn read_channel(path: &str, content: &[u8], findings: &mut Findings) -> Option<Channel> {
    let refuse = |findings: &mut Findings, line: Option<u32>, message: String| {
        findings.refuse(Problem::in_file(path, line, Rule::ChannelUnreadable, message));
        None
    };
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(e) => return refuse(findings, None, e.to_string()),
    };
    let document: Document = match serde_saphyr::from_str(text) {
        Ok(document) => document,
        Err(e) => return refuse(findings, super::block::line_of(&e), super::block::words_of(&e)),
    };
    if document.name.is_empty() || document.name.contains(',') {
        return refuse(
            findings,
            line_of_key(text, "name"),
            format!("{:?} cannot name a channel", document.name),
        );
    }
    if !is_servable(&document.name) {
        let message = format!(
            "no client can ask for {:?}: letters a-z, digits, `-` and `.` only",
            document.name
        );
        findings.report(Problem::in_file(
            path,
            line_of_key(text, "name"),
            Rule::ChannelName,
            message,
        ));
    }
    let mut entries = Vec::with_capacity(document.versions.len());
    for version in document.versions {
        match Version::split(&version) {
            Ok((version, arch)) => entries.push(ChannelEntry { version, arch }),
            Err(e) => {
                let line = text
                    .lines()
                    .position(|l| l.trim_start_matches(['-', ' ', '"', '\'']).starts_with(&version));
                let line = line.and_then(|at| u32::try_from(at + 1).ok());
                findings.report(Problem::in_file(path, line, Rule::ChannelVersion, e.to_string()));
            }
        }
    }
    Some(Channel {
        file: SmolStr::new(path),
        name: SmolStr::from(document.name),
        entries,
    })
}
