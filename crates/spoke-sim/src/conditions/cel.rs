//! CEL as the work agent supports it: `object` (and `result` in messages), the Kubernetes libraries, optional
//! types, `hasConditions()`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, MapExpr, StructExpr, operators};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, Map, Value as Cel};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError};
use serde_json::Value;

/// A compiled expression, or the compiler's error, which becomes the message of the condition.
#[derive(Clone)]
pub(super) struct Expression(Arc<Result<IdedExpr, String>>);

/// How many compiled expressions are kept.
const MOST_KEPT: usize = 256;

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.0.is_ok()).finish()
    }
}

thread_local! {
    // Registering about two hundred functions costs more than most evaluations.
    static LIBRARIES: Context<'static> = {
        let mut context = Context::default().with_all();
        context.add_function("hasConditions", has_conditions);
        context
    };
    // All clusters are asked the same, and compiling takes longer than everything else that is done with a work.
    static COMPILED: RefCell<HashMap<String, Expression>> = RefCell::default();
}

impl Expression {
    pub(super) fn compile(source: &str) -> Self {
        COMPILED.with_borrow_mut(|known| {
            if let Some(known) = known.get(source) {
                return known.clone();
            }
            if known.len() >= MOST_KEPT {
                known.clear();
            }
            let compiled = Self::compile_anew(source);
            known.insert(source.to_owned(), compiled.clone());
            compiled
        })
    }

    fn compile_anew(source: &str) -> Self {
        let parsed = Parser::default().enable_optional_syntax(true).parse(source);
        let parsed = parsed.map_err(|error| error.to_string());
        Self(Arc::new(parsed.map(|mut expression| {
            select_by_index(&mut expression);
            expression
        })))
    }

    /// The value of a boolean expression.
    pub(super) fn holds(&self, object: &Value) -> Result<bool, String> {
        match self.evaluate(object, None)? {
            Cel::Bool(holds) => Ok(holds),
            other => Err(format!("expected bool result, got {}", go_type(&other))),
        }
    }

    /// The value of a message expression.
    pub(super) fn text(&self, object: &Value, result: bool) -> Result<String, String> {
        match self.evaluate(object, Some(result))? {
            Cel::String(text) => Ok(text.to_string()),
            other => Err(format!(
                "expected message expression to have a string result, got {}",
                go_type(&other)
            )),
        }
    }

    fn evaluate(&self, object: &Value, result: Option<bool>) -> Result<Cel, String> {
        let expression = (*self.0).as_ref().map_err(Clone::clone)?;
        let object = from_json(object);
        LIBRARIES.with(|libraries| {
            let mut context = libraries.new_inner_scope();
            context.add_variable_from_value("object", object);
            if let Some(result) = result {
                context.add_variable_from_value("result", result);
            }
            context.resolve(expression).map_err(|error| complaint(&error))
        })
    }
}

/// The text of cel-go for an error, or that of the interpreter for rare ones.
fn complaint(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        other => other.to_string(),
    }
}

/// The Go type of a value in cel-go.
fn go_type(value: &Cel) -> String {
    match value {
        Cel::Bool(_) => "bool".to_owned(),
        Cel::Int(_) => "int64".to_owned(),
        Cel::UInt(_) => "uint64".to_owned(),
        Cel::Float(_) => "float64".to_owned(),
        Cel::String(_) => "string".to_owned(),
        Cel::List(_) => "[]interface {}".to_owned(),
        Cel::Map(_) => "map[string]interface {}".to_owned(),
        other => other.type_of().to_string(),
    }
}

/// Writes `a.?b` as `a[?'b']`: the interpreter gives an error (or an optional in an optional) for the first
/// form where the field is absent.
fn select_by_index(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                operators::OPT_INDEX.clone_into(&mut call.func_name);
            }
            call.target
                .as_deref_mut()
                .into_iter()
                .chain(&mut call.args)
                .for_each(select_by_index);
        }
        Expr::Comprehension(part) => {
            let parts = [
                &mut part.iter_range,
                &mut part.accu_init,
                &mut part.loop_cond,
                &mut part.loop_step,
                &mut part.result,
            ];
            parts.into_iter().for_each(select_by_index);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(select_by_index),
        Expr::Map(MapExpr { entries }) | Expr::Struct(StructExpr { entries, .. }) => {
            for entry in entries {
                match &mut entry.expr {
                    EntryExpr::StructField(field) => select_by_index(&mut field.value),
                    EntryExpr::MapEntry(entry) => {
                        select_by_index(&mut entry.key);
                        select_by_index(&mut entry.value);
                    }
                }
            }
        }
        Expr::Select(select) => select_by_index(&mut select.operand),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

/// An unstructured object in CEL: whole numbers are `int`, as with cel-go (serde would make them `uint`).
fn from_json(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(boolean) => Cel::Bool(*boolean),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Cel::Int(integer),
            (None, float) => Cel::Float(float.unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(from_json).collect())),
        Value::Object(map) => {
            let entries: HashMap<Key, Cel> = map
                .iter()
                .map(|(key, value)| (Key::from(key.clone()), from_json(value)))
                .collect();
            Cel::Map(Map {
                map: Arc::new(entries),
            })
        }
    }
}

/// True when the argument is a map whose `conditions` is a list with elements.
#[allow(clippy::needless_pass_by_value)] // the signature CEL functions have
fn has_conditions(This(status): This<Cel>) -> bool {
    let Cel::Map(map) = status else {
        return false;
    };
    matches!(map.map.get(&Key::from("conditions")), Some(Cel::List(items)) if !items.is_empty())
}
