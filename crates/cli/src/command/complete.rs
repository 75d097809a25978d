//! `__complete`: candidates for kubectl's completion. If anything goes wrong, it prints no candidates and no error, because
//! an error would appear in the middle of the user's command line.

use std::time::Duration;

use api::report::ReportRow;

use super::left_out::{self, List};
use crate::args::{Common, ConnectionArgs};
use crate::completion::{Expected, answer, expected};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::rows::{Rows, is_retryable, is_unreadable};
use crate::screen::Screen;
use crate::upgrade::Upgrade;

/// Time limit for the hub, because the user who pressed Tab is waiting.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn run(common: &Common, words: &[String], screen: Screen) -> Result<Exit, Failure> {
    let last = words.last().map(String::as_str).unwrap_or_default();
    let common = with_flags(common, words);
    let (candidates, files) = match expected(words) {
        Expected::Words(words) => (words, false),
        Expected::File => (Vec::new(), true),
        Expected::Upgrade => (ask(upgrades(&common)).await, false),
        Expected::Cluster {
            upgrade,
            command,
            named,
        } => {
            let mut names = ask(clusters(&common, &upgrade, &command)).await;
            names.retain(|name| !named.contains(name));
            (names, false)
        }
        Expected::Checkpoint(name) => (ask(checkpoints(&common, &name)).await, false),
    };
    screen.print(&answer(&candidates, last, files));
    Ok(Exit::Done)
}

async fn ask(names: impl Future<Output = Result<Vec<String>, Failure>>) -> Vec<String> {
    match tokio::time::timeout(TIMEOUT, names).await {
        Ok(Ok(names)) => names,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

async fn upgrades(common: &Common) -> Result<Vec<String>, Failure> {
    let upgrades = Hub::connect(common).await?.list(false).await?;
    Ok(upgrades.into_iter().map(|upgrade| upgrade.name).collect())
}

async fn clusters(common: &Common, name: &str, command: &str) -> Result<Vec<String>, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(name).await?;
    if command == "unskip" {
        return Ok(left_out::names(&upgrade));
    }
    Ok(accepted(command, &upgrade, &hub.rows(&upgrade).await?))
}

/// The clusters that the command accepts.
fn accepted(command: &str, upgrade: &Upgrade, rows: &Rows) -> Vec<String> {
    let is_accepted = |row: &ReportRow| match command {
        "skip" => left_out::may_be_left_out(upgrade, row, List::Skip),
        "abort" => left_out::may_be_left_out(upgrade, row, List::Abort),
        "retry" => is_retryable(row) && !is_unreadable(row),
        _ => true,
    };
    let accepted = rows.rows.iter().filter(|row| is_accepted(row));
    accepted.map(|row| row.cluster.clone()).collect()
}

async fn checkpoints(common: &Common, name: &str) -> Result<Vec<String>, Failure> {
    let upgrade = Hub::connect(common).await?.upgrade(name).await?;
    Ok(waiting_names(&upgrade))
}

/// The checkpoints that can be approved: those that wait.
fn waiting_names(upgrade: &Upgrade) -> Vec<String> {
    let all = upgrade.status.iter().flat_map(|status| &status.approvals);
    let waiting = all.filter(|checkpoint| checkpoint.is_waiting());
    waiting.map(|checkpoint| checkpoint.name.clone()).collect()
}

/// The common flags, with those that choose the hub and the namespace taken from the words typed so far.
fn with_flags(common: &Common, words: &[String]) -> Common {
    let value = |names: &[&str]| {
        words.iter().enumerate().find_map(|(index, word)| {
            let joined = names
                .iter()
                .find_map(|name| word.strip_prefix(name)?.strip_prefix('='))
                .map(str::to_owned);
            let apart = || {
                names
                    .contains(&word.as_str())
                    .then(|| words.get(index + 1).cloned())
                    .flatten()
            };
            joined.or_else(apart)
        })
    };
    let given = &common.connection;
    let connection = ConnectionArgs {
        context: value(&["--context"]).or_else(|| given.context.clone()),
        kubeconfig: value(&["--kubeconfig"])
            .map(Into::into)
            .or_else(|| given.kubeconfig.clone()),
        cluster: value(&["--cluster"]).or_else(|| given.cluster.clone()),
        user: value(&["--user"]).or_else(|| given.user.clone()),
        server: value(&["-s", "--server"]).or_else(|| given.server.clone()),
        ..given.clone()
    };
    Common {
        namespace: value(&["-n", "--namespace"]).or_else(|| common.namespace.clone()),
        connection,
        ..common.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_checkpoints_that_wait_are_offered() {
        let states = [("first", "Approved"), ("half", "Waiting"), ("rest", "Ahead")];
        let approvals = states.map(|(name, state)| json!({"name": name, "state": state, "planHash": "1a2b"}));
        let upgrade = Upgrade::read(json!({
            "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 1},
            "status": {"observedGeneration": 1, "approvals": approvals},
        }));
        assert_eq!(waiting_names(&upgrade), ["half"]);
        assert!(waiting_names(&Upgrade::default()).is_empty());
    }

    #[test]
    fn only_clusters_that_the_command_takes_are_offered() {
        let rows = [
            ("c1", "Pending"),
            ("c2", "Failed"),
            ("c3", "Partial"),
            ("c4", "Complete"),
            ("c5", "Skipped"),
        ];
        let rows = rows.map(|(cluster, phase)| {
            serde_json::from_value(json!({
                "cluster": cluster, "phase": phase, "since": "2026-01-01T00:00:00Z", "revision": "r1",
            }))
            .unwrap()
        });
        let rows = Rows {
            rows: rows.into(),
            ..Rows::default()
        };
        let entry = |cluster: &str| json!({"cluster": cluster, "reason": "x"});
        let upgrade = Upgrade::read(json!({"spec": {"upgradeStrategy": {
            "skip": [entry("c5")], "abort": [entry("c1"), entry("c9")],
        }}}));
        let of = |command| accepted(command, &upgrade, &rows).join(" ");
        assert_eq!(of("why"), "c1 c2 c3 c4 c5");
        assert_eq!(of("skip"), "c1 c2 c3");
        assert_eq!(of("abort"), "c2 c5");
        assert_eq!(of("retry"), "c2");
        assert_eq!(left_out::names(&upgrade), ["c5", "c1", "c9"]);
    }

    #[test]
    fn flags_among_the_words_choose_the_hub() {
        let words: Vec<String> = "-n upgrades --context=prod why "
            .split(' ')
            .map(str::to_owned)
            .collect();
        let common = with_flags(&Common::default(), &words);
        assert_eq!(common.namespace.as_deref(), Some("upgrades"));
        assert_eq!(common.connection.context.as_deref(), Some("prod"));
        assert_eq!(common.connection.kubeconfig, None);
    }
}
