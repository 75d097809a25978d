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
            // A URL may carry a password.
            Self::Url(url) if url.password().is_some() => {
                let mut shown = url.clone();
                let _ = shown.set_password(Some("…"));
                shown.fmt(f)
            }
            Self::Url(url) => url.fmt(f),
            Self::Image(image) => write!(f, "oci://{image}"),
        }
    }
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
}
