//! The live view: events as lines above, and a panel below with the present state, which is redrawn.
//!
//! On a terminal the panel stays at the bottom; elsewhere there is no panel, and each cluster's change is a line.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::Result;
use api::report::Phase;

use super::fixtures::{SETS, TO};
use super::snapshot::Snapshot;

/// Widest bar, in characters.
const BAR: usize = 40;
/// Most lines of clusters in the panel.
const GRID_LINES: usize = 16;
/// Above this many clusters their changes are not printed one by one.
const TALKATIVE: usize = 60;
/// Width of a terminal that does not say how wide it is.
const WIDTH: usize = 100;

/// The view on standard error.
#[derive(Debug)]
pub struct View {
    started: Instant,
    live: bool,
    colour: bool,
    /// Lines of the panel on the screen.
    drawn: usize,
    last: Snapshot,
}

impl View {
    /// The view goes to standard error, so that standard output is left to results.
    #[must_use]
    pub fn new(no_color: bool) -> Self {
        let live =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            started: Instant::now(),
            live,
            colour: live && !no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            drawn: 0,
            last: Snapshot::default(),
        }
    }

    /// Since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Prints one event.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn say(&mut self, text: &str) -> Result<()> {
        let stamp = self.paint(Tint::Dim, &format!("{:>6.1}s", self.elapsed().as_secs_f64()));
        let mut out = self.lift();
        for (number, line) in text.lines().enumerate() {
            let lead = if number == 0 { stamp.clone() } else { " ".repeat(7) };
            let _ = writeln!(out, "{lead}  {line}");
        }
        Self::flush(&out)
    }

    /// Shows the present state.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn show(&mut self, snapshot: &Snapshot) -> Result<()> {
        if self.live {
            let mut out = self.lift();
            let lines = panel(snapshot, self.elapsed(), terminal_width(), self.colour);
            self.drawn = lines.len();
            for line in lines {
                let _ = writeln!(out, "{line}");
            }
            Self::flush(&out)?;
        } else {
            for line in changes(&self.last, snapshot) {
                self.say(&line)?;
            }
        }
        self.last = snapshot.clone();
        Ok(())
    }

    /// Keeps the panel as it is and continues below it.
    pub fn settle(&mut self) {
        self.drawn = 0;
    }

    /// A text in a colour, where there are colours.
    #[must_use]
    pub fn paint(&self, tint: Tint, text: &str) -> String {
        paint(self.colour, tint, text)
    }

    /// What moves the cursor to the panel's first line and clears it.
    fn lift(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }

    fn flush(out: &str) -> Result<()> {
        let mut stderr = std::io::stderr().lock();
        stderr.write_all(out.as_bytes())?;
        Ok(stderr.flush()?)
    }
}

/// Colours by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// Background information.
    Dim,
    /// Done.
    Good,
    /// Under way.
    Busy,
    /// Waits or worries.
    Warn,
    /// Failed.
    Bad,
    /// A heading.
    Bold,
}

fn paint(colour: bool, tint: Tint, text: &str) -> String {
    if !colour {
        return text.to_owned();
    }
    let code = match tint {
        Tint::Dim => "2",
        Tint::Good => "32",
        Tint::Busy => "36",
        Tint::Warn => "33",
        Tint::Bad => "1;31",
        Tint::Bold => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn look(phase: Phase) -> (char, Tint) {
    match phase {
        Phase::Pending => ('·', Tint::Dim),
        Phase::Blocked => ('■', Tint::Warn),
        Phase::PreAction | Phase::PostAction => ('◌', Tint::Busy),
        Phase::Initialized => ('○', Tint::Busy),
        Phase::Partial => ('◐', Tint::Busy),
        Phase::Operators => ('◑', Tint::Busy),
        Phase::Soaking => ('◕', Tint::Busy),
        Phase::Complete => ('●', Tint::Good),
        Phase::PreActionDegraded | Phase::Failed => ('✗', Tint::Bad),
    }
}

/// Clusters whose phase changed, one line each; for a large fleet the counts.
fn changes(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    if now.rows.len() > TALKATIVE {
        let progress = |snapshot: &Snapshot| snapshot.status.progress.clone();
        return progress(now)
            .filter(|done| Some(done) != progress(before).as_ref())
            .map(|done| format!("{done} complete, {} in flight", now.status.in_flight.unwrap_or(0)))
            .into_iter()
            .collect();
    }
    let mut lines = Vec::new();
    for row in &now.rows {
        let old = before.row(&row.cluster).map(|old| old.phase);
        if old != Some(row.phase) && !(old.is_none() && row.phase == Phase::Pending) {
            let detail = match row.phase {
                Phase::Failed | Phase::Blocked | Phase::PreActionDegraded => {
                    format!("  {}: {}", row.reason, row.message)
                }
                _ => String::new(),
            };
            lines.push(format!("{:<14} {}{detail}", row.cluster, row.phase));
        }
    }
    lines
}

/// The panel as lines that fit the width.
fn panel(snapshot: &Snapshot, elapsed: Duration, width: usize, colour: bool) -> Vec<String> {
    let status = &snapshot.status;
    let state = status
        .state
        .map_or_else(|| "…".to_owned(), |state| format!("{state:?}"));
    let mut lines = vec![
        String::new(),
        format!(
            "  {}  {state}, {:.0} s",
            paint(colour, Tint::Bold, &format!("to {TO}")),
            elapsed.as_secs_f64()
        ),
    ];
    let bars = [
        ("canaries", status.canary_clusters_summery),
        ("fleet", status.clusters_summery),
    ];
    for (name, summary) in bars {
        let Some(summary) = summary else { continue };
        let [done, failed, total] =
            [summary.complete, summary.failed, summary.total].map(|n| usize::try_from(n).unwrap_or(0));
        let moving = if name == "fleet" {
            usize::try_from(status.in_flight.unwrap_or(0)).unwrap_or(0)
        } else {
            total - done.min(total) - failed.min(total)
        };
        let mut line = format!(
            "  {name:<9}{} {done}/{total}",
            bar(colour, [done, moving, failed], total)
        );
        if name == "fleet" {
            let slots = status.effective_max_concurrency.unwrap_or(0);
            let _ = write!(line, "   in flight {moving} of {slots}");
        }
        if failed > 0 {
            let _ = write!(
                line,
                "   {}",
                paint(colour, Tint::Bad, &format!("failed {failed}"))
            );
        }
        lines.push(line);
    }
    lines.push(String::new());
    lines.extend(grid(snapshot, width, colour));
    lines
}

/// A bar of done, moving and failed clusters.
fn bar(colour: bool, [done, moving, failed]: [usize; 3], total: usize) -> String {
    let scale = |count: usize| (count * BAR).checked_div(total).unwrap_or(0);
    let (good, bad) = (scale(done), scale(failed));
    let busy = scale(done + moving + failed).saturating_sub(good + bad).min(BAR);
    let rest = BAR.saturating_sub(good + busy + bad);
    [
        paint(colour, Tint::Good, &"█".repeat(good)),
        paint(colour, Tint::Busy, &"▓".repeat(busy)),
        paint(colour, Tint::Bad, &"█".repeat(bad)),
        paint(colour, Tint::Dim, &"░".repeat(rest)),
    ]
    .concat()
}

/// The clusters in columns, down and then right.
fn grid(snapshot: &Snapshot, width: usize, colour: bool) -> Vec<String> {
    let name = snapshot
        .rows
        .iter()
        .map(|row| row.cluster.len())
        .max()
        .unwrap_or(0);
    let cell = name + "PreActionDegraded".len() + 6;
    let columns = (width.saturating_sub(2) / cell.max(1)).clamp(1, 2 * SETS.len());
    let height = snapshot.rows.len().div_ceil(columns).min(GRID_LINES);
    let mut lines: Vec<String> = (0..height)
        .map(|line| {
            let cells = snapshot
                .rows
                .iter()
                .skip(line)
                .step_by(height)
                .take(columns)
                .map(|row| {
                    let (sign, tint) = look(row.phase);
                    let text = format!("{sign} {:<name$} {:<18}", row.cluster, row.phase);
                    paint(colour, tint, &text)
                });
            format!("  {}", cells.collect::<Vec<_>>().join("  "))
        })
        .collect();
    let shown = height * columns;
    if snapshot.rows.len() > shown {
        lines.push(format!("  … and {} more", snapshot.rows.len() - shown));
    }
    lines
}

/// Columns of the terminal, as far as it says.
fn terminal_width() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok())
        .filter(|columns| *columns >= 40)
        .unwrap_or(WIDTH)
}

#[cfg(test)]
mod tests;
