//! Reading `spec.desiredUpdate`: validation, the release it names, how it relates to the running one.

use semver::Version;
use serde_json::Value;

use crate::dice::Dice;
use crate::fields;

/// A release payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub version: String,
    pub image: String,
}

/// What a valid spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    None,
    Release(Release),
}

/// Validates the spec and reads the request.
///
/// # Errors
/// The field errors of the operator's own validation.
pub(super) fn read(version: &Value, unoffered: bool) -> Result<Request, Vec<String>> {
    let mut errors = Vec::new();
    let id = fields::text(version, &["spec", "clusterID"]);
    if let Some(problem) = uuid_problem(id) {
        errors.push(format!("spec.clusterID: Invalid value: \"{id}\": {problem}"));
    }
    let upstream = fields::text(version, &["spec", "upstream"]);
    if !upstream.is_empty() && !upstream.contains("://") {
        errors.push(format!(
            "spec.upstream: Invalid value: \"{upstream}\": must be a valid URL or empty"
        ));
    }
    let request = match fields::get(version, &["spec", "desiredUpdate"]).filter(|update| !update.is_null()) {
        None => Ok(Request::None),
        Some(update) => read_update(version, update, unoffered),
    };
    match request {
        Err(error) => errors.push(error),
        Ok(request) if errors.is_empty() => return Ok(request),
        Ok(_) => {}
    }
    Err(errors)
}

fn read_update(cluster: &Value, update: &Value, unoffered: bool) -> Result<Request, String> {
    let (version, image) = (
        fields::text(update, &["version"]),
        fields::text(update, &["image"]),
    );
    if version.is_empty() && image.is_empty() && fields::text(update, &["architecture"]).is_empty() {
        return Err(
            "spec.desiredUpdate: Required value: must specify architecture, version, or image".to_owned(),
        );
    }
    if !version.is_empty() && Version::parse(version).is_err() {
        return Err(format!(
            "spec.desiredUpdate.version: Invalid value: \"{version}\": must be a semantic version (1.2.3[-...])"
        ));
    }
    if !image.is_empty() {
        let version = if version.is_empty() {
            version_of(cluster, image)
        } else {
            version.to_owned()
        };
        return Ok(Request::Release(Release {
            version,
            image: image.to_owned(),
        }));
    }
    let known = |list: &[Value]| {
        let found = list
            .iter()
            .find(|entry| fields::text(entry, &["version"]) == version);
        found
            .map(|entry| fields::text(entry, &["image"]).to_owned())
            .filter(|image| !image.is_empty())
    };
    let image = known(fields::list(cluster, &["status", "availableUpdates"]))
        .or_else(|| known(fields::list(cluster, &["status", "history"])));
    match image {
        Some(image) => Ok(Request::Release(Release {
            version: version.to_owned(),
            image,
        })),
        None if unoffered => Err(format!(
            "spec.desiredUpdate.version: Invalid value: \"{version}\": when image is empty the update must be an \
             available update"
        )),
        None => Ok(Request::Release(Release {
            version: version.to_owned(),
            image: payload(version),
        })),
    }
}

/// The payload image of a version, the same on every cluster.
pub(super) fn payload(version: &str) -> String {
    let dice = Dice::new(0).of(version);
    let [a, b, c, d] = [0, 1, 2, 3].map(|n| dice.nth(n).bits());
    format!("quay.io/openshift-release-dev/ocp-release@sha256:{a:016x}{b:016x}{c:016x}{d:016x}")
}

/// The version inside a payload that was asked for by image only: that of a known release, that of the image's
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

/// Whether the release is the one being reconciled already.
pub(super) fn is_running(cluster: &Value, release: &Release) -> bool {
    let current = |field| fields::text(cluster, &["status", "desired", field]);
    current("version") == release.version && current("image") == release.image
}

/// Whether going from one version to the other changes minor or major; unparsable versions do not.
pub(super) fn is_minor_or_major(from: &str, to: &str) -> bool {
    match (Version::parse(from), Version::parse(to)) {
        (Ok(from), Ok(to)) => (from.major, from.minor) != (to.major, to.minor),
        _ => false,
    }
}

/// How many manifests the payload of a version has.
pub(super) fn manifests(version: &str) -> u32 {
    match Version::parse(version).map_or(0, |version| version.minor) {
        0..=14 => 859,
        15 => 863,
        16 | 17 => 892,
        18 => 890,
        _ => 957,
    }
}

fn uuid_problem(id: &str) -> Option<&'static str> {
    let bytes = id.as_bytes();
    let well_formed = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if !well_formed || !matches!(bytes[19], b'8' | b'9' | b'a' | b'b' | b'A' | b'B') {
        return Some("must be an RFC4122-variant UUID");
    }
    (bytes[14] != b'4').then_some("must be a version-4 UUID")
}
