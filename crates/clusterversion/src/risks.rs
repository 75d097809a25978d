//! Which risks of a conditional update apply to a cluster, as its ClusterVersion reports it.
//!
//! The cluster-version operator evaluates the risks and reports the result only as text, in the message of condition
//! `Recommended` (`docs/design/cvo.md#recommended-condition`). This module knows these texts and reads a message back into
//! the exposure to each risk, so that a hub or a person who has only the object learns which of several risks apply.

use std::collections::BTreeSet;

use crate::era::Era;
use crate::types::{APPLIES, ConditionalUpdate, Risk};

/// Whether a cluster is exposed to a risk, or why that could not be evaluated.
pub type Exposure = Result<bool, String>;

/// The part of the message that reports a risk to which the cluster is exposed.
#[must_use]
pub fn exposed_text(risk: &Risk) -> String {
    format!("{} {}", risk.message, risk.url)
}

/// The part of the message that reports a risk that could not be evaluated.
#[must_use]
pub fn unknown_text(risk: &Risk, error: &str, era: Era) -> String {
    format!(
        "{}{error}{}",
        unknown_prefix(risk, era),
        unknown_suffix(risk, era)
    )
}

/// What precedes the error in [`unknown_text`].
fn unknown_prefix(risk: &Risk, era: Era) -> String {
    if era.has_old_evaluation_text() {
        format!(
            "Exposure to {} is unknown due to an evaluation failure: ",
            risk.name
        )
    } else {
        format!("Could not evaluate exposure to update risk {} (", risk.name)
    }
}

/// What follows the error in [`unknown_text`].
fn unknown_suffix(risk: &Risk, era: Era) -> String {
    let Risk {
        name, message, url, ..
    } = risk;
    if era.has_old_evaluation_text() {
        format!("\n{message} {url}")
    } else {
        format!(")\n  {name} description: {message}\n  {name} URL: {url}")
    }
}

/// The exposure to each risk of an update, in the order of the risks. `None` if the message does not consist of the texts
/// of the risks.
///
/// The message leaves out a risk that applies but is accepted by name. Such a risk is recognised by its own condition
/// `Applies`, if the cluster records that.
#[must_use]
pub fn exposures(update: &ConditionalUpdate, era: Era) -> Option<Vec<Exposure>> {
    let mut exposures = reported(update, era)?;
    for (risk, exposure) in update.risks.iter().zip(&mut exposures) {
        if *exposure == Ok(false) && risk.conditions.is_true(APPLIES) {
            *exposure = Ok(true);
        }
    }
    Some(exposures)
}

/// The risks because of which an update is not recommended: the cluster is exposed to them, or they could not be evaluated.
/// Risks that apply but are accepted by name are not among them.
#[must_use]
pub fn open_risks(update: &ConditionalUpdate, era: Era) -> Vec<(&Risk, Exposure)> {
    let exposures = reported(update, era).unwrap_or_default();
    let pairs = update.risks.iter().zip(exposures);
    pairs.filter(|(_, exposure)| *exposure != Ok(false)).collect()
}

/// The exposures that the message reports.
fn reported(update: &ConditionalUpdate, era: Era) -> Option<Vec<Exposure>> {
    let condition = update.recommended()?;
    if condition.is_true() {
        return Some(vec![Ok(false); update.risks.len()]);
    }
    let texts: Vec<RiskTexts> = update.risks.iter().map(|risk| RiskTexts::of(risk, era)).collect();
    let mut parser = MessageParser {
        texts: &texts,
        exposures: Vec::with_capacity(texts.len()),
        dead_ends: BTreeSet::new(),
    };
    parser
        .parse(0, Some(&condition.message))
        .then_some(parser.exposures)
}

/// The texts by which a message may report a risk.
struct RiskTexts {
    exposed: String,
    unknown_prefix: String,
    unknown_suffix: String,
}

impl RiskTexts {
    fn of(risk: &Risk, era: Era) -> Self {
        Self {
            exposed: exposed_text(risk),
            unknown_prefix: unknown_prefix(risk, era),
            unknown_suffix: unknown_suffix(risk, era),
        }
    }

    /// The ways to read the start of `text` as a report on this risk: the evaluation error, if it reports one, and the
    /// rest of the text.
    ///
    /// Evaluation errors come first: up to 4.13 the text of an error ends in the text of an exposure.
    fn readings<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (Option<&'a str>, &'a str)> {
        let unknown = text.strip_prefix(&self.unknown_prefix);
        let failed = unknown.into_iter().flat_map(|after| {
            let ends = after.match_indices(&self.unknown_suffix);
            ends.filter_map(move |(at, suffix)| {
                Some((Some(after.get(..at)?), after.get(at + suffix.len()..)?))
            })
        });
        let exposed = text.strip_prefix(&self.exposed).map(|after| (None, after));
        failed.chain(exposed)
    }
}

/// Reads a message as a sequence of texts of risks, by backtracking.
struct MessageParser<'a> {
    texts: &'a [RiskTexts],
    /// The exposures to the risks read so far.
    exposures: Vec<Exposure>,
    /// Pairs of a risk's index and the number of bytes left from which the rest of the message cannot be read. Several
    /// risks may have the same text, and without this memory every choice among them would be tried.
    dead_ends: BTreeSet<(usize, Option<usize>)>,
}

impl MessageParser<'_> {
    /// Reads the rest of a message by the risks from index `at` on. A `rest` of `None` means that the message has ended.
    ///
    /// Splitting at empty lines would not do: one risk's text may be contained in another's, and the text of a risk may
    /// itself have empty lines.
    fn parse(&mut self, at: usize, rest: Option<&str>) -> bool {
        let all = self.texts;
        let Some(texts) = all.get(at) else {
            return rest.is_none();
        };
        let place = (at, rest.map(str::len));
        if self.dead_ends.contains(&place) {
            return false;
        }
        for (error, after) in rest.into_iter().flat_map(|text| texts.readings(text)) {
            let rest = match after {
                "" => None,
                after => match after.strip_prefix("\n\n") {
                    Some(rest) => Some(rest),
                    None => continue,
                },
            };
            let exposure = error.map_or(Ok(true), |error| Err(error.to_owned()));
            if self.try_exposure(at, exposure, rest) {
                return true;
            }
        }
        let found = self.try_exposure(at, Ok(false), rest);
        if !found {
            self.dead_ends.insert(place);
        }
        found
    }

    /// Reads on after assuming an exposure for the risk at index `at`, and withdraws it if the rest cannot be read.
    fn try_exposure(&mut self, at: usize, exposure: Exposure, rest: Option<&str>) -> bool {
        self.exposures.push(exposure);
        let found = self.parse(at + 1, rest);
        if !found {
            self.exposures.pop();
        }
        found
    }
}

#[cfg(test)]
mod tests;
