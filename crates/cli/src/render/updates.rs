//! The updates of one cluster, similar to `oc adm upgrade`: the running update, what blocks updates, and which are recommended.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clusterversion::updates::{AdminGate, ClusterUpdates, OfferedUpdate, wants_attention};
use serde_json::{Value, json};

use super::objects::{escaped, machine};
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
    if output == Some(Output::Name) {
        let risky = view.not_recommended.iter().filter(|_| all);
        let updates = view.recommended.iter().chain(risky);
        return lines(updates.map(|update| one_line(&update.version)));
    }
    machine(output, shown).unwrap_or_else(|| human(view, all, output.is_some(), paint))
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
mod tests;
