//! `accept` and `ack`: each shows what a risk or a gate is about, and edits the spec.

use std::fmt::Write as _;

use api::message::count;
use api::report::{Phase, ReportRow};
use observe::preflight::nearest;

use crate::args::{Common, ConsentArgs, UnknownFields};
use crate::consent::{Edit, change, edited, manifest, obstacle, patch};
use crate::edit;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::lint::{Finding, Linter, Report, output};
use crate::preflight::{Answers, Consent, ShownText, answers, names, reported, reported_by_rows, shortened};
use crate::render::objects::{self, machine, to_yaml};
use crate::screen::Screen;
use crate::table::one_line;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Longest name in a list of names, in bytes.
const MAX_NAME: usize = 100;
/// Texts that are shown besides the most frequent one, and the longest of them, in bytes.
const MAX_OTHER_TEXTS: usize = 3;
const MAX_OTHER_TEXT: usize = 1000;

pub(super) async fn run(
    common: &Common,
    (consent, upgrade, name): (Consent, &str, &str),
    args: &ConsentArgs,
    screen: Screen,
) -> Result<Exit, Failure> {
    let reason = args.reason.trim();
    if reason.is_empty() {
        return Err(Failure::Other(format!(
            "--reason: say why the {} is acceptable; it is kept in the spec for those who ask later",
            consent.noun()
        )));
    }
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(upgrade).await?;
    if let Some(obstacle) = obstacle(&upgrade, consent) {
        return Err(Failure::Other(obstacle.to_owned()));
    }
    let answers = probes(&hub, &upgrade, screen).await?.unwrap_or_default();
    let rows = hub.rows(&upgrade).await.map(|rows| rows.rows).unwrap_or_default();
    let target = upgrade.spec_text("/clusterVersion/version");
    screen.note(&about((consent, name), target, &answers, &rows));
    screen.note(&unreached(consent, &upgrade, &rows));
    let (list, edit) = edited(&upgrade, consent, name, reason);
    let shown = manifest(&upgrade, consent, &list);
    check(&upgrade, consent, &list, screen)?;
    if args.dry_run {
        screen.print(&machine(common.output, || shown.clone()).unwrap_or_else(|| to_yaml(&shown)));
        return Ok(Exit::Done);
    }
    if edit == Edit::Unchanged {
        screen.print(&told(&upgrade, consent, name, "unchanged"));
        return Ok(Exit::Done);
    }
    let question = match consent {
        Consent::Risk => "Accept this risk",
        Consent::Gate => "Acknowledge this gate",
    };
    if !args.yes && !screen.confirms(question) {
        return Err(Failure::Other("nothing was changed".to_owned()));
    }
    let after = edit::carry_out(&hub, &upgrade, &change(consent, &list)).await?;
    let done = match consent {
        Consent::Risk => "accepted",
        Consent::Gate => "acknowledged",
    };
    let text = objects::upgrade(common.output, &after);
    screen.print(&text.unwrap_or_else(|| told(&upgrade, consent, name, done)));
    Ok(Exit::Done)
}

fn told(upgrade: &Upgrade, consent: Consent, name: &str, done: &str) -> String {
    format!(
        "{TYPE_AND_GROUP}/{} {} {name} {done}\n",
        upgrade.name,
        consent.noun()
    )
}

/// The clusters that were asked for the update before, which the edit does not reach. Empty if there are none.
fn unreached(consent: Consent, upgrade: &Upgrade, rows: &[ReportRow]) -> String {
    let mut asked = rows.iter().filter(|row| row.phase == Phase::Initialized);
    let clusters = asked.clone().count();
    let Some(first) = asked.next() else {
        return String::new();
    };
    let how = match consent {
        Consent::Risk => "",
        Consent::Gate => {
            "acknowledge the gate there (ConfigMap admin-acks of namespace openshift-config), or "
        }
    };
    format!(
        "Note: {} {} asked for the update before (such as {}), which this edit does not reach: {how}let it be asked anew (kubectl mcu abort {} CLUSTER -n {} --reason '...', then unskip).\n",
        count(clusters, "cluster"),
        if clusters == 1 { "was" } else { "were" },
        first.cluster,
        upgrade.name,
        upgrade.namespace
    )
}

/// The answers of the probes; `None` without the right to read them.
pub(super) async fn probes(hub: &Hub, upgrade: &Upgrade, screen: Screen) -> Result<Option<Answers>, Failure> {
    match hub.probes(&upgrade.uid).await {
        Ok(probes) => Ok(Some(answers(&probes))),
        Err(Failure::Server { reason, message }) if reason == "Forbidden" => {
            screen.note(&format!(
                "Warning: {message}. What clusters answer is known only as far as the reports tell it.\n"
            ));
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// What a risk or gate of an update to `target` is about, and whom it concerns.
fn about((consent, name): (Consent, &str), target: &str, answers: &Answers, rows: &[ReportRow]) -> String {
    let mut texts = reported(consent, name, answers, target);
    if texts.is_empty() {
        texts = reported_by_rows(consent, name, rows);
    }
    if !texts.is_empty() {
        return shown(name, &texts);
    }
    let known = names(consent, answers, target);
    let mut note = format!(
        "Note: no cluster of the upgrade reports a {} with this name.",
        consent.noun()
    );
    if let Some(other) = nearest(name, known.iter().copied()) {
        let _ = write!(note, " Did you mean {}?", one_line(&other));
    } else if !known.is_empty() {
        let names = known.iter().take(10);
        let names: Vec<String> = names.map(|name| shortened(&one_line(name), MAX_NAME)).collect();
        let _ = write!(note, " They report: {}.", names.join(", "));
    }
    note.push('\n');
    note
}

/// The text that most clusters show, and those of the others: one cluster may show a harmless text for a gate that is not harmless.
fn shown(name: &str, texts: &[ShownText]) -> String {
    let text = |shown: &ShownText| match shown.text.as_str() {
        "" => "The clusters give no text.".to_owned(),
        text => text.to_owned(),
    };
    let clusters = texts.iter().map(|shown| shown.clusters).sum();
    let Some((most, others)) = texts.split_first() else {
        return String::new();
    };
    let mut about = format!(
        "{name} ({}, such as {}):\n  {}\n",
        count(clusters, "cluster"),
        most.example,
        text(most)
    );
    if others.is_empty() {
        return about;
    }
    let _ = writeln!(
        about,
        "Warning: the texts differ. {} of {} {} this text.",
        most.clusters,
        count(clusters, "cluster"),
        if most.clusters == 1 { "shows" } else { "show" }
    );
    for other in others.iter().take(MAX_OTHER_TEXTS) {
        let who = match other.clusters {
            1 => format!("{} shows another one", other.example),
            clusters => format!("{} and {} more show another one", other.example, clusters - 1),
        };
        let _ = writeln!(about, "  {who}: {}", shortened(&text(other), MAX_OTHER_TEXT));
    }
    let left_out = others.len().saturating_sub(MAX_OTHER_TEXTS);
    if left_out > 0 {
        let _ = writeln!(
            about,
            "  and {} that {} not shown",
            count(left_out, "text"),
            if left_out == 1 { "is" } else { "are" }
        );
    }
    about
}

/// Checks the edited object as `lint` does, so that what the hub would refuse is said with its field.
fn check(
    upgrade: &Upgrade,
    consent: Consent,
    list: &[serde_json::Value],
    screen: Screen,
) -> Result<(), Failure> {
    let mut object = upgrade.object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let edited = patch(upgrade, consent, list);
    for (field, list) in edited["spec"]["clusterVersion"].as_object().into_iter().flatten() {
        object["spec"]["clusterVersion"][field] = list.clone();
    }
    let mut report = Report::default();
    let linter = Linter::new(UnknownFields::Ignore, Some(upgrade.namespace.clone()));
    linter.lint(&upgrade.name, &to_yaml(&object), &mut report);
    let is_good = report.is_good();
    if is_good {
        // Only what is edited is of interest.
        let fields = [".acceptRisks", ".adminAcks"];
        let is_edited = |finding: &Finding| fields.iter().any(|field| finding.field.contains(field));
        report.findings.retain(is_edited);
    }
    if !report.findings.is_empty() {
        screen.note(&output::text(&report));
    }
    if is_good {
        return Ok(());
    }
    Err(Failure::Other("nothing was changed".to_owned()))
}

#[cfg(test)]
mod tests;
