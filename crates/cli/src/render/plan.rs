//! A plan as text, JSON and YAML.

use std::fmt::Write as _;

use api::message::count;
use serde_json::Value;

use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::rehearse::outcome::{Source, Verdict};
use crate::rehearse::plan::UpgradePlan;
use crate::remedy::{self, Names};
use crate::render::objects::machine;
use crate::render::rehearse::{
    basis, causes, clusters, every_cluster, hours, listed, moment, order, seconds, times,
};
use crate::table::{lines, one_line, or_none};

/// Renders a plan in the requested format.
#[must_use]
pub fn render(plan: &UpgradePlan, output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(plan.starts.iter().map(|start| one_line(&start.cluster)));
    }
    machine(output, || serde_json::to_value(plan).unwrap_or(Value::Null))
        .unwrap_or_else(|| text(plan, output == Some(Output::Wide), paint))
}

fn text(plan: &UpgradePlan, wide: bool, paint: Paint) -> String {
    let mut text = summary(plan, paint);
    let mut section = |heading: &str, body: String| {
        if !body.is_empty() {
            let _ = write!(text, "\n{}\n{body}", paint.tone(Tone::Bold, heading));
        }
    };
    section("Blockers:", causes(&plan.blockers, paint));
    section("Timeline:", hours(&plan.timeline, plan.begin, paint));
    section("Order of starts:", order(&plan.starts, plan.begin, wide, paint));
    section("Times:", times(&plan.times, paint));
    section("Notes:", listed(plan.notes.iter().map(String::as_str)));
    section("Not modelled:", listed(plan.not_modelled.iter().copied()));
    text
}

fn summary(plan: &UpgradePlan, paint: Paint) -> String {
    let at = |time| moment(plan.begin, time);
    let mut fields = vec![
        (
            "Upgrade",
            one_line(&format!("{}/{}", plan.namespace, plan.upgrade)),
        ),
        ("Target", or_none(&one_line(&plan.target)).to_owned()),
        ("Begin", begin(plan)),
        ("Result", result(plan, paint)),
    ];
    match plan.eta {
        Some(eta) => fields.extend([
            ("ETA p50", at(eta.p50)),
            ("ETA p90", at(eta.p90)),
            ("Basis", basis(eta.basis, eta.samples)),
        ]),
        None => fields.push(("ETA", no_eta(plan))),
    }
    fields.extend([
        ("Clusters", clusters(plan.clusters)),
        (
            "Slots",
            format!("{}, of which {} are held at the peak", plan.slots, plan.peak),
        ),
    ]);
    for wave in &plan.waves {
        let who = if wave.canaries { "Canaries" } else { "Others" };
        let first = at(wave.first_start);
        fields.push((
            who,
            format!(
                "{} from {first}, the last from {}",
                wave.clusters,
                at(wave.last_start)
            ),
        ));
    }
    fields.push(("Plan hash", plan.plan_hash.clone()));
    let width = fields.iter().map(|(key, _)| key.len()).max().unwrap_or_default() + 2;
    let fields = fields.iter();
    lines(fields.map(|(key, value)| format!("{:<width$}{value}", format!("{key}:"))))
}

fn begin(plan: &UpgradePlan) -> String {
    let applied = match plan.source {
        Source::File => ", as if the file were applied then",
        Source::Hub => "",
    };
    let resumed = plan.held_by.as_deref().map_or_else(String::new, |held| {
        format!(", as if the upgrade were resumed then (now: {held})")
    });
    format!("{}{applied}{resumed}", seconds(plan.begin))
}

fn result(plan: &UpgradePlan, paint: Paint) -> String {
    let names = Names {
        namespace: &plan.namespace,
        name: &plan.upgrade,
        cluster: "",
    };
    match (plan.verdict, &plan.stalled) {
        (Verdict::Completes, _) if plan.unanswered > 0 => {
            paint.tone(Tone::Warn, "Would finish")
                + &format!(
                    ", if {} that {} not answered yet {} the update",
                    count(plan.unanswered, "cluster"),
                    if plan.unanswered == 1 { "has" } else { "have" },
                    if plan.unanswered == 1 { "takes" } else { "take" },
                )
        }
        (Verdict::Completes, _) => {
            paint.tone(Tone::Good, "Would finish")
                + &format!(": {} would be complete", every_cluster(plan.clusters))
        }
        (Verdict::Waits, _) => {
            paint.tone(Tone::Warn, "Would stall")
                + ": some clusters wait for something that the upgrade itself does not change; see the blockers"
        }
        (Verdict::Stalls, None) => paint.tone(Tone::Bad, "Would stall"),
        (Verdict::Stalls, Some(reason)) => {
            let has = |phase| plan.blockers.iter().any(|cause| cause.phase == phase);
            let remedy = remedy::for_upgrade(reason, names, has).unwrap_or_default();
            let text = paint.tone(Tone::Bad, "Would stall") + &format!(": {reason}. {remedy}");
            text.trim_end().to_owned()
        }
    }
}

fn no_eta(plan: &UpgradePlan) -> String {
    if plan.unknown.is_empty() {
        return "<none>: no cluster moves".to_owned();
    }
    let steps: Vec<String> = plan
        .unknown
        .iter()
        .map(|unknown| format!("{} of {}", unknown.step, count(unknown.clusters, "cluster")))
        .collect();
    format!(
        "unknown, because nobody knows how long these steps take: {}. It is known when 5 clusters have finished them, or with --durations. The timeline counts no time for them.",
        steps.join(", ")
    )
}
