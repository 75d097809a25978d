//! Offline checks of manifests: what admission would refuse, and what the controller would refuse after it.
//!
//! Order as in the API server: unknown fields, defaults, structural schema, list types, CEL rules; last the controller's
//! own rules (`api::validate`), and of an action's ManifestWork what the hub would refuse or drop. The API server stops
//! before CEL when a type is wrong; here the rules of all other fields are still applied, so that one run shows more.
//! Nothing is asked from a hub, so rules that need one (Placements, bindings, permissions, clusters) are not checked.

pub mod documents;
pub mod output;
pub mod schema;
pub mod work;

use api::lenient::Lenient;
use api::mcu::ManagedClustersUpgradeSpec;
use kube_cel::{CompiledSchema, ErrorKind, Validator};
use serde::Serialize;
use serde_json::Value;

use crate::args::UnknownFields;
use documents::Document;
use schema::Problem;
use work::WorkRules;

const KIND: &str = "ManagedClustersUpgrade";

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object would be refused, or not be carried out.
    Error,
    /// The object would be taken, but not as written.
    Warning,
}

/// Where an object stands in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// File name; `-` is standard input.
    pub file: String,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Namespace, empty where neither the manifest nor `-n` gives one.
    pub namespace: String,
    /// Name, empty where the manifest gives none.
    pub name: String,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object.
    #[serde(flatten)]
    pub place: Place,
    /// How grave it is.
    pub severity: Severity,
    /// Path of the field, such as `spec.clusterVersion.version`; empty for an unreadable document.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// What was found in all input.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Objects that were checked.
    pub checked: Vec<Place>,
    /// Objects of other kinds, with their kind.
    pub skipped: Vec<(Place, String)>,
    /// Findings, by object and field.
    pub findings: Vec<Finding>,
}

impl Report {
    /// True without errors; warnings do not count.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity != Severity::Error)
    }

    /// True when the input held no object at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checked.is_empty() && self.skipped.is_empty() && self.findings.is_empty()
    }
}

/// The rules, ready to be applied to many objects.
pub struct Linter {
    schema: Value,
    compiled: CompiledSchema,
    validator: Validator,
    work: WorkRules,
    unknown: UnknownFields,
    namespace: Option<String>,
}

impl Linter {
    /// Reads the schema of our CRD. `namespace` counts where a manifest gives none.
    #[must_use]
    pub fn new(unknown: UnknownFields, namespace: Option<String>) -> Linter {
        let schema = schema::of_upgrades();
        Linter {
            compiled: kube_cel::compile_schema(&schema),
            validator: Validator::new(),
            work: WorkRules::new(),
            schema,
            unknown,
            namespace,
        }
    }

    /// Checks all documents of a file and adds what it finds.
    pub fn lint(&self, file: &str, text: &str, report: &mut Report) {
        for Document { number, value } in documents::split(text) {
            match value {
                Ok(value) => {
                    for object in documents::items(value) {
                        self.lint_object(file, number, &object, report);
                    }
                }
                Err(message) => report.findings.push(Finding {
                    place: Place {
                        file: file.to_owned(),
                        document: number,
                        ..Place::default()
                    },
                    severity: Severity::Error,
                    field: String::new(),
                    message,
                }),
            }
        }
    }

    fn lint_object(&self, file: &str, number: usize, object: &Value, report: &mut Report) {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let mut place = Place {
            file: file.to_owned(),
            document: number,
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
        };
        if text("/kind") != KIND {
            let kind = match (text("/apiVersion"), text("/kind")) {
                ("", "") => "an object without apiVersion and kind".to_owned(),
                (version, kind) => format!("{version} {kind}"),
            };
            report.skipped.push((place, kind));
            return;
        }
        if place.namespace.is_empty() {
            place.namespace = self.namespace.clone().unwrap_or_default();
        }
        let problems = match wrong_api(text("/apiVersion")) {
            Some(problem) => vec![problem],
            None => self.check(object),
        };
        report.checked.push(place.clone());
        report
            .findings
            .extend(problems.into_iter().map(|problem| Finding {
                place: place.clone(),
                severity: if problem.warning {
                    Severity::Warning
                } else {
                    Severity::Error
                },
                field: problem.field,
                message: problem.message,
            }));
    }

    /// Checks one MCU; the problems in the order of their fields.
    #[must_use]
    pub fn check(&self, object: &Value) -> Vec<Problem> {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            // The status is a subresource: what a manifest says of it is dropped before it is checked.
            fields.remove("status");
        }
        schema::normalize(&mut object);
        let mut problems = schema::check_metadata(&object);
        let mut unknown = Vec::new();
        schema::prune(&self.schema, &mut object, "", &mut unknown);
        problems.extend(self.unknown_fields(unknown));
        let mut object = kube_cel::apply_defaults(&self.schema, &object);
        schema::complete_name(&mut object);
        let structural = schema::check(&self.schema, &object);
        let own = self.own_rules(&object, structural.is_empty());
        let cel = self.cel_rules(&object);
        problems.extend(merge(structural, own, cel));
        let drops = self.unknown != UnknownFields::Ignore;
        problems.extend(self.work.check(&self.validator, &object, drops));
        problems.extend(image_without_digest(&object));
        problems.sort_by(|a, b| a.field.cmp(&b.field));
        problems.dedup();
        problems
    }

    fn unknown_fields(&self, fields: Vec<String>) -> Vec<Problem> {
        let problem = |field: String| Problem {
            warning: self.unknown == UnknownFields::Warn,
            ..Problem::error(
                field,
                "unknown field; check its spelling and its place, or remove it",
            )
        };
        match self.unknown {
            UnknownFields::Ignore => Vec::new(),
            UnknownFields::Strict | UnknownFields::Warn => fields.into_iter().map(problem).collect(),
        }
    }

    fn cel_rules(&self, object: &Value) -> Vec<Problem> {
        let mut problems = cel_rules(&self.validator, &self.compiled, object);
        for problem in &mut problems {
            // Of an object's root, CEL sees nothing but the name.
            if problem.field.is_empty() {
                "metadata.name".clone_into(&mut problem.field);
            }
        }
        problems
    }

    /// The controller's own rules. `sound`: the schema found nothing, so a spec that cannot be read is a finding.
    #[expect(clippy::unused_self, reason = "one step of check, beside the others")]
    fn own_rules(&self, object: &Value, sound: bool) -> Vec<Problem> {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(spec) = object.get("spec") else {
            return Vec::new();
        };
        let text = spec.to_string();
        if let Err(error) = api::validate::check_size(&text) {
            return vec![Problem::error("spec", error)];
        }
        // Read as the controller reads it, which ends at some depth.
        match Lenient::<ManagedClustersUpgradeSpec>::read(&text) {
            Lenient::Good(spec) => api::validate::validate(name, &spec)
                .into_iter()
                .map(|violation| Problem::error(violation.field, violation.message))
                .collect(),
            Lenient::Broken(error) if sound => vec![Problem::error("spec", error)],
            Lenient::Absent | Lenient::Broken(_) => Vec::new(),
        }
    }
}

/// Our kind exists in one API only, so any other apiVersion is a slip.
fn wrong_api(api_version: &str) -> Option<Problem> {
    let ours = format!("{}/{}", api::GROUP, api::VERSION);
    let wrong = match api_version.split_once('/') {
        _ if api_version == ours => return None,
        _ if api_version.is_empty() => "must be set".to_owned(),
        Some((group, version)) if group == api::GROUP => format!("there is no version {version:?}"),
        _ => format!("{api_version:?} has no {KIND}"),
    };
    Some(Problem::error("apiVersion", format!("{wrong}; write {ours}")))
}

/// A cluster verifies the signature of a release image by its digest, and takes no image that it cannot verify.
fn image_without_digest(object: &Value) -> Option<Problem> {
    let image = object.pointer("/spec/clusterVersion/image")?.as_str()?;
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let by_digest = image
        .split_once("@sha256:")
        .is_some_and(|(name, digest)| !name.is_empty() && digest.len() == 64 && digest.chars().all(hex));
    (!image.is_empty() && !by_digest).then(|| {
        Problem::warning(
            "spec.clusterVersion.image",
            format!("{image:?} is no image by digest; a cluster verifies release images by digest only and does not accept it: write NAME@sha256: and the 64 digits that oc adm release info shows"),
        )
    })
}

fn cel_rules(validator: &Validator, compiled: &CompiledSchema, object: &Value) -> Vec<Problem> {
    let Err(errors) = validator.validate_compiled(compiled, object, None) else {
        return Vec::new();
    };
    errors
        .into_iter()
        .map(|error| match error.kind {
            ErrorKind::ValidationFailure => Problem::error(error.field_path, error.message),
            _ => Problem::warning(
                error.field_path,
                format!("not checked offline: {}", error.message),
            ),
        })
        .collect()
}

/// The three sources often see the same mistake. The schema's finding about a field goes before the others' about it and
/// its parts; then the controller's, which shows the value; then CEL's, unless the controller found the same there, in an
/// item of the field, or in the part of it that CEL's message begins with, or the schema found something above or below the
/// field, so that the rule saw a value it was not made for.
fn merge(structural: Vec<Problem>, own: Vec<Problem>, cel: Vec<Problem>) -> Vec<Problem> {
    let own: Vec<Problem> = own
        .into_iter()
        .filter(|problem| {
            !structural
                .iter()
                .any(|other| is_below(&problem.field, &other.field))
        })
        .collect();
    let cel: Vec<Problem> = cel
        .into_iter()
        .filter(|problem| {
            let item = format!("{}[", problem.field);
            let same_of_a_part = |other: &Problem| {
                let part = other.field.strip_prefix(&problem.field);
                let part = part.and_then(|rest| rest.strip_prefix('.'));
                part.is_some_and(|part| problem.message == format!("{part} {}", other.message))
            };
            let seen = |other: &Problem| {
                other.field == problem.field || other.field.starts_with(&item) || same_of_a_part(other)
            };
            let touched = |other: &Problem| {
                is_below(&other.field, &problem.field) || is_below(&problem.field, &other.field)
            };
            !own.iter().any(seen) && !structural.iter().any(touched)
        })
        .collect();
    structural.into_iter().chain(own).chain(cel).collect()
}

/// True when `field` is `top` or a part of it.
fn is_below(field: &str, top: &str) -> bool {
    field
        .strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests;
