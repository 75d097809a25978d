//! The status of a pod and its containers, as pure functions.

use serde_json::{Value, json};

use crate::fields::{self, Time, timestamp};

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is waiting, with a reason and a message.
    Waiting(String, String),
    /// It has been running since this time.
    Running(Time),
    /// It ended.
    Terminated(End),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Exit code.
    pub code: i32,
    /// `Completed`, `Error` or another reason of the kubelet.
    pub reason: String,
    /// The end of its output, if it was requested.
    pub message: String,
    /// When it began.
    pub started: Time,
    /// When it ended.
    pub finished: Time,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Its state.
    pub state: State,
    /// How it ended last time.
    pub last: Option<End>,
    /// How often it was restarted.
    pub restarts: u32,
}

impl Container {
    /// A container that has not started yet.
    #[must_use]
    pub fn new(spec: &Value, waiting: &str) -> Self {
        Self {
            name: fields::text(spec, &["name"]).to_owned(),
            image: fields::text(spec, &["image"]).to_owned(),
            state: State::Waiting(waiting.to_owned(), String::new()),
            last: None,
            restarts: 0,
        }
    }

    /// How it ended, if it will not be restarted.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        match &self.state {
            State::Terminated(end) => Some(end),
            _ => None,
        }
    }

    fn show(&self, init: bool) -> Value {
        let running = matches!(self.state, State::Running(_));
        let ready = if init {
            self.end().is_some_and(|end| end.code == 0)
        } else {
            running
        };
        json!({
            "name": self.name, "image": self.image, "imageID": "", "containerID": "",
            "restartCount": self.restarts, "ready": ready, "started": running,
            "state": match &self.state {
                State::Waiting(reason, message) => json!({"waiting": {"reason": reason, "message": message}}),
                State::Running(since) => json!({"running": {"startedAt": timestamp(*since)}}),
                State::Terminated(end) => json!({"terminated": show_end(end)}),
            },
            "lastState": match &self.last {
                Some(end) => json!({"terminated": show_end(end)}),
                None => json!({}),
            },
        })
    }
}

fn show_end(end: &End) -> Value {
    json!({
        "exitCode": end.code, "reason": end.reason, "message": end.message, "containerID": "",
        "startedAt": timestamp(end.started), "finishedAt": timestamp(end.finished),
    })
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodState {
    /// When the kubelet started to process it.
    pub started: Time,
    /// Init containers.
    pub init: Vec<Container>,
    /// All other containers.
    pub main: Vec<Container>,
    /// Reason and message if it was ended from outside.
    pub ended: Option<(String, String)>,
}

impl PodState {
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        let ends: Vec<Option<&End>> = self.main.iter().map(Container::end).collect();
        let prepared = self
            .init
            .iter()
            .all(|container| container.end().is_some_and(|end| end.code == 0));
        let stuck = self
            .init
            .iter()
            .any(|container| container.end().is_some_and(|end| end.code != 0));
        if self.ended.is_some() || stuck {
            return "Failed";
        }
        if !prepared {
            return "Pending";
        }
        if !ends.is_empty() && ends.iter().all(Option::is_some) {
            let failed = ends.iter().flatten().any(|end| end.code != 0);
            return if failed { "Failed" } else { "Succeeded" };
        }
        let begun =
            |container: &Container| !matches!(container.state, State::Waiting(..)) || container.restarts > 0;
        if self.main.iter().any(begun) {
            "Running"
        } else {
            "Pending"
        }
    }

    /// The next status, which continues the conditions of the previous one.
    #[must_use]
    pub fn show(&self, before: &Value, now: Time) -> Value {
        let phase = self.phase();
        let prepared = self
            .init
            .iter()
            .all(|container| container.end().is_some_and(|end| end.code == 0));
        let ready = phase == "Running" && self.main.iter().all(|c| matches!(c.state, State::Running(_)));
        let mut object = json!({"status": before});
        let status = fields::object_at(&mut object, &["status"]);
        status.insert("phase".into(), phase.into());
        status.insert("startTime".into(), timestamp(self.started).into());
        status.insert("hostIP".into(), "192.0.2.1".into());
        let list = |containers: &[Container], init| -> Value {
            containers.iter().map(|container| container.show(init)).collect()
        };
        status.insert("initContainerStatuses".into(), list(&self.init, true));
        status.insert("containerStatuses".into(), list(&self.main, false));
        if let Some((reason, message)) = &self.ended {
            status.insert("reason".into(), reason.clone().into());
            status.insert("message".into(), message.clone().into());
        }
        let done = phase == "Succeeded";
        let waits = if done {
            "PodCompleted"
        } else {
            "ContainersNotReady"
        };
        for (kind, on, reason) in [
            ("PodScheduled", true, ""),
            ("PodReadyToStartContainers", phase == "Running", ""),
            (
                "Initialized",
                prepared,
                if prepared { "" } else { "ContainersNotInitialized" },
            ),
            ("ContainersReady", ready, if ready { "" } else { waits }),
            ("Ready", ready, if ready { "" } else { waits }),
        ] {
            let cond = fields::Cond {
                kind,
                status: if on { "True" } else { "False" },
                reason,
                message: "",
            };
            fields::set_condition(&mut object, cond, now);
        }
        object["status"].take()
    }
}

/// Whether an ended container is restarted.
#[must_use]
pub fn restarts(policy: &str, code: i32) -> bool {
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

/// The delay in seconds before the `n`th restart of a container: 10, 20, 40, … 300.
#[must_use]
pub fn back_off(restarts: u32) -> u64 {
    10_u64.saturating_mul(1 << restarts.min(5)).min(300)
}

#[cfg(test)]
mod tests;
