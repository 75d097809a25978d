//! The results of risk queries: how Prometheus returns them, and how a cluster interprets them.
//!
//! A result must be a vector of exactly one sample with value 0 or 1. Every other result is an evaluation failure with the
//! shipped text (`docs/design/cvo.md#promql-answers`).

use clusterversion::risks::Exposure;
use serde::Deserialize;
use serde_json::Value;

/// A result of the query API.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult {
    /// The sample values of an instant vector.
    Vector(Vec<f64>),
    /// Another type, such as `scalar`, `matrix` or `string`.
    Other(String),
}

#[derive(Deserialize)]
struct QueryResponse {
    status: String,
    #[serde(default)]
    data: Option<QueryData>,
    #[serde(rename = "errorType", default)]
    error_type: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct QueryData {
    #[serde(rename = "resultType")]
    kind: String,
    #[serde(default)]
    result: Value,
}

#[derive(Deserialize)]
struct VectorSample {
    /// Time in seconds, and the value as text.
    value: (Value, String),
}

impl QueryResult {
    /// Parses the body of a response of `/api/v1/query`, whatever its HTTP status.
    ///
    /// # Errors
    /// The error of the server, or what is wrong with the body.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let answer: QueryResponse =
            serde_json::from_slice(body).map_err(|error| format!("bad_response: {error}"))?;
        let Some(data) = answer.data.filter(|_| answer.status == "success") else {
            let kind = if answer.error_type.is_empty() {
                "bad_response"
            } else {
                &answer.error_type
            };
            return Err(format!("{kind}: {}", answer.error));
        };
        if data.kind != "vector" {
            return Ok(Self::Other(data.kind));
        }
        let samples: Vec<VectorSample> =
            serde_json::from_value(data.result).map_err(|error| format!("bad_response: {error}"))?;
        let values = samples.into_iter().map(|sample| number(&sample.value.1));
        values.collect::<Result<_, _>>().map(Self::Vector)
    }
}

/// A sample value as Prometheus writes it: `NaN`, `+Inf` and `-Inf` included.
fn number(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| format!("bad_response: {text:?} is not a sample value"))
}

/// The exposure that a result means: 1 exposed, 0 not exposed.
///
/// # Errors
/// The text of an evaluation failure.
#[expect(clippy::float_cmp, reason = "the protocol is exactly 0 or exactly 1")]
pub fn exposure(answer: &Result<QueryResult, String>) -> Exposure {
    match answer {
        Err(why) => Err(format!("executing PromQL query: {why}")),
        Ok(QueryResult::Other(kind)) => Err(format!("invalid PromQL result type is {kind}, not vector")),
        Ok(QueryResult::Vector(values)) => match values.as_slice() {
            [value] if *value == 0.0 => Ok(false),
            [value] if *value == 1.0 => Ok(true),
            [value] => Err(format!(
                "invalid PromQL result (must be 0 or 1): {}",
                sample(*value)
            )),
            several => Err(format!(
                "invalid PromQL result length must be one, but is {}",
                several.len()
            )),
        },
    }
}

/// A value in Go's format: `NaN`, `+Inf`, `-Inf`, or the shortest decimal form.
fn sample(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

/// Replaces the empty cluster id in a query by the real one, as hosted control planes with a shared Prometheus do.
#[must_use]
pub fn inject_cluster_id(query: &str, cluster_id: &str) -> String {
    query.replace(r#"_id="""#, &format!(r#"_id="{cluster_id}""#))
}

#[cfg(test)]
mod tests;
