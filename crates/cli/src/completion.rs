//! Shell completion: scripts for the shells, and candidates for kubectl's own completion of plugins.
//!
//! kubectl runs the executable `kubectl_complete-mcu` with the words typed so far. It prints one candidate per line, then a
//! directive: `:0` also completes file names, `:4` does not.

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::args::{Cli, Shell};
use crate::table::lines;

/// The content of the executable `kubectl_complete-mcu`.
const KUBECTL: &str = "#!/bin/sh\n# Save this as the executable kubectl_complete-mcu in a directory of PATH.\nexec kubectl-mcu __complete \"$@\"\n";

/// Names of the arguments that take a file.
const FILES: [&str; 11] = [
    "certificate_authority",
    "client_certificate",
    "client_key",
    "file",
    "files",
    "kubeconfig",
    "releases",
    "graph",
    "graph_data",
    "old",
    "new",
];

/// The completion script for a shell.
#[must_use]
pub fn script(shell: Shell) -> String {
    let shell = match shell {
        Shell::Kubectl => return KUBECTL.to_owned(),
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kubectl-mcu", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// What may follow on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// One of these words.
    Words(Vec<String>),
    /// Name of an upgrade.
    Upgrade,
    /// Name of a cluster of an upgrade, which the command may take.
    Cluster {
        /// Name of the upgrade.
        upgrade: String,
        /// Name of the command.
        command: String,
        /// The clusters that are named already.
        named: Vec<String>,
    },
    /// Name of a checkpoint of this upgrade that waits for an approval.
    Checkpoint(String),
    /// A file.
    File,
}

/// What the last word may be completed to.
#[must_use]
pub fn expected(words: &[String]) -> Expected {
    let root = Cli::command();
    let (typed, last) = match words {
        [] => (&[][..], ""),
        [typed @ .., last] => (typed, last.as_str()),
    };
    let mut path = vec![&root];
    let mut command = &root;
    let mut positionals: Vec<&str> = Vec::new();
    let mut pending: Option<&Arg> = None;
    for word in typed {
        if pending.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            pending = flag(&path, word).filter(|arg| takes_value(arg));
        } else if let Some(found) = command.find_subcommand(word) {
            command = found;
            path.push(found);
        } else {
            positionals.push(word);
        }
    }
    if let Some(arg) = pending {
        return values(arg);
    }
    if last.starts_with('-') {
        return Expected::Words(flags(&path));
    }
    if command.has_subcommands() {
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        return Expected::Words(visible.map(|sub| sub.get_name().to_owned()).collect());
    }
    // The last one may be repeated.
    let more = || {
        command
            .get_positionals()
            .last()
            .filter(|arg| arg.get_id() == "clusters")
    };
    let next = command.get_positionals().nth(positionals.len()).or_else(more);
    match (next.map(|arg| arg.get_id().as_str()), positionals.first()) {
        (Some("cluster" | "clusters"), Some(name)) => Expected::Cluster {
            upgrade: (*name).to_owned(),
            command: command.get_name().to_owned(),
            named: positionals
                .iter()
                .skip(1)
                .map(|name| (*name).to_owned())
                .collect(),
        },
        (Some("checkpoint"), Some(name)) => Expected::Checkpoint((*name).to_owned()),
        (Some("name"), _) => Expected::Upgrade,
        _ => next.map_or_else(|| Expected::Words(Vec::new()), values),
    }
}

/// The candidates that begin with the last word, in the format of kubectl.
#[must_use]
pub fn answer(candidates: &[String], last: &str, files: bool) -> String {
    let mut text = lines(candidates.iter().filter(|candidate| candidate.starts_with(last)));
    text.push_str(if files { ":0\n" } else { ":4\n" });
    text
}

/// The flag of this name, of a command or of one of its parents.
fn flag<'a>(path: &[&'a Command], word: &str) -> Option<&'a Arg> {
    let name = word.trim_start_matches('-');
    let mut all = path.iter().rev().flat_map(|command| command.get_arguments());
    all.find(|arg| {
        arg.get_long() == Some(name) || (!word.starts_with("--") && arg.get_short() == name.chars().next())
    })
}

fn flags(path: &[&Command]) -> Vec<String> {
    let mut names: Vec<String> = path
        .iter()
        .flat_map(|command| command.get_arguments())
        .filter_map(|arg| arg.get_long().map(|long| format!("--{long}")))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn takes_value(arg: &Arg) -> bool {
    // A flag such as --dry-run takes its value after a = only, so that the next word is none.
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
}

fn values(arg: &Arg) -> Expected {
    let possible = arg.get_possible_values();
    if possible.is_empty() && FILES.contains(&arg.get_id().as_str()) {
        return Expected::File;
    }
    Expected::Words(possible.iter().map(|value| value.get_name().to_owned()).collect())
}

#[cfg(test)]
mod tests;
