//! Durations as kubectl writes them: `42s`, `5m12s`, `3h20m`, `2d4h`, `400d`.

use chrono::{DateTime, TimeDelta, Utc};

/// Writes a duration with at most two units; longer durations get coarser units. A duration down to -1 s, which clock skew
/// can cause, is `0s`; anything below is `<invalid>`.
#[must_use]
pub fn human(length: TimeDelta) -> String {
    let seconds = length.num_seconds();
    if length < TimeDelta::seconds(-1) {
        return "<invalid>".to_owned();
    }
    if seconds < 120 {
        return format!("{}s", seconds.max(0));
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, "d", hours % 24, "h")
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        two(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

/// The time from `since` to `now`; `<unknown>` without `since`.
#[must_use]
pub fn since(now: DateTime<Utc>, since: Option<DateTime<Utc>>) -> String {
    since.map_or_else(|| "<unknown>".to_owned(), |since| human(now - since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (312, "5m12s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 20 * 60, "3h20m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (52 * 3600, "2d4h"),
            (7 * 86_400, "7d"),
            (8 * 86_400 + 3600, "8d"),
            (729 * 86_400, "729d"),
            (731 * 86_400, "2y1d"),
            (3000 * 86_400, "8y"),
        ] {
            assert_eq!(human(TimeDelta::seconds(seconds)), text, "{seconds} s");
        }
    }

    #[test]
    fn an_unknown_start_has_no_age() {
        assert_eq!(since(DateTime::UNIX_EPOCH, None), "<unknown>");
    }
}
