//! Templates of the user, as kubectl reads them: `jsonpath=…` and `custom-columns=…`.
//!
//! Paths are translated to the JSONPath of RFC 9535, which a library evaluates. kubectl's paths differ in their names: they may
//! have dashes, and `\.` for a dot that separates nothing.

mod path;

use std::fmt::Write as _;

use serde_json::Value;

pub use self::path::Path;
use crate::paint::Paint;
use crate::table::{Cell, Table};

/// What is printed if a path finds nothing in a column.
const NONE: &str = "<none>";

/// A template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    kind: Kind,
    headers: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    JsonPath(Vec<Part>),
    Columns(Vec<(String, Path)>),
}

impl Eq for Template {}

/// A part of a JSONPath template.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Value(Path),
    /// The parts for each value that the path finds.
    Range(Path, Vec<Part>),
}

impl Template {
    /// Reads a template such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
    ///
    /// # Errors
    /// The text says what is wrong.
    pub fn jsonpath(text: &str) -> Result<Template, String> {
        let mut rest = text;
        let parts = parts(&mut rest, false)?;
        Ok(Template {
            kind: Kind::JsonPath(parts),
            headers: false,
        })
    }

    /// Reads a list of columns such as `NAME:.metadata.name,TARGET:.spec.clusterVersion.version`.
    ///
    /// # Errors
    /// The text says what is wrong.
    pub fn columns(text: &str) -> Result<Template, String> {
        let read = |column: &str| {
            let (header, path) = column
                .split_once(':')
                .ok_or_else(|| format!("column {column:?} must be HEADER:JSONPATH"))?;
            Ok::<_, String>((header.to_owned(), Path::read(path)?))
        };
        let columns: Result<Vec<_>, String> = text.split(',').map(read).collect();
        Ok(Template {
            kind: Kind::Columns(columns?),
            headers: true,
        })
    }

    /// True if the first line of the output is a line of headers.
    #[must_use]
    pub const fn has_headers(&self) -> bool {
        self.headers
    }

    /// The template without the line of headers.
    #[must_use]
    pub fn without_headers(&self) -> Template {
        Template {
            kind: self.kind.clone(),
            headers: false,
        }
    }

    /// The output for a value. Columns have a line for each item of a list.
    #[must_use]
    pub fn render(&self, value: &Value) -> String {
        let mut text = String::new();
        match &self.kind {
            Kind::JsonPath(parts) => write_parts(&mut text, parts, value, value),
            Kind::Columns(columns) => return table(columns, value, self.headers),
        }
        text
    }
}

fn table(columns: &[(String, Path)], value: &Value, with_headers: bool) -> String {
    let headers: Vec<&str> = columns.iter().map(|(header, _)| header.as_str()).collect();
    let mut table = Table::new(&headers);
    let items = value.get("items").and_then(Value::as_array);
    for item in items.map_or(std::slice::from_ref(value), Vec::as_slice) {
        let cells = columns.iter().map(|(_, path)| {
            let found: Vec<String> = path.find(item, item).into_iter().map(text_of).collect();
            let text = if found.is_empty() {
                NONE.to_owned()
            } else {
                found.join(",")
            };
            Cell::from(text)
        });
        table.push(cells.collect());
    }
    let text = table.render(Paint::Never, 0);
    if with_headers {
        return text;
    }
    let below = text.split_once('\n').map(|(_, below)| below.to_owned());
    below.unwrap_or_default()
}

fn write_parts(text: &mut String, parts: &[Part], root: &Value, current: &Value) {
    for part in parts {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Value(path) => {
                let found: Vec<String> = path.find(root, current).into_iter().map(text_of).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(path, inner) => {
                for value in path.find(root, current) {
                    write_parts(text, inner, root, value);
                }
            }
        }
    }
}

/// A text as it is, and any other value as JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads parts until the end of the text, or of the range.
fn parts(rest: &mut &str, in_range: bool) -> Result<Vec<Part>, String> {
    let mut found = Vec::new();
    loop {
        let Some(open) = rest.find('{') else {
            if in_range {
                return Err("{range} has no {end}".to_owned());
            }
            push_text(&mut found, rest);
            return Ok(found);
        };
        push_text(&mut found, &rest[..open]);
        let close =
            end_of_braces(&rest[open..]).ok_or_else(|| format!("{} has no closing brace", &rest[open..]))?;
        let inner = rest[open + 1..open + close].trim();
        *rest = &rest[open + close + 1..];
        if inner == "end" {
            if in_range {
                return Ok(found);
            }
            return Err("{end} has no {range}".to_owned());
        }
        if let Some(path) = inner.strip_prefix("range ") {
            let path = Path::read(path)?;
            found.push(Part::Range(path, parts(rest, true)?));
        } else if inner.starts_with(['"', '\'']) {
            found.push(Part::Text(literal(inner)?));
        } else {
            found.push(Part::Value(Path::read(inner)?));
        }
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

/// The place of the brace that closes the first one. Braces in quotes do not count.
fn end_of_braces(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Some(at),
            (Some(_) | None, _) => {}
        }
    }
    None
}

/// The text in quotes, with the usual escapes.
fn literal(quoted: &str) -> Result<String, String> {
    let wrong = || format!("{quoted} is not a text in quotes");
    let quote = quoted.chars().next().ok_or_else(wrong)?;
    let inner = quoted[1..].strip_suffix(quote).ok_or_else(wrong)?;
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let c = if c == '\\' {
            match chars.next().ok_or_else(wrong)? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }
        } else {
            c
        };
        let _ = write!(text, "{c}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
