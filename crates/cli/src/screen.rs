//! Standard output and standard error. If the reader closes the pipe (`| head`), the output ends without a panic.

mod live;

use std::io::{BufRead as _, IsTerminal, Write};

pub use self::live::{LiveScreen, Resizes, Size, Stops, interruption};
use crate::paint::Paint;

/// The destination of the output.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Whether to use colours.
    pub paint: Paint,
    /// True if standard output is a terminal that can be redrawn.
    pub redraws: bool,
}

impl Screen {
    /// The screen of this process.
    #[must_use]
    pub fn detect() -> Screen {
        let terminal = std::io::stdout().is_terminal();
        let read = |key| std::env::var(key).ok();
        let term = read("TERM");
        Screen {
            paint: Paint::choose(terminal, read("NO_COLOR").as_deref(), term.as_deref()),
            redraws: terminal && term.as_deref() != Some("dumb"),
        }
    }

    /// Writes to standard output.
    pub fn print(self, text: &str) {
        let _ = self.deliver(text);
    }

    /// Writes to standard output. Returns false if nobody reads it any more.
    #[must_use]
    pub fn deliver(self, text: &str) -> bool {
        send(&self.paint.clean(text))
    }

    /// Writes to standard error, as kubectl does with everything that is not the result.
    pub fn note(self, text: &str) {
        let text = self.paint.clean(text);
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Asks for a consent in a terminal. A script is not asked.
    #[must_use]
    pub fn confirms(self, question: &str) -> bool {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return true;
        }
        self.note(&format!("{question}? [y/N] "));
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
    }

    /// Switches to the alternate screen of the terminal until the guard is dropped, so that a live view leaves the scrollback
    /// intact.
    #[must_use]
    pub fn live(self) -> LiveScreen {
        LiveScreen::enter(self.paint)
    }
}

/// Writes to standard output without changes. Returns false if nobody reads it any more.
fn send(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}
