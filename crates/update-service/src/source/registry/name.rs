//! Names of repositories and images.
//!
//! Names have the form `HOST/PATH`; there is no default registry for short names. Plain HTTP is used only on the loopback
//! interface.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A repository: `[https://|http://|docker://]HOST[:PORT]/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// True when TLS is used.
    pub tls: bool,
    /// Host with port where one is given.
    pub host: String,
    /// Path below the host, without slashes at its ends.
    pub path: String,
}

/// An invalid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no {what}: {why}")]
pub struct BadName {
    name: String,
    what: &'static str,
    why: &'static str,
}

/// Whether a host, with or without port, is this machine.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = if let Some(rest) = host.strip_prefix('[') {
        rest.split(']').next().unwrap_or(rest)
    } else {
        host.split(':').next().unwrap_or(host)
    };
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl FromStr for Repository {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let bad = |why| BadName {
            name: name.to_owned(),
            what: "repository",
            why,
        };
        let (scheme, rest) = match name.split_once("://") {
            None | Some(("docker" | "oci", _)) => {
                (None, name.split_once("://").map_or(name, |(_, rest)| rest))
            }
            Some((scheme @ ("https" | "http"), rest)) => (Some(scheme), rest),
            Some(_) => {
                return Err(bad(
                    "the scheme must be https, or http for the loopback interface",
                ));
            }
        };
        let (host, path) = rest.trim_end_matches('/').split_once('/').ok_or_else(|| {
            bad("expected HOST/PATH, for example quay.io/openshift-release-dev/ocp-release")
        })?;
        let named = host.contains(['.', ':']) || host == "localhost";
        let legal = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if !named || !host.chars().all(legal) {
            return Err(bad(
                "it must begin with a host name, such as quay.io or registry.example.com:5000",
            ));
        }
        let component = |part: &str| {
            part.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c))
                && part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.ends_with(|c: char| c.is_ascii_alphanumeric())
        };
        if !path.split('/').all(component) {
            return Err(bad(
                "its path may hold lower case letters, digits and . _ - between them",
            ));
        }
        let tls = match scheme {
            Some("http") if !is_loopback(host) => {
                return Err(bad("plain HTTP is spoken with the loopback interface only"));
            }
            Some(scheme) => scheme == "https",
            None => !is_loopback(host),
        };
        Ok(Self {
            tls,
            host: host.to_owned(),
            path: path.to_owned(),
        })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)
    }
}

impl Repository {
    /// URL of `rest` below this repository in the distribution API.
    #[must_use]
    pub fn url(&self, rest: &str) -> String {
        // Docker Hub's API lives on another host than its name says.
        let host = match self.host.as_str() {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            other => other,
        };
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{host}/v2/{}/{rest}", self.path)
    }

    /// Start of the URLs that belong to this registry.
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }
}

/// One image: a repository with a tag or a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where it is.
    pub repository: Repository,
    /// Tag, or digest `sha256:…`.
    pub reference: String,
}

impl FromStr for Image {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let bad = |why| BadName {
            name: name.to_owned(),
            what: "image",
            why,
        };
        if let Some((repository, digest)) = name.split_once('@') {
            let reference = digest
                .parse::<Digest>()
                .map_err(|_| bad("its digest is not sha256: and 64 hexadecimal digits"))?
                .to_string();
            // With a digest the tag is ignored.
            let repository = without_tag(repository).0.parse()?;
            return Ok(Self {
                repository,
                reference,
            });
        }
        let (repository, tag) = without_tag(name);
        let tag = tag.unwrap_or("latest");
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if tag.is_empty() || tag.len() > 128 || !tag.chars().all(legal) {
            return Err(bad("its tag is none"));
        }
        Ok(Self {
            repository: repository.parse()?,
            reference: tag.to_owned(),
        })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.reference.starts_with("sha256:") {
            '@'
        } else {
            ':'
        };
        write!(f, "{}{sign}{}", self.repository, self.reference)
    }
}

fn without_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    }
}

/// A sha256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// From a finished hash.
    #[must_use]
    pub fn from_hash(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// The 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write;
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

/// Not a sha256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a digest of the form sha256:<64 hexadecimal digits>")]
pub struct BadDigest;

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.strip_prefix("sha256:").ok_or(BadDigest)?;
        if hex.len() != 64 || !hex.is_ascii() {
            return Err(BadDigest);
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| BadDigest)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| BadDigest)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests;
