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
mod tests {
    use std::cell::Cell;

    use super::*;

    const QUICK: Backoff = Backoff {
        attempts: 3,
        first: Duration::from_millis(10),
        most: Duration::from_millis(15),
    };

    #[tokio::test(start_paused = true)]
    async fn a_passing_failure_is_tried_again_and_a_final_one_is_not() {
        let tries = Cell::new(0);
        let result: Result<u32, &str> = QUICK
            .run(async || {
                tries.set(tries.get() + 1);
                if tries.get() < 3 {
                    Err(Failure::Passing("busy", None))
                } else {
                    Ok(tries.get())
                }
            })
            .await;
        assert_eq!(result, Ok(3));

        tries.set(0);
        let result: Result<(), &str> = QUICK
            .run(async || {
                tries.set(tries.get() + 1);
                Err(Failure::Final("gone"))
            })
            .await;
        assert_eq!((result, tries.get()), (Err("gone"), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_says_how_long_to_wait_within_reason() {
        let start = tokio::time::Instant::now();
        let tries = Cell::new(0);
        let result: Result<(), &str> = QUICK
            .run(async || {
                tries.set(tries.get() + 1);
                Err(Failure::Passing("busy", Some(Duration::from_secs(7))))
            })
            .await;
        assert_eq!((result, tries.get()), (Err("busy"), 3));
        assert!(start.elapsed() >= Duration::from_secs(14));

        tries.set(0);
        let result: Result<(), &str> = QUICK
            .run(async || {
                tries.set(tries.get() + 1);
                Err(Failure::Passing("busy", Some(Duration::from_hours(1))))
            })
            .await;
        assert_eq!((result, tries.get()), (Err("busy"), 1));
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_vary() {
        for (attempt, full) in [(0, 10), (1, 15), (40, 15)] {
            let pause = QUICK.pause(attempt);
            assert!(
                pause >= Duration::from_millis(full) / 2 && pause <= Duration::from_millis(full),
                "{attempt}: {pause:?}"
            );
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let mut headers = http::HeaderMap::new();
        assert_eq!(retry_after(&headers), None);
        headers.insert("retry-after", "3".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(3)));
        headers.insert("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::ZERO));
        headers.insert("retry-after", "soon".parse().unwrap());
        assert_eq!(retry_after(&headers), None);
    }
}
