//! The programs: `kubectl mcu`, whose reference its own crate writes, and the flags of `mcu-controller`.

use std::collections::BTreeMap;

use clap::{Arg, CommandFactory as _};
use controller::flags::Flags;

use super::{cell, table};

pub(super) fn render() -> String {
    let plugin = kubectl_mcu::reference_markdown();
    format!("{}\n\n{}", plugin.trim_end(), controller())
}

fn controller() -> String {
    let command = Flags::command();
    let mut text = String::from("# mcu-controller\n\n");
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
        text.push_str("## ");
        text.push_str(group);
        text.push_str("\n\n");
        let rows = by_group[group].iter().map(|arg| {
            [
                format!("`{}`", spelling(arg)),
                default(arg),
                environment(arg),
                cell(&arg.get_help().map(ToString::to_string).unwrap_or_default()),
            ]
        });
        text.push_str(&table(["Flag", "Default", "Environment", "Meaning"], rows));
    }
    text
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
    fn both_programs_and_their_flags_are_there() {
        let text = render();
        for part in [
            "# kubectl mcu\n",
            "# mcu-controller\n",
            "`--leader-elect BOOL` | `true` |",
            "`--listen ADDR`",
            "`--spoke-rbac MODE`",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
