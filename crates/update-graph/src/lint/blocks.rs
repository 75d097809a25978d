//! Rules of blocked edges and their risks.

use std::collections::{BTreeMap, BTreeSet};

use super::promql;
use crate::graph_data::{Block, Effect};
use crate::problem::{Problem, Rule, line_of_key};
use crate::risk::Risk;

/// A file under inspection.
struct File<'a> {
    path: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn report(&self, problems: &mut Vec<Problem>, key: &str, rule: Rule, message: impl Into<String>) {
        problems.push(Problem::in_file(
            self.path,
            line_of_key(self.text, key),
            rule,
            message,
        ));
    }
}

pub(super) fn check(blocks: &[Block], texts: &BTreeMap<&str, &str>, problems: &mut Vec<Problem>) {
    let mut queries = BTreeMap::new();
    let mut first: BTreeMap<&str, (&str, &Risk)> = BTreeMap::new();
    for block in blocks {
        let path = block.file.as_str();
        let file = File {
            path,
            text: texts.get(path).copied().unwrap_or_default(),
        };
        name_and_source(&file, block, problems);
        let Effect::Risk(risk) = &block.effect else {
            continue;
        };
        text_of(&file, risk, problems);
        rules_of(&file, risk, &mut queries, problems);
        let (known_file, known) = *first.entry(risk.name.as_str()).or_insert((path, risk.as_ref()));
        if *known != **risk {
            let differs = [
                ("url", known.url != risk.url),
                ("message", known.message != risk.message),
                ("matchingRules", known.matching_rules != risk.matching_rules),
            ];
            for (key, _) in differs.into_iter().filter(|(_, differs)| *differs) {
                let message = format!("{key} of {} is another than in {known_file}", risk.name);
                file.report(problems, key, Rule::RiskText, message);
            }
        }
    }
}

fn name_and_source(file: &File<'_>, block: &Block, problems: &mut Vec<Problem>) {
    let name = file.path.rsplit('/').next().unwrap_or(file.path);
    let to = block.to.to_string();
    let rest = name.strip_prefix(&to);
    if !rest.is_some_and(|rest| rest.starts_with(['.', '-', '+', '_'])) {
        file.report(
            problems,
            "to",
            Rule::BlockFileName,
            format!("the file's name does not start with {to}"),
        );
    }
    if let Some(from) = &block.from {
        let text = from.as_str();
        let last = text.trim_end_matches(')');
        let ends = [".*", "$", "[+]", "\\+", "[.]", "\\."];
        if !ends.iter().any(|end| last.ends_with(end)) {
            file.report(
                problems,
                "from",
                Rule::BlockAnchor,
                format!("{text} also hits versions that go on behind it"),
            );
        }
    }
}

fn text_of(file: &File<'_>, risk: &Risk, problems: &mut Vec<Problem>) {
    if !risk
        .url
        .strip_prefix("https://")
        .is_some_and(|host| !host.is_empty() && !host.contains(' '))
    {
        file.report(
            problems,
            "url",
            Rule::RiskUrl,
            format!("{:?} is no https URL", risk.url),
        );
    }
    let mut letters = risk.name.bytes();
    let camel = letters.next().is_some_and(|b| b.is_ascii_uppercase())
        && letters.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !camel {
        file.report(
            problems,
            "name",
            Rule::RiskName,
            format!("{:?} is no CamelCase name", risk.name),
        );
    }
    if risk.message.trim().is_empty() {
        file.report(problems, "message", Rule::RiskMessage, "the message is empty");
    }
}

fn rules_of<'a>(
    file: &File<'_>,
    risk: &'a Risk,
    queries: &mut BTreeMap<&'a str, Result<(), promql::PromqlError>>,
    problems: &mut Vec<Problem>,
) {
    let key = "matchingRules";
    let mut kinds = BTreeSet::new();
    for rule in &risk.matching_rules {
        if !kinds.insert(rule.kind.as_str()) {
            file.report(
                problems,
                key,
                Rule::RiskRules,
                format!("two rules of type {}", rule.kind),
            );
        }
        let query = rule.promql.as_ref().map(|promql| promql.promql.as_str());
        match (rule.kind.as_str(), query) {
            ("Always", None) => {}
            ("Always", Some(_)) => file.report(problems, key, Rule::RiskRules, "Always has no promql"),
            ("PromQL", Some(query)) if !query.trim().is_empty() => {
                let checked = queries.entry(query).or_insert_with(|| promql::check(query));
                if let Err(e) = checked {
                    file.report(problems, key, e.rule(), e.to_string());
                }
            }
            ("PromQL", _) => file.report(problems, key, Rule::RiskRules, "PromQL without a query"),
            (other, _) => {
                let message = format!("type {other:?}: clients know Always and PromQL");
                file.report(problems, key, Rule::RiskRules, message);
            }
        }
    }
}
