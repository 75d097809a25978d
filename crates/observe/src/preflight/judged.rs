//! The verdict on the answers of a cluster, and for how long it stays.

use std::borrow::Cow;
use std::sync::Arc;

use api::message;
use api::text::{cut, visible};
use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::preflight::{
    Fact, Missing, Offer, PreflightFinding, PreflightReason, Request, Verdict, judge, request,
};
use rollout::{Preflight, Reason, duration};

use super::Question;
use crate::index::{ProbeView, WorkRequest};

/// How long a cluster that was ready, and is not any more, counts as not ready.
const SETTLES_AFTER: TimeDelta = TimeDelta::seconds(10);
/// Longest message of a cluster, in bytes.
const MAX_MESSAGE: usize = 1000;
/// Longest message of a row, in bytes.
const MAX_IN_ROW: usize = 256;
/// So many changes of a verdict count at once. Then the next one counts only after the first wait, and each further one after twice
/// that, up to the longest.
const FREE_CHANGES: u32 = 3;
pub(super) const WAIT: (TimeDelta, TimeDelta) = (TimeDelta::seconds(10), TimeDelta::minutes(5));
/// After a verdict has stayed for so long, its earlier changes are forgotten.
const CALM_AFTER: TimeDelta = TimeDelta::minutes(10);

/// The verdict on the answers of a cluster.
#[derive(Debug)]
pub(super) struct Judged {
    pub probe: Arc<ProbeView>,
    pub verdict: Verdict,
    /// How the cluster must be asked for the update, by what it offers.
    pub request: Request,
    /// Since when it has not been known whether the cluster would take the update.
    pub unknown_since: DateTime<Utc>,
    /// When the cluster was ready last, and then not any more.
    pub lost: Option<DateTime<Utc>>,
    /// Since when its agent has read what it was asked for.
    pub answered: Option<DateTime<Utc>>,
    /// The same, if it was seen that there was no answer before.
    pub heard: Option<DateTime<Utc>>,
    /// When the verdict changed last, and how often before that.
    pub changed: (DateTime<Utc>, u32),
    /// When newer answers count. Until then they change too often.
    pub held_until: Option<DateTime<Utc>>,
}

impl Judged {
    pub(super) fn new(
        probe: &Arc<ProbeView>,
        question: &Question,
        before: Option<&Self>,
        (now, began, heard): (DateTime<Utc>, DateTime<Utc>, DateTime<Utc>),
    ) -> Self {
        let verdict = judge(&probe.facts, &question.update);
        let before = before.filter(|before| before.probe.uid == probe.uid);
        let was_ready = before.is_some_and(|before| matches!(before.verdict, Verdict::Ready(_)));
        let is_ready = matches!(verdict, Verdict::Ready(_));
        let changed = match before {
            None => (now, 0),
            Some(before) if before.verdict == verdict => before.changed,
            Some(before) => (now, before.changes(now) + 1),
        };
        let unknown_since = match before {
            // What was never known is unknown since the cluster was asked, whoever leads.
            None => began,
            // Whoever changes its answers all the time does not get more time by that.
            Some(before) if matches!(before.verdict, Verdict::Unknown(_)) || changed.1 > FREE_CHANGES => {
                before.unknown_since
            }
            Some(_) => now,
        };
        let answered = probe.facts.current.is_ok().then_some(heard);
        Self {
            probe: Arc::clone(probe),
            request: request(&probe.facts, &question.update),
            verdict,
            unknown_since,
            lost: match before {
                Some(_) if was_ready && !is_ready => Some(now),
                Some(before) => before.lost,
                None => None,
            },
            answered: before.and_then(|before| before.answered).or(answered),
            heard: before.and_then(|before| before.heard.or(answered.filter(|_| before.answered.is_none()))),
            changed,
            held_until: None,
        }
    }

    /// How often the verdict has changed lately.
    fn changes(&self, now: DateTime<Utc>) -> u32 {
        let (changed, count) = self.changed;
        if now < changed + CALM_AFTER { count } else { 0 }
    }

    /// True when newer answers do not count yet, because they change too often. That a cluster is not ready any more counts at once.
    pub(super) fn puts_off(&mut self, newer: &Self, now: DateTime<Utc>) -> bool {
        let changes = self.changes(now);
        let is_other = self.probe.uid != newer.probe.uid || self.verdict == newer.verdict;
        if is_other || matches!(self.verdict, Verdict::Ready(_)) || changes < FREE_CHANGES {
            return false;
        }
        let wait = (WAIT.0 * 2_i32.pow((changes - FREE_CHANGES).min(10))).min(WAIT.1);
        let until = self.changed.0 + wait;
        let waits = now < until;
        self.held_until = waits.then_some(until);
        if waits && matches!(newer.verdict, Verdict::Ready(_)) {
            // It has not been ready for long when it counts.
            self.lost = Some(now);
        }
        waits
    }

    /// When its answers count, if that is still to come. That it runs a newer version than the target counts at once.
    pub(super) fn counts_at(&self, question: &Question, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if question.spares(self) {
            return None;
        }
        let at = self.answered? + question.counts_after;
        (now < at).then_some(at)
    }

    /// True when its agent has read what it was asked for.
    pub(super) fn is_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// True when it is known which risks and gates the cluster tells, or when it was waited for until the timeout.
    pub(super) fn has_told_names(&self, question: &Question, certain: DateTime<Utc>) -> bool {
        let facts = &self.probe.facts;
        let is_late = certain >= self.unknown_since + question.timeout;
        is_late || (is_told(&facts.offer) && is_told(&facts.all_gates))
    }

    /// True when the cluster evaluates another channel than the planned one, and no update graph has told what is served there.
    pub(super) fn is_in_other_channel(&self) -> bool {
        let (Verdict::Blocked(findings) | Verdict::Unknown(findings)) = &self.verdict else {
            return false;
        };
        let mut findings = findings.iter();
        findings.any(|finding| finding.reason == PreflightReason::ChannelDiffers)
    }

    /// When a cluster that was ready before, and then not, may count as ready again.
    pub(super) fn settles(&self) -> Option<DateTime<Utc>> {
        self.lost.map(|lost| lost + SETTLES_AFTER)
    }

    /// What is told of a cluster whose present request accepts risks that the spec does not accept, such as that of an earlier attempt.
    /// It recommends the target whether they apply or not. If they do, it would reject the next request, which does not accept them.
    pub(super) fn with_risks_taken_back(
        &self,
        question: &Question,
        present: &WorkRequest,
    ) -> Option<Preflight> {
        let (WorkRequest::AcceptedRisks(names), Ok(Offer::Cleared { risks })) =
            (present, &self.probe.facts.offer)
        else {
            return None;
        };
        if !self.is_asked_by_offer(question) {
            return None;
        }
        let update = &question.update;
        let is_open =
            |name: &&str| risks.iter().any(|risk| risk == name) && !update.accepted_risks.contains(*name);
        let texts: Vec<String> = names
            .split(' ')
            .filter(is_open)
            .map(|name| {
                format!(
                    "{name}: The spec does not accept this risk. The present request of the cluster does, so the cluster recommends {} and does not tell whether the risk applies",
                    update.version
                )
            })
            .collect();
        (!texts.is_empty()).then(|| Preflight::Blocked {
            reason: Reason::RiskNotAccepted,
            message: Arc::from(shortened(&visible(&texts.join("; ")), MAX_MESSAGE)),
        })
    }

    /// True when the cluster would look for the version among what it offers now. It checks no request by image, and evaluates other risks
    /// in another channel.
    fn is_asked_by_offer(&self, question: &Question) -> bool {
        let (update, channel) = (&question.update, &self.probe.facts.channel);
        let is_same = |channel: &String| *channel == update.channel;
        update.image.is_empty() && (update.channel.is_empty() || channel.as_ref().is_ok_and(is_same))
    }

    /// `certain`: the time by which the timeout ends.
    pub(super) fn preflight(
        &self,
        question: &Question,
        (now, certain): (DateTime<Utc>, DateTime<Utc>),
    ) -> Preflight {
        let settles = self.settles();
        if self.counts_at(question, now).is_some() {
            return Preflight::Unknown {
                reason: Reason::PreflightPending,
                message: Arc::from("The cluster looks for updates in the channel that was set"),
            };
        }
        match &self.verdict {
            Verdict::Ready(_) if settles.is_some_and(|settles| now < settles) => Preflight::Unknown {
                reason: Reason::PreflightPending,
                message: Arc::from(
                    "The answers of the cluster have just changed; it starts when they stay the same for 10 seconds",
                ),
            },
            Verdict::Ready(_) if self.is_stale(now) => Preflight::Stale,
            Verdict::Ready(_) => Preflight::Ready,
            Verdict::Blocked(findings) => Preflight::Blocked {
                reason: first_reason(findings),
                message: message_of(findings),
            },
            Verdict::Unknown(findings) => unknown(
                first_reason(findings),
                message_of(findings),
                self.unknown_since,
                question.timeout,
                certain,
            ),
        }
    }
}

/// What is made of a cluster of which it is not known since a time whether it would take the update. After the timeout it is blocked.
/// A reason that says what is missing stays then. Only `PreflightPending` becomes `PreflightUnknown`, because its remedy is to wait.
pub(super) fn unknown(
    reason: Reason,
    message: Arc<str>,
    since: DateTime<Utc>,
    timeout: TimeDelta,
    certain: DateTime<Utc>,
) -> Preflight {
    if certain < since + timeout {
        return Preflight::Unknown { reason, message };
    }
    Preflight::Blocked {
        reason: match reason {
            Reason::PreflightPending => Reason::PreflightUnknown,
            precise => precise,
        },
        message: waited(&message, timeout),
    }
}

/// A message with the sentence that nothing more was known when the timeout had passed. It fits into a row, so the sentence is not cut.
fn waited(message: &str, timeout: TimeDelta) -> Arc<str> {
    let end = format!(
        "This has been unknown for longer than preflight.timeout ({})",
        duration(timeout)
    );
    let room = MAX_IN_ROW - end.len() - "\u{2026} .".len();
    // Lists of the status cut texts by their length in JSON, where a quotation mark takes two bytes.
    let kept = cut(message, room);
    let ellipsis = if kept.len() < message.len() {
        "\u{2026}"
    } else {
        ""
    };
    Arc::from(message::join([&*format!("{kept}{ellipsis}"), &end]))
}

fn is_told<T>(fact: &Fact<T>) -> bool {
    !matches!(fact, Err(Missing::Pending))
}

/// The reason of the first finding, as the planner knows it.
fn first_reason(findings: &[PreflightFinding]) -> Reason {
    findings
        .first()
        .map_or(Reason::PreflightPending, |finding| known(finding.reason))
}

pub(super) fn known(reason: PreflightReason) -> Reason {
    Reason::parse(&reason.to_string()).unwrap_or(Reason::PreflightPending)
}

/// All findings in one text.
fn message_of(findings: &[PreflightFinding]) -> Arc<str> {
    let texts: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    Arc::from(shortened(&visible(&texts.join("; ")), MAX_MESSAGE))
}

/// The beginning of a text, with an ellipsis if something is left out.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}\u{2026}", &text[..text.floor_char_boundary(most)]))
}
