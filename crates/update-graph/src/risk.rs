//! Risks: the named reasons that make an edge conditional, with the rules that say which clusters are exposed.

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// A risk, serialised in the form that shipped: `{url, name, message, matchingRules}`.
///
/// It is read in that form, and in the form of an early draft of the protocol: `reason` for `name`, `clusters.promql` or
/// `blockedClusters.promql` for the rules, no such key for `Always`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Risk {
    /// Where to read more.
    pub url: String,
    /// What administrators accept it by. Unique within an edge.
    pub name: SmolStr,
    /// What happens to whom.
    pub message: String,
    /// Which clusters are exposed: the first rule that can be evaluated decides.
    #[serde(rename = "matchingRules")]
    pub matching_rules: Vec<MatchingRule>,
}

/// One rule: `Always`, or `PromQL` with a query that gives 1 (exposed) or 0. Other types are passed on as they are; a
/// client prunes what it does not know and drops a target that is left without rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MatchingRule {
    /// `Always` or `PromQL`.
    #[serde(rename = "type")]
    pub kind: SmolStr,
    /// The query; absent for `Always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promql: Option<PromQl>,
}

/// A query against the cluster's own monitoring.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PromQl {
    /// The text, verbatim, trailing newline included.
    pub promql: String,
}

impl MatchingRule {
    /// Every cluster is exposed.
    #[must_use]
    pub fn always() -> Self {
        Self {
            kind: SmolStr::new_static("Always"),
            promql: None,
        }
    }

    /// Those are exposed for which the query gives 1.
    #[must_use]
    pub fn promql(query: impl Into<String>) -> Self {
        Self {
            kind: SmolStr::new_static("PromQL"),
            promql: Some(PromQl { promql: query.into() }),
        }
    }
}

impl Risk {
    /// True when every cluster is exposed.
    #[must_use]
    pub fn is_always(&self) -> bool {
        self.matching_rules.iter().any(|rule| rule.kind == "Always")
    }
}

/// What a mapping said of a risk, before it is known whether it is whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct RiskFields {
    pub url: Option<String>,
    pub name: Option<String>,
    pub message: Option<String>,
    pub rules: Option<Vec<MatchingRule>>,
    /// The draft's `clusters` was there.
    pub draft: bool,
    /// A query in the draft's form.
    pub draft_promql: Option<String>,
}

/// The draft's `{promql: …}`.
#[derive(Deserialize)]
struct DraftClusters {
    promql: Option<String>,
}

impl RiskFields {
    /// Takes one key of a mapping; `false` if the key is not one of a risk's, its value is then still to be read.
    pub(crate) fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        fn once<T, E: serde::de::Error>(slot: &mut Option<T>, key: &str, value: T) -> Result<(), E> {
            match slot.replace(value) {
                Some(_) => Err(E::custom(format_args!("duplicate field `{key}`"))),
                None => Ok(()),
            }
        }
        match key {
            "url" => once(&mut self.url, key, map.next_value()?)?,
            "name" => once(&mut self.name, key, map.next_value()?)?,
            "reason" => {
                self.draft = true;
                once(&mut self.name, key, map.next_value()?)?;
            }
            "message" => once(&mut self.message, key, map.next_value()?)?,
            "matchingRules" => once(&mut self.rules, key, map.next_value()?)?,
            "clusters" | "blockedClusters" => {
                self.draft = true;
                if let Some(DraftClusters { promql: Some(query) }) = map.next_value()? {
                    once(&mut self.draft_promql, key, query)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// True when nothing is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.url.is_none()
            && self.name.is_none()
            && self.message.is_none()
            && self.rules.is_none()
            && !self.draft
    }

    /// The risk, if it is whole: all four fields in the form that shipped; a name in the draft's.
    pub(crate) fn whole(self) -> Option<Risk> {
        let draft = self.draft && self.rules.is_none();
        let name = SmolStr::from(self.name?);
        if draft {
            let rule = self
                .draft_promql
                .map_or_else(MatchingRule::always, MatchingRule::promql);
            return Some(Risk {
                url: self.url.unwrap_or_default(),
                name,
                message: self.message.unwrap_or_default(),
                matching_rules: vec![rule],
            });
        }
        let rules = self.rules.filter(|rules| !rules.is_empty())?;
        Some(Risk {
            url: self.url?,
            name,
            message: self.message?,
            matching_rules: rules,
        })
    }
}

impl<'de> Deserialize<'de> for Risk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Mapping;
        impl<'de> Visitor<'de> for Mapping {
            type Value = Risk;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a risk")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Risk, A::Error> {
                let mut fields = RiskFields::default();
                while let Some(key) = map.next_key::<String>()? {
                    if !fields.take(&key, &mut map)? {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                let incomplete = "a risk has url, name, message and matchingRules";
                fields.whole().ok_or_else(|| serde::de::Error::custom(incomplete))
            }
        }
        deserializer.deserialize_map(Mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_that_shipped_is_written_and_both_are_read() {
        let shipped = r#"{"url":"https://e/1","name":"Leak","message":"m","matchingRules":[{"type":"PromQL","promql":{"promql":"up\n"}}]}"#;
        let draft =
            r#"{"url":"https://e/1","reason":"Leak","message":"m","blockedClusters":{"promql":"up\n"}}"#;
        let risk: Risk = serde_json::from_str(shipped).unwrap();
        assert_eq!(serde_json::from_str::<Risk>(draft).unwrap(), risk);
        assert_eq!(serde_json::to_string(&risk).unwrap(), shipped);
        let always: Risk = serde_json::from_str(r#"{"reason":"Leak"}"#).unwrap();
        assert!(always.is_always());
        assert!(
            serde_json::to_string(&always)
                .unwrap()
                .ends_with(r#""matchingRules":[{"type":"Always"}]}"#)
        );
    }

    #[test]
    fn a_part_of_a_risk_or_a_field_twice_is_refused() {
        for text in [
            r#"{"url":"https://e/1","name":"Leak","message":"m"}"#,
            r#"{"url":"https://e/1","name":"Leak","message":"m","matchingRules":[]}"#,
            r#"{"url":"u","url":"u","name":"Leak","message":"m","matchingRules":[{"type":"Always"}]}"#,
            r#"{"name":"Leak","reason":"Leak"}"#,
        ] {
            assert!(serde_json::from_str::<Risk>(text).is_err(), "{text}");
        }
    }
}
