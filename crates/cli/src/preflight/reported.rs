//! What can be consented to: the risks and gates that clusters report, with the texts that they show.

use std::collections::BTreeMap;

use api::report::{Phase, ReportRow};
use clusterversion::preflight::{Offer, PreflightReason, gates_of_update};

use super::Answers;
use super::causes::shown;
use super::texts::{ShownText, Texts};

/// What can be consented to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// A risk of the update.
    Risk,
    /// A gate that asks for an acknowledgment.
    Gate,
}

impl Consent {
    /// The thing in a word.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Consent::Risk => "risk",
            Consent::Gate => "gate",
        }
    }
}

/// The names of the risks that apply or are not evaluated, or of the gates that an update to `target` asks for and that are not
/// acknowledged.
#[must_use]
pub fn names<'a>(consent: Consent, answers: &'a Answers, target: &str) -> Vec<&'a String> {
    let mut names: Vec<&String> = Vec::new();
    each(consent, answers, target, |_, name, _| names.push(name));
    names.sort_unstable();
    names.dedup();
    names
}

/// The texts that clusters show of the risk or gate of an update to `target` with this name, that of the most clusters first. Empty if
/// none reports it.
#[must_use]
pub fn reported(consent: Consent, name: &str, answers: &Answers, target: &str) -> Vec<ShownText> {
    let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
    each(consent, answers, target, |cluster, known, text| {
        if known == name {
            // A cluster counts once, whatever it lists twice.
            texts.entry(cluster).or_insert(text);
        }
    });
    let mut found = Texts::default();
    for (cluster, text) in texts {
        found.add(cluster, shown(text));
    }
    found.by_frequency()
}

/// Calls `add` with cluster, name and text of everything that clusters report of an update to `target`.
fn each<'a>(
    consent: Consent,
    answers: &'a Answers,
    target: &str,
    mut add: impl FnMut(&'a str, &'a String, &'a str),
) {
    for (cluster, facts) in answers {
        match (consent, &facts.offer) {
            (Consent::Risk, Ok(Offer::Conditional { risks, .. })) => {
                for risk in risks.iter().filter(|risk| risk.applies != Some(false)) {
                    add(cluster, &risk.name, &risk.message);
                }
            }
            (Consent::Gate, _) => {
                for gate in gates_of_update(facts, target) {
                    add(cluster, &gate.key, &gate.text);
                }
            }
            (Consent::Risk, _) => {}
        }
    }
}

/// The same from the rows of clusters that wait, for those who may not read probes: only whether rows tell of this name.
#[must_use]
pub fn reported_by_rows(consent: Consent, name: &str, rows: &[ReportRow]) -> Vec<ShownText> {
    let reasons: &[PreflightReason] = match consent {
        Consent::Risk => &[PreflightReason::RiskNotAccepted, PreflightReason::RiskUnknown],
        Consent::Gate => &[PreflightReason::AdminAckRequired],
    };
    let about = |row: &&ReportRow| {
        let waits = matches!(row.phase, Phase::Pending | Phase::Blocked);
        let is_cause = reasons.iter().any(|reason| reason.to_string() == row.reason);
        let mut words = row
            .message
            .split(|c: char| c.is_whitespace() || ":;,".contains(c));
        waits && is_cause && words.any(|word| word == name)
    };
    let mut texts = Texts::default();
    for row in rows.iter().filter(about) {
        texts.add(&row.cluster, shown(&row.message));
    }
    texts.by_frequency()
}
