//! The live picture: `kubectl mcu status -w`, run by the plugin's own library.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser as _;
use kubectl_mcu::args::Cli;
use kubectl_mcu::{Exit, run};

use super::fixtures::{NAMESPACE, UPGRADE};
use super::narrator::Narrator;

/// How long the picture may need to end by itself after the upgrade has come to its end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Shows the upgrade, or nothing.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The kubeconfig of the hub; none shows nothing.
    pub kubeconfig: Option<PathBuf>,
}

impl Picture {
    /// Shows the picture until a part of the story has ended.
    ///
    /// # Errors
    /// The story ends with an error, or the user has interrupted the picture.
    pub async fn beside<T>(
        &self,
        narrator: &mut Narrator,
        part: impl AsyncFnOnce(&mut Narrator) -> Result<T>,
    ) -> Result<T> {
        let Some(kubeconfig) = &self.kubeconfig else {
            return part(narrator).await;
        };
        let words = [
            "kubectl-mcu",
            "status",
            UPGRADE,
            "-n",
            NAMESPACE,
            "-w",
            "--kubeconfig",
        ];
        let words = words
            .map(OsString::from)
            .into_iter()
            .chain([kubeconfig.clone().into_os_string()]);
        let cli = Cli::try_parse_from(words)?;
        if std::io::stdout().is_terminal() {
            narrator.pause();
        }
        let outcome = {
            let (mut picture, mut part) = (pin!(run(cli)), pin!(part(&mut *narrator)));
            tokio::select! {
                biased;
                outcome = &mut part => {
                    // It ends by itself when the upgrade is stalled or ready, and then leaves its last state on the terminal.
                    let _ = tokio::time::timeout(END_TIMEOUT, &mut picture).await;
                    outcome
                }
                exit = &mut picture => match exit {
                    Exit::Interrupted => bail!("interrupted"),
                    _ => part.await,
                },
            }
        };
        narrator.resume();
        outcome
    }
}
