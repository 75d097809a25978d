//! Nodes: releases given twice become one, graph-data's metadata is added, channels are gathered.

use std::sync::Arc;

use smol_str::SmolStr;

use super::Shared;
use super::inputs::{Input, listed};
use crate::graph::{Channels, Node};
use crate::graph_data::{Block, Effect};
use crate::metadata::{Metadata, key};
use crate::problem::{Problem, Rule};
use crate::version::{Arch, Version};

/// A release, once, with all that the inputs say of it.
pub(super) struct Merged {
    pub version: Version,
    payload: SmolStr,
    metadata: Metadata,
    pub previous: Vec<Version>,
    pub next: Vec<Version>,
    /// Metadata whose rules are not applied yet.
    pub rules: Vec<Metadata>,
}

/// Keys that add or remove edges.
const RULES: [&str; 5] = [
    key::PREVIOUS_ADD,
    key::PREVIOUS_REMOVE,
    key::PREVIOUS_REMOVE_REGEX,
    key::NEXT_ADD,
    key::NEXT_REMOVE,
];

/// Releases in version order, each once. Of two payloads for one version the smaller stays: any rule would do that gives
/// the same answer tomorrow.
pub(super) fn merge(mut inputs: Vec<Input>, arch: &Arch, problems: &mut Vec<Problem>) -> Vec<Merged> {
    // Metadata last, so that equal inputs in another order are merged alike.
    inputs.sort_by(|a, b| {
        let rank = |i: &Input| (i.version.clone(), i.payload.clone(), i.consumed);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.metadata.iter().cmp(b.metadata.iter()))
    });
    let mut merged: Vec<Merged> = Vec::with_capacity(inputs.len());
    for mut input in inputs {
        let rules = !input.consumed && RULES.iter().any(|key| input.metadata.get(key).is_some());
        let rules = rules.then(|| input.metadata.clone());
        if let Some(known) = merged.last_mut().filter(|known| known.version == input.version) {
            if known.payload == input.payload {
                let mut channels = listed(&known.metadata, key::CHANNELS);
                channels.extend(listed(&input.metadata, key::CHANNELS));
                if !channels.is_empty() {
                    known.metadata.insert_str(key::CHANNELS, &channels.join(","));
                }
                known.metadata.fill_from(&input.metadata);
            } else {
                let message = format!(
                    "{} has two payloads, {} and {}; the first stays",
                    input.version.with_arch(arch),
                    known.payload,
                    input.payload
                );
                problems.push(Problem::new(Rule::ReleaseDuplicate, message));
            }
            known.previous.append(&mut input.previous);
            known.next.append(&mut input.next);
            known.rules.extend(rules);
            continue;
        }
        merged.push(Merged {
            version: input.version,
            payload: input.payload,
            metadata: input.metadata,
            previous: input.previous,
            next: input.next,
            rules: rules.into_iter().collect(),
        });
    }
    merged
}

/// A node whose channels have no number yet.
pub(super) struct Draft {
    version: u32,
    payload: SmolStr,
    metadata: Metadata,
    remove_regex: Option<SmolStr>,
    /// Ascending, each once.
    pub channels: Vec<u32>,
}

impl Draft {
    pub(super) fn finish(self, channels: &mut Channels) -> Node {
        Node {
            version: self.version,
            payload: self.payload,
            channels: channels.intern(&self.channels),
            metadata: Arc::new(self.metadata),
            remove_regex: self.remove_regex,
        }
    }
}

pub(super) fn draft(shared: &Shared<'_>, arch: &Arch, node: Merged) -> Draft {
    let version = shared.version_id(&node.version).unwrap_or_default();
    let mut metadata = node.metadata;
    for added in &shared.raw[version as usize] {
        for (key, value) in added.iter() {
            append(&mut metadata, key, value);
        }
    }
    let mut channels: Vec<u32> = shared.in_channels[version as usize]
        .iter()
        .filter(|(only, _)| only.is_none_or(|only| only == arch))
        .map(|&(_, channel)| channel)
        .chain(
            listed(&metadata, key::CHANNELS)
                .iter()
                .filter_map(|name| shared.channels.id(name)),
        )
        .collect();
    channels.sort_unstable();
    channels.dedup();
    // Lists are written again; a value that is not a list stays unchanged.
    if metadata.get_str(key::CHANNELS).is_some() {
        metadata.remove(key::CHANNELS);
    }
    let mut remove_regex = None;
    if let Some(own) = metadata.get_str(key::PREVIOUS_REMOVE_REGEX).map(SmolStr::new) {
        remove_regex = Some(own);
        metadata.remove(key::PREVIOUS_REMOVE_REGEX);
    }
    let blocks = blocks_of(shared, version, arch);
    Draft {
        version,
        payload: node.payload,
        metadata,
        remove_regex: joined(remove_regex, &blocks),
        channels,
    }
}

/// The blocks of a version that concern an architecture, by file.
pub(super) fn blocks_of<'s>(shared: &'s Shared<'_>, version: u32, arch: &Arch) -> Vec<(u32, &'s Block)> {
    shared.blocks[version as usize]
        .iter()
        .map(|&number| (number, &shared.data.blocks[number as usize]))
        .filter(|(_, block)| block.arch.as_ref().is_none_or(|only| only == arch))
        .collect()
}

/// What is served as `remove_regex`: the expressions of silent blocks, then those of risks. A value that ends in them has
/// been through here before.
fn joined(own: Option<SmolStr>, blocks: &[(u32, &Block)]) -> Option<SmolStr> {
    if blocks.is_empty() {
        return own;
    }
    let text = |block: &Block| block.from.as_ref().map_or(".*", |from| from.as_str()).to_owned();
    let is_risk = |block: &Block| matches!(block.effect, Effect::Risk(_));
    let silent = blocks.iter().filter(|(_, block)| !is_risk(block));
    let risks = blocks.iter().filter(|(_, block)| is_risk(block));
    let added = silent
        .chain(risks)
        .map(|(_, block)| text(block))
        .collect::<Vec<_>>()
        .join("|");
    match own {
        Some(own) if own.ends_with(&added) => Some(own),
        Some(own) if !own.is_empty() => Some(format!("{own}|{added}").into()),
        _ => Some(added.into()),
    }
}

/// Sets a key, or appends to it with a `,` as upstream does. What has been appended before is not appended again.
fn append(metadata: &mut Metadata, key: &str, value: &str) {
    let text: Option<String> = serde_json::from_str(value).ok();
    let known = metadata.get_str(key).map(std::borrow::Cow::into_owned);
    match (known, text) {
        (Some(known), Some(text)) => {
            if known != text && !known.ends_with(&format!(",{text}")) {
                metadata.insert_str(key, &format!("{known},{text}"));
            }
        }
        _ if metadata.get(key).is_some() => {}
        _ => {
            if let Ok(raw) = serde_json::value::RawValue::from_string(value.to_owned()) {
                metadata.insert(key, raw);
            }
        }
    }
}
