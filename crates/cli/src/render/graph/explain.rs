//! The explanation of why an update is offered, conditional or missing.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use update_graph::query::Explanation;

use super::{heading, machine};
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::table::{Cell, Table, or_none};

/// An explanation in the format of update services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    arch: String,
    from: String,
    to: String,
    verdict: String,
    message: String,
    #[serde(default)]
    channels: Vec<String>,
    #[serde(default)]
    risks: Vec<Risk>,
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Risk {
    name: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    always: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cause {
    file: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    risk: Option<String>,
    regex: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fixed_in: Option<String>,
}

impl TryFrom<&Explanation> for Shown {
    type Error = serde_json::Error;

    fn try_from(explanation: &Explanation) -> Result<Self, Self::Error> {
        serde_json::from_value(serde_json::to_value(explanation)?)
    }
}

/// Renders the explanation in the requested format.
#[must_use]
pub fn render(shown: &Shown, output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return format!("{}\n", shown.verdict);
    }
    machine(output, shown).unwrap_or_else(|| text(shown, paint))
}

fn text(shown: &Shown, paint: Paint) -> String {
    let mut text = String::new();
    let verdict = paint.tone(tone(&shown.verdict), &words(&shown.verdict));
    let _ = writeln!(
        text,
        "Update:     {} -> {} ({})",
        shown.from, shown.to, shown.arch
    );
    let _ = writeln!(text, "Verdict:    {verdict}");
    let _ = writeln!(text, "Reason:     {}", shown.message);
    let _ = writeln!(text, "Channels:   {}", or_none(&shown.channels.join(", ")));
    if !shown.causes.is_empty() {
        text.push_str(&heading("Rules for this update", paint));
        let mut table = Table::new(&["FILE", "EFFECT", "RISK", "FROM", "FIXED IN"]);
        for cause in &shown.causes {
            table.push(vec![
                Cell::from(if cause.file.is_empty() {
                    "release metadata"
                } else {
                    &cause.file
                }),
                words(&cause.kind).into(),
                or_none(cause.risk.as_deref().unwrap_or_default()).into(),
                cause.regex.as_str().into(),
                or_none(cause.fixed_in.as_deref().unwrap_or_default()).into(),
            ]);
        }
        text.push_str(&table.render(paint, 0));
    }
    if !shown.risks.is_empty() {
        text.push_str(&heading("Risks", paint));
        let mut table = Table::new(&["RISK", "EXPOSED", "URL", "MESSAGE"]);
        for risk in &shown.risks {
            table.push(vec![
                risk.name.as_str().into(),
                super::exposed(risk.always).into(),
                risk.url.as_str().into(),
                risk.message.as_str().into(),
            ]);
        }
        text.push_str(&table.render(paint, 0));
    }
    text
}

fn tone(verdict: &str) -> Tone {
    match verdict {
        "open" => Tone::Good,
        "conditional" => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// `removedByMetadata` as `Removed by metadata`.
fn words(camel: &str) -> String {
    let mut text = String::new();
    for (at, c) in camel.chars().enumerate() {
        if at == 0 {
            text.extend(c.to_uppercase());
        } else if c.is_uppercase() {
            text.push(' ');
            text.extend(c.to_lowercase());
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{graph, version};
    use super::*;
    use update_graph::Arch;
    use update_graph::query::{ExplainQuery, explain};

    fn shown(from: &str, to: &str, output: Option<Output>) -> String {
        let query = ExplainQuery {
            arch: Arch::amd64(),
            from: version(from),
            to: version(to),
            channels: Vec::new(),
        };
        let shown = Shown::try_from(&explain(&graph(), &query)).unwrap();
        render(&shown, output, Paint::Never)
    }

    #[test]
    fn a_conditional_update_is_explained_by_file_risk_and_expression() {
        insta::assert_snapshot!(shown("4.13.1", "4.14.2", None));
    }

    #[test]
    fn a_blocked_update_is_explained_by_its_file() {
        insta::assert_snapshot!(shown("4.13.1", "4.14.3", None));
        assert_eq!(shown("4.13.1", "4.14.3", Some(Output::Name)), "blocked\n");
    }

    #[test]
    fn machines_get_what_a_service_answers() {
        insta::assert_snapshot!(shown("4.13.1", "4.14.2", Some(Output::Yaml)));
    }

    #[test]
    fn words_are_made_of_names() {
        assert_eq!(words("removedByMetadata"), "Removed by metadata");
    }
}
