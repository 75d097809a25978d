//! When a release may leave the graph.
//!
//! Clusters on a release that a service does not know lose their updates, and sources lose releases for a while: a registry
//! is half up, a mirror is being filled, an upstream drops nodes. So a release that was listed once stays until
//! - three complete listings in a row lack its name, or
//! - a listing lacks it and no channel of graph-data lists it, or
//! - a listing lacks it and it is marked removed (`io.openshift.upgrades.graph.release.remove`).
//!
//! A failed listing changes nothing, and a name that is listed but cannot be read is not missing. If a release has two
//! payloads, the known one stays. This memory can be kept in a file across restarts.

pub mod graph;
mod record;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use update_graph::metadata::key;
use update_graph::{Arch, ExtraEdge, Release, Version};

use crate::source::{Listed, Listing, Trouble};

/// A release leaves once this many complete listings in a row lacked it.
pub const MAX_MISSED_LISTINGS: u32 = 3;

/// Why a release left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// [`MAX_MISSED_LISTINGS`] complete listings lacked it.
    Unlisted,
    /// A listing lacked it, and so does every channel.
    NoChannel,
    /// A listing lacked it, and it is marked removed.
    Removed,
    /// It is listed and a policy takes it out.
    Policy,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Unlisted, Self::NoChannel, Self::Removed, Self::Policy];

    /// As a label and in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unlisted => "unlisted",
            Self::NoChannel => "no_channel",
            Self::Removed => "removed",
            Self::Policy => "policy",
        }
    }
}

/// A release that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its version.
    pub version: Version,
    /// Its architecture.
    pub arch: Arch,
    /// Why.
    pub reason: Reason,
}

/// What a listing changed.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Releases that left.
    pub lost: Vec<Lost>,
    /// Names that are listed and of no use, with the reason.
    pub troubles: Vec<Trouble>,
    /// Whether any release came, changed or left.
    pub changed: bool,
}

/// A release that is known, and how often in a row it was missing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// The name it is listed under.
    name: String,
    /// Others that it is listed under as well.
    also: Vec<String>,
    release: Release,
    missed: u32,
}

impl Known {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.also).map(String::as_str)
    }
}

/// Remembers releases over listings and restarts.
#[derive(Debug)]
pub struct Keeper {
    known: BTreeMap<(Arch, Version), Known>,
    extra: Vec<ExtraEdge>,
    file: Option<PathBuf>,
    /// The source that this memory is about.
    source: String,
}

impl Keeper {
    /// Without a memory beyond the process.
    #[must_use]
    pub fn in_memory(source: &str) -> Self {
        Self {
            known: BTreeMap::new(),
            extra: Vec::new(),
            file: None,
            source: source.to_owned(),
        }
    }

    /// With what `file` remembers of this source. A file that is damaged or about another source counts as absent, with
    /// a line in the log.
    #[must_use]
    pub fn on_disk(source: &str, file: &Path) -> Self {
        let mut keeper = Self::in_memory(source);
        match record::read(file, source) {
            Ok(known) => {
                keeper.known = known
                    .into_iter()
                    .map(|known| ((known.release.arch.clone(), known.release.version.clone()), known))
                    .collect();
            }
            Err(error) => {
                tracing::warn!(path = %file.display(), %error, "what was known of releases cannot be read");
            }
        }
        keeper.file = Some(file.to_owned());
        keeper
    }

    /// Takes in a listing.
    pub fn take(&mut self, mut listing: Listing, in_channel: impl Fn(&Arch, &Version) -> bool) -> Change {
        let mut change = Change::default();
        // If several images claim to be one release, the known one wins.
        listing
            .releases
            .sort_by_key(|listed| !self.knows(&listed.release));
        let unreadable: BTreeSet<&str> = listing
            .unreadable
            .iter()
            .map(|trouble| trouble.name.as_str())
            .collect();
        let mut seen = BTreeSet::new();
        for listed in listing.releases {
            self.see(listed, &unreadable, &mut seen, &mut change);
        }
        for (id, known) in &mut self.known {
            if !seen.contains(id) && !known.names().any(|name| unreadable.contains(name)) {
                known.missed = known.missed.saturating_add(1);
                tracing::info!(version = %id.1, arch = %id.0, times = known.missed, "a release is not listed any more");
            }
        }
        change.changed |= self.extra != listing.extra;
        self.extra = listing.extra;
        change.troubles.extend(listing.unreadable);
        self.leave(&mut change, in_channel);
        change
    }

    /// The source said once more exactly what it said before.
    pub fn again(&mut self, in_channel: impl Fn(&Arch, &Version) -> bool) -> Change {
        let mut change = Change::default();
        for known in self.known.values_mut().filter(|known| known.missed > 0) {
            known.missed = known.missed.saturating_add(1);
        }
        self.leave(&mut change, in_channel);
        change
    }

    /// After a change of graph-data, releases that are already missing and in no channel may leave.
    pub fn channels_changed(&mut self, in_channel: impl Fn(&Arch, &Version) -> bool) -> Change {
        let mut change = Change::default();
        self.leave(&mut change, in_channel);
        change
    }

    fn knows(&self, release: &Release) -> bool {
        self.known
            .get(&(release.arch.clone(), release.version.clone()))
            .is_some_and(|known| known.release.payload == release.payload)
    }

    fn see(
        &mut self,
        mut listed: Listed,
        unreadable: &BTreeSet<&str>,
        seen: &mut BTreeSet<(Arch, Version)>,
        change: &mut Change,
    ) {
        // What is kept for long is kept small: there are hundreds of thousands of these.
        listed.release.previous.shrink_to_fit();
        listed.release.next.shrink_to_fit();
        let id = (listed.release.arch.clone(), listed.release.version.clone());
        let first = seen.insert(id.clone());
        match self.known.entry(id) {
            Entry::Vacant(place) => {
                place.insert(Known {
                    name: listed.name,
                    also: Vec::new(),
                    release: listed.release,
                    missed: 0,
                });
                change.changed = true;
            }
            Entry::Occupied(mut place) => {
                let known = place.get_mut();
                if known.release.payload == listed.release.payload || first {
                    if first {
                        // A name that cannot be read now may still be its.
                        let names = std::mem::take(&mut known.also);
                        let names = names.into_iter().chain([std::mem::take(&mut known.name)]);
                        known.also = names.filter(|name| unreadable.contains(name.as_str())).collect();
                    }
                    change.changed |= merge(known, listed, first);
                } else {
                    change.troubles.push(Trouble {
                        why: format!(
                            "{} is listed as {} under {:?} already",
                            known.release.version, known.release.payload, known.name
                        ),
                        name: listed.name,
                    });
                }
            }
        }
    }

    fn leave(&mut self, change: &mut Change, in_channel: impl Fn(&Arch, &Version) -> bool) {
        self.known.retain(|(arch, version), known| {
            let reason = match known.missed {
                0 => return true,
                MAX_MISSED_LISTINGS.. => Reason::Unlisted,
                _ if known.release.metadata.is_true(key::REMOVE) => Reason::Removed,
                _ if !in_channel(arch, version) => Reason::NoChannel,
                _ => return true,
            };
            tracing::warn!(%version, %arch, reason = reason.as_str(), "a release leaves the graph");
            change.lost.push(Lost {
                version: version.clone(),
                arch: arch.clone(),
                reason,
            });
            false
        });
        change.changed |= !change.lost.is_empty();
    }

    /// Whether a release is known.
    #[must_use]
    pub fn holds(&self, arch: &Arch, version: &Version) -> bool {
        self.known.contains_key(&(arch.clone(), version.clone()))
    }

    /// Everything that is known, by architecture and version.
    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.known.values().map(|known| &known.release)
    }

    /// Edges declared outside of the releases.
    #[must_use]
    pub fn extra(&self) -> &[ExtraEdge] {
        &self.extra
    }

    /// How many releases are kept although they are not listed.
    #[must_use]
    pub fn retained(&self) -> usize {
        self.known.values().filter(|known| known.missed > 0).count()
    }

    /// Writes the memory, if it has a file. An error is logged, and the service continues without the file.
    pub fn save(&self) {
        if let Some(file) = &self.file
            && let Err(error) = record::write(file, &self.source, self.known.values())
        {
            tracing::warn!(path = %file.display(), %error, "cannot write what is known of releases");
        }
    }
}

/// Records the present listing; `true` if it differs. A second listing of one payload adds its edges.
fn merge(known: &mut Known, listed: Listed, first: bool) -> bool {
    known.missed = 0;
    if first {
        known.name = listed.name;
        if known.release == listed.release {
            return false;
        }
        if known.release.payload != listed.release.payload {
            let (old, new) = (&known.release.payload, &listed.release.payload);
            tracing::debug!(version = %known.release.version, arch = %known.release.arch, %old, %new, "another payload");
        }
        known.release = listed.release;
        return true;
    }
    known.also.push(listed.name);
    let mut changed = false;
    let lists = [
        (&mut known.release.previous, listed.release.previous),
        (&mut known.release.next, listed.release.next),
    ];
    for (known, listed) in lists {
        for version in listed {
            if !known.contains(&version) {
                known.push(version);
                changed = true;
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests;
