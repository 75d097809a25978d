//! Answers of an update graph as tables and text.

pub mod channels;
pub mod diff;
pub mod explain;
pub mod next;
pub mod path;
pub mod stranded;

use serde::Serialize;
use serde_json::Value;
use update_graph::query::RiskNote;

use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::render::objects::{self, list};
use crate::table::{Cell, Table};

/// The answer in a machine-readable format; `None` if a human-readable format or names are requested.
fn machine(output: Option<Output>, answer: &impl Serialize) -> Option<String> {
    let value = || serde_json::to_value(answer).unwrap_or_default();
    objects::machine(output, value)
}

/// Several answers in a machine-readable format, as a `v1` List.
fn machine_list<T: Serialize>(output: Option<Output>, answers: &[T]) -> Option<String> {
    let values = || -> Vec<Value> {
        answers
            .iter()
            .filter_map(|answer| serde_json::to_value(answer).ok())
            .collect()
    };
    objects::machine(output, || list(&values()))
}

fn is_wide(output: Option<Output>) -> bool {
    output == Some(Output::Wide)
}

/// A heading, preceded by an empty line.
fn heading(text: &str, paint: Paint) -> String {
    format!("\n{}\n", paint.tone(Tone::Bold, text))
}

/// The names of risks, or `<none>`.
fn names(risks: &[RiskNote]) -> String {
    let names: Vec<&str> = risks.iter().map(|risk| risk.name.as_str()).collect();
    joined(&names)
}

fn joined<T: AsRef<str>>(texts: &[T]) -> String {
    if texts.is_empty() {
        return "<none>".to_owned();
    }
    texts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(",")
}

/// The table of risks, each once and ordered by name; empty without risks.
fn risks<'a>(risks: impl Iterator<Item = &'a RiskNote>, wide: bool, paint: Paint) -> String {
    let mut all: Vec<&RiskNote> = risks.collect();
    all.sort();
    all.dedup();
    if all.is_empty() {
        return String::new();
    }
    let narrow = ["RISK", "EXPOSED", "URL"];
    let with_message = ["RISK", "EXPOSED", "URL", "MESSAGE"];
    let mut table = Table::new(if wide { &with_message[..] } else { &narrow[..] });
    for risk in all {
        let mut row: Vec<Cell> = vec![
            risk.name.as_str().into(),
            exposed(risk.always).into(),
            risk.url.as_str().into(),
        ];
        if wide {
            row.push(risk.message.as_str().into());
        }
        table.push(row);
    }
    format!("\n{}", table.render(paint, 0))
}

/// The clusters that are exposed to a risk.
const fn exposed(always: bool) -> &'static str {
    if always { "Always" } else { "If matched" }
}

#[cfg(test)]
pub(crate) mod fixtures {
    use std::sync::Arc;

    use update_graph::{Arch, Builder, Graph, GraphData, release_list};

    /// Six releases of two minor versions with a risk, a silent block and an edge that nobody declares.
    pub(crate) fn graph() -> Graph {
        with_block(
            "blocked-edges/4.14.3.yaml",
            "to: 4.14.3\nfrom: ^4[.]13[.]1[+].*$\n",
        )
    }

    /// The same with another blocked-edges file.
    pub(crate) fn with_block(file: &str, text: &str) -> Graph {
        let release = |version: &str, previous: &[&str]| {
            serde_json::json!({
                "version": version, "payload": format!("registry.example.com/release@sha256:{:064}", version.len()),
                "metadata": {"url": format!("https://errata.example.com/{version}")}, "previous": previous,
            })
        };
        let releases = serde_json::json!([
            release("4.13.1", &[]),
            release("4.13.2", &["4.13.1"]),
            release("4.14.2", &["4.13.1", "4.13.2"]),
            release("4.14.3", &["4.13.1", "4.13.2", "4.14.2"]),
            release("4.14.4-rc.1", &["4.14.3"]),
            release("4.15.0", &["4.14.3"]),
        ]);
        let channel = |name: &str, versions: &str| {
            (
                format!("channels/{name}.yaml"),
                format!("name: {name}\nversions: [{versions}]\n"),
            )
        };
        let risk = "to: 4.14.2\nfrom: ^4[.]13[.].*$\nfixedIn: 4.14.3\nurl: https://example.com/leak\nname: SlowLeak\n\
                    message: Memory is lost on clusters of that platform.\nmatchingRules:\n- type: Always\n";
        let files = [
            ("version".to_owned(), "1.1.0\n".to_owned()),
            channel("stable-4.13", "4.13.1, 4.13.2"),
            channel("stable-4.14", "4.13.1, 4.13.2, 4.14.2, 4.14.3"),
            channel("candidate-4.15", "4.14.2, 4.14.3, 4.14.4-rc.1, 4.15.0"),
            ("blocked-edges/4.14.2-SlowLeak.yaml".to_owned(), risk.to_owned()),
            (file.to_owned(), text.to_owned()),
        ];
        let files = files.map(|(path, text)| (path, text.into_bytes()));
        let (data, _) = GraphData::from_files(files, 1).unwrap();
        let list = release_list::parse(releases.to_string().as_bytes(), &Arch::amd64()).unwrap();
        Builder::new().list(list).graph_data(Arc::new(data)).build().0
    }

    pub(crate) fn version(text: &str) -> update_graph::Version {
        text.parse().unwrap()
    }
}
