//! What happened: the upgrades by start, or the steps of the clusters of one upgrade in order.

use api::conditions;
use api::report::{Outcome, Phase, ReportRow};
use api::time::{to_chrono, to_rfc3339};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::age;
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::render::objects::{list, machine};
use crate::render::state_tone;
use crate::rows::end_of_open_step;
use crate::table::{Cell, Table, lines, or_none};
use crate::upgrade::{TYPE_AND_GROUP, Upgrade, changed_at};

/// When an upgrade started and completed, as far as its status says.
fn span(upgrade: &Upgrade) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    let status = upgrade.status.as_ref();
    let started = status
        .and_then(|status| status.started_at.as_ref())
        .and_then(to_chrono);
    let completed = status
        .and_then(|status| status.completed_at.as_ref())
        .and_then(to_chrono);
    // An older controller wrote neither time.
    let complete = upgrade
        .condition(conditions::COMPLETE)
        .filter(|complete| complete.status == "True");
    (started, completed.or_else(|| complete.and_then(changed_at)))
}

/// Renders upgrades, the newest last.
#[must_use]
pub fn upgrades(
    all: &[Upgrade],
    namespaces: bool,
    output: Option<Output>,
    now: DateTime<Utc>,
    paint: Paint,
) -> String {
    let mut sorted: Vec<&Upgrade> = all.iter().collect();
    sorted.sort_by_key(|upgrade| (span(upgrade).0.or(upgrade.created), &upgrade.name));
    if output == Some(Output::Name) {
        return lines(
            sorted
                .iter()
                .map(|upgrade| format!("{TYPE_AND_GROUP}/{}", upgrade.name)),
        );
    }
    machine(output, || {
        list(&sorted.iter().map(|upgrade| entry(upgrade)).collect::<Vec<_>>())
    })
    .unwrap_or_else(|| table(&sorted, namespaces, now, paint))
}

fn entry(upgrade: &Upgrade) -> Value {
    let (started, completed) = span(upgrade);
    let counts = upgrade.counts();
    json!({
        "namespace": upgrade.namespace,
        "name": upgrade.name,
        "target": upgrade.target(),
        "state": upgrade.state(),
        "createdAt": upgrade.created.map(to_rfc3339),
        "startedAt": started.map(to_rfc3339),
        "completedAt": completed.map(to_rfc3339),
        "clusters": counts.total,
        "complete": counts.complete,
        "failed": counts.failed,
    })
}

fn table(sorted: &[&Upgrade], namespaces: bool, now: DateTime<Utc>, paint: Paint) -> String {
    let columns = [
        "NAMESPACE",
        "NAME",
        "TARGET",
        "STATE",
        "STARTED",
        "COMPLETED",
        "LENGTH",
        "DONE",
        "FAILED",
    ];
    let skipped = usize::from(!namespaces);
    let mut table = Table::new(&columns[skipped..]);
    for upgrade in sorted {
        let (started, completed) = span(upgrade);
        let counts = upgrade.counts();
        let length = started.map_or_else(
            || "<none>".to_owned(),
            |started| age::human(completed.unwrap_or(now) - started),
        );
        let state = upgrade.state();
        let row: Vec<Cell> = vec![
            upgrade.namespace.as_str().into(),
            upgrade.name.as_str().into(),
            upgrade.target().into(),
            Cell::toned(state_tone(&state), state),
            time(started).into(),
            time(completed).into(),
            length.into(),
            format!("{}/{}", counts.complete, counts.total).into(),
            counts.failed.to_string().into(),
        ];
        table.push(row.into_iter().skip(skipped).collect());
    }
    table.render(paint, 0)
}

fn time(time: Option<DateTime<Utc>>) -> String {
    time.map_or_else(
        || "<none>".to_owned(),
        |time| time.to_rfc3339_opts(SecondsFormat::Secs, true),
    )
}

/// A start or an end of a step, or the end of a cluster that is left out.
struct Moment<'a> {
    at: DateTime<Utc>,
    row: &'a ReportRow,
    step: String,
    event: Event,
    started: DateTime<Utc>,
}

/// What happened to a step.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    Started,
    /// It ended, with an outcome if one was recorded.
    Ended(Option<Outcome>),
    /// The cluster is skipped or aborted.
    LeftOut(Phase),
}

impl Event {
    fn text(self) -> String {
        match self {
            Event::Started => "Started".to_owned(),
            Event::Ended(None) => "Ended".to_owned(),
            Event::Ended(Some(outcome)) => format!("{outcome:?}"),
            Event::LeftOut(phase) => phase.to_string(),
        }
    }
}

/// When a cluster that had begun was left out, which ends its open step, if it has one, or when a step failed that has no outcome,
/// because it may still recover.
fn end(row: &ReportRow) -> Option<Moment<'_>> {
    let at = end_of_open_step(row)?;
    let open = row.steps.iter().find(|step| step.finished_at.is_none());
    let (event, step) = if row.phase.is_left_out() {
        (Event::LeftOut(row.phase), open.or_else(|| row.steps.first())?)
    } else {
        (Event::Ended(Some(Outcome::Failed)), open?)
    };
    Some(Moment {
        at,
        row,
        step: open.map_or_else(String::new, |step| format!("{:?}", step.name)),
        event,
        started: step.started_at,
    })
}

/// Renders the starts and ends of the steps of all clusters, in order.
#[must_use]
pub fn steps(rows: &[ReportRow], output: Option<Output>, paint: Paint) -> String {
    let mut moments = Vec::new();
    for row in rows {
        for step in &row.steps {
            let moment = |at, event| Moment {
                at,
                row,
                step: format!("{:?}", step.name),
                event,
                started: step.started_at,
            };
            moments.push(moment(step.started_at, Event::Started));
            moments.extend(step.finished_at.map(|at| moment(at, Event::Ended(step.outcome))));
        }
        moments.extend(end(row));
    }
    moments.sort_by_key(|moment| moment.at);
    if output == Some(Output::Name) {
        return lines(moments.iter().map(|moment| &moment.row.cluster));
    }
    let values = || -> Vec<Value> {
        moments
            .iter()
            .map(|moment| {
                json!({
                    "time": to_rfc3339(moment.at),
                    "cluster": moment.row.cluster,
                    "canary": moment.row.canary,
                    "step": moment.step,
                    "event": moment.event.text(),
                })
            })
            .collect()
    };
    machine(output, || list(&values())).unwrap_or_else(|| moment_table(&moments, paint))
}

fn moment_table(moments: &[Moment<'_>], paint: Paint) -> String {
    let mut table = Table::new(&["TIME", "CLUSTER", "STEP", "EVENT", "AFTER", "REASON"]);
    for moment in moments {
        let is_failed = moment.event == Event::Ended(Some(Outcome::Failed));
        let tone = match moment.event {
            Event::Ended(Some(Outcome::Succeeded)) => Tone::Good,
            Event::Ended(Some(Outcome::Failed)) => Tone::Bad,
            Event::Started | Event::Ended(None) | Event::LeftOut(_) => Tone::Plain,
        };
        let after = match moment.event {
            Event::Started => String::new(),
            Event::Ended(_) | Event::LeftOut(_) => age::human(moment.at - moment.started),
        };
        table.push(vec![
            time(Some(moment.at)).into(),
            moment.row.cluster.as_str().into(),
            or_none(&moment.step).into(),
            Cell::toned(tone, moment.event.text()),
            after.into(),
            if is_failed {
                or_none(&moment.row.reason)
            } else {
                ""
            }
            .into(),
        ]);
    }
    table.render(paint, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{complete, now, rows, running, unseen};

    #[test]
    fn upgrades_are_listed_with_their_length() {
        let mut running = running();
        let started = serde_json::from_value(json!("2026-03-01T11:00:00Z")).unwrap();
        running.status.as_mut().unwrap().started_at = Some(started);
        let all = [running, complete(), unseen()];
        insta::assert_snapshot!(upgrades(&all, true, None, now(), Paint::Never));
        let read: Value =
            serde_json::from_str(&upgrades(&all, false, Some(Output::Json), now(), Paint::Never)).unwrap();
        assert_eq!(read["items"][0]["name"], "spring");
    }

    #[test]
    fn the_steps_of_all_clusters_are_in_order() {
        insta::assert_snapshot!(steps(&rows().rows, None, Paint::Never));
        let read: Value =
            serde_json::from_str(&steps(&rows().rows, Some(Output::Json), Paint::Never)).unwrap();
        assert_eq!(read["items"][0]["event"], "Started");
    }

    #[test]
    fn a_cluster_that_had_begun_ends_when_it_is_left_out() {
        let row = |phase: &str, finished: Value| -> ReportRow {
            serde_json::from_value(json!({
                "cluster": "edge-3", "phase": phase, "since": "2026-03-01T11:10:00Z", "revision": "r1",
                "steps": [{"name": "Platform", "startedAt": "2026-03-01T11:00:00Z", "finishedAt": finished}],
            }))
            .unwrap()
        };
        let last = |row: ReportRow| {
            let text = steps(&[row], None, Paint::Never);
            let words = text.lines().next_back().unwrap_or_default().split_whitespace();
            words.skip(2).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(last(row("Aborted", Value::Null)), "Platform Aborted 10m");
        let finished = json!("2026-03-01T11:05:00Z");
        assert_eq!(last(row("Skipped", finished)), "<none> Skipped 10m");
        assert_eq!(last(row("Failed", Value::Null)), "Platform Failed 10m <none>");
        assert_eq!(last(row("Partial", Value::Null)), "Platform Started");
    }
}
