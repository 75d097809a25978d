//! Label and field selectors.

use crate::object::Object;

/// What objects a list or watch is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    fields: Vec<FieldRequirement>,
    labels: Vec<Requirement>,
}

/// `metadata.name=a` or `metadata.namespace!=b`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    is_name: bool,
    value: String,
    is_equal: bool,
}

impl FieldRequirement {
    fn parse(part: &str) -> Result<Self, String> {
        let (field, value, is_equal) = if let Some((field, value)) = part.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (field, value, true)
        } else {
            return Err(format!("invalid selector: '{part}'; can't understand '{part}'"));
        };
        let is_name = match field {
            "metadata.name" => true,
            "metadata.namespace" => false,
            other => return Err(format!("field label not supported: {other}")),
        };
        Ok(Self {
            is_name,
            value: value.to_owned(),
            is_equal,
        })
    }

    fn holds(&self, object: &Object) -> bool {
        let have = if self.is_name {
            object.name()
        } else {
            object.namespace()
        };
        (have == self.value) == self.is_equal
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Requirement {
    fn holds(&self, object: &Object) -> bool {
        let is_one = |name: &str, values: &[String]| {
            object
                .label(name)
                .is_some_and(|have| values.iter().any(|value| value == have))
        };
        match self {
            Self::In(name, values) => is_one(name, values),
            Self::NotIn(name, values) => !is_one(name, values),
            Self::Exists(name) => object.label(name).is_some(),
            Self::Missing(name) => object.label(name).is_none(),
        }
    }
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// One of them is malformed, or selects a field that cannot be selected; the text says which.
    pub fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        let mut selector = Self::default();
        for part in split(labels) {
            selector.labels.push(requirement(part)?);
        }
        for part in fields.split(',').filter(|part| !part.is_empty()) {
            selector.fields.push(FieldRequirement::parse(part)?);
        }
        Ok(selector)
    }

    /// Whether only one name is selected. Lists of it have one page.
    #[must_use]
    pub fn is_one_name(&self) -> bool {
        self.fields.iter().any(|field| field.is_name && field.is_equal)
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an object is selected.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.fields.iter().all(|requirement| requirement.holds(object))
            && self.labels.iter().all(|requirement| requirement.holds(object))
    }
}

/// Splits at commas outside of parentheses.
fn split(labels: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = labels.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let values = |list: &str| {
        let inner = list.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(
            inner
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect::<Vec<_>>(),
        )
    };
    let name = |text: &str| text.trim().to_owned();
    if let Some((label, list)) = part
        .split_once(" notin ")
        .or_else(|| part.split_once(" notin(").map(|(a, _)| (a, &part[a.len() + 6..])))
    {
        let values = values(list).ok_or_else(|| malformed(part))?;
        return Ok(Requirement::NotIn(name(label), values));
    }
    if let Some((label, list)) = part
        .split_once(" in ")
        .or_else(|| part.split_once(" in(").map(|(a, _)| (a, &part[a.len() + 3..])))
    {
        let values = values(list).ok_or_else(|| malformed(part))?;
        return Ok(Requirement::In(name(label), values));
    }
    if let Some((label, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(name(label), vec![name(value)]));
    }
    if let Some((label, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(name(label), vec![name(value)]));
    }
    if part.contains(['(', ')', ' ']) {
        return Err(malformed(part));
    }
    Ok(match part.strip_prefix('!') {
        Some(label) => Requirement::Missing(name(label)),
        None => Requirement::Exists(name(part)),
    })
}

fn malformed(part: &str) -> String {
    format!("unable to parse requirement: {part}")
}
