//! Checks whether the clock of this machine can be trusted, by comparing it with the `Date` header of the
//! hub's responses.
//!
//! The leader's clock decides when a deadline has passed. If it jumps (for example after a virtual machine
//! resumes, or because of a wrong time server), every cluster in flight would fail at once, or no cluster
//! would ever fail. So no deadline fires while the two clocks differ by more than [`MAX_SKEW`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderMap, Request, header};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

use crate::sources::Sources;

/// Largest difference between the hub's clock and ours at which deadlines fire.
pub const MAX_SKEW: TimeDelta = TimeDelta::seconds(30);
/// A `Date` header has a resolution of one second.
const RESOLUTION: TimeDelta = TimeDelta::seconds(1);
/// A comparison that is younger than this is not replaced by a less exact one.
const SAMPLE_MAX_AGE: Duration = Duration::from_mins(1);

/// What is known about the hub's clock.
#[derive(Debug, Default)]
pub struct HubClock {
    sample: Mutex<Option<ClockSample>>,
}

/// One comparison of the clocks. Nobody knows when exactly between request and response the hub read its
/// clock, so the lead of our clock lies between `least` and `most`.
#[derive(Clone, Copy, Debug)]
struct ClockSample {
    at: Instant,
    wall: DateTime<Utc>,
    least: TimeDelta,
    most: TimeDelta,
}

impl HubClock {
    /// Compares the clocks by a response. It arrived at `at`, when our clock showed `wall`; the request was
    /// sent `took` earlier, and the response carries the hub's `date`.
    pub fn answered(&self, at: Instant, wall: DateTime<Utc>, took: Duration, date: DateTime<Utc>) {
        let took = TimeDelta::from_std(took).unwrap_or(TimeDelta::MAX);
        let most = wall - date;
        let new = ClockSample {
            at,
            wall,
            least: most.checked_sub(&took).unwrap_or(TimeDelta::MIN) - RESOLUTION,
            most,
        };
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        let keep = sample.is_some_and(|old| {
            at.duration_since(old.at) < SAMPLE_MAX_AGE
                && new.most - new.least > old.most - old.least + RESOLUTION
        });
        if !keep {
            *sample = Some(new);
        }
    }

    /// How far our clock, which shows `wall` at `now`, is certainly ahead of the hub's (negative: behind).
    /// Includes a jump of our clock since the last comparison. Zero before the first comparison.
    #[must_use]
    pub fn skew(&self, now: Instant, wall: DateTime<Utc>) -> TimeDelta {
        let sample = *self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sample) = sample else {
            return TimeDelta::zero();
        };
        let passed = TimeDelta::from_std(now.duration_since(sample.at)).unwrap_or(TimeDelta::MAX);
        let jumped = (wall - sample.wall).checked_sub(&passed).unwrap_or_default();
        let (least, most) = (sample.least + jumped, sample.most + jumped);
        if least > TimeDelta::zero() {
            least
        } else {
            most.min(TimeDelta::zero())
        }
    }

    /// The difference between the clocks if it is so large that no deadline may fire.
    #[must_use]
    pub fn distrusted(&self, now: Instant, wall: DateTime<Utc>) -> Option<TimeDelta> {
        let skew = self.skew(now, wall);
        (skew.abs() > MAX_SKEW).then_some(skew)
    }
}

/// Wraps a client so that its responses are compared with our clock.
#[must_use]
pub fn watched(client: &Client, clock: &Arc<HubClock>, sources: &Sources) -> Client {
    let (inner, clock, sources) = (client.clone(), Arc::clone(clock), sources.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, clock, sources) = (inner.clone(), Arc::clone(&clock), sources.clone());
        async move {
            let sent = Instant::now();
            let answer = client.send(request).await?;
            if let Some(date) = date(answer.headers()) {
                clock.answered(Instant::now(), sources.wall(), sent.elapsed(), date);
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, client.default_namespace())
}

fn date(headers: &HeaderMap) -> Option<DateTime<Utc>> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    DateTime::parse_from_rfc2822(text)
        .ok()
        .map(|date| date.with_timezone(&Utc))
}

/// The current time of the runtime's clock.
pub(crate) fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

/// How long ago an instant of the runtime's clock was.
pub(crate) fn since(earlier: std::time::Instant) -> Duration {
    now().saturating_duration_since(earlier)
}

#[cfg(test)]
mod tests;
