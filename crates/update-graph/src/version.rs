//! Versions and architectures: OpenShift's semantic versions compared without build, and the build read as architecture.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

/// An invalid version or architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: {reason}")]
pub struct VersionError {
    what: &'static str,
    text: String,
    reason: String,
}

/// A release version, `MAJOR.MINOR.PATCH[-PRE]`. It carries no build: two releases of one version for two
/// architectures have equal versions. Order is that of semver 2.0 (pre-releases below their release).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

impl Version {
    /// Reads a version and drops its build.
    ///
    /// # Errors
    /// [`VersionError`] when the text is no semantic version.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let mut version = semver::Version::parse(text).map_err(|e| VersionError {
            what: "version",
            text: shortened(text),
            reason: e.to_string(),
        })?;
        version.build = semver::BuildMetadata::EMPTY;
        Ok(Self(version))
    }

    /// Reads a version and its build as an architecture: `4.2.14+s390x` is (`4.2.14`, `s390x`).
    ///
    /// # Errors
    /// [`VersionError`] when the text is no semantic version.
    pub fn split(text: &str) -> Result<(Self, Option<Arch>), VersionError> {
        let version = Self::parse(text)?;
        let arch = text.split_once('+').map(|(_, build)| Arch(SmolStr::new(build)));
        Ok((version, arch))
    }

    /// The first number.
    #[must_use]
    pub fn major(&self) -> u64 {
        self.0.major
    }

    /// The second number.
    #[must_use]
    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// The third number, the z of a z-stream.
    #[must_use]
    pub fn patch(&self) -> u64 {
        self.0.patch
    }

    /// What follows the first `-`: `rc.1`, `ec.3`, `fc.0`, the name of a hotfix; empty for a release proper.
    #[must_use]
    pub fn pre(&self) -> &str {
        self.0.pre.as_str()
    }

    /// True for a candidate, a feature candidate, an early candidate or a hotfix.
    #[must_use]
    pub fn is_pre_release(&self) -> bool {
        !self.0.pre.is_empty()
    }

    /// True when the numbers allow one update from this version to `to`: `to` is newer and at most one minor version ahead.
    /// The first minor of the next major counts as the next minor (`4.22` to `5.0`).
    #[must_use]
    pub fn within_one_minor(&self, to: &Self) -> bool {
        let same_major = self.major() == to.major() && to.minor() <= self.minor().saturating_add(1);
        let next_major = self.major().checked_add(1) == Some(to.major()) && to.minor() == 0;
        self < to && (same_major || next_major)
    }

    /// The version as release metadata and graph-data write it for one architecture: `4.14.3+amd64`.
    #[must_use]
    pub fn with_arch(&self, arch: &Arch) -> String {
        format!("{self}+{arch}")
    }
}

/// Messages quote what was read; a hostile input must not make them large.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Version;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a version such as 4.14.3")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Version, E> {
                Version::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// An architecture as it is written behind the `+` of a version: `amd64`, `arm64`, `ppc64le`, `s390x`, `multi`, or what a
/// registry says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch(SmolStr);

impl Arch {
    /// Reads an architecture.
    ///
    /// # Errors
    /// [`VersionError`] if the text cannot be the build of a version (letters, digits, `-`, `.`).
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        match semver::BuildMetadata::new(text) {
            Ok(build) if !build.is_empty() => Ok(Self(SmolStr::new(text))),
            Ok(_) => Err(VersionError {
                what: "architecture",
                text: String::new(),
                reason: "it is empty".into(),
            }),
            Err(_) => Err(VersionError {
                what: "architecture",
                text: shortened(text),
                reason: "letters, digits, `-` and `.` only, such as amd64".into(),
            }),
        }
    }

    /// `amd64`, what a request without architecture means.
    #[must_use]
    pub fn amd64() -> Self {
        Self(SmolStr::new_static("amd64"))
    }

    /// `multi`, a release for all architectures at once.
    #[must_use]
    pub fn multi() -> Self {
        Self(SmolStr::new_static("multi"))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Arch {
    fn default() -> Self {
        Self::amd64()
    }
}

impl FromStr for Arch {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Arch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Arch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = SmolStr::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
