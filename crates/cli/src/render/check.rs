//! The result of `check`, in the manner of `linkerd check`.

use std::fmt::Write as _;

use api::message::count as counted;
use serde_json::json;

use crate::args::Output;
use crate::check::{Check, Level, worst};
use crate::paint::{Paint, Tone};
use crate::render::objects::machine;
use crate::table::lines;

/// Renders the checks in the requested format.
#[must_use]
pub fn render(checks: &[Check], output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        let bad = checks.iter().filter(|check| check.level != Level::Ok);
        return lines(bad.map(|check| check.category));
    }
    machine(output, || json!({"result": worst(checks), "checks": checks}))
        .unwrap_or_else(|| text(checks, paint))
}

fn text(checks: &[Check], paint: Paint) -> String {
    let (mut text, mut category) = (String::new(), "");
    for check in checks {
        if check.category != category {
            let gap = if category.is_empty() { "" } else { "\n" };
            category = check.category;
            let _ = writeln!(text, "{gap}{}", paint.tone(Tone::Bold, category));
        }
        let (tone, mark) = mark(check.level);
        let _ = writeln!(text, "{} {}", paint.tone(tone, mark), check.message);
        if !check.remedy.is_empty() {
            let _ = writeln!(text, "    {}", check.remedy);
        }
    }
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let (tone, mark) = mark(worst(checks));
    let _ = writeln!(
        text,
        "\n{} {}: {} failed, {} with a warning",
        paint.tone(tone, mark),
        counted(checks.len(), "check"),
        count(Level::Failed),
        count(Level::Warning),
    );
    text
}

const fn mark(level: Level) -> (Tone, &'static str) {
    match level {
        Level::Ok => (Tone::Good, "\u{221a}"),
        Level::Warning => (Tone::Warn, "\u{203c}"),
        Level::Failed => (Tone::Bad, "\u{d7}"),
    }
}
