//! Offline checks of manifests: finds what admission or the controller would reject.
//!
//! The checks run in the order of the API server: unknown fields, defaults, structural schema, list types, CEL rules. Then
//! follow the rules of the controller (`api::validate`), and what the hub would reject or drop in the ManifestWork of an
//! action. The API server skips all CEL rules if a field has the wrong type; the linter still applies the rules of the other
//! fields, so that one run shows more findings. Rules that need a hub are not checked: Placements, bindings, permissions and
//! clusters.

mod canaries;
pub mod documents;
pub mod output;
mod retries;
pub mod schema;
mod windows;
mod without_effect;
pub mod work;

use api::lenient::Lenient;
use api::mcu::ManagedClustersUpgradeSpec;
use api::validate::parse_duration;
use chrono::TimeDelta;
use kube_cel::{CompiledSchema, ErrorKind, Validator};
use serde::Serialize;
use serde_json::Value;

use crate::args::UnknownFields;
use documents::Document;
use schema::Problem;
use work::WorkRules;

const KIND: &str = "ManagedClustersUpgrade";

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The hub or the controller would reject the object.
    Error,
    /// The hub would accept the object, but not exactly as written.
    Warning,
}

/// The position of an object in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// File name; `-` is standard input.
    pub file: String,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Namespace; empty if neither the manifest nor `-n` names one.
    pub namespace: String,
    /// Name; empty if the manifest has none.
    pub name: String,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object.
    #[serde(flatten)]
    pub place: Place,
    /// Its severity.
    pub severity: Severity,
    /// Path of the field, such as `spec.clusterVersion.version`; empty for an unreadable document.
    pub field: String,
    /// What is wrong and how to fix it.
    pub message: String,
}

/// The result for all input.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Objects that were checked.
    pub checked: Vec<Place>,
    /// Objects of other kinds, which were not checked, with their kinds.
    pub skipped: Vec<(Place, String)>,
    /// Findings, by object and field.
    pub findings: Vec<Finding>,
}

impl Report {
    /// True if there are no errors. Warnings do not count.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity != Severity::Error)
    }

    /// True if the input contained no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checked.is_empty() && self.skipped.is_empty() && self.findings.is_empty()
    }
}

/// The compiled rules. One linter can check many objects.
pub struct Linter {
    schema: Value,
    compiled: CompiledSchema,
    validator: Validator,
    work: WorkRules,
    unknown: UnknownFields,
    namespace: Option<String>,
}

impl Linter {
    /// Compiles the schema of the CRD. `namespace` is used for manifests without a namespace.
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

    /// Checks all documents of a file and adds the findings to the report.
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

    /// The upgrade as the API server would store it: without status and unknown fields, and with defaults.
    #[must_use]
    pub fn stored(&self, object: &Value) -> Value {
        self.prepared(object, &mut Vec::new(), &mut Vec::new())
    }

    fn prepared(&self, object: &Value, problems: &mut Vec<Problem>, unknown: &mut Vec<String>) -> Value {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            // The API server drops the status before it checks an object, because status is a subresource.
            fields.remove("status");
        }
        schema::normalize(&mut object);
        problems.extend(schema::check_metadata(&object));
        schema::prune(&self.schema, &mut object, "", unknown);
        let mut object = kube_cel::apply_defaults(&self.schema, &object);
        schema::complete_name(&mut object);
        object
    }

    /// Checks one upgrade. The problems are ordered by field.
    #[must_use]
    pub fn check(&self, written: &Value) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut unknown = Vec::new();
        let object = self.prepared(written, &mut problems, &mut unknown);
        problems.extend(self.unknown_fields(unknown));
        let structural = schema::check(&self.schema, &object);
        let own = self.own_rules(&object, structural.is_empty());
        let cel = self.cel_rules(&object);
        problems.extend(merge(structural, own, cel));
        let drops = self.unknown != UnknownFields::Ignore;
        problems.extend(self.work.check(&self.validator, &object, drops));
        problems.extend(image_without_digest(&object));
        problems.extend(short_limit_of_pools(&object));
        problems.extend(without_effect::settings(written));
        problems.extend(retries::of_no_failure(written));
        problems.extend(canaries::are_all_clusters(written));
        problems.extend(windows::never_open(written, chrono::Utc::now()));
        problems.extend(windows::estimate_fits(written, chrono::Utc::now()));
        problems.sort_by(|a, b| a.field.cmp(&b.field));
        problems.dedup();
        problems
    }

    fn unknown_fields(&self, fields: Vec<String>) -> Vec<Problem> {
        let problem = |field: String| Problem {
            warning: self.unknown == UnknownFields::Warn,
            ..Problem::error(
                field,
                "unknown field; check its spelling and its position, or remove it",
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
            // The only field at the root that CEL rules can see is the name.
            if problem.field.is_empty() {
                "metadata.name".clone_into(&mut problem.field);
            }
        }
        problems
    }

    /// The rules of the controller. `sound` means that the schema has no findings; only then is a spec that cannot be read a
    /// finding of its own rather than a consequence.
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
        // The controller reads the spec in the same way, with a limit on its depth.
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

/// The kind exists in one API version only, so any other apiVersion is a mistake.
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

/// Shortest time limit of worker pools that clusters can keep to: they are asked two minutes after their update, and the work agent may
/// take two more to read the answer.
const SHORTEST_LIMIT_OF_POOLS: TimeDelta = TimeDelta::minutes(5);

/// Warns about a time limit that may end before a cluster has told that its worker pools are updated. It is no error, because the hub may
/// hold upgrades that have one.
fn short_limit_of_pools(object: &Value) -> Option<Problem> {
    let strategy = object.pointer("/spec/upgradeStrategy")?;
    let text = strategy["workerPoolsTimeout"].as_str()?;
    let limit = parse_duration(text).filter(|limit| *limit >= TimeDelta::seconds(1))?;
    let is_short = strategy["workerPools"] == "Wait" && limit < SHORTEST_LIMIT_OF_POOLS;
    is_short.then(|| {
        Problem::warning(
            "spec.upgradeStrategy.workerPoolsTimeout",
            format!("{text:?} is so short that clusters may fail although their worker pools are updated: they are asked for them only 2 minutes after their update, and the answer may take 2 more; set at least 5m, or remove it to wait for 6h"),
        )
    })
}

/// Warns about an image without a digest: a cluster verifies the signature of a release image by its digest, and accepts no
/// image that it cannot verify.
fn image_without_digest(object: &Value) -> Option<Problem> {
    let image = object.pointer("/spec/clusterVersion/image")?.as_str()?;
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let by_digest = image
        .split_once("@sha256:")
        .is_some_and(|(name, digest)| !name.is_empty() && digest.len() == 64 && digest.chars().all(hex));
    (!image.is_empty() && !by_digest).then(|| {
        Problem::warning(
            "spec.clusterVersion.image",
            format!("{image:?} does not name the image by digest; a cluster verifies release images by digest only and would not accept this one: write NAME@sha256: and the 64 digits that oc adm release info shows"),
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

/// Merges the findings of schema, controller and CEL, because all three often find the same mistake.
///
/// A finding of the schema replaces those of the controller for the same field and its parts. A finding of CEL is dropped in
/// two cases: the controller has a finding for the same field, for an item of it, or for the part that the CEL message begins
/// with; or the schema has a finding above or below the field, because the CEL rule then saw a value of an unexpected type.
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
                part.is_some_and(|part| {
                    let mut names = [part, &other.field].into_iter();
                    names.any(|name| problem.message == format!("{name} {}", other.message))
                })
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

/// True if `field` is `top` or a part of it.
fn is_below(field: &str, top: &str) -> bool {
    field
        .strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests;
