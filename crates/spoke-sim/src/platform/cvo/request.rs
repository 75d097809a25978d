//! Reads `spec.desiredUpdate`: validation, the requested release, and how it relates to the running one.

use clusterversion::types;
use clusterversion::{ClusterVersion, Era};
use cvo_model::acceptance::requested;
use cvo_model::precondition::{self, PreconditionResult};
use cvo_model::validation::validate;
use semver::Version;
use serde_json::Value;

use crate::fields;
use crate::seeded_rng::SeededRng;

/// Architecture of all simulated payloads.
pub(super) const ARCHITECTURE: &str = "amd64";

/// A release payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub version: String,
    pub image: String,
}

/// What a valid spec requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    None,
    Release(Release),
}

/// Validates the spec and reads the request by the rules of the model. Every requested version is available unless
/// `unoffered` is set.
///
/// # Errors
/// The field errors of the operator's own validation.
pub(super) fn read(version: &Value, unoffered: bool) -> Result<Request, Vec<String>> {
    let object = offering(version, unoffered)?;
    let errors = validate(&object, false);
    if !errors.is_empty() {
        return Err(errors.iter().map(ToString::to_string).collect());
    }
    Ok(match requested(&object, ARCHITECTURE) {
        None => Request::None,
        Some(wanted) if wanted.version.is_empty() => Request::Release(Release {
            version: version_of(version, &wanted.image),
            image: wanted.image,
        }),
        Some(wanted) => Request::Release(Release {
            version: wanted.version,
            image: wanted.image,
        }),
    })
}

/// The object with the requested version among its available updates.
fn offering(version: &Value, unoffered: bool) -> Result<ClusterVersion, Vec<String>> {
    let mut object: ClusterVersion =
        serde_json::from_value(version.clone()).map_err(|error| vec![error.to_string()])?;
    let wanted = object
        .spec
        .desired_update
        .as_ref()
        .map(|update| update.version.clone());
    if let Some(wanted) = wanted.filter(|wanted| !unoffered && Version::parse(wanted).is_ok()) {
        let status = &mut object.status;
        if !status
            .available_updates
            .iter()
            .any(|release| release.version == wanted)
        {
            let known = status
                .history
                .iter()
                .find(|entry| entry.version == wanted && !entry.image.is_empty());
            let image = known.map_or_else(|| payload(&wanted), |entry| entry.image.clone());
            status.available_updates.push(types::Release::new(wanted, image));
        }
    }
    Ok(object)
}

/// What the preconditions say of a release.
pub(super) fn preconditions(version: &Value, target: &Release, unoffered: bool) -> PreconditionResult {
    let Ok(object) = offering(version, unoffered) else {
        return PreconditionResult::Passed;
    };
    let force = object
        .spec
        .desired_update
        .as_ref()
        .is_some_and(|update| update.force);
    let era = Era::of(&object.status.desired.version);
    precondition::summarize(&precondition::run(&object, &target.version, era), force)
}

/// The payload image of a version, the same on every cluster.
#[must_use]
pub fn payload(version: &str) -> String {
    let rng = SeededRng::new(0).of(version);
    let [a, b, c, d] = [0, 1, 2, 3].map(|n| rng.nth(n).bits());
    format!("quay.io/openshift-release-dev/ocp-release@sha256:{a:016x}{b:016x}{c:016x}{d:016x}")
}

/// The version inside a payload that was requested by image only: that of a known release, that of the image's
/// tag, else the next patch release.
fn version_of(cluster: &Value, image: &str) -> String {
    let history = fields::list(cluster, &["status", "history"]);
    if let Some(entry) = history
        .iter()
        .find(|entry| fields::text(entry, &["image"]) == image)
    {
        return fields::text(entry, &["version"]).to_owned();
    }
    let tag = image.rsplit(['/', ':']).next().unwrap_or_default();
    let tag = tag.trim_end_matches("-x86_64").trim_end_matches("-multi");
    if image.rsplit('/').next().is_some_and(|last| last.contains(':')) && Version::parse(tag).is_ok() {
        return tag.to_owned();
    }
    let current = fields::text(cluster, &["status", "desired", "version"]);
    match Version::parse(current) {
        Ok(current) => format!("{}.{}.{}", current.major, current.minor, current.patch + 1),
        Err(_) => String::new(),
    }
}

/// Whether the spec names a version other than the one being reconciled.
pub(super) fn names_another(cluster: &Value) -> bool {
    let wanted = fields::text(cluster, &["spec", "desiredUpdate", "version"]);
    !wanted.is_empty() && wanted != fields::text(cluster, &["status", "desired", "version"])
}

/// Whether the release is the one being reconciled already.
pub(super) fn is_running(cluster: &Value, release: &Release) -> bool {
    let current = |field| fields::text(cluster, &["status", "desired", field]);
    current("version") == release.version && current("image") == release.image
}
