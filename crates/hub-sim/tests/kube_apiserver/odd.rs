//! Requests that are wrong in themselves: method, media type, body, or query. Codes and reasons are compared, not the texts,
//! many of which are those of Go's decoders.

use http::Method;
use serde_json::{Value, json};

use crate::compare::Answer;
use crate::side::{Side, Target};

/// How many there are.
pub const COUNT: u64 = 28;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request: method, path, media type and body.
type Odd = (Method, String, &'static str, Value);

impl Side {
    pub async fn odd(&self, number: usize, target: &Target) -> Answer {
        let (method, path, media_type, body) = request(number, target);
        // A text is sent as it is: it is no JSON.
        let body = match body {
            Value::Null => Vec::new(),
            Value::String(text) => text.into_bytes(),
            value => serde_json::to_vec(&value).unwrap(),
        };
        let answer = self.send_bytes(JSON, method, &path, media_type, body).await;
        Answer {
            code: answer.code,
            body: json!({"reason": answer.body["reason"], "status": answer.body["status"]}),
            warnings: Vec::new(),
        }
    }
}

fn request(number: usize, target: &Target) -> Odd {
    let (object, collection) = (target.object.clone(), target.collection.clone());
    let valid = target.typed(&json!({}));
    let with = |path: &[&str], value: Value| {
        let mut body = valid.clone();
        let mut at = &mut body;
        for step in path {
            at = &mut at[*step];
        }
        *at = value;
        body
    };
    match number {
        0 => (Method::POST, object, JSON, valid),
        1 => (Method::PUT, collection, JSON, valid),
        2 => (Method::PATCH, collection, MERGE, json!({})),
        3 => (Method::PATCH, object, "text/plain", json!({})),
        4 => (Method::POST, collection, JSON, "{\"kind\":".into()),
        5 => (Method::POST, collection, JSON, json!([])),
        6 => (
            Method::POST,
            collection,
            JSON,
            with(&["apiVersion"], "example.com/v1".into()),
        ),
        7 => (Method::POST, collection, JSON, with(&["kind"], "Nonsense".into())),
        8 => (
            Method::POST,
            collection,
            JSON,
            with(&["metadata", "namespace"], "elsewhere".into()),
        ),
        9 => (Method::POST, collection, JSON, with(&["metadata"], json!({}))),
        10 => (
            Method::PUT,
            object,
            JSON,
            with(&["metadata", "name"], "other".into()),
        ),
        11 => (Method::PUT, object, JSON, with(&["metadata"], json!({}))),
        12 => (
            Method::PUT,
            object,
            JSON,
            with(&["metadata", "resourceVersion"], "abc".into()),
        ),
        _ => other_request(number, (object, collection), valid.clone(), with),
    }
}

/// The requests from the thirteenth on.
fn other_request(
    number: usize,
    (object, collection): (String, String),
    valid: Value,
    with: impl Fn(&[&str], Value) -> Value,
) -> Odd {
    match number {
        13 => (
            Method::GET,
            format!("{collection}?labelSelector=a+in+("),
            "",
            Value::Null,
        ),
        14 => (Method::GET, format!("{object}/nonsense"), "", Value::Null),
        15 => (
            Method::GET,
            format!("{collection}?fieldSelector=spec.nonsense%3D1"),
            "",
            Value::Null,
        ),
        16 => (
            Method::GET,
            format!("{collection}?resourceVersion=abc"),
            "",
            Value::Null,
        ),
        17 => (Method::DELETE, object, JSON, "{\"kind\":".into()),
        18 => (
            Method::DELETE,
            object,
            JSON,
            json!({"propagationPolicy": "Nonsense"}),
        ),
        19 => (
            Method::PATCH,
            object,
            "application/json-patch+json",
            json!({"op": "add"}),
        ),
        20 => (Method::PATCH, object, MERGE, json!([1])),
        21 => (
            Method::PATCH,
            format!("{object}?force=true"),
            MERGE,
            json!({"metadata": {"labels": {"odd": "1"}}}),
        ),
        22 => (Method::PATCH, object, APPLY, valid),
        23 => (
            Method::PATCH,
            format!("{object}?fieldManager=one"),
            APPLY,
            with(&["metadata", "managedFields"], json!([{}])),
        ),
        24 => (
            Method::PATCH,
            format!("{object}?fieldManager=one"),
            APPLY,
            with(&["apiVersion"], Value::Null),
        ),
        25 => (
            Method::POST,
            format!("{collection}?fieldValidation=Nonsense"),
            JSON,
            valid,
        ),
        26 => (Method::POST, format!("{collection}?dryRun=Nonsense"), JSON, valid),
        _ => (
            Method::PATCH,
            format!("{object}?fieldManager=one"),
            APPLY,
            "metadata: [".into(),
        ),
    }
}
