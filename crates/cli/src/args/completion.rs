//! Arguments of completion.

use clap::{Args, ValueEnum};

/// Flags of `completion`.
#[derive(Clone, Debug, Args)]
pub struct CompletionArgs {
    /// The shell, or kubectl for the executable kubectl_complete-mcu.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The programs that a completion script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
    /// kubectl's completion of plugins, which works in any shell.
    Kubectl,
}

/// The words of the command line to complete. The last word is unfinished.
#[derive(Clone, Debug, Args)]
pub struct CompleteArgs {
    /// Words after `kubectl mcu`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}
