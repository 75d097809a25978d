//! Blocked-edges files: a silent block, a risk, or the readable part of either.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use smol_str::SmolStr;

use super::Findings;
use crate::pattern::Pattern;
use crate::problem::{Problem, Rule, line_of_key};
use crate::risk::{Risk, RiskFields};
use crate::version::{Arch, Version};

/// What a blocked-edges file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The file.
    pub file: SmolStr,
    /// The release whose incoming edges are concerned.
    pub to: Version,
    /// The architecture concerned; `None` means all.
    pub arch: Option<Arch>,
    /// Which sources are concerned; `None` (could not be read) means all.
    pub from: Option<Pattern>,
    /// What becomes of the edges.
    pub effect: Effect,
    /// The release that is said to repair it. A service ignores it, an explanation names it.
    pub fixed_in: Option<SmolStr>,
    /// The number of the pattern among the distinct ones.
    pub(crate) pattern_id: u32,
}

/// What a block does to an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It is gone, unless a risk makes it conditional.
    Silent,
    /// It becomes conditional.
    Risk(Arc<Risk>),
    /// It is gone: the file could not be read in full, and what it might have said must not be ignored.
    Broken,
}

/// A file before its expression is compiled.
pub(crate) struct BlockFile {
    pub file: SmolStr,
    pub to: Version,
    pub arch: Option<Arch>,
    pub from: Option<SmolStr>,
    pub from_line: Option<u32>,
    pub effect: Effect,
    pub fixed_in: Option<SmolStr>,
}

/// The YAML mapping.
#[derive(Debug, Clone, Default)]
struct Document {
    to: Option<String>,
    from: Option<String>,
    fixed_in: Option<String>,
    risk: RiskFields,
    unknown: Option<String>,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Mapping;
        impl<'de> Visitor<'de> for Mapping {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping with `to` and `from`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut document = Document::default();
                while let Some(key) = map.next_key::<String>()? {
                    let slot = match key.as_str() {
                        "to" => &mut document.to,
                        "from" => &mut document.from,
                        "fixedIn" => &mut document.fixed_in,
                        _ => {
                            if !document.risk.take(&key, &mut map)? {
                                map.next_value::<IgnoredAny>()?;
                                document.unknown = Some(key);
                            }
                            continue;
                        }
                    };
                    if slot.replace(map.next_value()?).is_some() {
                        return Err(serde::de::Error::custom(format_args!("duplicate field `{key}`")));
                    }
                }
                Ok(document)
            }
        }
        deserializer.deserialize_map(Mapping)
    }
}

/// The parts of files behind their `to`, `from` and `fixedIn`, read once per distinct text.
///
/// Real data has 1,717 files and 171 such parts: one risk concerns many releases. Reading each part once makes reading
/// the whole nine times cheaper, with the real YAML parser deciding on every part of it that is not trivial.
#[derive(Default)]
pub(crate) struct Tails {
    known: BTreeMap<String, Document>,
}

impl Document {
    /// Reads a mapping as production does: a block scalar that the end of the file cuts off, without a line break, has none
    /// at its end. The parser here gives it one. Which scalar it is shows by one more letter.
    fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        let mut document: Self = serde_saphyr::from_str(text)?;
        if !text.ends_with('\n')
            && let Ok(mut longer) = serde_saphyr::from_str::<Self>(&format!("{text}x"))
        {
            for (value, longer) in document.scalars().into_iter().zip(longer.scalars()) {
                if value != longer && value.ends_with('\n') {
                    value.pop();
                }
            }
        }
        Ok(document)
    }

    /// Every string that could be a block scalar.
    fn scalars(&mut self) -> Vec<&mut String> {
        let risk = &mut self.risk;
        let rules = risk
            .rules
            .iter_mut()
            .flatten()
            .filter_map(|rule| rule.promql.as_mut());
        let plain = [
            &mut self.to,
            &mut self.from,
            &mut self.fixed_in,
            &mut risk.url,
            &mut risk.name,
        ];
        let text = [&mut risk.message, &mut risk.draft_promql];
        let fields = plain.into_iter().chain(text).filter_map(Option::as_mut);
        fields.chain(rules.map(|promql| &mut promql.promql)).collect()
    }
}

impl Tails {
    fn document(&mut self, text: &str) -> Result<Document, serde_saphyr::Error> {
        let Some((head, tail)) = split_head(text) else {
            return Document::parse(text);
        };
        if tail.is_empty() {
            return Ok(head);
        }
        let rest = match self.known.get(tail) {
            Some(rest) => rest,
            None => match Document::parse(tail) {
                Ok(rest) => self.known.entry(tail.to_owned()).or_insert(rest),
                // For the error's line.
                Err(_) => return Document::parse(text),
            },
        };
        let twice = (head.to.is_some() && rest.to.is_some())
            || (head.from.is_some() && rest.from.is_some())
            || (head.fixed_in.is_some() && rest.fixed_in.is_some());
        if twice {
            return Document::parse(text);
        }
        let mut document = rest.clone();
        document.to = head.to.or(document.to);
        document.from = head.from.or(document.from);
        document.fixed_in = head.fixed_in.or(document.fixed_in);
        Ok(document)
    }
}

/// Splits the leading lines `to: X`, `from: X`, `fixedIn: X` off a mapping if their values are certainly plain scalars, and
/// if the rest starts at a key in the first column. Both parts are then separate mappings that together mean the same.
/// `None` leaves the whole text to the YAML parser.
fn split_head(text: &str) -> Option<(Document, &str)> {
    let mut head = Document::default();
    let mut rest = text;
    while let Some((line, following)) = rest.split_once('\n') {
        let Some((key, value)) = line.split_once(": ") else {
            break;
        };
        let slot = match key {
            "to" => &mut head.to,
            "from" => &mut head.from,
            "fixedIn" => &mut head.fixed_in,
            _ => break,
        };
        if slot.is_some() || !is_plain(value) {
            return None;
        }
        *slot = Some(value.to_owned());
        rest = following;
    }
    let whole = rest.is_empty() || rest.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    whole.then_some((head, rest))
}

/// True for a scalar that YAML reads as exactly these characters where a string is expected: no space, no quote, no `:` or `#`, no
/// indicator in front, none of the words for null, truth, infinity.
fn is_plain(value: &str) -> bool {
    let mut bytes = value.bytes();
    let Some(first @ (b'0'..=b'9' | b'.' | b'^')) = bytes.next() else {
        return false;
    };
    if first == b'.' && bytes.clone().next().is_some_and(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    bytes.all(|b| b.is_ascii_alphanumeric() || b".^[]()|+*$\\?-_".contains(&b))
}

/// Reads one file into `blocks`. What cannot be read blocks as much as it can, or refuses the data set.
pub(crate) fn read_block(
    path: &str,
    content: &[u8],
    tails: &mut Tails,
    blocks: &mut Vec<BlockFile>,
    findings: &mut Findings,
) {
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(e) => {
            return salvage(
                path,
                &String::from_utf8_lossy(content),
                None,
                &e.to_string(),
                blocks,
                findings,
            );
        }
    };
    let document = match tails.document(text) {
        Ok(document) => document,
        Err(e) => return salvage(path, text, line_of(&e), &words_of(&e), blocks, findings),
    };
    let target = match &document.to {
        Some(to) => Version::split(to).map_err(|e| e.to_string()),
        None => Err("no `to`".to_owned()),
    };
    let (to, arch) = match target {
        Ok(target) => target,
        Err(e) => {
            return findings.refuse(Problem::in_file(
                path,
                line_of_key(text, "to"),
                Rule::BlockTarget,
                e,
            ));
        }
    };
    let silent = document.risk.is_empty();
    let exact = silent && document.unknown.is_none() && document.fixed_in.is_none();
    let effect = match (exact, document.risk.whole()) {
        _ if document.from.is_none() => {
            let message = "no `from`: every source is blocked";
            findings.report(Problem::in_file(path, None, Rule::BlockUnreadable, message));
            Effect::Broken
        }
        (true, _) => Effect::Silent,
        (false, Some(risk)) => Effect::Risk(Arc::new(risk)),
        (false, None) => {
            let message = match document.unknown {
                Some(key) if silent => {
                    format!("`{key}` beside `to` and `from`, but no risk: blocked without exception")
                }
                _ if silent => {
                    "`fixedIn` beside `to` and `from`, but no risk: blocked without exception".to_owned()
                }
                _ => "a risk lacks url, name, message or matchingRules: blocked without exception".to_owned(),
            };
            findings.report(Problem::in_file(path, None, Rule::BlockField, message));
            Effect::Broken
        }
    };
    let (to, arch) = if matches!(effect, Effect::Risk(_)) {
        (to, arch)
    } else {
        of_s390x(to, arch)
    };
    blocks.push(BlockFile {
        file: SmolStr::new(path),
        to,
        arch,
        from: document.from.map(SmolStr::from),
        from_line: line_of_key(text, "from"),
        effect,
        fixed_in: document.fixed_in.map(SmolStr::from),
    });
}

/// A silent block's `4.2.10-s390x` means `4.2.10+s390x`.
fn of_s390x(to: Version, arch: Option<Arch>) -> (Version, Option<Arch>) {
    if arch.is_none() && to.pre() == "s390x" {
        let plain = format!("{}.{}.{}+s390x", to.major(), to.minor(), to.patch());
        if let Ok(split) = Version::split(&plain) {
            return split;
        }
    }
    (to, arch)
}

/// What a file that YAML does not read still says in its first column.
fn salvage(
    path: &str,
    text: &str,
    line: Option<u32>,
    reason: &str,
    blocks: &mut Vec<BlockFile>,
    findings: &mut Findings,
) {
    let values = |key: &str| -> Vec<String> {
        text.lines()
            .filter_map(|l| l.strip_prefix(key)?.strip_prefix(':'))
            .map(scalar)
            .collect()
    };
    let targets: Vec<_> = values("to").iter().map(|to| Version::split(to)).collect();
    if targets.is_empty() || targets.iter().any(Result::is_err) {
        let message = format!("neither YAML nor a readable `to`: {reason}");
        return findings.refuse(Problem::in_file(path, line, Rule::BlockTarget, message));
    }
    findings.report(Problem::in_file(
        path,
        line,
        Rule::BlockUnreadable,
        format!("blocked without exception: {reason}"),
    ));
    let from = match values("from").as_slice() {
        [one] if is_plain(one) => Some(SmolStr::new(one)),
        _ => None,
    };
    for (to, arch) in targets.into_iter().flatten() {
        let (to, arch) = of_s390x(to, arch);
        blocks.push(BlockFile {
            file: SmolStr::new(path),
            to,
            arch,
            from: from.clone(),
            from_line: line_of_key(text, "from"),
            effect: Effect::Broken,
            fixed_in: None,
        });
    }
}

/// The value behind a key on one line, without quotes and comment.
fn scalar(value: &str) -> String {
    let value = value.split(" #").next().unwrap_or(value).trim();
    let quoted = |q: char| value.strip_prefix(q).and_then(|v| v.strip_suffix(q));
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value).to_owned()
}

/// The line a YAML error points to.
pub(crate) fn line_of(error: &serde_saphyr::Error) -> Option<u32> {
    error
        .location()
        .and_then(|location| u32::try_from(location.line()).ok())
}

/// A YAML error in one line, without the excerpt.
pub(crate) fn words_of(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests;
