//! Machine-readable output: JSON, YAML and names.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use api::text::is_steering;
use serde_json::{Value, json};

use crate::args::Output;
use crate::table::lines;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Pretty JSON, ended by a newline.
#[must_use]
pub fn to_json(value: &Value) -> String {
    escaped(&format!("{:#}\n", sorted(value)))
}

/// The value with the keys of every object in alphabetical order. Whether a map keeps the order in which its keys were put in
/// depends on what else is built, and the output must not.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields = fields
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)));
            fields.collect()
        }
        plain => plain.clone(),
    }
}

/// Escapes the characters in JSON that could control a terminal. JSON itself permits control characters beyond ASCII and
/// direction marks. The value stays the same.
pub(super) fn escaped(json: &str) -> String {
    escaped_by(json, |c| {
        // JSON has one escape for each unit of UTF-16.
        let mut units = [0; 2];
        let escapes = c
            .encode_utf16(&mut units)
            .iter()
            .map(|unit| format!("\\u{unit:04x}"));
        escapes.collect()
    })
}

fn escaped_by(json: &str, escape: impl Fn(char) -> String) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_steering(c) && c != '\n' {
            text.push_str(&escape(c));
        } else {
            text.push(c);
        }
    }
    text
}

/// YAML, ended by a newline. The YAML writer does not escape characters that could control a terminal. A text with such
/// characters is therefore written in double quotes with the escapes of JSON, which mean the same in YAML.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut marked = Marked {
        // The mark is random, so that no text can contain it.
        mark: format!("q{:016x}q", RandomState::new().hash_one(())),
        texts: Vec::new(),
    };
    let value = marked.without_steering(&sorted(value));
    let written = serde_saphyr::to_string(&value).unwrap_or_else(|error| format!("# {error}\n"));
    let mut text = marked.filled_in(&written);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Texts that are replaced by placeholders while YAML is written. A placeholder consists of the mark, the index of the text,
/// and `q`.
struct Marked {
    mark: String,
    texts: Vec<String>,
}

impl Marked {
    fn without_steering(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.placeholder(text)),
            Value::Array(items) => items.iter().map(|item| self.without_steering(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (self.placeholder(key), self.without_steering(value)))
                .collect(),
            plain => plain.clone(),
        }
    }

    fn placeholder(&mut self, text: &str) -> String {
        if !text.chars().any(|c| is_steering(c) && !matches!(c, '\n' | '\t')) {
            return text.to_owned();
        }
        self.texts.push(escaped_by(&Value::from(text).to_string(), |c| {
            format!("\\U{:08x}", u32::from(c))
        }));
        format!("{}{}q", self.mark, self.texts.len() - 1)
    }

    fn filled_in(&self, written: &str) -> String {
        let mut parts = written.split(&self.mark);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, rest) = part.split_once('q').unwrap_or_default();
            let text = number
                .parse()
                .ok()
                .and_then(|number: usize| self.texts.get(number));
            filled.push_str(text.map_or("", String::as_str));
            filled.push_str(rest);
        }
        filled
    }
}

/// A `v1` List.
#[must_use]
pub fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// A value in a machine-readable format; `None` if people read the output, or if names are requested.
#[must_use]
pub fn machine(output: Option<Output>, value: impl FnOnce() -> Value) -> Option<String> {
    match output? {
        Output::Json => Some(to_json(&value())),
        Output::Yaml => Some(to_yaml(&value())),
        Output::Template(template) => Some(template.render(&value())),
        Output::Wide | Output::Name | Output::Csv => None,
    }
}

/// A table without its line of headers. Any other output is as it was.
#[must_use]
pub fn without_headers(output: Option<Output>, text: &str) -> &str {
    let has_headers = match output {
        Some(Output::Template(template)) => template.has_headers(),
        output => Output::is_for_humans(output),
    };
    match text.split_once('\n') {
        Some((_, rest)) if has_headers => rest,
        _ => text,
    }
}

/// One upgrade in a machine-readable format; `None` if a human-readable format is requested.
#[must_use]
pub fn upgrade(output: Option<Output>, upgrade: &Upgrade) -> Option<String> {
    if output == Some(Output::Name) {
        return Some(format!("{TYPE_AND_GROUP}/{}\n", upgrade.name));
    }
    machine(output, || upgrade.object.clone())
}

/// Several upgrades in a machine-readable format; `None` if a human-readable format is requested.
#[must_use]
pub fn upgrades(output: Option<Output>, upgrades: &[Upgrade]) -> Option<String> {
    if output == Some(Output::Name) {
        let names = upgrades.iter().map(|upgrade| &upgrade.name);
        return Some(lines(names.map(|name| format!("{TYPE_AND_GROUP}/{name}"))));
    }
    let objects = || upgrades.iter().map(|upgrade| upgrade.object.clone());
    machine(output, || list(&objects().collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests;
