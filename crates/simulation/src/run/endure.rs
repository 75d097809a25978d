//! What the hub refuses for minutes while nothing else happens shows in the status.

use std::time::Duration;

use anyhow::Result;
use api::conditions::reason::WAITING_FOR_APPROVAL;
use serde_json::Value;

use super::{Run, TELLING, is_true};
use crate::describe::brief;
use crate::names::{RIVAL, UPGRADE};
use crate::oracle::Rule;

/// What is refused for this long is told: five minutes, and the time in which what happened before comes to its end.
const REFUSED: Duration = Duration::from_secs(330);
/// How often the run looks.
const LOOK: Duration = Duration::from_secs(5);
/// At so many looks in a row nothing may be told. A row that the hub rejects counts as not rejected while it is tried again.
const SILENT: u32 = 3;

/// Whether one of the lists of a status names a cluster.
fn names(value: &Value, cluster: &str) -> bool {
    let lists = ["/status/waitingClusters", "/status/failedClusters"];
    let lists = lists.iter().filter_map(|list| value.pointer(list)?.as_array());
    let mut listed = lists
        .flatten()
        .filter_map(|one| one.get("name").and_then(Value::as_str));
    listed.any(|name| name == cluster)
}

/// Whether a status says that its upgrade waits for an approval.
fn waits_for_approval(value: &Value) -> bool {
    let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| {
        let text = |field: &str| one.get(field).and_then(Value::as_str);
        text("type") == Some("Ready") && text("reason") == Some(WAITING_FOR_APPROVAL)
    })
}

impl Run {
    /// Lives until the hub refuses nothing any more. People have set right what they left before that.
    pub(super) async fn endure(&mut self) -> Result<()> {
        let begin = self.clock.elapsed();
        let until = self.network.refuses_until();
        if until <= begin {
            return Ok(());
        }
        self.people.repair().await?;
        let mut silent = [0; 2];
        while self.clock.elapsed() < until {
            self.machines.live_for(LOOK).await?;
            self.claim().await?;
            self.revive()?;
            for (name, silent) in [UPGRADE, RIVAL].into_iter().zip(&mut silent) {
                self.told_refusal(name, begin, silent);
            }
        }
        Ok(())
    }

    /// An upgrade tells what has been refused for minutes. `silent`: how often it has not told so in a row.
    fn told_refusal(&self, name: &str, begin: Duration, silent: &mut u32) {
        let now = self.clock.elapsed();
        let before = now.saturating_sub(REFUSED);
        let Some(object) = self.object(name).filter(|_| begin <= before) else {
            return;
        };
        let tidings = self.oracle.tidings(&object.uid, before, now);
        if object.is_deleting || tidings.is_empty() {
            *silent = 0;
            return;
        }
        let value = object.value();
        let is_stalled = is_true(&value, "Stalled");
        let is_named = tidings.blocked.iter().all(|cluster| names(&value, cluster));
        let needs_condition = tidings.is_at_rest && !tidings.blocked.is_empty();
        let tells = TELLING.iter().any(|condition| is_true(&value, condition))
            || (tidings.is_unapproved && waits_for_approval(&value));
        let is_told = is_stalled || (is_named && !tidings.is_unwritten && (tells || !needs_condition));
        *silent = if is_told { 0 } else { *silent + 1 };
        // Once is enough.
        self.oracle.check(Rule::Told, *silent != SILENT, || {
            format!(
                "the hub refuses writes of {name} for {REFUSED:?}, and the status does not say so: {tidings:?}, {}",
                brief(&value)
            )
        });
    }
}
