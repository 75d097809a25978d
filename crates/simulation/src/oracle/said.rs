//! What a cluster says in its probe, as it is on the hub.

use std::collections::{BTreeMap, BTreeSet};

use hub_sim::At as _;
use serde_json::Value;

use super::fields::{text, version};

/// What a cluster says in its probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The version that the probe asks for.
    pub target: String,
    values: BTreeMap<String, String>,
    /// Messages of rules that could be evaluated.
    messages: BTreeMap<String, String>,
}

/// The version between the quotes of a path.
fn version_in(path: &str) -> &str {
    path.split('"').nth(1).unwrap_or_default()
}

impl Said {
    /// What the status of a probe says.
    pub(super) fn of(work: &Value) -> Self {
        let list = |value: &Value, pointer: &str| -> Vec<Value> {
            let found = value.at(pointer).and_then(Value::as_array);
            found.cloned().unwrap_or_default()
        };
        let mut said = Self::default();
        for config in list(work, "/spec/manifestConfigs") {
            for path in list(&config, "/feedbackRules/0/jsonPaths") {
                if text(&path, "/name") == "targetImage" {
                    version_in(text(&path, "/path")).clone_into(&mut said.target);
                }
            }
        }
        for manifest in list(work, "/status/resourceStatus/manifests") {
            let is_available = |condition: &Value| {
                text(condition, "/type") == "Available" && text(condition, "/status") == "True"
            };
            let conditions = list(&manifest, "/conditions");
            if !conditions.iter().any(is_available) {
                continue;
            }
            for value in list(&manifest, "/statusFeedback/values") {
                let told = text(&value, "/fieldValue/string");
                said.values
                    .insert(text(&value, "/name").to_owned(), told.to_owned());
            }
            let rules = conditions.iter().filter(|one| text(one, "/status") == "True");
            let rules = rules.filter(|one| text(one, "/type").starts_with("Upgrade"));
            said.messages.extend(rules.map(|rule| {
                let told = text(rule, "/message");
                (text(rule, "/type").to_owned(), told.to_owned())
            }));
        }
        said
    }

    /// Whether the cluster tells which version it runs. Without that it has not answered.
    pub(super) fn is_told(&self) -> bool {
        version(self.value("desiredVersion")).is_some()
    }

    pub(super) fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// The lines of a message after its first one, which must be this.
    fn lines(&self, rule: &str, head: &str) -> Option<Vec<&str>> {
        let mut lines = self.messages.get(rule)?.lines();
        (lines.next() == Some(head)).then(|| lines.collect())
    }

    fn offer(&self) -> Vec<&str> {
        self.lines("UpgradeOffer", "offer/1").unwrap_or_default()
    }

    /// Whether the cluster recommends the target, with or without risks that do not apply.
    pub(super) fn recommends(&self) -> bool {
        let offer = self.offer();
        let mut updates = offer.iter().filter_map(|line| line.strip_prefix("update "));
        match updates.next() {
            Some(update) => update.starts_with("True "),
            None => offer.iter().any(|line| line.starts_with("listed ")),
        }
    }

    /// The risks of the target: whether each applies, and its name.
    pub(super) fn risks(&self) -> Vec<(&str, &str)> {
        let offer = self.offer().into_iter();
        let risks = offer.filter_map(|line| line.strip_prefix("risk ")?.split_once(' '));
        risks
            .map(|(state, rest)| (state, rest.split(' ').next().unwrap_or_default()))
            .collect()
    }

    /// Whether the cluster tells this image of the target.
    pub(super) fn tells_image(&self, image: &str) -> bool {
        self.offer().iter().any(|line| line.ends_with(image))
    }

    /// The gates that nobody has acknowledged on the cluster; `None` if it does not tell.
    pub(super) fn open_gates(&self) -> Option<BTreeSet<String>> {
        let keys = |rule| -> Option<BTreeSet<String>> {
            let lines = self.lines(rule, "keys/1")?.into_iter();
            let keys = lines.map(|line| line.strip_prefix("key ").unwrap_or(line));
            Some(
                keys.map(|key| key.split(' ').next().unwrap_or_default().to_owned())
                    .collect(),
            )
        };
        let acks = keys("UpgradeAcks").unwrap_or_default();
        let gates = keys("UpgradeGates")?;
        Some(gates.difference(&acks).cloned().collect())
    }

    /// Whether the cluster tells of its worker pools, and none of them needs a person.
    pub(super) fn has_sound_pools(&self) -> bool {
        let is_paused = self.lines("UpgradePausedPool", "paused/1") == Some(vec!["worker"]);
        let lines = self.lines("UpgradeWorkerPools", "pools/1");
        lines.is_some_and(|lines| {
            let needs_person = |line: &&str| line.starts_with("degraded ") || line.starts_with("paused ");
            lines.contains(&"told") && !lines.iter().any(needs_person) && !is_paused
        })
    }
}
