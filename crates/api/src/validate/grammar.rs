//! What Kubernetes accepts as a name, a label key and a label value.

/// Longest DNS-1123 subdomain.
const MAX_SUBDOMAIN_LENGTH: usize = 253;
/// Longest DNS-1123 label, name part of a label key, and label value.
const MAX_LABEL_LENGTH: usize = 63;

/// True for a DNS-1123 subdomain, the name of most objects.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN_LENGTH && text.split('.').all(|part| is_lower_case(part, "-"))
}

/// True for a DNS-1123 label, the name of a namespace.
pub(super) fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_LENGTH && is_lower_case(text, "-")
}

/// True for a label key: a name, optionally after a subdomain and `/`.
pub(super) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_name(name),
        None => is_label_name(text),
    }
}

/// True for a label value, which may be empty.
pub(super) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_name(text)
}

/// True for lower-case letters and digits, with the characters of `between` allowed inside. The length does not
/// matter.
pub(super) fn is_lower_case(text: &str, between: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    has_shape(text, alphanumeric, between)
}

fn is_label_name(text: &str) -> bool {
    text.len() <= MAX_LABEL_LENGTH && has_shape(text, |c| c.is_ascii_alphanumeric(), "-_.")
}

/// True for at least one character, with the first and last of the alphabet. The characters of `between` are allowed
/// inside.
fn has_shape(text: &str, alphabet: impl Fn(char) -> bool, between: &str) -> bool {
    text.starts_with(&alphabet)
        && text.ends_with(&alphabet)
        && text.chars().all(|c| alphabet(c) || between.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_qualified_names() {
        let long = format!("{}/{}", "a".repeat(253), "B".repeat(63));
        for key in ["a", "Region", "a_b.c-d", "example.com/zone", "9", &long] {
            assert!(is_label_key(key), "{key}");
        }
        let (name, prefix) = ("a".repeat(64), format!("{}/a", "a".repeat(254)));
        for key in [
            "",
            "-a",
            "a.",
            "a b",
            "a=b",
            "/a",
            "a/",
            "a/b/c",
            "Example.com/zone",
            "\u{e9}",
            &name,
            &prefix,
        ] {
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn label_values_are_empty_or_short_names() {
        for value in ["", "true", "A_b.c-9", &"a".repeat(63)] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["a,b", " a", "_a", "a/b", &"a".repeat(64)] {
            assert!(!is_label_value(value), "{value}");
        }
    }

    #[test]
    fn names_are_lower_case_and_end_with_letters_or_digits() {
        for name in ["a", "spring-4.12", &"a".repeat(253)] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["", "Spring", "-a", "a-", "a..b", "a_b", &"a".repeat(254)] {
            assert!(!is_subdomain(name), "{name}");
        }
        assert!(is_dns_label("team-a") && is_dns_label(&"a".repeat(63)));
        assert!(!is_dns_label("a.b") && !is_dns_label("") && !is_dns_label(&"a".repeat(64)));
    }
}
