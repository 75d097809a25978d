//! The worker pools of a cluster, as its machine-config operator tells them in `ClusterOperator` `machine-config`.
//!
//! The operator describes each pool in a sentence of `.status.extension`. The rule counts the pools by state and names two of each, so
//! that its text does not depend on the order in which an agent reads them. It does not tell that a pool is paused while its nodes are up to
//! date, so before an update pool `worker` itself is asked.

use super::facts::{Fact, Missing, PoolGroup, PoolState, Pools};
use super::judge::{PreflightReason, pool_reason};
use super::recipe::{Rule, one_line, unreadable};
use crate::version;

/// Condition of [`pools_rule`].
pub const POOLS: &str = "UpgradeWorkerPools";
/// Condition of [`paused_rule`].
pub const PAUSED: &str = "UpgradePausedPool";
/// First line of the message of [`pools_rule`].
const HEAD: &str = "pools/1";
/// First line of the message of [`paused_rule`].
const PAUSED_HEAD: &str = "paused/1";
/// The pool of all worker nodes that are in no other one. Every cluster has it.
pub const WORKER: &str = "worker";
/// Keys of `.status.extension` that are no pools of workers: the operator waits for these two pools itself.
const OTHERS: &str = r#"["lastSyncError", "master", "arbiter"]"#;
/// Longest name of a pool.
const MAX_NAME: usize = 63;

impl PoolState {
    const ALL: [PoolState; 4] = [
        PoolState::Degraded,
        PoolState::Paused,
        PoolState::Updating,
        PoolState::Updated,
    ];

    const fn word(self) -> &'static str {
        match self {
            PoolState::Degraded => "degraded",
            PoolState::Paused => "paused",
            PoolState::Updating => "updating",
            PoolState::Updated => "updated",
        }
    }
}

/// The rule of `ClusterOperator` `machine-config`: its version, and how many worker pools are in which state.
///
/// An operator that does not tell of pool `master`, which every cluster has, has not told anything. A pool that is paused with a
/// configuration to come is neither updated nor updating; the operator calls that `<unknown>`.
#[must_use]
pub fn pools_rule() -> Rule {
    let text = "string(object.status.extension[k])";
    let degraded = format!(r#"{text}.startsWith("pool is degraded")"#);
    let paused = format!(r#"{text} == "<unknown>""#);
    let updated =
        format!(r#"{text}.startsWith("all ") && {text}.contains(" nodes are at latest configuration ")"#);
    let updating = format!("!({degraded}) && !({paused}) && !({updated})");
    let groups = [
        (PoolState::Degraded, degraded),
        (PoolState::Paused, paused),
        (PoolState::Updating, updating),
        (PoolState::Updated, updated),
    ]
    .map(|(state, holds)| {
        format!(
            r#" + [pools.filter(k, {holds})].map(l, l.size() == 0 ? [] : ["{} " + string(l.size()) + " " + l.min() + (l.size() > 1 ? " " + l.max() : "")])[0]"#,
            state.word()
        )
    });
    let message = format!(
        r#"(["{HEAD}"]
 + (has(object.status.versions) && object.status.versions != null
    ? object.status.versions.filter(v, v.name == "operator").map(v, "version " + v.version) : [])
 + (has(object.status.extension) && object.status.extension != null && object.status.extension.exists(k, k == "master")
    ? [object.status.extension.map(k, k).filter(k, !(k in {OTHERS}))].map(pools, ["told"]{})[0]
    : [])).join("\n")"#,
        groups.concat()
    );
    Rule {
        condition: POOLS,
        message: one_line(&message),
    }
}

/// The rule of `MachineConfigPool` [`WORKER`]: its name if it is paused. One without nodes is updated at once even then.
#[must_use]
pub fn paused_rule() -> Rule {
    let message = format!(
        r#""{PAUSED_HEAD}" + (has(object.spec.paused) && object.spec.paused
    && !(has(object.status) && has(object.status.machineCount) && object.status.machineCount == 0) ? "\n{WORKER}" : "")"#
    );
    Rule {
        condition: PAUSED,
        message: one_line(&message),
    }
}

/// Reads the message of [`paused_rule`]: whether the pool is paused.
///
/// # Errors
/// It is not a message of the rule.
pub fn read_paused(message: &str) -> Fact<bool> {
    let mut lines = message.lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(PAUSED_HEAD), None, None) => Ok(false),
        (Some(PAUSED_HEAD), Some(WORKER), None) => Ok(true),
        _ => Err(unreadable(PAUSED, message)),
    }
}

/// Reads the message of [`pools_rule`].
///
/// # Errors
/// It is not a message of the rule, or the operator has not told anything of its pools.
pub fn read_pools(message: &str) -> Fact<Pools> {
    let unreadable = || unreadable(POOLS, message);
    let mut lines = message.lines();
    if lines.next() != Some(HEAD) {
        return Err(unreadable());
    }
    let mut pools = Pools::default();
    let mut is_told = false;
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["told"] => is_told = true,
            ["version", told] if version::parse(told).is_some() => (*told).clone_into(&mut pools.version),
            [state, count, names @ ..] => {
                let group = group(state, count, names).ok_or_else(unreadable)?;
                if pools.groups.iter().any(|known| known.state == group.state) {
                    return Err(unreadable());
                }
                pools.groups.push(group);
            }
            _ => return Err(unreadable()),
        }
    }
    if is_told { Ok(pools) } else { Err(Missing::Pending) }
}

fn group(state: &str, count: &str, names: &[&str]) -> Option<PoolGroup> {
    let state = PoolState::ALL.into_iter().find(|known| known.word() == state)?;
    let count: usize = count.parse().ok()?;
    let is_name = |name: &&str| {
        let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
        !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_plain)
    };
    let fits = names.len() == count.min(2) && count > 0 && names.iter().all(is_name);
    fits.then(|| PoolGroup {
        state,
        count,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    })
}

impl PoolGroup {
    /// Which pools are in which state, for humans.
    #[must_use]
    pub fn text(&self) -> String {
        let more = match self.count.saturating_sub(self.names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let verb = if self.count == 1 {
            "MachineConfigPool is"
        } else {
            "MachineConfigPools are"
        };
        format!("{verb} {}: {}{more}", self.state.word(), self.names.join(", "))
    }
}

impl Pools {
    /// Pool [`WORKER`] if it is paused and the operator does not tell it.
    #[must_use]
    pub(super) fn paused_worker(&self) -> Option<PoolGroup> {
        let paused = self
            .groups
            .iter()
            .filter(|group| group.state == PoolState::Paused);
        let is_told = paused.flat_map(|group| &group.names).any(|name| name == WORKER);
        (self.worker_is_paused && !is_told).then(|| PoolGroup {
            state: PoolState::Paused,
            count: 1,
            names: vec![WORKER.to_owned()],
        })
    }

    /// Why the pools do not all run the version that the cluster runs: what a person must do first. `None` if they do.
    #[must_use]
    pub fn behind(&self, current: &str) -> Option<(Option<PreflightReason>, String)> {
        let groups = || {
            self.groups
                .iter()
                .filter(|group| group.state != PoolState::Updated)
        };
        if let Some(worst) = groups().min_by_key(|group| group.state as usize) {
            let texts: Vec<String> = groups().map(PoolGroup::text).collect();
            return Some((pool_reason(worst.state), texts.join("; ")));
        }
        (self.version != current).then(|| {
            let text = match self.version.as_str() {
                "" => "The machine-config operator does not tell its version".to_owned(),
                version => format!("The machine-config operator still has version {version}"),
            };
            (None, text)
        })
    }
}

#[cfg(test)]
mod tests;
