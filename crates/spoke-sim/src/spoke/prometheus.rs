//! The client of the cluster's Prometheus, which evaluates risks and has the firing alerts.

use std::time::Duration;

use cvo_model::promql::QueryResult;
use cvo_model::sources::Alert;
use serde_json::Value;

use super::updates::innermost;
use crate::fields;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Client of Prometheus.
#[derive(Clone)]
pub struct Prometheus {
    http: reqwest::Client,
    base: Option<String>,
}

impl Prometheus {
    /// A client of the server at `base`, e.g. `http://127.0.0.1:9090`; without one every query fails.
    ///
    /// # Errors
    /// TLS is not available.
    pub fn new(base: Option<&str>) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        let base = base.map(|base| base.trim_end_matches('/').to_owned());
        Ok(Self { http, base })
    }

    /// Evaluates a query.
    ///
    /// # Errors
    /// Prometheus cannot be reached or refuses the query. The operator puts this text after `executing PromQL query: `.
    pub async fn query(&self, query: &str) -> Result<QueryResult, String> {
        let Some(base) = &self.base else {
            return Err(absent());
        };
        let url = reqwest::Url::parse_with_params(&format!("{base}/api/v1/query"), [("query", query)])
            .map_err(|error| error.to_string())?;
        let body = self.get(url).await?;
        QueryResult::parse(&body)
    }

    /// The pending and firing alerts.
    ///
    /// # Errors
    /// Prometheus cannot be reached or does not return alerts. Alerts that were known before stay valid then.
    pub async fn alerts(&self) -> Result<Vec<Alert>, String> {
        let base = self.base.as_ref().ok_or_else(absent)?;
        let url = reqwest::Url::parse(&format!("{base}/api/v1/alerts")).map_err(|error| error.to_string())?;
        read_alerts(&self.get(url).await?)
    }

    async fn get(&self, url: reqwest::Url) -> Result<Vec<u8>, String> {
        let response = self
            .http
            .get(url)
            .send()
            .await
            .map_err(|error| innermost(&error))?;
        // The response to a refused query is JSON with the error, which the parser reports.
        response
            .bytes()
            .await
            .map(|body| body.to_vec())
            .map_err(|error| innermost(&error))
    }
}

/// The error during an outage of monitoring, with the text of a real one.
#[must_use]
pub fn absent() -> String {
    "Get \"https://thanos-querier.openshift-monitoring.svc:9091/api/v1/query\": dial tcp: lookup \
     thanos-querier.openshift-monitoring.svc: no such host"
        .to_owned()
}

fn read_alerts(body: &[u8]) -> Result<Vec<Alert>, String> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let listed = fields::get(&answer, &["data", "alerts"]).is_some_and(Value::is_array);
    if fields::text(&answer, &["status"]) != "success" || !listed {
        return Err("the response is not a list of alerts".to_owned());
    }
    let strings = |alert: &Value, field: &str| {
        let map = alert.get(field).and_then(Value::as_object).into_iter().flatten();
        map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    };
    let alerts = fields::list(&answer, &["data", "alerts"])
        .iter()
        .map(|alert| Alert {
            labels: strings(alert, "labels"),
            annotations: strings(alert, "annotations"),
            state: fields::text(alert, &["state"]).to_owned(),
            active_at: fields::parse_timestamp(fields::text(alert, &["activeAt"])),
        })
        .collect();
    Ok(alerts)
}

#[cfg(test)]
mod tests {
    use super::read_alerts;

    #[test]
    fn alerts_are_read_as_the_api_writes_them() {
        let body = br#"{"status":"success","data":{"alerts":[{"labels":{"alertname":"A","severity":"critical"},
            "annotations":{"summary":"s"},"state":"firing","activeAt":"2026-01-02T03:04:05.5Z","value":"1e+00"}]}}"#;
        let alerts = read_alerts(body).unwrap();
        assert_eq!(alerts[0].labels["alertname"], "A");
        assert_eq!(alerts[0].annotations["summary"], "s");
        assert_eq!(alerts[0].state, "firing");
        assert!(alerts[0].active_at.is_some());
        let none = br#"{"status":"success","data":{"alerts":[]}}"#;
        assert_eq!(read_alerts(none), Ok(Vec::new()));
        for body in ["{}", "<html>", r#"{"status":"error","error":"busy"}"#] {
            assert!(read_alerts(body.as_bytes()).is_err(), "{body}");
        }
    }
}
