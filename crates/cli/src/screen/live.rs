//! A view that is redrawn in place on the alternate screen of a terminal.
//!
//! A frame writes only the lines that have changed, and terminals that know synchronised updates show it as a whole, so nothing
//! flickers. Lines are cut at the width of the terminal, because a line that wraps would move all lines below it.

use std::fmt::Write as _;

use terminal_size::{Height, Width, terminal_size};
use unicode_width::UnicodeWidthChar;

use super::send;
use crate::paint::Paint;

const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const BEGIN: &str = "\u{1b}[?2026h";
const END: &str = "\u{1b}[?2026l";
const CLEAR: &str = "\u{1b}[2J";
const CLEAR_LINE: &str = "\u{1b}[K";
/// How long it may take until a program that has been continued learns it.
#[cfg(unix)]
const CONTINUED_WITHIN: std::time::Duration = std::time::Duration::from_millis(250);
const PLAIN: &str = "\u{1b}[0m";

/// Columns and lines of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of columns.
    pub columns: usize,
    /// Number of lines.
    pub lines: usize,
}

impl Size {
    /// The size of a terminal that does not say how large it is.
    const USUAL: Size = Size {
        columns: 80,
        lines: 24,
    };

    /// The present size of the terminal.
    #[must_use]
    pub fn of_terminal() -> Size {
        let size = terminal_size().filter(|(Width(columns), Height(lines))| *columns > 0 && *lines > 0);
        size.map_or(Size::USUAL, |(Width(columns), Height(lines))| Size {
            columns: columns.into(),
            lines: lines.into(),
        })
    }
}

/// The alternate screen of a terminal. When it is dropped, the terminal shows its previous content again.
#[derive(Debug)]
pub struct LiveScreen {
    paint: Paint,
    frames: Frames,
}

impl LiveScreen {
    pub(super) fn enter(paint: Paint) -> LiveScreen {
        send(ENTER);
        LiveScreen {
            paint,
            frames: Frames::default(),
        }
    }

    /// Replaces the content. Returns false if the terminal is gone.
    #[must_use]
    pub fn draw(&mut self, text: &str, size: Size) -> bool {
        let frame = self.frames.next(&self.paint.clean(text), size);
        frame.is_empty() || send(&frame)
    }

    /// Shows the previous content while the program is stopped. The next frame is drawn as a whole.
    pub async fn suspend(&mut self, stops: &mut Stops) {
        send(LEAVE);
        stops.stop().await;
        send(ENTER);
        self.frames = Frames::default();
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        send(LEAVE);
    }
}

/// What the terminal shows, so that a frame need not repeat it.
#[derive(Debug, Default)]
struct Frames {
    shown: Vec<String>,
    size: Option<Size>,
}

impl Frames {
    /// What to write so that the terminal shows this text; nothing if it does already.
    fn next(&mut self, text: &str, size: Size) -> String {
        let resized = self.size.replace(size) != Some(size);
        if resized {
            // The terminal may have wrapped or dropped lines, so what it shows is unknown.
            self.shown.clear();
        }
        let lines: Vec<String> = text
            .lines()
            .take(size.lines)
            .map(|line| cut(line, size.columns))
            .collect();
        let mut changes = String::new();
        for number in 0..lines.len().max(self.shown.len()) {
            let line = lines.get(number).map_or("", String::as_str);
            if self.shown.get(number).is_none_or(|shown| shown != line) {
                let _ = write!(changes, "\u{1b}[{};1H{CLEAR_LINE}{line}", number + 1);
            }
        }
        self.shown = lines;
        match (resized, changes.is_empty()) {
            (false, true) => String::new(),
            (false, false) => format!("{BEGIN}{changes}{END}"),
            (true, _) => format!("{BEGIN}{CLEAR}{changes}{END}"),
        }
    }
}

/// The beginning of a line that fits into this many columns. Colours take none.
fn cut(line: &str, columns: usize) -> String {
    let mut kept = String::with_capacity(line.len());
    let (mut used, mut in_code, mut is_coloured) = (0, false, false);
    for c in line.chars() {
        if in_code || c == '\u{1b}' {
            is_coloured = true;
            in_code = c != 'm';
            kept.push(c);
            continue;
        }
        used += c.width().unwrap_or_default();
        if used > columns {
            break;
        }
        kept.push(c);
    }
    if is_coloured {
        kept.push_str(PLAIN);
    }
    kept
}

/// Tells when the size of the terminal changes.
#[derive(Debug)]
pub struct Resizes {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Resizes {
    /// Listens from now on.
    #[must_use]
    pub fn listen() -> Resizes {
        Resizes {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::window_change()).ok(),
        }
    }

    /// Waits for the next change. Where the system does not tell of changes, it waits for ever: the next frame has the new size.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// Tells when the user stops the program with Ctrl-Z. Once somebody listens, that alone does not stop it any more.
#[derive(Debug, Default)]
pub struct Stops {
    #[cfg(unix)]
    signals: Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>,
}

impl Stops {
    /// Listens from now on.
    #[must_use]
    pub fn listen() -> Stops {
        #[cfg(unix)]
        {
            use rustix::process::Signal;
            use tokio::signal::unix::{SignalKind, signal};
            let listen = |kind: Signal| signal(SignalKind::from_raw(kind.as_raw())).ok();
            Stops {
                signals: listen(Signal::CONT).and_then(|cont| Some((listen(Signal::TSTP)?, cont))),
            }
        }
        #[cfg(not(unix))]
        Stops {}
    }

    /// Waits for the next Ctrl-Z.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if let Some((stop, _)) = &mut self.signals
            && stop.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Stops the program, and returns when it is continued.
    async fn stop(&mut self) {
        #[cfg(unix)]
        if let Some((_, cont)) = &mut self.signals {
            use rustix::process::{Signal, getpid, kill_process};
            // Another thread may take the signal, so this one waits a moment for the end of the stop. Time passes meanwhile.
            if kill_process(getpid(), Signal::STOP).is_ok() {
                let _ = tokio::time::timeout(CONTINUED_WITHIN, cont.recv()).await;
            }
        }
    }
}

/// Waits until somebody ends the program: by Ctrl-C, or by SIGTERM as `timeout` does. Without this, SIGTERM would leave the live
/// view on the terminal, without a cursor.
pub async fn interruption() {
    #[cfg(unix)]
    if let Ok(mut terminated) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}

#[cfg(test)]
mod tests;
