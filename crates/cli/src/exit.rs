//! Exit codes. Scripts and pipelines rely on them.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded. With `status -w`, the upgrade is Ready.
    Done,
    /// The hub or the cluster rejected the request, an object was not found, `lint` found violations, `check` found a fault,
    /// `graph path` found no path, or `updates --to` did not allow the update.
    Error,
    /// The command line is invalid. clap itself exits with this code.
    Usage,
    /// `status -w`: the upgrade is Stalled and needs somebody to act. `rehearse` and `plan`: the upgrade would
    /// stop before it is complete.
    Stalled,
    /// `status -w --timeout`: the time limit passed first.
    TimedOut,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// Every exit with its meaning, ordered by code.
    pub const ALL: [(Exit, &'static str); 6] = [
        (
            Exit::Done,
            "the command succeeded; with status -w, the upgrade is Ready",
        ),
        (
            Exit::Error,
            "the hub or the cluster rejected the request, an object was not found, lint found violations, a check failed, no path exists, or the requested update is not allowed",
        ),
        (Exit::Usage, "the command line is invalid"),
        (
            Exit::Stalled,
            "status -w: the upgrade is Stalled and needs somebody to act; rehearse and plan: the upgrade would stop before it is complete",
        ),
        (
            Exit::TimedOut,
            "status -w: the time limit of --timeout passed first",
        ),
        (Exit::Interrupted, "the command was interrupted by Ctrl-C"),
    ];

    /// The exit code of the process.
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
