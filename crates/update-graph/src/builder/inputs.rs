//! Inputs brought into one shape: releases by architecture, whether scraped or served.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::metadata::{Metadata, key};
use crate::problem::{Problem, Rule};
use crate::release::Release;
use crate::v1::Served;
use crate::version::{Arch, Version};

/// A release as it was put in.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub version: Version,
    pub payload: SmolStr,
    pub metadata: Metadata,
    pub previous: Vec<Version>,
    pub next: Vec<Version>,
    /// Out of a served graph: what its metadata adds and removes has been added and removed.
    pub consumed: bool,
}

/// All releases.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub arches: BTreeMap<Arch, Vec<Input>>,
}

impl Inputs {
    pub(super) fn gather(releases: Vec<Release>, served: &[Served], problems: &mut Vec<Problem>) -> Self {
        let mut inputs = Self::default();
        for release in releases {
            for reason in &release.unreadable {
                let message = format!("{}: {reason}", release.version.with_arch(&release.arch));
                problems.push(Problem::new(Rule::ReleaseVersion, message));
            }
            inputs.arches.entry(release.arch).or_default().push(Input {
                version: release.version,
                payload: release.payload,
                metadata: release.metadata,
                previous: release.previous,
                next: release.next,
                consumed: false,
            });
        }
        for node in served.iter().flat_map(|served| &served.nodes) {
            let Some(payload) = &node.payload else { continue };
            inputs.arches.entry(node.arch.clone()).or_default().push(Input {
                version: node.version.clone(),
                payload: payload.clone(),
                metadata: node.metadata.clone(),
                previous: Vec::new(),
                next: Vec::new(),
                consumed: true,
            });
        }
        inputs
    }

    /// The distinct versions, in order.
    pub(super) fn versions(&self) -> Vec<Version> {
        let mut versions: Vec<_> = self
            .arches
            .values()
            .flatten()
            .map(|input| input.version.clone())
            .collect();
        versions.sort_unstable();
        versions.dedup();
        versions
    }

    /// The channels that releases name themselves.
    pub(super) fn channel_names(&self) -> impl Iterator<Item = SmolStr> {
        self.arches
            .values()
            .flatten()
            .flat_map(|input| listed(&input.metadata, key::CHANNELS))
    }
}

/// The entries of a value that is a list joined by `,`.
pub(super) fn listed(metadata: &Metadata, key: &str) -> Vec<SmolStr> {
    let value = metadata.get_str(key).unwrap_or_default();
    value
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(SmolStr::new)
        .collect()
}
