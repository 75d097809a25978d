//! Conditions, phases, causes and events: everything a pipeline or an alert may match on.
//!
//! Meanings are the comments beside the definitions; where these are constants, the comments are read from the source.

use api::report::Phase;
use controller::events::reason::{EventReason, Scope};

use super::{cell, table};

const CONDITIONS: &str = include_str!("../../../api/src/conditions.rs");
const REPORT: &str = include_str!("../../../api/src/report.rs");

pub(super) fn render() -> String {
    let (types, reasons) = CONDITIONS
        .split_once("pub mod reason")
        .unwrap_or((CONDITIONS, ""));
    let mut text = String::from(
        "# Conditions, phases and reasons\n\nClosed sets: a value is added, never renamed, within `v1beta1`.\n\n\
         ## Conditions of a ManagedClustersUpgrade\n\nAll of them are always present, with `observedGeneration`.\n\n",
    );
    let known = |name: &str| api::conditions::TYPES.contains(&name);
    text.push_str(&table(
        ["Type", "True when"],
        constants(types)
            .into_iter()
            .filter(|(name, _)| known(name))
            .map(named),
    ));
    text.push_str("## Reasons of conditions\n\n");
    text.push_str(&table(
        ["Reason", "Of"],
        constants(reasons).into_iter().map(named),
    ));
    text.push_str("## Phases of a cluster\n\nIn report rows and in `status.failedClusters` and `status.waitingClusters`.\n\n");
    text.push_str(&table(
        ["Phase", "Meaning"],
        variants(REPORT, "pub enum Phase {").into_iter().map(named),
    ));
    text.push_str("## Causes\n\nThe `reason` of a cluster, beside its phase; the message says more.\n\n");
    text.push_str(&table(
        ["Reason", "Meaning"],
        rollout::Reason::ALL
            .iter()
            .map(|(reason, meaning)| named((reason.as_str().to_owned(), (*meaning).to_owned()))),
    ));
    text.push_str("## Events\n\n");
    text.push_str(&table(
        ["Reason", "Type", "About", "Action", "Meaning"],
        EventReason::ALL.iter().map(|(reason, meaning)| {
            [
                format!("`{}`", reason.as_str()),
                reason.severity().as_str().to_owned(),
                match reason.scope() {
                    Scope::Upgrade => "upgrade",
                    Scope::Cluster => "cluster",
                }
                .to_owned(),
                reason.action().to_owned(),
                cell(meaning),
            ]
        }),
    ));
    text
}

fn named((name, meaning): (String, String)) -> [String; 2] {
    [format!("`{name}`"), cell(&meaning)]
}

/// Values of `pub const NAME: &str = "value";` with the comments above them.
fn constants(source: &str) -> Vec<(String, String)> {
    documented(source, |line| {
        let value = line.strip_prefix("pub const ")?.split_once("&str = \"")?.1;
        value.strip_suffix("\";")
    })
}

/// Variants of an enum with the comments above them.
fn variants(source: &str, head: &str) -> Vec<(String, String)> {
    let body = source
        .split_once(head)
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map_or("", |(body, _)| body);
    documented(body, |line| {
        line.strip_suffix(',')
            .filter(|name| Phase::ALL.iter().any(|phase| phase.as_str() == *name))
    })
}

/// Items that `read` finds in single lines, each with the `///` lines before it.
fn documented(source: &str, read: impl Fn(&str) -> Option<&str>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut comment = String::new();
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push_str(text);
        } else {
            found.extend(read(line).map(|name| (name.to_owned(), comment.trim().to_owned())));
            comment.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_phase_cause_and_event_is_there_with_a_meaning() {
        let text = render();
        let names = api::conditions::TYPES
            .iter()
            .copied()
            .chain(Phase::ALL.iter().map(|phase| phase.as_str()))
            .chain(rollout::Reason::ALL.iter().map(|(reason, _)| reason.as_str()))
            .chain(EventReason::ALL.iter().map(|(reason, _)| reason.as_str()))
            .chain([
                api::conditions::reason::CLUSTERS_BLOCKED,
                api::conditions::reason::COMPLETE,
            ]);
        for name in names {
            assert!(text.contains(&format!("| `{name}` | ")), "{name}");
        }
        assert!(!text.contains("|  |"), "an empty meaning");
    }

    #[test]
    fn comments_of_several_lines_are_joined_and_belong_to_the_next_item() {
        let source = "/// One\n/// two.\npub const A: &str = \"a\";\npub const B: &str = \"b\";\n";
        assert_eq!(
            constants(source),
            [("a".into(), "One two.".into()), ("b".into(), String::new())]
        );
    }
}
