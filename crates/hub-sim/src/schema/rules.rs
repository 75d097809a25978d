//! CEL rules of `CustomResourceDefinitions` (`x-kubernetes-validations`).
//!
//! The interpreter and Kubernetes' functions are those of the `cel` and `kube-cel` crates. The validator of `kube-cel` is not
//! used because it lacks `type()`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, Map, Value as Cel};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Program, functions};
use regex::Regex;
use serde_json::Value;

use super::check::type_of;
use super::prune::Path;
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
    /// It, or its message, names the old value.
    names_old: bool,
}

thread_local! {
    // Registering the functions costs more than most evaluations.
    static LIBRARIES: Context<'static> = {
        let mut context = Context::default().with_all();
        context.add_function("type", |value: Cel| Arc::new(value.type_of().to_string()));
        context.add_function("matches", matches);
        for name in ["int", "uint", "double", "bool", "string", "bytes", "list", "map"] {
            context.add_variable_from_value(name, name);
        }
        context
    };
    static PATTERNS: RefCell<HashMap<Arc<String>, Regex>> = RefCell::default();
}

/// The function of `cel`, which compiles a pattern each time.
fn matches(
    context: &FunctionContext<'_, '_>,
    this: This<Arc<String>>,
    pattern: Arc<String>,
) -> Result<bool, ExecutionError> {
    PATTERNS.with_borrow_mut(|patterns| {
        if let Some(known) = patterns.get(&pattern) {
            return Ok(known.is_match(&this.0));
        }
        if let Ok(compiled) = Regex::new(&pattern) {
            patterns.insert(Arc::clone(&pattern), compiled);
        }
        functions::matches(context, this, pattern)
    })
}

/// Whether a rule uses `self` only to name its fields.
fn reads_fields_only(rule: &str) -> bool {
    rule.split("self").skip(1).all(|rest| rest.starts_with('.'))
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
        let message_expression = text("messageExpression");
        let names_old = |source: &String| source.contains("oldSelf");
        Self {
            program: compile(&source),
            message: text("message"),
            names_old: names_old(&source) || message_expression.as_ref().is_some_and(names_old),
            message_expression: message_expression.and_then(|source| compile(&source)),
            field: text("fieldPath").unwrap_or_default(),
            is_transition: names_old(&source) && !is_optional,
            text: source,
        }
    }

    /// Whether the rule may depend on a field of `self`.
    fn may_read(&self, field: &str) -> bool {
        self.names_old
            || self.message_expression.is_some()
            || self.text.contains(field)
            || !reads_fields_only(&self.text)
    }

    /// Why the rule does not hold for the `self` and `oldSelf` of a scope.
    fn violation(&self, scope: &Context<'_>, path: &Path<'_>, value: &Value) -> Option<Cause> {
        let cause = |at: &str, text: String| {
            let text = format!("Invalid value: {text}");
            Some(Cause::new(at.trim_start_matches('.'), CauseKind::Invalid, text))
        };
        let invalid = |text: &str| {
            cause(
                &format!("{path}{}", self.field),
                format!("{}{text}", shown(value)),
            )
        };
        let Some(program) = &self.program else {
            return invalid(&format!("the rule cannot be compiled: {}", self.text));
        };
        match program.execute(scope) {
            Ok(Cel::Bool(true)) => None,
            Ok(Cel::Bool(false)) => invalid(&self.message_for(scope)),
            Ok(_) => invalid("the rule has no boolean result"),
            Err(error) => {
                let rule = self.message.as_ref().unwrap_or(&self.text);
                let text = format!("\"{}\": {} evaluating rule: {rule}", type_of(value), told(&error));
                cause(&path.to_string(), text)
            }
        }
    }

    fn message_for(&self, scope: &Context<'_>) -> String {
        let computed = self
            .message_expression
            .as_ref()
            .and_then(|program| program.execute(scope).ok());
        match computed {
            Some(Cel::String(text)) if !text.trim().is_empty() => text.to_string(),
            _ => self
                .message
                .clone()
                .unwrap_or_else(|| format!("failed rule: {}", self.text)),
        }
    }
}

impl Schema {
    pub(super) fn is_date(&self) -> bool {
        self.limits.format.as_deref() == Some("date-time")
    }

    /// Which CEL rules an object breaks. `old` is the object before, if there is one.
    #[must_use]
    pub fn check_rules(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if self.has_rules {
            self.check_rules_at(object, old, &Path::Root, &mut causes);
        }
        causes
    }

    fn check_rules_at(&self, value: &Value, old: Option<&Value>, path: &Path<'_>, causes: &mut Vec<Cause>) {
        // What is as it was is not checked again.
        if !self.has_rules || old == Some(value) {
            return;
        }
        if !value.is_null() {
            self.check_own_rules(value, old, path, causes);
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    if let Some(schema) = self.field(name) {
                        let old = old.and_then(|old| old.get(name));
                        let at = if self.properties.contains_key(name) {
                            Path::Field(path, name)
                        } else {
                            Path::Entry(path, name)
                        };
                        schema.check_rules_at(value, old, &at, causes);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (number, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| self.same_item(old, item));
                    schema.check_rules_at(item, old, &Path::Item(path, number), causes);
                }
            }
            _ => {}
        }
    }

    /// Evaluates the rules of this node.
    fn check_own_rules(&self, value: &Value, old: Option<&Value>, path: &Path<'_>, causes: &mut Vec<Cause>) {
        let rules = || {
            self.rules
                .iter()
                .filter(|rule| old.is_some() || !rule.is_transition)
        };
        if rules().next().is_none() {
            return;
        }
        LIBRARIES.with(|libraries| {
            let mut scope = libraries.new_inner_scope();
            // Rules about whole objects name a few fields, and statuses are large.
            let named = value.as_object().filter(|_| matches!(path, Path::Root));
            let named = named.map(|map| {
                let fields = map
                    .iter()
                    .filter(|(name, _)| rules().any(|rule| rule.may_read(name)));
                Value::Object(
                    fields
                        .map(|(name, value)| (name.clone(), value.clone()))
                        .collect(),
                )
            });
            scope.add_variable_from_value("self", to_cel(named.as_ref().unwrap_or(value), Some(self)));
            if let Some(old) = old.filter(|_| rules().any(|rule| rule.names_old)) {
                scope.add_variable_from_value("oldSelf", to_cel(old, Some(self)));
            }
            causes.extend(rules().filter_map(|rule| rule.violation(&scope, path, value)));
        });
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
}

/// How a value is shown before a message: maps and lists are not.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        scalar => format!("{scalar}: "),
    }
}

/// Why a rule could not be evaluated, in the words of Kubernetes.
fn told(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { function, .. } if function == "duration" => {
            "type conversion error from 'string' to 'google.protobuf.Duration'".to_owned()
        }
        other => other.to_string(),
    }
}

/// A value as CEL sees it: dates are timestamps, and names that are words of CEL are escaped.
fn to_cel(value: &Value, schema: Option<&Schema>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Cel::Int(number),
            (None, Some(number)) => Cel::UInt(number),
            (None, None) => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) if schema.is_some_and(Schema::is_date) => {
            let at = chrono::DateTime::parse_from_rfc3339(text);
            at.map_or_else(|_| Cel::String(Arc::new(text.clone())), Cel::Timestamp)
        }
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            Cel::List(Arc::new(items.iter().map(|item| to_cel(item, schema)).collect()))
        }
        Value::Object(map) => {
            let entry = |(name, value): (&String, &Value)| {
                let is_property = schema.is_some_and(|schema| schema.properties.contains_key(name));
                let escaped = if is_property { escape(name) } else { name.clone() };
                let below = schema.and_then(|schema| schema.field(name));
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
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
