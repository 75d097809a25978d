//! The programs: `kubectl mcu`, whose reference its own crate writes, and the flags of `mcu-controller` and
//! `update-service`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use controller::flags::Flags;
use update_service::command::CommandLine;

use super::{cell, table};

pub(super) fn render() -> String {
    let plugin = kubectl_mcu::reference_markdown();
    let mut text = format!("{}\n\n# mcu-controller\n\n", plugin.trim_end());
    describe(&mut text, &Flags::command(), "##");
    let service = CommandLine::command();
    text.push_str("# update-service\n\n");
    describe(&mut text, &service, "##");
    for command in service.get_subcommands().filter(|command| !command.is_hide_set()) {
        let _ = writeln!(text, "## update-service {}\n", command.get_name());
        describe(&mut text, command, "###");
    }
    text
}

/// What a command is for, and its flags below one heading per group.
fn describe(text: &mut String, command: &Command, heading: &str) {
    let about = command
        .get_long_about()
        .or(command.get_about())
        .map(ToString::to_string);
    for paragraph in about.unwrap_or_default().split("\n\n") {
        text.push_str(&cell(paragraph));
        text.push_str("\n\n");
    }
    let mut groups: Vec<&str> = Vec::new();
    let mut by_group: BTreeMap<&str, Vec<&Arg>> = BTreeMap::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let group = arg.get_help_heading().unwrap_or("Other");
        if !groups.contains(&group) {
            groups.push(group);
        }
        by_group.entry(group).or_default().push(arg);
    }
    for group in groups {
        let _ = writeln!(text, "{heading} {group}\n");
        let rows = by_group[group].iter().map(|arg| {
            [
                format!("`{}`", cell(&spelling(arg))),
                default(arg),
                environment(arg),
                cell(&arg.get_help().map(ToString::to_string).unwrap_or_default()),
            ]
        });
        text.push_str(&table(["Flag", "Default", "Environment", "Meaning"], rows));
    }
}

fn spelling(arg: &Arg) -> String {
    let name = arg
        .get_long()
        .map_or_else(|| arg.get_id().to_string(), |long| format!("--{long}"));
    let value = arg
        .get_value_names()
        .and_then(|names| names.first())
        .filter(|_| arg.get_action().takes_values());
    match value {
        Some(value) => format!("{name} {value}"),
        None => name,
    }
}

fn default(arg: &Arg) -> String {
    let shown = arg
        .get_default_values()
        .first()
        .filter(|_| arg.get_action().takes_values());
    shown.map_or_else(String::new, |value| format!("`{}`", value.to_string_lossy()))
}

fn environment(arg: &Arg) -> String {
    arg.get_env()
        .map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_and_their_flags_are_there() {
        let text = render();
        for part in [
            "# kubectl mcu\n",
            "## kubectl mcu graph\n",
            "### kubectl mcu graph next\n",
            "# mcu-controller\n",
            "# update-service\n",
            "## update-service serve\n",
            "`--graph-data PATH\\|URL\\|IMAGE`",
            "`--leader-elect BOOL` | `true` |",
            "`--listen ADDR`",
            "`--spoke-rbac MODE`",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
