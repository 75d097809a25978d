//! Standard output and standard error. A reader that went away (`| head`) ends the output, not the program with a panic.

use std::io::{IsTerminal, Write};

use crate::paint::Paint;

const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// Where output goes.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Colours.
    pub paint: Paint,
    /// True when standard output is a terminal that can be redrawn.
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

    /// Writes to standard output; false when nobody reads it any more.
    #[must_use]
    pub fn deliver(self, text: &str) -> bool {
        send(&self.paint.clean(text))
    }

    /// Writes to standard error, as kubectl does with everything that is not the answer.
    pub fn note(self, text: &str) {
        let text = self.paint.clean(text);
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Switches to a screen of its own until the guard is dropped, so that the scrollback survives a live view.
    #[must_use]
    pub fn live(self) -> LiveScreen {
        if self.redraws {
            send(ENTER);
        }
        LiveScreen { screen: self }
    }
}

/// Writes to standard output as it is; false when nobody reads it any more.
fn send(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// The alternate screen of a terminal; dropped, the terminal is as it was.
#[derive(Debug)]
pub struct LiveScreen {
    screen: Screen,
}

impl LiveScreen {
    /// Replaces what is shown, without flicker; false when the terminal is gone.
    #[must_use]
    pub fn draw(&self, text: &str) -> bool {
        let mut frame = HOME.to_owned();
        for line in self.screen.paint.clean(text).lines() {
            frame.push_str(line);
            frame.push_str(CLEAR_LINE);
            frame.push_str("\r\n");
        }
        frame.push_str(CLEAR_BELOW);
        send(&frame)
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        if self.screen.redraws {
            send(LEAVE);
        }
    }
}
