//! Tells on standard error what happens, with the time since the beginning.

use std::time::{Duration, Instant};

/// Tells what happens. While the live picture covers the terminal, lines are kept until it ends.
#[derive(Debug)]
pub struct Narrator {
    started: Instant,
    kept: Option<Vec<String>>,
}

impl Narrator {
    /// The time begins now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            kept: None,
        }
    }

    /// Since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells something.
    pub fn say(&mut self, text: &str) {
        let line = format!("{:>6.1}s  {}", self.elapsed().as_secs_f64(), indent(text));
        match &mut self.kept {
            Some(kept) => kept.push(line),
            None => eprintln!("{line}"),
        }
    }

    /// From now on, something else covers the terminal.
    pub fn pause(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// The terminal is free again: tells what happened meanwhile.
    pub fn resume(&mut self) {
        for line in self.kept.take().into_iter().flatten() {
            eprintln!("{line}");
        }
    }
}

/// Lines after the first are below the first one's text.
fn indent(text: &str) -> String {
    text.replace('\n', &format!("\n{}", " ".repeat(9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_behind_the_picture_is_told_after_it() {
        let mut narrator = Narrator::new();
        narrator.pause();
        narrator.say("hidden\nmore");
        let kept = narrator.kept.as_ref().unwrap();
        assert!(kept[0].ends_with("s  hidden\n         more"), "{kept:?}");
        narrator.resume();
        assert_eq!(narrator.kept, None);
    }
}
