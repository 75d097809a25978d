//! The updates of one cluster, similar to `oc adm upgrade`: the running update, what blocks updates, and which are recommended.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clusterversion::updates::{AdminGate, ClusterUpdates, OfferedUpdate, wants_attention};
use serde_json::{Value, json};

use super::objects::{escaped, to_json, to_yaml};
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::table::{Cell, Table, lines, one_line, or_none};

const NARROW: &[&str] = &["VERSION", "URL", "BLOCKED"];
const WIDE: &[&str] = &["VERSION", "URL", "BLOCKED", "CHANNELS", "IMAGE"];

/// Renders the updates in the requested format. With `all`, it includes updates that are not recommended.
#[must_use]
pub fn render(view: &ClusterUpdates, all: bool, output: Option<Output>, paint: Paint) -> String {
    let shown = || {
        let mut shown = json!(view);
        // The field is left out, because an empty list would mean that there are no such updates.
        if !all && let Some(map) = shown.as_object_mut() {
            map.remove("notRecommended");
        }
        shown
    };
    match output {
        Some(Output::Json) => to_json(&shown()),
        Some(Output::Yaml) => to_yaml(&shown()),
        Some(Output::Name) => {
            let risky = view.not_recommended.iter().filter(|_| all);
            let updates = view.recommended.iter().chain(risky);
            lines(updates.map(|update| one_line(&update.version)))
        }
        wide => human(view, all, wide.is_some(), paint),
    }
}

fn human(view: &ClusterUpdates, all: bool, wide: bool, paint: Paint) -> String {
    let mut text = String::new();
    let tone = match view.state.as_str() {
        state if wants_attention(state) => Tone::Warn,
        "Idle" => Tone::Good,
        _ => Tone::Plain,
    };
    let _ = writeln!(text, "Version: {}", or_none(&one_line(&view.version)));
    let _ = writeln!(text, "State:   {}", paint.tone(tone, &view.state));
    let _ = writeln!(text, "Cause:   {}", or_none(&one_line(&view.cause)));
    for note in &view.notes {
        let _ = writeln!(text, "Note:    {}", one_line(note));
    }
    let _ = write!(text, "Channel: {}", or_none(&one_line(&view.channel)));
    if view.channels.is_empty() {
        text.push('\n');
    } else {
        let channels = one_line(&view.channels.join(", "));
        let _ = writeln!(text, " (available channels: {channels})");
    }
    if let Some(running) = &view.running {
        let since = running.since.as_deref().map(|since| format!(" since {since}"));
        let message = Some(one_line(&running.message)).filter(|message| !message.is_empty());
        let _ = writeln!(
            text,
            "\nAn update to {} is in progress{}{}",
            or_none(&one_line(&running.version)),
            since.unwrap_or_default(),
            message.map(|message| format!(": {message}")).unwrap_or_default()
        );
    }
    for block in &view.blocks {
        let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, &block.condition));
        if !block.reason.is_empty() {
            let _ = writeln!(text, "  Reason:  {}", one_line(&block.reason));
        }
        if !block.message.is_empty() {
            let _ = writeln!(text, "  Message: {}", indented(&block.message));
        }
    }
    gates(&mut text, view, paint);
    recommended(&mut text, view, wide, paint);
    if all {
        not_recommended(&mut text, view, wide, paint);
    } else {
        let more = match view.not_recommended.len() {
            0 => return text,
            1 => "1 more update is".to_owned(),
            count => format!("{count} more updates are"),
        };
        let _ = writeln!(
            text,
            "\n{more} supported but not recommended. To see why, add --include-not-recommended."
        );
    }
    text
}

/// A text of several lines, with all lines indented like the first.
fn indented(message: &str) -> String {
    let lines: Vec<String> = message
        .lines()
        .map(one_line)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n           ")
}

/// Any text, quoted as one word for a shell.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// JSON, quoted as one word for a shell.
#[must_use]
pub fn quoted_json(value: &Value) -> String {
    quoted(&escaped(&value.to_string()))
}

fn gates(text: &mut String, view: &ClusterUpdates, paint: Paint) {
    if let Some(why) = &view.gates_unknown {
        let _ = writeln!(text, "\nGates to acknowledge: unknown ({})", one_line(why));
    }
    let gates: &[AdminGate] = view.gates.as_deref().unwrap_or_default();
    if gates.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, "Gates to acknowledge"));
    for gate in gates {
        let _ = writeln!(text, "  {}: {}", one_line(&gate.key), one_line(&gate.text));
        let data = BTreeMap::from([(gate.key.as_str(), "true")]);
        let _ = writeln!(
            text,
            "    kubectl -n openshift-config patch configmap admin-acks --type merge -p {}",
            quoted_json(&json!({"data": data}))
        );
    }
}

fn recommended(text: &mut String, view: &ClusterUpdates, wide: bool, paint: Paint) {
    if view.recommended.is_empty() {
        text.push_str("\nNo updates are recommended.\n");
        return;
    }
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, "Recommended updates"));
    let mut table = Table::new(if wide { WIDE } else { NARROW });
    for update in &view.recommended {
        table.push(row(update, wide));
    }
    text.push_str(&table.render(paint, 2));
}

fn row(update: &OfferedUpdate, wide: bool) -> Vec<Cell> {
    let blocked = if update.blocked {
        Cell::toned(Tone::Warn, "Upgradeable=False")
    } else {
        "-".into()
    };
    let mut row = vec![
        update.version.as_str().into(),
        or_none(&update.url).into(),
        blocked,
    ];
    if wide {
        row.push(or_none(&update.channels.join(",")).into());
        row.push(update.image.as_str().into());
    }
    row
}

fn not_recommended(text: &mut String, view: &ClusterUpdates, wide: bool, paint: Paint) {
    if view.not_recommended.is_empty() {
        text.push_str("\nEvery supported update is recommended.\n");
        return;
    }
    let title = "Supported but not recommended updates";
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, title));
    for update in &view.not_recommended {
        let _ = writeln!(text, "\n  Version: {}", one_line(&update.version));
        if wide {
            let _ = writeln!(text, "  Image:   {}", one_line(&update.image));
        }
        let _ = writeln!(text, "  Recommended={}", one_line(&update.recommended));
        let _ = writeln!(text, "  Reason:  {}", or_none(&one_line(&update.reason)));
        let risks = one_line(&update.risks.join(", "));
        let _ = writeln!(text, "  Risks:   {}", or_none(&risks));
        let _ = writeln!(text, "  Message: {}", indented(&update.message));
    }
}

#[cfg(test)]
mod tests {
    use clusterversion::gates::ConfigMap;
    use clusterversion::types::read_documents;
    use clusterversion::updates::cluster_updates;

    use super::*;

    const OBJECT: &str = r#"
kind: ClusterVersion
spec: {channel: stable-4.18, clusterID: a93465d5-61b2-42cd-a10a-33840e6add93}
status:
  desired: {version: 4.18.1, image: image/1, channels: [fast-4.18, stable-4.18]}
  history: [{state: Completed, version: 4.18.1, image: image/1, startedTime: "2026-03-01T10:00:00Z"}]
  availableUpdates:
  - {version: 4.19.0, image: image/4}
  - {version: 4.18.2, image: image/2, url: "https://access.redhat.com/errata/1"}
  conditionalUpdates:
  - release: {version: 4.18.3, image: image/3}
    risks:
    - {name: Leak, message: It leaks., url: "https://e/1", matchingRules: [{type: Always}]}
    conditions:
    - {type: Recommended, status: "False", reason: Leak, message: "It leaks. https://e/1"}
  conditions:
  - {type: RetrievedUpdates, status: "True"}
  - {type: Upgradeable, status: "False", reason: AdminAckRequired, message: Kubernetes 1.32 removes APIs.}
  - {type: Progressing, status: "False", message: Cluster version is 4.18.1}
"#;

    fn shown() -> ClusterUpdates {
        let object = &read_documents(OBJECT).unwrap()[0];
        let gates = ConfigMap::of([("ack-4.18-kube-1.32", "Kubernetes 1.32 removes APIs.")]);
        let acks = ConfigMap::of::<String, String>([]);
        cluster_updates(object, Some((&gates, &acks)), None)
    }

    #[test]
    fn a_cluster_is_shown_with_what_blocks_and_what_is_recommended() {
        insta::assert_snapshot!(render(&shown(), false, None, Paint::Never));
    }

    #[test]
    fn updates_that_are_not_recommended_come_with_reason_and_message() {
        insta::assert_snapshot!(render(&shown(), true, Some(Output::Wide), Paint::Never));
    }

    #[test]
    fn machines_get_the_view_and_names() {
        insta::assert_snapshot!(render(&shown(), true, Some(Output::Json), Paint::Never));
        assert_eq!(
            render(&shown(), true, Some(Output::Name), Paint::Never),
            "4.19.0\n4.18.2\n4.18.3\n"
        );
        let yaml = render(&shown(), false, Some(Output::Yaml), Paint::Never);
        assert!(
            !yaml.contains("notRecommended"),
            "not asked for is not none: {yaml}"
        );
        let none = ClusterUpdates {
            not_recommended: Vec::new(),
            ..shown()
        };
        let yaml = render(&none, true, Some(Output::Yaml), Paint::Never);
        assert!(yaml.contains("notRecommended: []"), "{yaml}");
    }

    #[test]
    fn gates_that_are_not_known_are_said_to_be_so() {
        let view = cluster_updates(&read_documents(OBJECT).unwrap()[0], None, None);
        let text = render(&view, false, None, Paint::Never);
        assert!(
            text.contains(
                "Gates to acknowledge: unknown (a ClusterVersion alone does not show them; connect to the cluster)"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_text_of_the_cluster_can_neither_steer_the_terminal_nor_leave_its_quotes() {
        let evil = OBJECT
            .replace("reason: Leak", r#"reason: "R\e[2J""#)
            .replace("name: Leak", r#"name: "Le\e[2Jak""#)
            .replace("reason: AdminAckRequired", r#"reason: "A\e[2J""#)
            .replace("channel: stable-4.18", r#"channel: "st\e[2J""#)
            .replace("version: 4.18.3", r#"version: "4.18.3\e[2J""#);
        let gates = ConfigMap::of([("ack-4.18-a'; touch pwn; '\u{1b}[2J", "Read\u{1b}[2J this.")]);
        let acks = ConfigMap::of::<String, String>([]);
        let view = cluster_updates(&read_documents(&evil).unwrap()[0], Some((&gates, &acks)), None);
        for output in [None, Some(Output::Wide), Some(Output::Name)] {
            let text = render(&view, true, output, Paint::Never);
            let steering = text.chars().find(|char| char.is_control() && *char != '\n');
            assert_eq!(steering, None, "{text:?}");
        }
        let text = render(&view, true, None, Paint::Never);
        assert!(
            text.contains(r#"-p '{"data":{"ack-4.18-a'\''; touch pwn; '\''\u001b[2J":"true"}}'"#),
            "{text}"
        );
    }

    #[test]
    fn json_for_a_shell_is_one_word_and_the_same_json() {
        let value = json!({"image": "x'; touch pwn; '\u{9b}2J\u{1b}\u{202e}"});
        let word = quoted_json(&value);
        assert_eq!(
            word,
            r#"'{"image":"x'\''; touch pwn; '\''\u009b2J\u001b\u202e"}'"#
        );
        let inside = word[1..word.len() - 1].replace(r"'\''", "'");
        assert_eq!(serde_json::from_str::<Value>(&inside).unwrap(), value);
    }
}
