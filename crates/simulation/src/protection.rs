//! What protects the controller from faults.

/// A protection that the controller lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// It repeats what has failed, was not answered or has ended. Without: never again.
    Perseverance,
    /// It pauses before it repeats what was refused. Without: it repeats at once.
    Pause,
    /// It takes a creation without an answer for one that may still come about. Without: it takes it for refused.
    Doubt,
    /// It reads records and works when it starts. Without: a replica that starts anew sees none.
    Memory,
    /// It compares its clock with that of the hub. Without: it trusts its own.
    Clock,
    /// It creates again what somebody has deleted, or what somebody else's was in the place of. Without: it tries once.
    Repair,
    /// It writes a report again that somebody has deleted. Without: it takes it for written.
    Rewriting,
    /// It removes the works of an upgrade that is deleted. Without: it takes them for removed.
    Cleaning,
    /// It selects nobody but those whom the right author may select. Without: whoever is named is drawn in.
    Selection,
    /// It notices that a cluster has come back, is decided on again, or is in a bound set again. Without: it has lost sight of it.
    Sight,
    /// It reads objects one by one. Without: an object that is nested too deeply is in the way of all others.
    OneByOne,
    /// It rejects a spec that names a manifest twice. Without: it does not see that.
    Validation,
    /// It takes a value of the wrong type for none. Without: it takes it for the end of the update.
    Types,
    /// It believes what is reported of an update only when the cluster has seen the request. Without: it believes it before that.
    Generations,
    /// It leaves alone what says that it belongs to somebody else. Without: it does not see that.
    Ownership,
    /// It blocks a cluster that claims a newer version. Without: it does not see that.
    Claims,
    /// It follows an edit of the version that is asked for. Without: it reads the one from before.
    Edits,
    /// It follows an edit of the operators. Without: it sees none.
    Operators,
    /// It believes reports that are in the namespace of their upgrade and belong to it. Without: it believes others, too.
    Belonging,
    /// It notices that somebody has changed a report. Without: it does not hear of it.
    Attention,
    /// It waits for worker pools that are paused. Without: it takes them for updated.
    Pools,
    /// It reads which retry was carried out. Without: it does not know that when it starts anew.
    RetryToken,
    /// It lists anew when the revision of a watch has expired. Without: it does not.
    Relisting,
    /// It takes an answer of another form for none. Without: it reads in it that the update is offered.
    Sense,
    /// It waits for the answer of a cluster. Without: it does not hear a cluster any more that has not answered after a while.
    Patience,
    /// It compares the plan of an approval with the present one, and notices that one is deleted. Without: any plan will do, and what
    /// was approved once stays so.
    Approvals,
    /// It notices that a work is gone at last. Without: it does not hear of that if it took long.
    Departure,
}

impl Protection {
    /// What the controller reads instead of something else.
    #[must_use]
    pub const fn reads(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::OneByOne => Some(("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":", "{")),
            Self::Validation => Some(("\"preUpgradeAction\"", "\"strangeAction\"")),
            Self::Types => Some((
                r#"{"fieldValue":{"integer":-1,"type":"Integer"},"name":"state"}"#,
                r#"{"fieldValue":{"string":"Completed","type":"String"},"name":"state"},{"fieldValue":{"string":"4.14.12","type":"String"},"name":"version"}"#,
            )),
            Self::Generations => Some(("\"name\":\"observedGeneration\"}", "\"name\":\"unread\"}")),
            Self::Ownership => Some(("strangers/other", "team/spring")),
            Self::Claims => Some(("\"value\":\"4.14.15\"", "\"value\":\"4.14.9\"")),
            Self::Edits => Some(("\"version\":\"4.14.13\"", "\"version\":\"4.14.12\"")),
            Self::Operators => Some(("\"ocpOperators\"", "\"strangeOperators\"")),
            Self::Pools => Some(("paused 1 worker", "updated 1 worker")),
            Self::Sense => Some((
                "offer/1\\nkeys/1\\npools/1\\u0000\u{7f}",
                "offer/1\\nlisted registry/release",
            )),
            Self::RetryToken => Some(("\"observedRetry\"", "\"strangeRetry\"")),
            _ => None,
        }
    }
}
