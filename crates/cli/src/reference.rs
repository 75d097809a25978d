//! Generates the CLI reference in docs/reference from the definition of the command line.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use crate::args::Cli;

/// The reference of all commands as Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let root = Cli::command();
    let mut text = String::from("# kubectl mcu\n\n");
    paragraph(&mut text, &about(&root));
    fence(&mut text, "kubectl mcu [FLAGS] COMMAND");
    contents(&mut text, &root, "kubectl mcu");
    text.push_str("\nFlags of all commands:\n\n");
    flags(&mut text, &root);
    sections(&mut text, &root);
    for command in visible(&root) {
        section(&mut text, command, "kubectl mcu", "##");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// The table of subcommands.
fn contents(text: &mut String, command: &Command, path: &str) {
    text.push_str("| Command | What it does |\n|---|---|\n");
    for command in visible(command) {
        let name = command.get_name();
        let anchor = format!("{path} {name}").replace(' ', "-");
        let _ = writeln!(text, "| [`{name}`](#{anchor}) | {} |", cell(&about(command)));
    }
}

/// The section of a command, followed by those of its subcommands, one heading level below.
fn section(text: &mut String, command: &Command, parent: &str, heading: &str) {
    let path = format!("{parent} {}", command.get_name());
    let _ = writeln!(text, "{heading} {path}\n");
    paragraph(text, &about(command));
    fence(text, &usage(&path, command));
    if command.has_subcommands() {
        contents(text, command, &path);
        text.push('\n');
    }
    flags(text, command);
    sections(text, command);
    for command in visible(command) {
        section(text, command, &path, &format!("{heading}#"));
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn usage(path: &str, command: &Command) -> String {
    let mut usage = path.to_owned();
    for arg in command.get_positionals() {
        let name = arg.get_id().as_str().to_uppercase();
        let word = if arg.is_required_set() {
            name
        } else {
            format!("[{name}]")
        };
        let _ = write!(usage, " {word}");
    }
    if command.has_subcommands() {
        usage.push_str(" COMMAND");
    }
    usage + " [FLAGS]"
}

fn flags(text: &mut String, command: &Command) {
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    if shown.is_empty() {
        return;
    }
    text.push_str("| Argument | Meaning |\n|---|---|\n");
    for arg in shown {
        let _ = writeln!(text, "| `{}` | {} |", spelling(arg), cell(&meaning(arg)));
    }
    text.push('\n');
}

fn spelling(arg: &Arg) -> String {
    let Some(long) = arg.get_long() else {
        return arg.get_id().as_str().to_uppercase();
    };
    let mut text = arg
        .get_short()
        .map(|short| format!("-{short}, "))
        .unwrap_or_default();
    let _ = write!(text, "--{long}");
    if arg.get_action().takes_values() {
        let name = arg.get_value_names().and_then(|names| names.first());
        let name = name.map_or("VALUE", |name| name.as_str());
        let _ = if arg.is_require_equals_set() {
            write!(text, "[={name}]")
        } else {
            write!(text, " {name}")
        };
    }
    text
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let end = if text.ends_with('.') { "" } else { "." };
    text.push_str(end);
    let possible = arg.get_possible_values();
    if arg.get_action().takes_values() && !possible.is_empty() {
        let names: Vec<String> = possible
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let _ = write!(text, " One of {}.", names.join(", "));
    }
    if let Some(default) = arg
        .get_default_values()
        .first()
        .filter(|_| arg.get_action().takes_values() && !arg.is_hide_default_value_set())
    {
        let _ = write!(text, " Default: `{}`.", default.to_string_lossy());
    }
    text
}

/// The help text after the flags. It consists of title lines and indented lines.
fn sections(text: &mut String, command: &Command) {
    let help = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut block = String::new();
    for line in help.lines() {
        if let Some(inner) = line.strip_prefix("  ") {
            block.push_str(inner);
            block.push('\n');
        } else if line.is_empty() && !block.is_empty() {
            block.push('\n');
        } else {
            flush(text, &mut block);
            paragraph(text, line);
        }
    }
    flush(text, &mut block);
}

fn flush(text: &mut String, block: &mut String) {
    if !block.trim().is_empty() {
        fence(text, block.trim_end());
    }
    block.clear();
}

fn fence(text: &mut String, block: &str) {
    let _ = writeln!(text, "```text\n{block}\n```\n");
}

fn paragraph(text: &mut String, line: &str) {
    if !line.is_empty() {
        let _ = writeln!(text, "{line}\n");
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_names_every_command_and_flag() {
        insta::assert_snapshot!(reference_markdown());
    }
}
