//! A path of kubectl, translated to RFC 9535.

use std::str::FromStr as _;

use serde_json::Value;
use serde_json_path::JsonPath;

/// A path.
#[derive(Clone, Debug)]
pub struct Path {
    text: String,
    /// True if it begins at the root of the document, even within a range.
    is_absolute: bool,
    translated: JsonPath,
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.text == other.text
    }
}

impl Path {
    /// Reads a path such as `.metadata.name`, `{.metadata.name}`, `metadata.name` or `$.items[?(@.phase=="Failed")].cluster`.
    ///
    /// # Errors
    /// The text says what is wrong.
    pub fn read(text: &str) -> Result<Path, String> {
        let text = text.trim();
        let path = text
            .strip_prefix('{')
            .and_then(|inner| inner.strip_suffix('}'))
            .unwrap_or(text);
        let is_absolute = path.starts_with('$');
        let path = path.strip_prefix(['$', '@']).unwrap_or(path);
        let path = if path.is_empty() || path.starts_with(['.', '[']) {
            path.to_owned()
        } else {
            format!(".{path}")
        };
        let wrong = |why: &str| format!("JSONPath {text:?} cannot be read: {why}");
        let mut steps = path.as_str();
        let mut translated = "$".to_owned();
        translate(&mut steps, &mut translated).map_err(|why| wrong(&why))?;
        if !steps.is_empty() {
            return Err(wrong(&format!("{steps:?} is not a step")));
        }
        let translated = JsonPath::from_str(&translated).map_err(|error| wrong(&error.to_string()))?;
        Ok(Path {
            text: text.to_owned(),
            is_absolute,
            translated,
        })
    }

    /// The values that the path finds. What is missing is found nowhere.
    #[must_use]
    pub fn find<'a>(&self, root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
        let start = if self.is_absolute { root } else { current };
        self.translated.query(start).all()
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Translates steps until something follows that is none.
fn translate(rest: &mut &str, to: &mut String) -> Result<(), String> {
    loop {
        if let Some(after) = rest.strip_prefix("..") {
            *rest = after;
            to.push_str("..");
            if !rest.starts_with('[') {
                name(rest, to)?;
            }
        } else if let Some(after) = rest.strip_prefix('.') {
            *rest = after;
            // The root alone is a path, too.
            if !rest.is_empty() && !rest.starts_with('[') {
                name(rest, to)?;
            }
        } else if rest.starts_with('[') {
            brackets(rest, to)?;
        } else {
            return Ok(());
        }
    }
}

fn name(rest: &mut &str, to: &mut String) -> Result<(), String> {
    let (mut name, mut escaped, mut end) = (String::new(), false, rest.len());
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '*' | '_' | '-' | '/' | ':' => name.push(c),
            _ if c.is_alphanumeric() => name.push(c),
            _ => {
                end = at;
                break;
            }
        }
    }
    *rest = &rest[end..];
    match name.as_str() {
        "" => Err("a name is missing after a dot".to_owned()),
        "*" => {
            to.push_str("[*]");
            Ok(())
        }
        name => {
            push_quoted(to, name);
            Ok(())
        }
    }
}

fn push_quoted(to: &mut String, name: &str) {
    to.push('[');
    to.push_str(&Value::from(name).to_string());
    to.push(']');
}

fn brackets(rest: &mut &str, to: &mut String) -> Result<(), String> {
    let end = end_of_brackets(rest).ok_or("a bracket is not closed")?;
    let inner = rest[1..end].trim();
    *rest = &rest[end + 1..];
    let Some(filter) = inner.strip_prefix('?') else {
        // kubectl reads an escaped dot also in quotes.
        to.push('[');
        to.push_str(&inner.replace("\\.", "."));
        to.push(']');
        return Ok(());
    };
    to.push_str("[?");
    let mut filter = filter;
    let mut quote = None;
    while let Some(c) = filter.chars().next() {
        filter = &filter[c.len_utf8()..];
        to.push(c);
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '@' => translate(&mut filter, to)?,
            Some(_) | None => {}
        }
    }
    to.push(']');
    Ok(())
}

/// The place of the bracket that closes the first one. Brackets in quotes do not count.
fn end_of_brackets(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            (Some(_) | None, _) => {}
        }
    }
    None
}
