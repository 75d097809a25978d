//! Strong validators and conditional requests (RFC 9110 8.8.3, 13.1.2).

use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

/// The `ETag` of these bytes: the first half of their SHA-256 in hexadecimal, in quotes.
#[must_use]
pub fn of(bytes: &[u8]) -> HeaderValue {
    from_hash(&Sha256::digest(bytes).into())
}

/// The `ETag` of bytes with this SHA-256.
#[must_use]
pub fn from_hash(hash: &[u8; 32]) -> HeaderValue {
    use std::fmt::Write;
    let mut text = String::with_capacity(34);
    text.push('"');
    for byte in &hash[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('"');
    // Hexadecimal digits and quotes are always legal.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Whether the client already has what `etag` names: `If-None-Match` lists it, weakly compared, or is `*`.
#[must_use]
pub fn matches(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().any(|line| {
        line == etag
            || line
                .to_str()
                .is_ok_and(|line| line.trim() == "*" || listed(line, etag.as_bytes()))
    })
}

/// Entity tags may hold commas, so the list is walked quote by quote.
fn listed(mut line: &str, etag: &[u8]) -> bool {
    while let Some(start) = line.find('"') {
        let Some(length) = line[start + 1..].find('"') else {
            return false;
        };
        let end = start + 1 + length + 1;
        if &line.as_bytes()[start..end] == etag {
            return true;
        }
        line = &line[end..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_have_equal_tags_and_others_do_not() {
        assert_eq!(of(b"a"), of(b"a"));
        assert_ne!(of(b"a"), of(b"b"));
        assert_eq!(of(b"").len(), 34);
    }

    #[test]
    fn a_client_that_has_it_is_recognised() {
        let etag = HeaderValue::from_static("\"abc\"");
        for (lines, expected) in [
            (&["\"abc\""][..], true),
            (&["W/\"abc\""], true),
            (&["\"x\", \"abc\""], true),
            (&["\"a,b\",W/\"abc\" "], true),
            (&["*"], true),
            (&[" * "], true),
            (&["\"x\"", "\"abc\""], true),
            (&["\"abcd\""], false),
            (&["abc"], false),
            (&["\"abc"], false),
            (&[""], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::IF_NONE_MATCH, HeaderValue::from_static(line));
            }
            assert_eq!(matches(&headers, &etag), expected, "{lines:?}");
        }
    }
}
