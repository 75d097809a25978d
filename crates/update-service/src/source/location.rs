//! Where a file is: in the file system, behind a URL, or in an image.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::registry::name::Image;

/// A file or directory, a URL, or an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the file system.
    Path(PathBuf),
    /// Behind `http://` or `https://`.
    Url(reqwest::Url),
    /// `oci://` or `docker://` and the image's name.
    Image(Image),
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("://") {
            Some(("http" | "https", _)) => reqwest::Url::parse(text)
                .map(Self::Url)
                .map_err(|error| format!("{text:?} is no URL: {error}")),
            Some(("oci" | "docker", name)) => {
                name.parse().map(Self::Image).map_err(|error| format!("{error}"))
            }
            Some(("file", path)) => Ok(Self::Path(PathBuf::from(path))),
            Some((scheme, _)) => Err(format!(
                "{text:?}: {scheme} is not supported; use a path, http://, https:// or oci://"
            )),
            None if text.is_empty() => Err("the name of the file is empty".to_owned()),
            None => Ok(Self::Path(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Url(url) => without_secrets(url).fmt(f),
            Self::Image(image) => write!(f, "oci://{image}"),
        }
    }
}

/// A URL may carry a password, a token in the place of a user, or a signature among its parameters. Errors quote it, and
/// probes and answers before the first graph show them to anybody.
fn without_secrets(url: &reqwest::Url) -> reqwest::Url {
    let mut shown = url.clone();
    if url.password().is_some() {
        let _ = shown.set_password(Some("…"));
    } else if !url.username().is_empty() {
        let _ = shown.set_username("…");
    }
    let is_public = |key: &str| matches!(key, "channel" | "arch" | "version");
    if url.query_pairs().any(|(key, _)| !is_public(&key)) {
        let pairs = url.query_pairs().map(|(key, value)| {
            let value = if is_public(&key) { value } else { "…".into() };
            (key, value)
        });
        shown.query_pairs_mut().clear().extend_pairs(pairs);
    }
    shown
}

impl<'de> Deserialize<'de> for Location {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_tells_the_kind() {
        assert_eq!("graph-data".parse(), Ok(Location::Path("graph-data".into())));
        assert_eq!("file:///srv/g".parse(), Ok(Location::Path("/srv/g".into())));
        assert!(matches!("http://h/graph-data".parse(), Ok(Location::Url(_))));
        assert!(matches!(
            "oci://h.example/graph-data:1".parse(),
            Ok(Location::Image(_))
        ));
        for (text, hint) in [
            ("", "empty"),
            ("ftp://h/x", "ftp"),
            ("http://", "no URL"),
            ("oci://x", "HOST/PATH"),
        ] {
            let error = text.parse::<Location>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        let location: Location = "https://me:hidden@h/x".parse().unwrap();
        assert!(!location.to_string().contains("hidden"), "{location}");
    }

    #[test]
    fn a_token_in_a_url_is_not_shown() {
        for text in [
            "https://hidden@h/x",
            "https://h/x?channel=stable-4.1&sig=hidden",
            "https://h/x?arch=amd64&X-Amz-Signature=hidden",
        ] {
            let shown = text.parse::<Location>().unwrap().to_string();
            assert!(!shown.contains("hidden"), "{shown}");
        }
        let plain = "https://h/api/v1/graph?channel=stable-4.1&arch=amd64";
        assert_eq!(plain.parse::<Location>().unwrap().to_string(), plain);
    }
}
