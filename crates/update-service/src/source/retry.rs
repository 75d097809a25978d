//! When a failed request is tried again, and after which pause. The caller decides whether a retry can help.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// If a server's `Retry-After` is longer than this, the request is not tried again.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(2);

/// How often and how patiently something is tried.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Attempts in all, at least one.
    pub attempts: u32,
    /// Pause after the first failure; it doubles each time.
    pub first: Duration,
    /// Longest pause.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            attempts: 4,
            first: Duration::from_millis(500),
            most: Duration::from_secs(10),
        }
    }
}

/// What a failed attempt means.
#[derive(Debug)]
pub enum Failure<E> {
    /// Trying again gives the same.
    Final(E),
    /// May pass; the server may have said when to come back.
    Passing(E, Option<Duration>),
}

impl Backoff {
    /// Pause after attempt `attempt` (counted from 0), somewhere in the upper half of the doubled time, so that many
    /// requests that failed together do not come back together.
    #[must_use]
    pub fn pause(&self, attempt: u32) -> Duration {
        let full = self.first.saturating_mul(1 << attempt.min(16)).min(self.most);
        let share = RandomState::new().hash_one(attempt) % 1000;
        full / 2 + full.mul_f64(f64::from(u32::try_from(share).unwrap_or(0)) / 2000.0)
    }

    /// Runs `attempt` until it succeeds, fails for good or attempts run out.
    ///
    /// # Errors
    /// The last attempt's.
    pub async fn run<T, E, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, Failure<E>>>,
    {
        let mut tries = 0;
        loop {
            match attempt().await {
                Ok(value) => return Ok(value),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(error, after)) => {
                    let wait = after.unwrap_or_else(|| self.pause(tries)).max(self.pause(tries));
                    tries += 1;
                    if tries >= self.attempts || wait > MAX_RETRY_AFTER {
                        return Err(error);
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// The pause by `Retry-After`: seconds or a date.
#[must_use]
pub fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let value = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(value).ok().map(|at| {
        at.duration_since(std::time::SystemTime::now())
            .unwrap_or_default()
    })
}

/// Whether a status may pass by itself.
#[must_use]
pub fn passing(status: http::StatusCode) -> bool {
    status.is_server_error()
        || status == http::StatusCode::TOO_MANY_REQUESTS
        || status == http::StatusCode::REQUEST_TIMEOUT
}

#[cfg(test)]
mod tests;
