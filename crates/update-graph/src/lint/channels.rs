//! Rules of channels.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph_data::{Channel, ChannelEntry};
use crate::problem::{Problem, Rule, line_of_key};

/// From the narrowest: what is in one is in the next.
const WIDENING: [&str; 3] = ["stable", "fast", "candidate"];

pub(super) fn check(channels: &[Channel], texts: &BTreeMap<&str, &str>, problems: &mut Vec<Problem>) {
    let mut by_name: BTreeMap<&str, &Channel> = BTreeMap::new();
    for channel in channels {
        let path = channel.file.as_str();
        let text = texts.get(path).copied().unwrap_or_default();
        let name = line_of_key(text, "name");
        let stem = path
            .rsplit('/')
            .next()
            .and_then(|file| file.split(".ya").next())
            .unwrap_or(path);
        if stem != channel.name {
            let message = format!("the file of {} is named {stem}", channel.name);
            problems.push(Problem::in_file(path, name, Rule::ChannelName, message));
        }
        if !channel.name.contains('-') {
            let message = format!("{} has no `-` before its version", channel.name);
            problems.push(Problem::in_file(path, name, Rule::ChannelName, message));
        }
        if let Some(other) = by_name.insert(&channel.name, channel) {
            let message = format!("{} is the name of {} too", channel.name, other.file);
            problems.push(Problem::in_file(path, name, Rule::ChannelName, message));
        }
        let mut seen = BTreeSet::new();
        for entry in channel.entries.iter().filter(|entry| !seen.insert(*entry)) {
            let message = format!("{} is listed twice", entry.version);
            problems.push(Problem::in_file(
                path,
                last_line_of(text, entry),
                Rule::ChannelDuplicate,
                message,
            ));
        }
    }
    for channel in channels {
        order(channel, channels, texts, problems);
    }
}

fn order(channel: &Channel, channels: &[Channel], texts: &BTreeMap<&str, &str>, problems: &mut Vec<Problem>) {
    let Some((family, minor)) = channel.name.split_once('-') else {
        return;
    };
    let wider = WIDENING
        .windows(2)
        .find(|pair| pair[0] == family)
        .map(|pair| format!("{}-{minor}", pair[1]));
    let Some(wider) = wider.filter(|wider| channels.iter().any(|other| other.name == *wider)) else {
        return;
    };
    let of_name = channels.iter().filter(|other| other.name == wider);
    let held: BTreeSet<&ChannelEntry> = of_name.flat_map(|other| &other.entries).collect();
    let everywhere = |entry: &ChannelEntry| ChannelEntry {
        version: entry.version.clone(),
        arch: None,
    };
    let text = texts.get(channel.file.as_str()).copied().unwrap_or_default();
    for entry in &channel.entries {
        if !held.contains(entry) && !held.contains(&everywhere(entry)) {
            let message = format!("{} is in {} and not in {}", entry.version, channel.name, wider);
            let line = last_line_of(text, entry);
            problems.push(Problem::in_file(&channel.file, line, Rule::ChannelOrder, message));
        }
    }
}

/// The last line that lists an entry.
fn last_line_of(text: &str, entry: &ChannelEntry) -> Option<u32> {
    let name = match &entry.arch {
        Some(arch) => entry.version.with_arch(arch),
        None => entry.version.to_string(),
    };
    let lists = |line: &str| {
        let item = line.trim_start().strip_prefix('-').unwrap_or_default();
        let item = item.split(" #").next().unwrap_or(item);
        item.trim().trim_matches(['"', '\'']) == name
    };
    let at = text
        .lines()
        .enumerate()
        .filter(|(_, line)| lists(line))
        .map(|(at, _)| at)
        .last()?;
    u32::try_from(at + 1).ok()
}
