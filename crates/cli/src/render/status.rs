//! The view of one upgrade: progress, slots, canaries, what it is waiting for, and what to do.

use std::fmt::Write as _;

use api::conditions;
use api::mcu::{ActionSummary, ClusterNote, ClustersSummary, ManagedClustersUpgradeStatus};
use api::time::to_chrono;
use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::age;
use crate::paint::{Paint, Tone};
use crate::remedy::{self, Names};
use crate::render::{phase_tone, state_tone};
use crate::table::{Cell, Table, lines, one_line, or_none};
use crate::upgrade::{Upgrade, changed_at};

const BAR: usize = 24;

/// Renders one upgrade. With `wide`, it shows every condition, not only the important ones.
#[must_use]
pub fn render(upgrade: &Upgrade, wide: bool, now: DateTime<Utc>, paint: Paint) -> String {
    let mut text = String::new();
    field(&mut text, "Name", &upgrade.name);
    field(&mut text, "Namespace", &upgrade.namespace);
    field(&mut text, "Target", &target(upgrade));
    let state = upgrade.state();
    field(&mut text, "State", &paint.tone(state_tone(&state), &state));
    field(&mut text, "Age", &age::since(now, upgrade.created));
    if let Some(error) = &upgrade.unreadable {
        let error = one_line(error);
        let _ = writeln!(
            text,
            "\nThe status cannot be read: {error}. Update the plugin, or make sure that only the controller writes the status."
        );
        return text;
    }
    let Some(status) = &upgrade.status else {
        text.push_str("\nThe controller has not processed this upgrade yet.\n");
        return text;
    };
    text.push('\n');
    counts(&mut text, upgrade, status, paint);
    text.push_str(&conditions_table(upgrade, wide, now, paint));
    let left_out = status.truncated.unwrap_or_default();
    let failed = Notes {
        title: "Failed clusters:",
        clusters: &status.failed_clusters,
        left_out: left_out.failed,
    };
    let waiting = Notes {
        title: "Waiting clusters:",
        clusters: &status.waiting_clusters,
        left_out: left_out.waiting,
    };
    text.push_str(&failed.render(upgrade, now, paint));
    text.push_str(&waiting.render(upgrade, now, paint));
    text.push_str(&advice(upgrade, paint));
    text
}

/// One line for logs. It contains only what changes during an upgrade.
#[must_use]
pub fn line(upgrade: &Upgrade) -> String {
    let mut parts = vec![upgrade.state()];
    let Some(status) = &upgrade.status else {
        let unread = upgrade.unreadable.is_some();
        parts.push(
            if unread {
                "the status cannot be read"
            } else {
                "not processed yet"
            }
            .to_owned(),
        );
        return parts.join("  ");
    };
    let clusters = status.clusters_summery.unwrap_or_default();
    parts.push(format!("{}/{} complete", clusters.complete, clusters.total));
    if let Some(canaries) = status
        .canary_clusters_summery
        .filter(|canaries| canaries.total > 0)
    {
        parts.push(format!("canaries {}/{}", canaries.complete, canaries.total));
    }
    parts.push(format!("in flight {}", slots(status)));
    parts.push(format!("failed {}", clusters.failed));
    parts.push(format!("pending {}", clusters.pending));
    if let Some(stalled) = upgrade
        .condition(conditions::STALLED)
        .filter(|stalled| stalled.status == "True")
    {
        parts.push(format!(
            "Stalled ({}): {}",
            stalled.reason,
            one_line(&stalled.message)
        ));
    }
    if !upgrade.is_observed() {
        parts.push("newest spec not processed yet".to_owned());
    }
    parts.join("  ")
}

fn target(upgrade: &Upgrade) -> String {
    let channel = upgrade.spec_text("/clusterVersion/channel");
    one_line(&if channel.is_empty() {
        upgrade.target()
    } else {
        format!("{} (channel {channel})", upgrade.target())
    })
}

fn field(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{:<14}{value}", format!("{key}:"));
}

fn counts(text: &mut String, upgrade: &Upgrade, status: &ManagedClustersUpgradeStatus, paint: Paint) {
    let clusters = status.clusters_summery.unwrap_or_default();
    field(text, "Progress", &progress(clusters));
    if let Some(canaries) = status
        .canary_clusters_summery
        .filter(|canaries| canaries.total > 0)
    {
        field(text, "Canaries", &canary_counts(canaries, paint));
    }
    field(text, "Slots", &format!("{} in use", slots(status)));
    field(text, "Failed", &alarming(clusters.failed, paint));
    field(text, "Pending", &clusters.pending.to_string());
    for (key, spec_field, summary) in [
        (
            "Pre-action",
            "preUpgradeAction",
            status.pre_upgrade_action_summary,
        ),
        (
            "Post-action",
            "postUpgradeAction",
            status.post_upgrade_action_summary,
        ),
    ] {
        if upgrade.has_action(spec_field) {
            field(text, key, &action_counts(summary.unwrap_or_default(), paint));
        }
    }
}

fn progress(counts: ClustersSummary) -> String {
    let (done, total) = (counts.complete.max(0), counts.total.max(0));
    if total == 0 {
        return "no clusters selected".to_owned();
    }
    let percent = done.saturating_mul(100) / total;
    let cells = i64::try_from(BAR).unwrap_or_default();
    // Rounded down, so that a full bar means that every cluster is complete.
    let filled = usize::try_from(done.saturating_mul(cells) / total)
        .unwrap_or_default()
        .min(BAR);
    format!(
        "[{}{}] {done}/{total} complete ({percent}%)",
        "#".repeat(filled),
        "-".repeat(BAR - filled)
    )
}

fn canary_counts(counts: ClustersSummary, paint: Paint) -> String {
    let mut text = format!("{}/{} complete", counts.complete, counts.total);
    if counts.failed > 0 {
        let _ = write!(text, ", {} failed", alarming(counts.failed, paint));
    }
    text
}

fn action_counts(counts: ActionSummary, paint: Paint) -> String {
    format!(
        "{} of {} done, {} running, {} degraded",
        counts.available,
        counts.total,
        counts.progressing,
        alarming(counts.degraded, paint)
    )
}

fn slots(status: &ManagedClustersUpgradeStatus) -> String {
    let size = status
        .effective_max_concurrency
        .map_or_else(|| "?".to_owned(), |size| size.to_string());
    format!("{}/{size}", status.in_flight.unwrap_or_default())
}

fn alarming(count: i64, paint: Paint) -> String {
    let tone = if count > 0 { Tone::Bad } else { Tone::Plain };
    paint.tone(tone, &count.to_string())
}

/// Whether a condition is important to the reader: Ready always is, the others if they differ from those of a healthy upgrade.
fn matters(condition: &Condition) -> bool {
    match condition.type_.as_str() {
        conditions::READY => true,
        conditions::STALLED | conditions::FAILED => condition.status == "True",
        conditions::SELECTED => {
            condition.status != "True" || conditions::has_selection_notes(&condition.message)
        }
        _ => false,
    }
}

fn conditions_table(upgrade: &Upgrade, wide: bool, now: DateTime<Utc>, paint: Paint) -> String {
    let mut table = Table::new(&["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"]);
    let all = upgrade.status.iter().flat_map(|status| &status.conditions);
    for condition in all.filter(|condition| wide || matters(condition)) {
        let is_true = condition.status == "True";
        let tone = match condition.type_.as_str() {
            conditions::STALLED | conditions::FAILED if is_true => Tone::Bad,
            conditions::READY if is_true => Tone::Good,
            _ => Tone::Plain,
        };
        table.push(vec![
            condition.type_.as_str().into(),
            Cell::toned(tone, condition.status.as_str()),
            condition.reason.as_str().into(),
            age::since(now, changed_at(condition)).into(),
            condition.message.as_str().into(),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "\n{}\n{}",
        paint.tone(Tone::Bold, "Conditions:"),
        table.render(paint, 2)
    )
}

struct Notes<'a> {
    title: &'static str,
    clusters: &'a [ClusterNote],
    left_out: i64,
}

impl Notes<'_> {
    fn render(&self, upgrade: &Upgrade, now: DateTime<Utc>, paint: Paint) -> String {
        if self.clusters.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&["CLUSTER", "PHASE", "AGE", "REASON", "MESSAGE"]);
        for note in self.clusters {
            table.push(vec![
                note.name.as_str().into(),
                Cell::toned(phase_tone(note.phase), note.phase.as_str()),
                age::since(now, note.since.as_ref().and_then(to_chrono)).into(),
                or_none(&note.reason).into(),
                note.message.as_str().into(),
            ]);
        }
        let mut text = format!(
            "\n{}\n{}",
            paint.tone(Tone::Bold, self.title),
            table.render(paint, 2)
        );
        if self.left_out > 0 {
            let _ = writeln!(
                text,
                "  and {} more: kubectl mcu clusters {} -n {}",
                self.left_out, upgrade.name, upgrade.namespace
            );
        }
        text
    }
}

/// What to do, and whether the rest of the view is out of date.
fn advice(upgrade: &Upgrade, paint: Paint) -> String {
    let mut sentences: Vec<String> = Vec::new();
    if !upgrade.is_observed() {
        sentences.push(
            "The controller has not processed the newest spec yet. This status describes an earlier one."
                .to_owned(),
        );
    }
    if !upgrade.is_retry_handled() {
        sentences.push("A retry was requested, but the controller has not processed it yet.".to_owned());
    }
    let names = Names {
        namespace: &upgrade.namespace,
        name: &upgrade.name,
        cluster: "",
    };
    let reason = match upgrade.condition(conditions::STALLED) {
        Some(stalled) if stalled.status == "True" => stalled.reason.as_str(),
        _ if upgrade.paused && !upgrade.is(conditions::READY) => conditions::reason::PAUSED,
        _ => "",
    };
    sentences.extend(remedy::for_upgrade(reason, names));
    if sentences.is_empty() {
        return String::new();
    }
    let sentences = lines(sentences.iter().map(|sentence| format!("  {sentence}")));
    format!("\n{}\n{sentences}", paint.tone(Tone::Bold, "What to do:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{complete, condition, now, running, stalled, unseen};
    use crate::upgrade::Verdict;

    #[test]
    fn a_running_upgrade_shows_progress_slots_and_what_it_waits_for() {
        insta::assert_snapshot!(render(&running(), false, now(), Paint::Never));
    }

    #[test]
    fn a_stalled_upgrade_shows_its_cause_and_remedy() {
        insta::assert_snapshot!(render(&stalled(), false, now(), Paint::Never));
    }

    #[test]
    fn a_complete_upgrade_has_a_full_bar() {
        insta::assert_snapshot!(render(&complete(), true, now(), Paint::Never));
    }

    #[test]
    fn selected_is_shown_only_if_nothing_is_selected_or_its_message_has_notes() {
        let is_shown = |status, message: &str| {
            let condition = condition("Selected", status, "ManagedClustersSelected", message);
            matters(&serde_json::from_value(condition).unwrap())
        };
        let note = "Placement a/b does not exist";
        assert!(!is_shown("True", &conditions::selected_message(3, [])));
        assert!(is_shown("True", &conditions::selected_message(3, [note])));
        assert!(is_shown("False", &conditions::selected_message(0, [])));
    }

    #[test]
    fn an_upgrade_without_status_says_so() {
        insta::assert_snapshot!(render(&unseen(), false, now(), Paint::Never));
    }

    #[test]
    fn a_paused_upgrade_with_an_unhandled_retry_says_both() {
        let mut upgrade = running();
        upgrade.paused = true;
        upgrade.generation = 3;
        upgrade.retry = "again".to_owned();
        insta::assert_snapshot!(advice(&upgrade, Paint::Never));
    }

    #[test]
    fn a_finished_upgrade_that_is_paused_needs_nothing() {
        let paused = Upgrade {
            paused: true,
            ..complete()
        };
        assert_eq!(advice(&paused, Paint::Never), "");
    }

    #[test]
    fn colour_only_adds_escapes() {
        let coloured = render(&stalled(), false, now(), Paint::Ansi);
        let coloured = Paint::Ansi.clean(&coloured);
        let mut plain = String::new();
        let mut escape = false;
        for c in coloured.chars() {
            match c {
                '\u{1b}' => escape = true,
                'm' if escape => escape = false,
                _ if escape => {}
                _ => plain.push(c),
            }
        }
        assert_eq!(plain, render(&stalled(), false, now(), Paint::Never));
        assert_ne!(coloured, plain);
    }

    #[test]
    fn a_line_says_what_moved() {
        assert_eq!(
            line(&running()),
            "Upgrading  12/24 complete  canaries 2/2  in flight 5/10  failed 0  pending 6"
        );
        assert!(
            line(&stalled()).ends_with("Stalled (ClustersFailed): 1 cluster failed, 1 cluster is blocked")
        );
        assert_eq!(line(&unseen()), "<unknown>  not processed yet");
    }

    #[test]
    fn a_bar_is_full_only_when_every_cluster_is_complete() {
        let bar = |complete, total| {
            progress(ClustersSummary {
                total,
                complete,
                ..ClustersSummary::default()
            })
        };
        assert!(bar(9999, 10_000).contains("#-]"));
        assert!(bar(10_000, 10_000).contains("#] 10000/10000 complete (100%)"));
        assert_eq!(bar(0, 0), "no clusters selected");
    }

    #[test]
    fn a_watcher_goes_on_ready_and_stalled_of_the_newest_spec_only() {
        assert_eq!(complete().verdict(), Verdict::Ready);
        assert!(matches!(stalled().verdict(), Verdict::Stalled(reason, _) if reason == "ClustersFailed"));
        assert_eq!(running().verdict(), Verdict::Open);
        assert_eq!(unseen().verdict(), Verdict::Open);
        let edited = Upgrade {
            generation: 3,
            ..complete()
        };
        assert_eq!(edited.verdict(), Verdict::Open);
        let retried = Upgrade {
            retry: "now".to_owned(),
            ..stalled()
        };
        assert_eq!(retried.verdict(), Verdict::Open);
    }
}
