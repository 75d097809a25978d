//! The groups of causes: a table, and what to do about each.

use std::fmt::Write as _;

use api::mcu::CauseGroup;
use serde_json::Value;

use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::render::objects::{list, machine};
use crate::render::phase_tone;
use crate::table::{Cell, Table, lines, one_line, or_none};

/// Renders the groups in the requested format.
#[must_use]
pub fn render(causes: &[CauseGroup], output: Option<Output>, paint: Paint) -> String {
    let values = || -> Vec<Value> {
        causes
            .iter()
            .filter_map(|cause| serde_json::to_value(cause).ok())
            .collect()
    };
    if output == Some(Output::Name) {
        return lines(causes.iter().map(|cause| or_none(&cause.reason)));
    }
    machine(output, || list(&values())).unwrap_or_else(|| text(causes, paint))
}

fn text(causes: &[CauseGroup], paint: Paint) -> String {
    let mut table = Table::new(&["CAUSE", "NAME", "PHASE", "CLUSTERS", "EXAMPLE", "MESSAGE"]);
    for cause in causes {
        table.push(vec![
            or_none(&cause.reason).into(),
            or_none(name(cause)).into(),
            Cell::toned(phase_tone(cause.phase), cause.phase.as_str()),
            cause.clusters.to_string().into(),
            cause.example.as_str().into(),
            or_none(&cause.message).into(),
        ]);
    }
    let mut text = table.render(paint, 0);
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, "What to do:"));
    let remedies = causes.iter().map(|cause| {
        let subject = format!("{} {}", or_none(&cause.reason), name(cause));
        format!("  {}: {}", one_line(&subject), one_line(&cause.remedy))
    });
    text.push_str(&lines(remedies));
    text
}

/// The gate, risk, operator or pool; empty for other causes.
fn name(cause: &CauseGroup) -> &str {
    cause.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::report::ReportRow;
    use serde_json::json;

    use crate::causes;
    use crate::render::fixtures::{rows, running};

    #[test]
    fn causes_are_listed_with_an_example_and_a_remedy() {
        let causes = causes::of_rows(&running(), &rows().rows);
        insta::assert_snapshot!(render(&causes, None, Paint::Never));
        let read: Value = serde_json::from_str(&render(&causes, Some(Output::Json), Paint::Never)).unwrap();
        assert_eq!(read["items"][1]["example"], "edge-20");
        assert_eq!(read["items"][1].get("name"), None);
        assert_eq!(
            render(&causes, Some(Output::Name), Paint::Never),
            "ClusterUpgradeTimeout\nManagedService\n"
        );
    }

    #[test]
    fn a_cause_with_a_name_shows_it() {
        let rows: Vec<ReportRow> = [("c1", "ack-4.19-x: Scan"), ("c2", "ack-4.19-y: Test")]
            .into_iter()
            .map(|(cluster, message)| {
                serde_json::from_value(json!({
                    "cluster": cluster, "phase": "Blocked", "reason": "AdminAckRequired", "message": message,
                    "since": "2026-03-01T11:48:00Z", "revision": "r1",
                }))
                .unwrap()
            })
            .collect();
        let causes = causes::of_rows(&running(), &rows);
        let table = render(&causes, None, Paint::Never);
        for part in [
            "AdminAckRequired   ack-4.19-x   Blocked",
            "\n  AdminAckRequired ack-4.19-y: Read",
        ] {
            assert!(table.contains(part), "{table}");
        }
        let read: Value = serde_json::from_str(&render(&causes, Some(Output::Json), Paint::Never)).unwrap();
        let first = &read["items"][0];
        assert_eq!(
            (&first["kind"], &first["name"]),
            (&json!("Gate"), &json!("ack-4.19-x"))
        );
    }
}
