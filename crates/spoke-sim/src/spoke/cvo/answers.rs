//! The requests of the model and their results: graphs, queries, payloads.

use std::collections::VecDeque;
use std::sync::Arc;

use cvo_model::acceptance::{Loaded, Payload, PayloadAnswer, PayloadFailure};
use cvo_model::retrieval::{GraphAnswer, GraphReply};
use cvo_model::sources::Alert;
use cvo_model::step::PromqlAnswer;
use tokio::task::{AbortHandle, JoinSet};

use crate::fault::Faults;
use crate::fields::Time;
use crate::spoke::clock::Clock;
use crate::spoke::prometheus::{Prometheus, absent};
use crate::spoke::setup::Setup;
use crate::spoke::updates::{Nodes, UpdateService, outage};

/// One result.
pub(super) enum Answer {
    Graph(GraphReply),
    Promql(PromqlAnswer),
    /// The time to retrieve an image has passed.
    Loaded(String),
    Alerts(Result<Vec<Alert>, String>),
}

/// Running requests, and results that are not passed to the model yet.
pub(super) struct Answers {
    service: UpdateService,
    prometheus: Prometheus,
    clock: Clock,
    on_their_way: JoinSet<Answer>,
    /// The URL of the last fetch, and its task.
    fetching: Option<(String, AbortHandle)>,
    pub graph: Option<GraphReply>,
    pub promql: VecDeque<PromqlAnswer>,
    pub payload: VecDeque<PayloadAnswer>,
    pub alerts: Vec<Alert>,
    alerts_due: Option<Time>,
    /// Whether the running operator has read alerts since its start.
    alerts_read: bool,
    pub nodes: Nodes,
}

impl Answers {
    pub fn new(service: UpdateService, prometheus: Prometheus, clock: Clock) -> Self {
        Self {
            service,
            prometheus,
            clock,
            on_their_way: JoinSet::new(),
            fetching: None,
            graph: None,
            promql: VecDeque::new(),
            payload: VecDeque::new(),
            alerts: Vec::new(),
            alerts_due: None,
            alerts_read: false,
            nodes: Nodes::default(),
        }
    }

    /// Drops all requests and results when the operator restarts. Known payloads stay.
    pub fn forget(&mut self) {
        self.on_their_way.abort_all();
        self.fetching = None;
        self.graph = None;
        self.promql.clear();
        self.payload.clear();
        self.alerts_due = None;
        self.alerts_read = false;
    }

    /// Fetches a graph and cancels an earlier fetch.
    pub fn fetch(&mut self, url: String, version: String, is_out: bool) {
        if let Some((_, previous)) = self.fetching.take() {
            previous.abort();
        }
        let service = self.service.clone();
        let asked = url.clone();
        let fetch = self.on_their_way.spawn(async move {
            let answer = if is_out {
                outage(&url)
            } else {
                service.fetch(&url, &version).await
            };
            Answer::Graph(GraphReply { url, answer })
        });
        self.fetching = Some((asked, fetch));
    }

    pub fn evaluate(&mut self, query: String, is_out: bool) {
        let prometheus = self.prometheus.clone();
        self.on_their_way.spawn(async move {
            let result = if is_out {
                Err(absent())
            } else {
                prometheus.query(&query).await
            };
            Answer::Promql(PromqlAnswer { query, result })
        });
    }

    pub fn retrieve(&mut self, image: String, takes: chrono::TimeDelta) {
        let wait = self.clock.short(takes);
        self.on_their_way.spawn(async move {
            tokio::time::sleep(wait).await;
            Answer::Loaded(image)
        });
    }

    /// Reads the alerts once a minute.
    pub fn read_alerts(&mut self, now: Time, is_out: bool) {
        if is_out {
            self.miss_alerts();
        }
        if is_out || self.alerts_due.is_some_and(|due| now < due) {
            return;
        }
        self.alerts_due = Some(now + chrono::TimeDelta::minutes(1));
        let prometheus = self.prometheus.clone();
        self.on_their_way
            .spawn(async move { Answer::Alerts(prometheus.alerts().await) });
    }

    /// Alerts cannot be read. As shipped, the last ones are kept, unless the operator has not read any since its start.
    fn miss_alerts(&mut self) {
        if !self.alerts_read {
            self.alerts.clear();
        }
    }

    /// Waits for the next result, for ever if there is no request.
    pub async fn next(&mut self) -> Answer {
        loop {
            match self.on_their_way.join_next().await {
                Some(Ok(answer)) => return answer,
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => tracing::error!(%error, "a request failed"),
                None => std::future::pending().await,
            }
        }
    }

    pub fn take(&mut self, answer: Answer, store: &PayloadSource<'_>) {
        match answer {
            Answer::Graph(reply) => {
                if let GraphAnswer::Response {
                    status: 200, body, ..
                } = &reply.answer
                {
                    self.nodes.learn(body);
                }
                // A result that arrived before its fetch was cancelled must not replace the one that is needed.
                if self.fetching.as_ref().is_some_and(|(url, _)| *url == reply.url) {
                    self.graph = Some(reply);
                }
            }
            Answer::Promql(answer) => self.promql.push_back(answer),
            Answer::Alerts(Ok(alerts)) => {
                self.alerts = alerts;
                self.alerts_read = true;
            }
            Answer::Alerts(Err(error)) => {
                tracing::debug!(%error, "alerts cannot be read");
                self.miss_alerts();
            }
            Answer::Loaded(image) => {
                let outcome = store.load(&image, &self.nodes);
                self.payload.push_back(PayloadAnswer { image, outcome });
            }
        }
    }
}

/// The source of payloads.
pub(super) struct PayloadSource<'a> {
    pub setup: &'a Arc<Setup>,
    pub faults: &'a Faults,
    pub running: &'a Payload,
    /// Version and image of releases that were applied before.
    pub history: Vec<(String, String)>,
}

impl PayloadSource<'_> {
    /// Loads an image: the running one, or one of the scenario, of the graph or of the history, in this order.
    pub fn load(&self, image: &str, nodes: &Nodes) -> Result<Loaded, PayloadFailure> {
        let architecture = self.setup.architecture.clone();
        let supplied = self.setup.payloads.iter().find(|payload| payload.image == image);
        let payload = if image == self.running.image {
            self.running.clone()
        } else if let Some(supplied) = supplied {
            Payload {
                version: supplied.version.clone(),
                image: image.to_owned(),
                architecture: supplied.architecture.clone().unwrap_or(architecture),
                url: supplied.url.clone(),
                ..Payload::default()
            }
        } else if let Some(node) = nodes.get(image) {
            Payload {
                version: node.version.clone(),
                image: image.to_owned(),
                architecture,
                url: node.url.clone(),
                ..Payload::default()
            }
        } else if let Some((version, _)) = self.history.iter().find(|(_, known)| known == image) {
            Payload {
                version: version.clone(),
                image: image.to_owned(),
                architecture,
                ..Payload::default()
            }
        } else {
            return Err(PayloadFailure::Retrieve(format!(
                "Unable to download and prepare the update: image \"{image}\" not found: manifest unknown"
            )));
        };
        let unsigned = supplied.is_some_and(|supplied| supplied.unsigned);
        let verification_error = match self.faults.unverified() {
            Some(why) => Some(why.to_owned()),
            None if unsigned => Some("unable to locate a valid signature for one or more sources".to_owned()),
            None => None,
        };
        Ok(Loaded {
            payload,
            verification_error,
        })
    }
}

#[cfg(test)]
mod tests;
