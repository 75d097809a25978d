//! CEL rules of `CustomResourceDefinitions` (`x-kubernetes-validations`).
//!
//! The interpreter and Kubernetes' functions are those of the `cel` and `kube-cel` crates. The validator of `kube-cel` is not
//! used because it lacks `type()`.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{Key, Map, Value as Cel};
use kube_cel::cel::{Context, Program};
use serde_json::Value;

use super::prune::join;
use super::{Cause, CauseKind, ListKind, Schema};

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    text: String,
    program: Option<Arc<Program>>,
    message: Option<String>,
    message_expression: Option<Arc<Program>>,
    /// A field below, which is blamed.
    field: String,
    /// It compares with the old value, so it is only evaluated where there is one.
    is_transition: bool,
}

thread_local! {
    // Registering the functions costs more than most evaluations.
    static LIBRARIES: Context<'static> = {
        let mut context = Context::default().with_all();
        context.add_function("type", |value: Cel| Arc::new(value.type_of().to_string()));
        for name in ["int", "uint", "double", "bool", "string", "bytes", "list", "map"] {
            context.add_variable_from_value(name, name);
        }
        context
    };
}

impl Rule {
    /// The rules of a node.
    pub(super) fn parse_all(openapi: &Value) -> Vec<Self> {
        let rules = openapi.get("x-kubernetes-validations").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::parse).collect()
    }

    fn parse(rule: &Value) -> Self {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).map(str::to_owned);
        let compile = |source: &str| Program::compile(source).ok().map(Arc::new);
        let source = text("rule").unwrap_or_default();
        let is_optional = rule
            .get("optionalOldSelf")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        Self {
            program: compile(&source),
            message: text("message"),
            message_expression: text("messageExpression").and_then(|source| compile(&source)),
            field: text("fieldPath").unwrap_or_default(),
            is_transition: source.contains("oldSelf") && !is_optional,
            text: source,
        }
    }

    /// Why the rule does not hold.
    fn violation(&self, value: &Cel, old: Option<&Cel>, path: &str, shown: &str) -> Option<Cause> {
        if self.is_transition && old.is_none() {
            return None;
        }
        let at = format!("{path}{}", self.field);
        let at = at.trim_start_matches('.');
        let invalid = |text: &str| {
            Some(Cause::new(
                at,
                CauseKind::Invalid,
                format!("Invalid value: {shown}{text}"),
            ))
        };
        let Some(program) = &self.program else {
            return invalid(&format!("the rule cannot be compiled: {}", self.text));
        };
        match evaluate(program, value, old) {
            Ok(Cel::Bool(true)) => None,
            Ok(Cel::Bool(false)) => invalid(&self.message_for(value, old)),
            Ok(_) => invalid("the rule has no boolean result"),
            Err(error) => invalid(&format!("rule compile error: {error}")),
        }
    }

    fn message_for(&self, value: &Cel, old: Option<&Cel>) -> String {
        let computed = self
            .message_expression
            .as_ref()
            .and_then(|program| evaluate(program, value, old).ok());
        match computed {
            Some(Cel::String(text)) if !text.trim().is_empty() => text.to_string(),
            _ => self
                .message
                .clone()
                .unwrap_or_else(|| format!("failed rule: {}", self.text)),
        }
    }
}

fn evaluate(program: &Program, value: &Cel, old: Option<&Cel>) -> Result<Cel, String> {
    LIBRARIES.with(|libraries| {
        let mut context = libraries.new_inner_scope();
        context.add_variable_from_value("self", value.clone());
        if let Some(old) = old {
            context.add_variable_from_value("oldSelf", old.clone());
        }
        program.execute(&context).map_err(|error| error.to_string())
    })
}

impl Schema {
    /// Which CEL rules an object breaks. `old` is the object before, if there is one.
    #[must_use]
    pub fn check_rules(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if self.has_rules {
            self.check_rules_at(object, old, "", &mut causes);
        }
        causes
    }

    fn check_rules_at(&self, value: &Value, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
        // What is as it was is not checked again.
        if !self.has_rules || old == Some(value) {
            return;
        }
        if !self.rules.is_empty() && !value.is_null() {
            let (now, before) = (to_cel(value, self), old.map(|old| to_cel(old, self)));
            let shown = shown(value);
            causes.extend(
                self.rules
                    .iter()
                    .filter_map(|rule| rule.violation(&now, before.as_ref(), path, &shown)),
            );
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    if let Some(schema) = self.field(name) {
                        let old = old.and_then(|old| old.get(name));
                        schema.check_rules_at(value, old, &self.path_of(path, name), causes);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (number, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| self.same_item(old, item));
                    schema.check_rules_at(item, old, &format!("{path}[{number}]"), causes);
                }
            }
            _ => {}
        }
    }

    /// The item of an old list with the same keys. Only such items can be compared.
    fn same_item<'a>(&self, old: &'a Value, item: &Value) -> Option<&'a Value> {
        let ListKind::Keyed(keys) = &self.list else {
            return None;
        };
        old.as_array()?
            .iter()
            .find(|old| keys.iter().all(|key| old.get(key) == item.get(key)))
    }

    pub(super) fn path_of(&self, path: &str, name: &str) -> String {
        if self.properties.contains_key(name) {
            join(path, name)
        } else {
            format!("{path}[{name}]")
        }
    }
}

/// How a value is shown before a message: maps and lists are not.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        scalar => format!("{scalar}: "),
    }
}

/// A value as CEL sees it: dates are timestamps, and names that are words of CEL are escaped.
fn to_cel(value: &Value, schema: &Schema) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Cel::Int(number),
            (None, Some(number)) => Cel::UInt(number),
            (None, None) => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) if schema.limits.format.as_deref() == Some("date-time") => {
            let at = chrono::DateTime::parse_from_rfc3339(text);
            at.map_or_else(|_| Cel::String(Arc::new(text.clone())), Cel::Timestamp)
        }
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let anything = Schema::default();
            let schema = schema.items.as_deref().unwrap_or(&anything);
            Cel::List(Arc::new(items.iter().map(|item| to_cel(item, schema)).collect()))
        }
        Value::Object(map) => {
            let anything = Schema::default();
            let entry = |(name, value): (&String, &Value)| {
                let is_property = schema.properties.contains_key(name);
                let escaped = if is_property { escape(name) } else { name.clone() };
                let below = schema.field(name).unwrap_or(&anything);
                (Key::String(Arc::new(escaped)), to_cel(value, below))
            };
            let entries: HashMap<Key, Cel> = map.iter().map(entry).collect();
            Cel::Map(Map {
                map: Arc::new(entries),
            })
        }
    }
}

/// The name of a property in rules.
fn escape(name: &str) -> String {
    const WORDS: [&str; 20] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
    ];
    if WORDS.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
