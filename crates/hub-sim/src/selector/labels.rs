//! Label selectors, read word by word as the server does. What it refuses must not select everything or nothing here.

use crate::object::Object;
use crate::write::{label_value_problem, qualified_name_problem};

/// What a label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
    Above(String, i64),
    Below(String, i64),
}

impl Requirement {
    pub(super) fn holds(&self, object: &Object) -> bool {
        let is_one = |name: &str, values: &[String]| {
            object
                .label(name)
                .is_some_and(|have| values.iter().any(|value| value == have))
        };
        let number = |name: &str| object.label(name).and_then(|have| have.parse::<i64>().ok());
        match self {
            Self::In(name, values) => is_one(name, values),
            Self::NotIn(name, values) => !is_one(name, values),
            Self::Exists(name) => object.label(name).is_some(),
            Self::Missing(name) => object.label(name).is_none(),
            Self::Above(name, limit) => number(name).is_some_and(|have| have > *limit),
            Self::Below(name, limit) => number(name).is_some_and(|have| have < *limit),
        }
    }
}

/// Reads a selector.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut words = Words {
        words: split(text),
        at: 0,
    };
    let mut found = Vec::new();
    match words.peek() {
        "" => return Ok(found),
        first if first == "!" || is_name(first) => {}
        other => {
            return Err(format!(
                "found '{other}', expected: !, identifier, or 'end of string'"
            ));
        }
    }
    loop {
        let requirement = words.requirement();
        found.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
        match (words.take(), words.peek()) {
            ("", _) => return Ok(found),
            (",", next) if next == "!" || is_name(next) => {}
            (",", next) => return Err(format!("found '{next}', expected: identifier after ','")),
            (other, _) => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
        }
    }
}

fn is_special(letter: char) -> bool {
    matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

/// Whether a word is no operator, comma or parenthesis, and not the end. `in` may be a name, too.
fn is_name(word: &str) -> bool {
    word.chars().next().is_some_and(|letter| !is_special(letter))
}

/// The words of a selector: names, operators, commas and parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if is_special(first) {
            1
        } else {
            let end = rest.find(|letter: char| is_special(letter) || is_space(letter));
            end.unwrap_or(rest.len())
        };
        let (word, after) = rest.split_at(length);
        words.push(word);
        rest = after.trim_start_matches(is_space);
    }
    words
}

/// The words that are still to be read.
struct Words<'t> {
    words: Vec<&'t str>,
    at: usize,
}

impl<'t> Words<'t> {
    /// The next word; empty at the end.
    fn peek(&self) -> &'t str {
        self.words.get(self.at).copied().unwrap_or_default()
    }

    fn take(&mut self) -> &'t str {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn name(&mut self) -> Result<String, String> {
        let word = self.take();
        if is_name(word) {
            Ok(word.to_owned())
        } else {
            Err(format!("found '{word}', expected: identifier"))
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let is_missing = self.peek() == "!";
        if is_missing {
            self.take();
        }
        let name = self.name()?;
        if let Some(why) = qualified_name_problem(&name) {
            return Err(format!("<nil>: Invalid value: {name:?}: {why}"));
        }
        if is_missing {
            return Ok(Requirement::Missing(name));
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement::Exists(name));
        }
        let operator = self.take();
        let values = match operator {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => vec![self.value()?],
            other => {
                return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let limit = match operator {
            ">" | "<" => number(&values[0])?,
            _ => 0,
        };
        for (at, value) in values.iter().enumerate() {
            if let Some(why) = label_value_problem(value) {
                return Err(format!("values[{at}][{name}]: Invalid value: {value:?}: {why}"));
            }
        }
        Ok(match operator {
            ">" => Requirement::Above(name, limit),
            "<" => Requirement::Below(name, limit),
            "notin" | "!=" => Requirement::NotIn(name, values),
            _ => Requirement::In(name, values),
        })
    }

    /// One value, which may be absent.
    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), "" | ",") {
            Ok(String::new())
        } else {
            self.name()
        }
    }

    /// The values within parentheses, each of which may be absent.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.take();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut values = Vec::new();
        loop {
            let value = if is_name(self.peek()) { self.take() } else { "" };
            values.push(value.to_owned());
            match self.take() {
                "," => {}
                ")" => break,
                other => return Err(format!("found '{other}', expected: ',' or ')'")),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

fn number(value: &str) -> Result<i64, String> {
    value.parse().map_err(|_| {
        format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
    })
}
