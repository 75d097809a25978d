//! The login that a registry requires when it answers 401.
//!
//! Crate `http-auth` knows the grammar (RFC 9110 11.6.1). Of the schemes, registries use `Basic`, and `Bearer` with realm,
//! service and scope (distribution token specification); others are passed over.

use http_auth::ChallengeRef;
use http_auth::parser::ChallengeParser;

/// One challenge that we know how to meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token that is fetched from the realm.
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
    let challenges: Vec<Challenge> = headers
        .into_iter()
        .flat_map(ChallengeParser::new)
        .filter_map(|parsed| understood(&parsed.ok()?))
        .collect();
    challenges
        .iter()
        .find(|challenge| matches!(challenge, Challenge::Bearer { .. }))
        .or(challenges.first())
        .cloned()
}

fn understood(challenge: &ChallengeRef<'_>) -> Option<Challenge> {
    let parameter = |name: &str| {
        let mut named = challenge
            .params
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        Some(named.next()?.1.to_unescaped())
    };
    if challenge.scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !challenge.scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    Some(Challenge::Bearer {
        realm: parameter("realm")?,
        service: parameter("service"),
        scope: parameter("scope"),
    })
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
            (
                r#"Basic realm="a, b", Bearer realm="https://a/t",scope=x, Basic"#,
                Some(bearer("https://a/t", None, Some("x"))),
            ),
            (r#"Bearer realm="open"#, None),
            (r#"Basic realm="a", Bearer realm="open"#, Some(Challenge::Basic)),
        ] {
            assert_eq!(choose([header]), expected, "{header}");
        }
    }

    #[test]
    fn a_token_is_preferred_to_a_password() {
        let headers = [r#"Basic realm="a""#, r#"Bearer realm="https://a/t""#];
        assert_eq!(choose(headers), Some(bearer("https://a/t", None, None)));
        assert_eq!(choose(["Digest x=y"]), None);
    }
}
