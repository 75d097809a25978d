//! Problems: what was found wrong in the input, where, by which rule, and what to do about it.

use std::fmt;

use serde::{Serialize, Serializer};
use smol_str::SmolStr;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Works, but should be repaired.
    Warning,
    /// Something was refused, dropped, or blocks more than it says.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

macro_rules! rules {
    ($($variant:ident, $name:literal, $severity:ident, $remedy:literal, $doc:literal;)*) => {
        /// What a problem is an instance of. A closed set: fit for a metric's label.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $doc] $variant,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name, in kebab case.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How bad a breach is.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// What to do about it.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }

            /// What the rule says.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

rules! {
    SchemaVersion, "schema-version", Error, "write a version of major 1 into the file `version`, such as 1.1.0",
        "The file `version` must hold a semantic version of major 1.";
    SchemaMinor, "schema-minor", Note, "check whether a newer update-graph knows this schema",
        "A minor version of the schema above 2 is read with what is known.";
    Archive, "archive", Error, "pack plain files with the file `version` at the root or in one top directory",
        "The archive must be readable and hold plain files only.";
    RawMetadata, "raw-metadata", Error, "write {VERSION: {KEY: VALUE}} with semantic versions",
        "raw/metadata.json must be an object of objects.";
    ChannelsMissing, "channels-missing", Error, "add channels/NAME.yaml; if they are there, check the mount, copy or archive",
        "Without a channel no release is served, and a copy that lacks the directory looks the same.";
    BlocksMissing, "blocks-missing", Warning, "check the mount, copy or archive, unless nothing is to be blocked",
        "A data set without a blocked edge opens every edge, and a copy that lacks the directory looks the same.";
    ChannelUnreadable, "channel-unreadable", Error, "write a YAML mapping with `name` and `versions`",
        "A channel file that cannot be read refuses the data set: its releases would vanish.";
    ChannelName, "channel-name", Warning, "use one name for the file and the channel, such as stable-4.14, and one file per name",
        "The name of a channel equals its file's name, has a `-`, holds only what a request can ask for, and is unique.";
    ChannelVersion, "channel-version", Error, "write semantic versions, such as 4.14.3 or 4.2.14+amd64",
        "An entry of a channel that is no version is left out.";
    ChannelDuplicate, "channel-duplicate", Warning, "list each version once",
        "A channel lists a version once.";
    ChannelOrder, "channel-order", Warning, "add the version to the wider channel too, or take it out of the narrower one",
        "What is in stable is in fast, and what is in fast is in candidate.";
    BlockTarget, "block-target", Error, "name one release in `to`, such as 4.14.3",
        "A blocked edge whose `to` cannot be read refuses the data set: nobody can tell what it blocks.";
    BlockUnreadable, "block-unreadable", Error, "repair the file; until then it blocks without exception",
        "A blocked edge that cannot be read in full blocks what can be read of it.";
    BlockRegex, "block-regex", Error, "write a regular expression of the Rust regex crate; until then every source is blocked",
        "`from` must be a regular expression.";
    BlockField, "block-field", Error, "write exactly `to` and `from`, or all of url, name, message and matchingRules",
        "A blocked edge is a silent block (`to`, `from`) or a whole risk.";
    BlockFileName, "block-file-name", Warning, "start the file's name with the version in `to`",
        "The name of a blocked-edges file starts with its `to`.";
    BlockAnchor, "block-anchor", Note, "anchor the expression at both ends, in the manner of ^4[.]14[.]([3-8])[+].*$",
        "`from` is searched unanchored in VERSION+ARCH: 4[.]14[.]3 hits 4.14.30 as well.";
    BlockSkipped, "file-skipped", Error, "give the file the extension yaml, directly in its directory",
        "A file among the blocked edges or channels that is not read.";
    RiskUrl, "risk-url", Warning, "give an https URL",
        "The url of a risk is an https URL.";
    RiskName, "risk-name", Warning, "name the risk in CamelCase: ^[A-Z][A-Za-z0-9_]*$",
        "The name of a risk fits the reason of a condition.";
    RiskMessage, "risk-message", Warning, "say in a sentence what happens to whom",
        "A risk has a message.";
    RiskRules, "risk-rules", Error, "give one rule of each type at most, of type Always or PromQL, PromQL with a query",
        "Clients drop a target whose risk has no rule that they know.";
    RiskText, "risk-text", Error, "give one url, message and matchingRules to all files of one name",
        "Risks of one name are equal everywhere.";
    Errata, "errata", Warning, "point url to the errata page of the release",
        "A release of a stable or fast channel has a link to its errata.";
    PromqlSyntax, "promql-syntax", Warning, "repair the query: a cluster cannot evaluate it",
        "A rule of type `PromQL` parses.";
    PromqlFeature, "promql-feature", Warning, "stay within instant selectors, max_over_time, label_replace, group, topk, bottomk, max, count, and, or, arithmetic",
        "A rule of type `PromQL` stays within the features in use.";
    Stranded, "stranded", Note, "add an edge to a newer release, or leave it if nobody may run it",
        "A release with newer ones beside it that leads nowhere, or only over conditional edges.";
    ReleaseDuplicate, "release-duplicate", Error, "remove one of the images",
        "One version of one architecture has one payload.";
    ReleaseVersion, "release-version", Error, "write semantic versions into previous and next",
        "An entry of previous or next that is no version is left out.";
    ReleaseMetadataValue, "release-metadata", Error, "repair the value: no client can read it",
        "Metadata with a meaning is of the form that clients and services expect.";
    EdgeDown, "edge-down", Error, "take the entry out of previous or next",
        "An edge leads up. One that does not would close a circle, and is dropped.";
    EdgeUnknown, "edge-unknown", Note, "add the release, or take the entry out",
        "An edge whose end is no known release is left out.";
    EdgeDuplicate, "edge-duplicate", Warning, "serve each pair once",
        "A served graph names a pair once.";
    Disconnected, "disconnected", Note, "add the edges that are missing, if any are",
        "The releases of an architecture hang together.";
    PolicyUnmatched, "policy-unmatched", Warning, "take the entry out of the policy, or correct it",
        "An entry of a policy that concerns no release or edge.";
    PolicyBlocked, "policy-blocked", Warning, "unblock the edge in graph-data",
        "A policy adds no edge that graph-data or metadata blocks.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file inside graph-data; empty for what concerns no file.
    pub file: SmolStr,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The rule that is broken.
    pub rule: Rule,
    /// What was found.
    pub message: String,
}

impl Problem {
    /// A problem without place.
    pub(crate) fn new(rule: Rule, message: impl Into<String>) -> Self {
        Self {
            file: SmolStr::default(),
            line: None,
            rule,
            message: message.into(),
        }
    }

    /// A problem of a file.
    pub(crate) fn in_file(file: &str, line: Option<u32>, rule: Rule, message: impl Into<String>) -> Self {
        Self {
            file: SmolStr::new(file),
            line,
            rule,
            message: message.into(),
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.rule.severity()
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        self.rule.remedy()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        write!(f, "{}: {} [{}]", self.severity(), self.message, self.rule)
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut s = serializer.serialize_struct("Problem", 6)?;
        s.serialize_field("file", &self.file)?;
        s.serialize_field("line", &self.line)?;
        s.serialize_field("rule", &self.rule)?;
        s.serialize_field("severity", &self.severity())?;
        s.serialize_field("message", &self.message)?;
        s.serialize_field("remedy", self.remedy())?;
        s.end()
    }
}

/// The line of a top-level key in a YAML mapping, from 1.
pub(crate) fn line_of_key(text: &str, key: &str) -> Option<u32> {
    let found = text
        .lines()
        .position(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))?;
    u32::try_from(found + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_where_what_and_the_way_out() {
        let problem = Problem::in_file(
            "blocked-edges/4.1.0.yaml",
            Some(2),
            Rule::BlockRegex,
            "unclosed group",
        );
        assert_eq!(
            problem.to_string(),
            "blocked-edges/4.1.0.yaml:2: error: unclosed group [block-regex]"
        );
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["severity"], "error");
        assert!(
            json["remedy"]
                .as_str()
                .unwrap()
                .contains("every source is blocked")
        );
    }

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = Rule::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(names.len(), Rule::ALL.len());
    }
}
