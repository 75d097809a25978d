//! The form of messages for users, such as those of conditions, Events and report rows.
//!
//! A message begins with a capital letter or a digit. A single sentence or fragment has no final period, several sentences
//! have one each.

/// Joins sentences into one message. A part may be one sentence or several; empty parts are left out.
///
/// ```
/// use api::message::join;
///
/// assert_eq!(join(["3 clusters are selected"]), "3 clusters are selected");
/// assert_eq!(
///     join(["A canary failed", "Fix and retry it"]),
///     "A canary failed. Fix and retry it."
/// );
/// ```
#[must_use]
pub fn join<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        end(&mut text);
        text.push(' ');
        text.push_str(part);
        if !is_ended(part) {
            text.push('.');
        }
    }
    text
}

fn end(text: &mut String) {
    if !is_ended(text) {
        text.push('.');
    }
}

fn is_ended(text: &str) -> bool {
    text.ends_with(['.', '!', '?', '…'])
}

/// The rule of this module that a message breaks, in words; `None` if it breaks none.
///
/// Tests check messages with it. A message that quotes a text of others, such as an error of the API server, may break the
/// rule about periods.
#[must_use]
pub fn violation(message: &str) -> Option<&'static str> {
    let Some(first) = message.chars().next() else {
        return Some("it is empty");
    };
    if !(first.is_uppercase() || first.is_ascii_digit()) {
        return Some("it does not begin with a capital letter or a digit");
    }
    let several = message
        .split(". ")
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()));
    match (several, message.ends_with('.')) {
        (true, false) => Some("it has several sentences but no final period"),
        (false, true) => Some("it is a single sentence but has a final period"),
        _ => None,
    }
}

/// A number with its noun: `1 cluster`, `2 clusters`. `noun` is the singular of a noun whose plural ends in `s`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_has_no_final_period_and_several_have_one_each() {
        assert_eq!(join([]), "");
        assert_eq!(join(["One"]), "One");
        assert_eq!(join(["One", "", "Two"]), "One. Two.");
        assert_eq!(join(["One. Two.", "Three"]), "One. Two. Three.");
        assert_eq!(join(["One", "What was cut off…"]), "One. What was cut off…");
    }

    #[test]
    fn what_is_joined_breaks_no_rule() {
        for parts in [&["One"][..], &["One", "Two"], &["One. Two.", "3 more"]] {
            assert_eq!(violation(&join(parts.iter().copied())), None, "{parts:?}");
        }
    }

    #[test]
    fn each_rule_can_be_broken() {
        for (message, rule) in [
            ("", "it is empty"),
            ("no cluster", "it does not begin with a capital letter or a digit"),
            ("One. Two", "it has several sentences but no final period"),
            ("One.", "it is a single sentence but has a final period"),
        ] {
            assert_eq!(violation(message), Some(rule), "{message:?}");
        }
        for message in ["4.14.1 is not upgradeable", "Set --request-timeout", "One. Two."] {
            assert_eq!(violation(message), None, "{message:?}");
        }
    }

    #[test]
    fn a_number_takes_the_right_form_of_its_noun() {
        assert_eq!(count(0, "cluster"), "0 clusters");
        assert_eq!(count(1, "cluster"), "1 cluster");
        assert_eq!(count(2, "cluster"), "2 clusters");
    }
}
