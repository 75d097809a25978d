//! The commands. They connect the command line, the hub and the renderers.

pub(crate) mod change;
mod complete;
mod dashboard;
mod follow;
mod graph;
mod lint;
mod orphans;
mod rehearse;
mod show;
mod updates;

use crate::args::{Cli, Command, Common};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::Screen;

/// Runs a command. It prints failures as kubectl prints them.
pub async fn run(cli: Cli) -> Exit {
    let screen = Screen::detect();
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
    match &cli.command {
        Command::Lint(args) => lint::run(common, args, screen),
        Command::Graph(args) => graph::run(common, &args.command, screen).await,
        Command::Updates(args) => updates::run(common, args, screen).await,
        Command::Dashboard(args) => dashboard::run(common, args, screen).await,
        Command::Orphans => orphans::run(common, screen).await,
        Command::Rehearse(args) => rehearse::run(common, args, screen).await,
        Command::Completion(args) => {
            screen.print(&crate::completion::script(args.shell));
            Ok(Exit::Done)
        }
        Command::Complete(args) => complete::run(common, &args.words, screen).await,
        Command::Status(args) => match &args.name {
            None => show::list(common, screen).await,
            Some(name) => {
                refuse_all_namespaces(common)?;
                if args.watch {
                    follow::run(common, name, args.timeout, screen).await
                } else {
                    show::status(common, name, screen).await
                }
            }
        },
        Command::Clusters(args) => {
            refuse_all_namespaces(common)?;
            show::clusters(common, args, screen).await
        }
        Command::Why(args) => {
            refuse_all_namespaces(common)?;
            show::why(common, args, screen).await
        }
        Command::Pause(args) => {
            refuse_all_namespaces(common)?;
            change::pause(common, &args.name, true, screen).await
        }
        Command::Resume(args) => {
            refuse_all_namespaces(common)?;
            change::pause(common, &args.name, false, screen).await
        }
        Command::Retry(args) => {
            refuse_all_namespaces(common)?;
            change::retry(common, args, screen).await
        }
    }
}

fn refuse_all_namespaces(common: &Common) -> Result<(), Failure> {
    if common.all_namespaces {
        return Err(Failure::Other(
            "an upgrade cannot be retrieved by name across all namespaces; give its namespace with -n"
                .to_owned(),
        ));
    }
    Ok(())
}
