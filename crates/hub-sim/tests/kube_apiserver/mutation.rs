//! The faults that a simulated hub may have.

use http::Method;
use serde_json::{Value, json};

use crate::mutant::token_of_now;

macro_rules! mutations {
    ($($name:ident),* $(,)?) => {
        /// What is wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutation { $($name),* }

        /// All of them.
        pub const ALL: &[Mutation] = &[$(Mutation::$name),*];
    };
}

mutations! {
    // of requests
    DryRunIsStored,
    UnknownFieldsAreIgnored,
    ForceIsIgnored,
    ApplyAlwaysForces,
    ManagerIsIgnored,
    LimitIsIgnored,
    LabelSelectorIsIgnored,
    FieldSelectorIsIgnored,
    PagesShowThePresent,
    ExactRevisionIsIgnored,
    PolicyIsIgnored,
    UidOfDeletionIsIgnored,
    RevisionOfDeletionIsIgnored,
    UidOfBodyIsIgnored,
    RevisionOfBodyIsIgnored,
    OwnersAreIgnored,
    FinalizersAreIgnored,
    AcceptIsIgnored,
    // of answers
    NothingBumpsRevision,
    ManagersAreKept,
    StatusCounts,
    WarningsAreDropped,
    // of events
    EventsAreSwapped,
    LeavingIsSilent,
    DeletionHasOldRevision,
    ChangesAreAdditions,
    ChangesOfStatusAreSilent,
    // of definitions
    RulesAreNotChecked,
    PatternsAreNotChecked,
    EnumerationsAreNotChecked,
    RequiredIsNotChecked,
    DefaultsAreNotSet,
    ListsAreAtomic,
    NothingIsPruned,
    StatusIsNoSubresource,
}

impl Mutation {
    /// The query of a request, at a revision of the hub.
    pub fn query(self, query: &str, revision: u64) -> String {
        let pairs = form_urlencoded::parse(query.as_bytes());
        let mut changed = form_urlencoded::Serializer::new(String::new());
        for (name, value) in pairs {
            let value = match (self, name.as_ref()) {
                (Self::DryRunIsStored, "dryRun")
                | (Self::UnknownFieldsAreIgnored, "fieldValidation")
                | (Self::ForceIsIgnored, "force")
                | (Self::LimitIsIgnored, "limit")
                | (Self::LabelSelectorIsIgnored, "labelSelector")
                | (Self::FieldSelectorIsIgnored, "fieldSelector") => continue,
                (Self::ExactRevisionIsIgnored, "resourceVersionMatch") => "NotOlderThan".into(),
                (Self::ApplyAlwaysForces, "force") => "true".into(),
                (Self::ManagerIsIgnored, "fieldManager") => "somebody".into(),
                (Self::PagesShowThePresent, "continue") => token_of_now(&value, revision).into(),
                _ => value,
            };
            changed.append_pair(&name, &value);
        }
        changed.finish()
    }

    /// The body of a request.
    pub fn request(self, method: &Method, mut body: Value) -> Value {
        let mut remove = |above: &str, field: &str| {
            if let Some(above) = body.pointer_mut(above).and_then(Value::as_object_mut) {
                above.remove(field);
            }
        };
        match (self, *method == Method::DELETE) {
            (Self::DryRunIsStored, true) => remove("", "dryRun"),
            (Self::PolicyIsIgnored, true) => remove("", "propagationPolicy"),
            (Self::UidOfDeletionIsIgnored, true) => remove("/preconditions", "uid"),
            (Self::RevisionOfDeletionIsIgnored, true) => remove("/preconditions", "resourceVersion"),
            (Self::UidOfBodyIsIgnored, false) => remove("/metadata", "uid"),
            (Self::RevisionOfBodyIsIgnored, false) => remove("/metadata", "resourceVersion"),
            (Self::OwnersAreIgnored, false) => remove("/metadata", "ownerReferences"),
            _ => {}
        }
        body
    }

    /// A line of a watch, as lines. `held` is what comes later.
    pub fn event(self, line: &str, is_selective: bool, held: &mut Option<String>) -> String {
        let event: Value = serde_json::from_str(line).unwrap();
        let line = format!("{line}\n");
        let of = event["type"].as_str().unwrap_or_default();
        match self {
            Self::EventsAreSwapped if of != "BOOKMARK" => match held.take() {
                Some(before) => line + &before,
                None if event["object"]["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with("end") =>
                {
                    line
                }
                None => {
                    *held = Some(line);
                    String::new()
                }
            },
            Self::LeavingIsSilent if of == "DELETED" && is_selective => String::new(),
            Self::DeletionHasOldRevision if of == "DELETED" => {
                let mut event = event;
                event["object"]["metadata"]["resourceVersion"] = "1".into();
                format!("{event}\n")
            }
            Self::ChangesAreAdditions if of == "MODIFIED" => line.replacen("MODIFIED", "ADDED", 1),
            Self::ChangesOfStatusAreSilent if of == "MODIFIED" && event["object"]["status"].is_object() => {
                String::new()
            }
            _ => line,
        }
    }

    /// A definition with this fault.
    pub fn definition(self, crd: &Value) -> Value {
        let mut crd = crd.clone();
        if self == Self::StatusIsNoSubresource {
            crd["spec"]["versions"][0]["subresources"] = json!({});
        }
        let Some(schema) = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") else {
            return crd;
        };
        match self {
            Self::RulesAreNotChecked => without(schema, &["x-kubernetes-validations"]),
            Self::PatternsAreNotChecked => without(schema, &["pattern"]),
            Self::EnumerationsAreNotChecked => without(schema, &["enum"]),
            Self::RequiredIsNotChecked => without(schema, &["required"]),
            Self::DefaultsAreNotSet => without(schema, &["default"]),
            Self::ListsAreAtomic => {
                without(schema, &["x-kubernetes-list-type", "x-kubernetes-list-map-keys"]);
            }
            Self::NothingIsPruned => schema["x-kubernetes-preserve-unknown-fields"] = true.into(),
            _ => {}
        }
        crd
    }
}

/// Removes keywords from a schema and from all below.
fn without(schema: &mut Value, keywords: &[&str]) {
    match schema {
        Value::Object(map) => {
            // A field of that name is a schema, too.
            map.retain(|name, value| !keywords.contains(&name.as_str()) || value.get("type").is_some());
            map.values_mut().for_each(|value| without(value, keywords));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without(item, keywords)),
        _ => {}
    }
}
