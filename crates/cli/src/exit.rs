//! Exit codes: what scripts and pipelines may rely on.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked; with `status -w`: the upgrade is Ready.
    Done,
    /// Hub or cluster refused, something was not found, `lint` found violations, `graph path` found no path, or
    /// `updates --to` refused.
    Error,
    /// The command line was wrong. clap exits with this code by itself.
    Usage,
    /// `status -w`: the upgrade is Stalled; nothing moves without a human.
    Stalled,
    /// `status -w --timeout`: the time passed first.
    TimedOut,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// Every exit with its meaning, in the order of the codes.
    pub const ALL: [(Exit, &'static str); 6] = [
        (Exit::Done, "done; with status -w: the upgrade is Ready"),
        (
            Exit::Error,
            "hub or cluster refused, something was not found, lint found violations, no path exists, or an update is refused",
        ),
        (Exit::Usage, "the command line is wrong"),
        (
            Exit::Stalled,
            "status -w: the upgrade is Stalled, nothing moves without a human",
        ),
        (Exit::TimedOut, "status -w: the time of --timeout passed first"),
        (Exit::Interrupted, "interrupted by Ctrl-C"),
    ];

    /// The code that the process ends with.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Stalled => 3,
            Exit::TimedOut => 4,
            Exit::Interrupted => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_that_the_help_lists() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 130]);
        for (exit, meaning) in Exit::ALL {
            let line = format!("{:<5}{meaning}", exit.code());
            assert!(crate::args::AFTER_HELP.contains(&line), "{line}");
        }
    }
}
