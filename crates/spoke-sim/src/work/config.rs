//! `spec.manifestConfigs`: which update strategy, feedback and condition rules apply to a resource.

use serde::Deserialize;

use crate::conditions::ConditionRule;
use crate::feedback::jsonpath::JsonPath;
use crate::store::ObjectKey;

/// `spec.manifestConfigs`, parsed, with its paths and expressions compiled.
#[derive(Debug, Default)]
pub struct Configs(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    group: String,
    resource: String,
    namespace: String,
    name: String,
    feedback: Vec<FeedbackRule>,
    scrape: WatchOrPoll,
    strategy: Option<Strategy>,
    conditions: Vec<ConditionRule>,
}

/// What applies to one resource. The first match applies, separately for each field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config<'a> {
    /// Feedback rules; empty when none matched.
    pub feedback: &'a [FeedbackRule],
    /// Condition rules; empty when none matched.
    pub conditions: &'a [ConditionRule],
    /// Update strategy, `Update` when none matched.
    pub strategy: Option<&'a Strategy>,
    /// How feedback is collected (the last match, as in the agent).
    pub scrape: WatchOrPoll,
}

/// `feedbackScrapeType`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum WatchOrPoll {
    /// At the agent's status sync interval.
    #[default]
    Poll,
    /// As soon as it changes.
    Watch,
}

/// `updateStrategy`
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Whole-object PUT.
    #[default]
    Update,
    /// Create when absent, then leave alone.
    CreateOnly,
    /// Server-side apply.
    ServerSideApply(ServerSideApply),
    /// Only read.
    ReadOnly,
}

/// `updateStrategy.serverSideApply`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApply {
    /// Whether fields are taken over from other managers.
    #[serde(default)]
    pub force: bool,
    /// Name in `managedFields`.
    #[serde(default = "default_manager")]
    pub field_manager: String,
    /// Fields that are left to the cluster.
    #[serde(default)]
    pub ignore_fields: Vec<IgnoredFields>,
}

impl Default for ServerSideApply {
    fn default() -> Self {
        Self {
            force: false,
            field_manager: default_manager(),
            ignore_fields: Vec::new(),
        }
    }
}

fn default_manager() -> String {
    "work-agent".to_owned()
}

/// One entry of `ignoreFields`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredFields {
    /// When the fields are ignored.
    pub condition: IgnoreWhen,
    /// Dotted paths of map fields.
    #[serde(default)]
    pub json_paths: Vec<String>,
}

/// `ignoreFields.condition`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum IgnoreWhen {
    /// Whenever the object exists.
    OnSpokePresent,
    /// While the manifest is unchanged.
    OnSpokeChange,
}

/// One feedback rule.
#[derive(Debug)]
pub enum FeedbackRule {
    /// The paths the agent knows for the kind.
    WellKnownStatus,
    /// Named paths.
    JsonPaths(Vec<FieldPath>),
}

/// One named path of a feedback rule.
#[derive(Debug)]
pub struct FieldPath {
    /// Name of the value.
    pub name: std::sync::Arc<str>,
    /// The path as written.
    pub text: String,
    /// Only for objects of this API version, when not empty.
    pub version: String,
    /// The compiled path, or the error of the parser.
    pub path: Result<JsonPath, String>,
}

impl FieldPath {
    /// Compiles a path.
    #[must_use]
    pub fn new(name: &str, text: &str, version: &str) -> Self {
        Self {
            name: name.into(),
            text: text.to_owned(),
            version: version.to_owned(),
            path: JsonPath::parse(text),
        }
    }
}

impl Configs {
    /// Parses the list.
    ///
    /// # Errors
    /// The text is not a list of manifest configurations.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let raw: Option<Vec<RawEntry>> = serde_json::from_str(text)?;
        Ok(Self(
            raw.unwrap_or_default().into_iter().map(Entry::from).collect(),
        ))
    }

    /// Whether any resource is only read.
    #[must_use]
    pub fn read_only(&self) -> bool {
        let mut entries = self.0.iter();
        entries.any(|entry| entry.strategy == Some(Strategy::ReadOnly))
    }

    /// What applies to a resource.
    #[must_use]
    pub fn of(&self, key: &ObjectKey) -> Config<'_> {
        let mut config = Config::default();
        for entry in self.0.iter().filter(|entry| entry.matches(key)) {
            if config.conditions.is_empty() {
                config.conditions = &entry.conditions;
            }
            if config.feedback.is_empty() {
                config.feedback = &entry.feedback;
            }
            config.strategy = config.strategy.or(entry.strategy.as_ref());
            config.scrape = entry.scrape;
        }
        config
    }
}

impl Entry {
    fn matches(&self, key: &ObjectKey) -> bool {
        self.group == key.group
            && self.resource == key.resource
            && wildcard(&self.namespace, &key.namespace)
            && wildcard(&self.name, &key.name)
    }
}

/// Whether a whole text matches a pattern, in which `*` matches any characters.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry {
    resource_identifier: RawIdentifier,
    #[serde(default)]
    feedback_rules: Option<Vec<RawFeedback>>,
    #[serde(default)]
    feedback_scrape_type: WatchOrPoll,
    #[serde(default)]
    update_strategy: Option<RawStrategy>,
    #[serde(default)]
    condition_rules: Option<Vec<ConditionRule>>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct RawIdentifier {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFeedback {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    json_paths: Option<Vec<RawPath>>,
}

#[derive(Deserialize)]
struct RawPath {
    name: String,
    path: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStrategy {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    server_side_apply: Option<ServerSideApply>,
}

impl From<RawEntry> for Entry {
    fn from(raw: RawEntry) -> Self {
        let feedback = raw
            .feedback_rules
            .unwrap_or_default()
            .into_iter()
            .filter_map(|rule| match rule.kind.as_str() {
                "WellKnownStatus" => Some(FeedbackRule::WellKnownStatus),
                "JSONPaths" => Some(FeedbackRule::JsonPaths(
                    rule.json_paths
                        .iter()
                        .flatten()
                        .map(|p| FieldPath::new(&p.name, &p.path, &p.version))
                        .collect(),
                )),
                _ => None,
            });
        Self {
            group: raw.resource_identifier.group,
            resource: raw.resource_identifier.resource,
            namespace: raw.resource_identifier.namespace,
            name: raw.resource_identifier.name,
            feedback: feedback.collect(),
            scrape: raw.feedback_scrape_type,
            strategy: raw.update_strategy.map(|strategy| match strategy.kind.as_str() {
                "CreateOnly" => Strategy::CreateOnly,
                "ReadOnly" => Strategy::ReadOnly,
                "ServerSideApply" => {
                    Strategy::ServerSideApply(strategy.server_side_apply.unwrap_or_default())
                }
                _ => Strategy::Update,
            }),
            conditions: raw.condition_rules.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Configs, Strategy, wildcard};
    use crate::store::ObjectKey;

    #[test]
    fn stars_match_any_run_anywhere() {
        let cases = [
            ("*", "anything", true),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("abc", "abcd", false),
            ("", "x", false),
            ("a*a", "a", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_match_wins_for_each_field_on_its_own() {
        let configs = Configs::parse(
            r#"[
            {"resourceIdentifier":{"group":"","resource":"configmaps","name":"a*","namespace":"ns"},
             "feedbackRules":[{"type":"JSONPaths","jsonPaths":[{"name":"one","path":".data.one"}]}]},
            {"resourceIdentifier":{"group":"","resource":"configmaps","name":"*","namespace":"*"},
             "feedbackRules":[{"type":"WellKnownStatus"}],
             "updateStrategy":{"type":"CreateOnly"}},
            {"resourceIdentifier":{"group":"","resource":"configmaps","name":"abc","namespace":"ns"},
             "updateStrategy":{"type":"ReadOnly"}}]"#,
        )
        .unwrap();
        let config = configs.of(&ObjectKey::parse("configmaps", "ns", "abc"));
        assert!(
            matches!(config.feedback, [super::FeedbackRule::JsonPaths(paths)] if &*paths[0].name == "one")
        );
        assert_eq!(config.strategy, Some(&Strategy::CreateOnly));
        assert!(
            configs
                .of(&ObjectKey::parse("secrets", "ns", "abc"))
                .strategy
                .is_none()
        );
    }
}
