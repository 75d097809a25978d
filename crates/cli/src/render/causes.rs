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
    let mut table = Table::new(&["CAUSE", "PHASE", "CLUSTERS", "EXAMPLE", "MESSAGE"]);
    for cause in causes {
        table.push(vec![
            or_none(&cause.reason).into(),
            Cell::toned(phase_tone(cause.phase), cause.phase.as_str()),
            cause.clusters.to_string().into(),
            cause.example.as_str().into(),
            or_none(&cause.message).into(),
        ]);
    }
    let mut text = table.render(paint, 0);
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, "What to do:"));
    let remedies = causes.iter().map(|cause| {
        format!(
            "  {}: {}",
            or_none(&one_line(&cause.reason)),
            one_line(&cause.remedy)
        )
    });
    text.push_str(&lines(remedies));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes;
    use crate::render::fixtures::{rows, running};

    #[test]
    fn causes_are_listed_with_an_example_and_a_remedy() {
        let causes = causes::of_rows(&running(), &rows().rows);
        insta::assert_snapshot!(render(&causes, None, Paint::Never));
        let read: Value = serde_json::from_str(&render(&causes, Some(Output::Json), Paint::Never)).unwrap();
        assert_eq!(read["items"][1]["example"], "edge-20");
        assert_eq!(
            render(&causes, Some(Output::Name), Paint::Never),
            "ClusterUpgradeTimeout\nManagedService\n"
        );
    }
}
