//! The commands. They connect the command line, the hub and the renderers.

mod approve;
pub(crate) mod change;
mod check;
mod cluster;
mod clusters;
mod complete;
mod consent;
mod create;
mod dashboard;
mod follow;
mod graph;
mod history;
mod left_out;
mod lint;
mod orphans;
mod preflight;
mod rehearse;
mod retry;
mod show;
mod updates;
mod version;
mod windows;

use std::ffi::OsString;

use clap::Parser as _;

use self::left_out::List;
use crate::args::{Cli, Command, Common, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::preflight::Consent;
use crate::screen::Screen;

/// Runs the plugin with these arguments, of which the first is the name of the program, as a program of its own would: it prints
/// results and errors, and returns how it ended. Other programs show what the plugin shows by calling this.
pub async fn run_args<T: Into<OsString> + Clone>(args: impl IntoIterator<Item = T>) -> Exit {
    match Cli::try_parse_from(args) {
        Ok(cli) => run(cli).await,
        Err(error) => {
            // Nobody reads the output any more.
            let _ = error.print();
            if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            }
        }
    }
}

/// Runs a command. It prints failures as kubectl prints them.
pub async fn run(mut cli: Cli) -> Exit {
    let screen = Screen::detect();
    if cli.common.no_headers {
        cli.common.output = cli.common.output.map(Output::without_headers);
    }
    match dispatch(&cli, screen).await {
        Ok(exit) => exit,
        Err(Failure::Interrupted) => Exit::Interrupted,
        Err(failure) => {
            screen.note(&format!("{failure}\n"));
            failure.exit()
        }
    }
}

async fn dispatch(cli: &Cli, screen: Screen) -> Result<Exit, Failure> {
    let common = &cli.common;
    if common.output == Some(Output::Csv) && !matches!(cli.command, Command::Export(_)) {
        return Err(Failure::Usage("-o csv is for export".to_owned()));
    }
    if is_about_one_namespace(&cli.command) {
        refuse_all_namespaces(common)?;
    }
    match &cli.command {
        Command::Lint(args) => lint::run(common, args, screen),
        Command::Graph(args) => graph::run(common, &args.command, screen).await,
        Command::Updates(args) => updates::run(common, args, screen).await,
        Command::Dashboard(args) => dashboard::run(common, args, screen).await,
        Command::Orphans => orphans::run(common, screen).await,
        Command::Rehearse(args) => rehearse::run(common, args, screen).await,
        Command::Plan(args) => rehearse::plan(common, args, screen).await,
        Command::Windows(args) => windows::run(common, args, screen).await,
        Command::Completion(args) => {
            screen.print(&crate::completion::script(args.shell));
            Ok(Exit::Done)
        }
        Command::Complete(args) => complete::run(common, &args.words, screen).await,
        Command::Status(args) => match &args.name {
            None => show::list(common, screen).await,
            Some(name) if args.watch => follow::run(common, name, args.timeout, screen).await,
            Some(name) => show::status(common, name, screen).await,
        },
        Command::Clusters(args) => clusters::run(common, args, screen).await,
        Command::Causes(args) => show::causes(common, &args.name, screen).await,
        Command::Cluster(args) => cluster::run(common, args, screen).await,
        Command::History(args) => history::run(common, args, screen).await,
        Command::Export(args) => history::export(common, &args.name, screen).await,
        Command::Create(args) => create::run(common, args, screen).await,
        Command::Check(args) => check::run(common, args, screen).await,
        Command::Version(args) => version::run(common, args, screen).await,
        Command::Why(args) => show::why(common, args, screen).await,
        Command::Pause(args) => change::pause(common, &args.name, true, screen).await,
        Command::Resume(args) => change::pause(common, &args.name, false, screen).await,
        Command::Preflight(args) => preflight::run(common, &args.name, screen).await,
        Command::Accept(args) => {
            let what = (Consent::Risk, args.name.as_str(), args.risk.as_str());
            consent::run(common, what, &args.consent, screen).await
        }
        Command::Ack(args) => {
            let what = (Consent::Gate, args.name.as_str(), args.key.as_str());
            consent::run(common, what, &args.consent, screen).await
        }
        Command::Approvals(args) => approve::list(common, args, screen).await,
        Command::Approve(args) => approve::run(common, args, screen).await,
        Command::Retry(args) => retry::run(common, args, screen).await,
        Command::Skip(args) => left_out::leave_out(common, (args, List::Skip), screen).await,
        Command::Abort(args) => left_out::leave_out(common, (args, List::Abort), screen).await,
        Command::Unskip(args) => left_out::unskip(common, args, screen).await,
    }
}

/// False where -A means all namespaces, or the command needs no namespace.
const fn is_about_one_namespace(command: &Command) -> bool {
    match command {
        Command::Status(args) => args.name.is_some(),
        Command::History(args) => args.name.is_some(),
        Command::Clusters(_)
        | Command::Causes(_)
        | Command::Export(_)
        | Command::Create(_)
        | Command::Check(_)
        | Command::Why(_)
        | Command::Preflight(_)
        | Command::Accept(_)
        | Command::Ack(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Approve(_)
        | Command::Retry(_)
        | Command::Skip(_)
        | Command::Abort(_)
        | Command::Unskip(_) => true,
        _ => false,
    }
}

fn refuse_all_namespaces(common: &Common) -> Result<(), Failure> {
    if common.all_namespaces {
        return Err(Failure::Other(
            "an upgrade cannot be retrieved by name across all namespaces; give its namespace with -n, without -A"
                .to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_format_that_the_command_does_not_write_is_an_invalid_command_line() {
        for line in ["status -o csv", "clusters spring -o csv", "export spring -o yaml"] {
            let words = ["kubectl-mcu"].into_iter().chain(line.split(' '));
            assert_eq!(run_args(words).await, Exit::Usage, "{line}");
        }
    }

    #[tokio::test]
    async fn a_check_is_about_one_namespace_and_refuses_all() {
        let cli = Cli::try_parse_from(["kubectl-mcu", "check", "-A"]).unwrap();
        let refusal = refuse_all_namespaces(&cli.common).unwrap_err();
        assert_eq!(dispatch(&cli, Screen::detect()).await, Err(refusal));
    }
}
