//! What a request asks for: verb, kind, object and options, read from method, path and query.

use std::collections::BTreeMap;

use http::Method;

use crate::error::ApiError;
use crate::schema::{Cause, CauseKind};
use crate::write::FieldValidation;

/// The path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Objects of a kind.
    Objects(Place),
    /// Anything else, such as `/version` or `/apis`.
    Other(String),
}

/// The objects that a path is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub group: String,
    pub version: String,
    pub plural: String,
    /// Empty for all namespaces and for kinds without namespaces.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

impl Path {
    pub(crate) fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let found = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => Place::parse("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => Place::parse(group, version, rest),
            _ => None,
        };
        found.map_or_else(|| Self::Other(path.to_owned()), Self::Objects)
    }
}

impl Place {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let place = |namespace: &str, plural: &str, name: &str, subresource: &str| {
            let [namespace, plural, name, subresource] = [namespace, plural, name, subresource].map(decode);
            Some(Self {
                group: group.to_owned(),
                version: version.to_owned(),
                plural,
                namespace,
                name,
                subresource,
            })
        };
        match *rest {
            // A namespace is an object, and the content of namespaces lies below it.
            ["namespaces", name, subresource @ ("status" | "finalize")] => {
                place("", "namespaces", name, subresource)
            }
            ["namespaces", namespace, plural] => place(namespace, plural, "", ""),
            ["namespaces", namespace, plural, name] => place(namespace, plural, name, ""),
            ["namespaces", namespace, plural, name, subresource] => {
                place(namespace, plural, name, subresource)
            }
            [plural] => place("", plural, "", ""),
            [plural, name] => place("", plural, name, ""),
            [plural, name, subresource] => place("", plural, name, subresource),
            _ => None,
        }
    }
}

fn decode(text: &str) -> String {
    if !text.contains(['%', '&']) {
        return text.to_owned();
    }
    let pair = format!("x={text}").replace('+', "%2B");
    let decoded = form_urlencoded::parse(pair.as_bytes()).next();
    decoded.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// The query of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// A parameter; empty if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name), "true" | "1")
    }

    /// How many: objects of a page, or seconds. Less than one counts as absent.
    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.text(name) {
            "" => Ok(None),
            text => match text.parse::<i64>() {
                Ok(number) => Ok(u64::try_from(number).ok().filter(|number| *number > 0)),
                Err(error) => Err(ApiError::bad_request(format!("invalid {name}: {error}"))),
            },
        }
    }

    /// A revision.
    pub(crate) fn revision(&self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.text(name) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(ApiError::bad_request(format!("invalid {name}: {text:?}"))),
            },
        }
    }

    /// Checks which state a list or watch is to begin with, as the server does.
    pub(crate) fn check_begin(&self, is_watch: bool) -> Result<(), ApiError> {
        const MATCH: &str = "resourceVersionMatch";
        let [match_, revision, initial, token] =
            [MATCH, "resourceVersion", "sendInitialEvents", "continue"].map(|name| self.text(name));
        let mut causes = Vec::new();
        let mut forbid = |field: &str, why: &str| {
            causes.push(Cause::new(
                field,
                CauseKind::Forbidden,
                format!("Forbidden: {why}"),
            ));
        };
        if is_watch && !initial.is_empty() && match_ != "NotOlderThan" {
            forbid(
                MATCH,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        if is_watch && initial.is_empty() && !match_.is_empty() {
            forbid(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if !is_watch && revision.is_empty() && !match_.is_empty() {
            forbid(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !token.is_empty() && !match_.is_empty() {
            forbid(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        if !is_watch && match_ == "Exact" && revision == "0" {
            forbid(
                MATCH,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
        if !is_watch && !initial.is_empty() {
            forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        let (known, supported): (&[&str], _) = if is_watch {
            (&["", "NotOlderThan"], "\"NotOlderThan\"")
        } else {
            (
                &["", "NotOlderThan", "Exact"],
                "\"Exact\", \"NotOlderThan\", \"\"",
            )
        };
        if !known.contains(&match_) {
            let why = format!("Unsupported value: {match_:?}: supported values: {supported}");
            causes.push(Cause::new(MATCH, CauseKind::NotSupported, why));
        }
        if causes.is_empty() {
            Ok(())
        } else {
            Err(ApiError::invalid_options("ListOptions", &causes))
        }
    }

    /// Whether a write is only tried, as a list that is empty or has `All`.
    pub(crate) fn dry_run(&self) -> Vec<String> {
        self.0.get("dryRun").cloned().into_iter().collect()
    }

    pub(crate) fn validation(&self) -> Result<FieldValidation, Cause> {
        match self.text("fieldValidation") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            "Ignore" => Ok(FieldValidation::Ignore),
            other => {
                let why = format!(
                    "Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                );
                Err(Cause::new("fieldValidation", CauseKind::NotSupported, why))
            }
        }
    }
}

/// What a request does with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The verb of a method on an object or a collection. For custom resources, the server takes a POST to an object as one to its
    /// collection.
    pub(crate) fn of(
        method: &Method,
        place: &Place,
        query: &Query,
        is_custom: bool,
    ) -> Result<Self, ApiError> {
        let on_object = !place.name.is_empty();
        Ok(match (method.as_str(), on_object) {
            ("GET", true) => Self::Get,
            ("GET", false) if query.flag("watch") => Self::Watch,
            ("GET", false) => Self::List,
            ("POST", false) => Self::Create,
            ("POST", true) if is_custom && place.subresource.is_empty() => Self::Create,
            ("PUT", true) => Self::Update,
            ("PATCH", true) => Self::Patch,
            ("DELETE", true) if place.subresource.is_empty() => Self::Delete,
            ("DELETE", false) => Self::DeleteCollection,
            ("PUT" | "PATCH", false) if is_custom => {
                return Err(ApiError::bad_request("name must be provided"));
            }
            ("POST" | "DELETE", true) if is_custom => {
                let verb = if *method == Method::POST {
                    "create"
                } else {
                    "delete"
                };
                return Err(ApiError::not_supported(verb, &place.group, &place.plural));
            }
            _ => return Err(ApiError::method_not_allowed()),
        })
    }
}
