//! Splits input into documents: YAML streams, JSON streams, and `List` objects.

use serde_json::Value;

use crate::table::one_line;

/// One document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Number in its file, from 1; empty documents do not count.
    pub number: usize,
    /// Its content, or the error if it cannot be read. Line numbers in the error are those of the file.
    pub value: Result<Value, String>,
}

/// The documents of a text that are not empty.
#[must_use]
pub fn split(text: &str) -> Vec<Document> {
    let values = json_stream(text).unwrap_or_else(|| yaml_stream(text));
    values
        .into_iter()
        .filter(|value| !matches!(value, Ok(Value::Null)))
        .enumerate()
        .map(|(index, value)| Document {
            number: index + 1,
            value,
        })
        .collect()
}

/// The objects of a document: the items of a `List`, else the document itself.
#[must_use]
pub fn items(mut value: Value) -> Vec<Value> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        Some(other) => {
            value["items"] = other;
            vec![value]
        }
        None => vec![value],
    }
}

/// The values of a JSON stream; `None` if the text is not JSON.
fn json_stream(text: &str) -> Option<Vec<Result<Value, String>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .map(|value| value.ok().map(Ok))
        .collect()
}

/// The documents between lines of `---`. Each is parsed separately, so that an invalid document does not hide the others. Empty
/// lines replace everything before it, so that errors have the line numbers of the file.
fn yaml_stream(text: &str) -> Vec<Result<Value, String>> {
    let mut documents = Vec::new();
    let mut current = String::new();
    for (number, line) in text.lines().enumerate() {
        if is_separator(line) {
            documents.push(std::mem::replace(&mut current, "\n".repeat(number + 1)));
            let rest = line[3..].trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                current.pop();
                current.push_str(rest);
                current.push('\n');
            }
        } else {
            current.push_str(line);
            current.push('\n');
        }
    }
    documents.push(current);
    documents
        .iter()
        .filter(|document| !is_blank(document))
        .map(|document| serde_saphyr::from_str(document).map_err(|error| explain(&error)))
        .collect()
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']))
}

fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "..." || line.starts_with("%YAML")
    })
}

/// The error without its picture of the text, and without its advice to programmers.
fn explain(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
    format!("cannot be read: {}", one_line(&text))
}

#[cfg(test)]
mod tests;
