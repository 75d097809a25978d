//! What a registry asks for when it answers 401.
//!
//! Owns the grammar of `WWW-Authenticate` as far as registries use it: `Basic` and `Bearer` with realm, service and
//! scope (RFC 9110 11.6.1, distribution token specification). Refuses the rest.

use std::collections::BTreeMap;

/// One challenge that we know how to meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token, to be fetched from the realm.
    Bearer {
        /// URL of the token server.
        realm: String,
        /// Audience.
        service: Option<String>,
        /// What the token is for.
        scope: Option<String>,
    },
}

/// The first challenge that is understood, `Bearer` before `Basic`.
#[must_use]
pub fn choose<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Challenge> {
    let challenges: Vec<Challenge> = headers.into_iter().filter_map(parse).collect();
    challenges
        .iter()
        .find(|challenge| matches!(challenge, Challenge::Bearer { .. }))
        .or(challenges.first())
        .cloned()
}

fn parse(header: &str) -> Option<Challenge> {
    let header = header.trim();
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parameters = parameters(rest);
    Some(Challenge::Bearer {
        realm: parameters.remove("realm")?,
        service: parameters.remove("service"),
        scope: parameters.remove("scope"),
    })
}

/// `key=value, key="quoted, value"`.
fn parameters(mut text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while let Some((key, rest)) = text.split_once('=') {
        let key = key.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let (value, rest) = if let Some(quoted) = rest.trim_start().strip_prefix('"') {
            quoted_string(quoted)
        } else {
            let (value, rest) = rest.split_once(',').unwrap_or((rest, ""));
            (value.trim().to_owned(), rest)
        };
        found.insert(key, value);
        text = rest;
    }
    found
}

fn quoted_string(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return (value, &text[index + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        for (header, expected) in [
            (
                r#"Bearer realm="https://quay.io/v2/auth",service="quay.io",scope="repository:a/b:pull,push""#,
                Some(bearer(
                    "https://quay.io/v2/auth",
                    Some("quay.io"),
                    Some("repository:a/b:pull,push"),
                )),
            ),
            (
                r#"bearer realm="https://x/\"t\"" , service=y"#,
                Some(bearer("https://x/\"t\"", Some("y"), None)),
            ),
            (r#"Basic realm="registry""#, Some(Challenge::Basic)),
            ("Basic", Some(Challenge::Basic)),
            ("Bearer", None),
            ("Negotiate", None),
            ("", None),
            (r#"Bearer realm="open"#, Some(bearer("open", None, None))),
        ] {
            assert_eq!(parse(header), expected, "{header}");
        }
    }

    #[test]
    fn a_token_is_preferred_to_a_password() {
        let headers = [r#"Basic realm="a""#, r#"Bearer realm="https://a/t""#];
        assert_eq!(choose(headers), Some(bearer("https://a/t", None, None)));
        assert_eq!(choose(["Digest x=y"]), None);
    }
}
