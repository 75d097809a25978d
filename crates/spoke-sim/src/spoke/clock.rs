//! The clock of the cluster: simulated time, which runs faster than wall-clock time by a fixed factor.
//!
//! Everything inside the cluster is computed in simulated time, so that a grace period of 40 minutes and an operator that takes
//! 7 minutes keep their real figures. Everything is written in wall-clock time, because the hub, the work agent,
//! kube-controller-manager and Prometheus use it. A timestamp from their future would look like a wrong clock, for example when
//! the controller compares `startedTime` with its own record of the request.
//!
//! Both times are equal at the origin, which is the creation of the ClusterVersion and does not change with a restart.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use crate::fields::{self, Time};

/// Converts between simulated and wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    origin: Time,
    speed: f64,
}

impl Clock {
    /// A clock with wall-clock time at `origin` that runs `speed` times faster.
    #[must_use]
    pub fn new(origin: Time, speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 {
            speed
        } else {
            1.0
        };
        Self { origin, speed }
    }

    /// How many times faster than wall-clock time it runs.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// The current simulated time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.simulated(Utc::now())
    }

    /// The simulated time at a wall-clock time.
    #[must_use]
    pub fn simulated(&self, wall: Time) -> Time {
        self.origin + scaled(wall - self.origin, self.speed)
    }

    /// The wall-clock time at a simulated time.
    #[must_use]
    pub fn wall(&self, simulated: Time) -> Time {
        self.origin + scaled(simulated - self.origin, 1.0 / self.speed)
    }

    /// How long to wait, in wall-clock time, for a simulated time.
    #[must_use]
    pub fn until(&self, simulated: Time) -> Duration {
        (self.wall(simulated) - Utc::now()).to_std().unwrap_or_default()
    }

    /// A simulated duration in wall-clock time.
    #[must_use]
    pub fn short(&self, simulated: TimeDelta) -> Duration {
        scaled(simulated, 1.0 / self.speed).to_std().unwrap_or_default()
    }

    /// An object with all its timestamps converted to wall-clock time, in whole seconds as Kubernetes writes them.
    #[must_use]
    pub fn to_wall(&self, object: &Value) -> Value {
        map_times(object, &|at| fields::timestamp(self.wall(at)))
    }

    /// An object with all its timestamps converted to simulated time.
    #[must_use]
    pub fn to_simulated(&self, object: &Value) -> Value {
        map_times(object, &|at| self.simulated(at).to_rfc3339())
    }
}

/// Scales and rounds to whole milliseconds, so that whole seconds survive a round trip.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn scaled(span: TimeDelta, factor: f64) -> TimeDelta {
    TimeDelta::milliseconds(
        (span.num_milliseconds() as f64 * factor)
            .round()
            .clamp(-1e15, 1e15) as i64,
    )
}

/// Keys with timestamps in the objects that the simulator writes.
const INSTANTS: [&str; 7] = [
    "lastTransitionTime",
    "startedTime",
    "startTime",
    "completionTime",
    "lastUpdateTime",
    "lastHeartbeatTime",
    "lastUpdated",
];

fn map_times(value: &Value, map: &impl Fn(Time) -> String) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .map(|(key, value)| {
                let instant = value
                    .as_str()
                    .filter(|_| INSTANTS.contains(&key.as_str()))
                    .and_then(|text| DateTime::parse_from_rfc3339(text).ok());
                let mapped = match instant {
                    Some(at) => map(at.with_timezone(&Utc)).into(),
                    None => map_times(value, map),
                };
                (key.clone(), mapped)
            })
            .collect(),
        Value::Array(items) => items.iter().map(|item| map_times(item, map)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
