//! Channels and the sets of them that releases are in, each distinct set stored once.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use smol_str::SmolStr;

/// The order of channels in a served list: by what follows the first `-`, as a string, then by name.
pub(crate) fn channel_order(a: &str, b: &str) -> Ordering {
    let suffix = |name: &str| name.find('-').map_or(name.len(), |at| at + 1);
    a[suffix(a)..].cmp(&b[suffix(b)..]).then_with(|| a.cmp(b))
}

/// One distinct set of channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChannelSet {
    /// Channels, ascending.
    pub ids: Box<[u32]>,
    /// The same as bits.
    pub bits: Box<[u64]>,
    /// The names joined by `,`.
    pub csv: SmolStr,
}

/// All channels and sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Channels {
    /// In the order of a served list.
    pub names: Vec<SmolStr>,
    /// Index 0 is the empty set.
    pub sets: Vec<ChannelSet>,
    index: BTreeMap<Box<[u32]>, u32>,
}

impl Default for Channels {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Channels {
    /// All channels, in any order, each once or more.
    pub(crate) fn new(mut names: Vec<SmolStr>) -> Self {
        names.sort_by(|a, b| channel_order(a, b));
        names.dedup();
        let mut channels = Self {
            names,
            sets: Vec::new(),
            index: BTreeMap::new(),
        };
        channels.intern(&[]);
        channels
    }

    pub(crate) fn name(&self, id: u32) -> &str {
        &self.names[id as usize]
    }

    pub(crate) fn set(&self, id: u32) -> &ChannelSet {
        &self.sets[id as usize]
    }

    pub(crate) fn id(&self, name: &str) -> Option<u32> {
        let at = self
            .names
            .binary_search_by(|known| channel_order(known, name))
            .ok()?;
        u32::try_from(at).ok()
    }

    /// The number of a set, given ascending and without duplicates.
    pub(crate) fn intern(&mut self, ids: &[u32]) -> u32 {
        if let Some(&known) = self.index.get(ids) {
            return known;
        }
        let mut bits = vec![0_u64; self.names.len().div_ceil(64)];
        for &id in ids {
            bits[id as usize / 64] |= 1 << (id % 64);
        }
        let mut csv = String::new();
        for &id in ids {
            if !csv.is_empty() {
                csv.push(',');
            }
            csv.push_str(self.name(id));
        }
        let number = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        self.sets.push(ChannelSet {
            ids: ids.into(),
            bits: bits.into(),
            csv: csv.into(),
        });
        self.index.insert(ids.into(), number);
        number
    }

    /// The bits of the channels that a name passes.
    pub(crate) fn mask(&self, mut wanted: impl FnMut(&str) -> bool) -> Vec<u64> {
        let mut bits = vec![0_u64; self.names.len().div_ceil(64)];
        for (at, name) in self.names.iter().enumerate() {
            if wanted(name) {
                bits[at / 64] |= 1 << (at % 64);
            }
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_order_is_by_minor_as_a_string_then_by_name() {
        let names = [
            "stable-4.8",
            "fast-4.8",
            "eus-4.10",
            "candidate-4.9",
            "eus-4.8",
            "candidate-4.8",
            "lone",
        ];
        let mut channels = Channels::new(names.iter().map(SmolStr::new).collect());
        let all: Vec<u32> = (0..7).collect();
        let set = channels.intern(&all);
        assert_eq!(
            channels.set(set).csv,
            "lone,eus-4.10,candidate-4.8,eus-4.8,fast-4.8,stable-4.8,candidate-4.9"
        );
        assert_eq!(channels.intern(&all), set);
        assert_eq!(channels.intern(&[]), 0);
        assert_eq!(channels.id("fast-4.8"), Some(4));
        assert_eq!(channels.id("fast-4.7"), None);
    }
}
