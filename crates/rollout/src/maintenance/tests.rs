use jiff::civil::DateTime as Civil;

use super::*;

/// A calendar that looks at every minute, and at what clocks show then.
struct Slow {
    zone: Zone,
    windows: Vec<(Fields, i64)>,
    exclusions: Vec<(Civil, Civil)>,
    minimum: i64,
}

/// The five fields of a schedule, each as a set of small numbers.
#[derive(Clone, Copy, Debug)]
struct Fields {
    sets: [u64; 5],
    /// Neither day is a star. Cron then takes one or the other.
    either: bool,
}

impl Fields {
    fn new(text: &str) -> Self {
        let ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let read = |index: usize| {
            let mut all = 0;
            for part in fields[index].split(',') {
                let (range, step) = part.split_once('/').unwrap_or((part, "1"));
                let (from, to) = match range.split_once('-') {
                    Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
                    None if range == "*" => ranges[index],
                    None => (range.parse().unwrap(), range.parse().unwrap()),
                };
                for number in (from..=to).step_by(step.parse().unwrap()) {
                    all |= 1 << if index == 4 { number % 7 } else { number };
                }
            }
            all
        };
        Self {
            sets: [0, 1, 2, 3, 4].map(read),
            either: fields[2] != "*" && fields[4] != "*",
        }
    }

    fn matches(&self, time: Civil) -> bool {
        let has = |index: usize, number: i8| self.sets[index] >> number & 1 == 1;
        let (day, weekday) = (has(2, time.day()), has(4, time.weekday().to_sunday_zero_offset()));
        has(0, time.minute())
            && has(1, time.hour())
            && has(3, time.month())
            && if self.either {
                day || weekday
            } else {
                day && weekday
            }
    }
}

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

impl Slow {
    /// For each minute of a span whether clusters may start.
    fn opens(&self, from: i64, until: i64) -> Vec<bool> {
        let longest = self.windows.iter().map(|(_, length)| *length).max().unwrap_or(0);
        // No clocks go back by more than a few hours, so what was shown before does not matter.
        let begin = from - longest - DAY / 2;
        // Nobody needs to look further to know that enough remains.
        let end = until + self.minimum + DAY / 4;
        let minutes: Vec<i64> = (begin..end).step_by(60).collect();
        let shown: Vec<Civil> = minutes
            .iter()
            .map(|at| self.zone.shown(Timestamp::from_second(*at).unwrap()))
            .collect();
        let mut reached = shown[0];
        let mut ends = i64::MIN;
        let mut open = Vec::with_capacity(minutes.len());
        for (at, now) in minutes.iter().zip(&shown) {
            // All times that are shown for the first time, or skipped, since the last minute.
            let mut time = reached;
            while time < *now {
                time = time.checked_add(SignedDuration::from_mins(1)).unwrap();
                for (fields, length) in &self.windows {
                    if fields.matches(time) {
                        ends = ends.max(at + length);
                    }
                }
            }
            reached = reached.max(*now);
            open.push(self.windows.is_empty() || *at < ends);
        }
        for (start, end) in &self.exclusions {
            let mut has_begun = false;
            let last = shown.iter().rposition(|time| time < end);
            for (index, time) in shown.iter().enumerate() {
                has_begun |= time >= start;
                if has_begun && last.is_some_and(|last| index <= last) {
                    open[index] = false;
                }
            }
        }
        let mut remains = 0;
        let mut may = vec![false; open.len()];
        for index in (0..open.len()).rev() {
            remains = if open[index] { remains + MINUTE } else { 0 };
            may[index] = remains > self.minimum;
        }
        let first = usize::try_from((from - begin) / 60).unwrap();
        let count = usize::try_from((until - from) / 60).unwrap();
        may[first..first + count].to_vec()
    }
}

const ZONES: [&str; 22] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Africa/Casablanca",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Santiago",
    "America/Caracas",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Asia/Gaza",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Norfolk",
    "America/Havana",
    "Antarctica/Troll",
];

const SCHEDULES: [(&str, i64); 12] = [
    ("0 22 * * 1-5", 6),
    ("30 1 * * *", 2),
    ("0 2 * * 0", 4),
    ("15 2 * * *", 1),
    ("0 0 * * 6", 48),
    ("0 3 1 * *", 5),
    ("*/20 * * * *", 1),
    ("0 */6 * * *", 3),
    ("30 23 28-31 * *", 3),
    ("0 0 13 * 5", 8),
    ("45 1,2 * 3,10 0", 2),
    ("0 12 * * *", 30),
];

/// Numbers that look random and are the same in each run.
fn drawn(seed: u64, nth: u64) -> u64 {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ nth.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for _ in 0..3 {
        bits = (bits ^ bits >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    bits ^ bits >> 32
}

/// Compares every minute of a span: whether clusters may start, and when that changes.
fn compare(slow: &Slow, calendar: &Calendar, from: i64, until: i64, what: &str) {
    let may = slow.opens(from, until);
    let instant =
        |index: usize| Timestamp::from_second(from + MINUTE * i64::try_from(index).unwrap()).unwrap();
    // A span of many windows is told in pieces.
    let shortest = slow.windows.iter().map(|(_, length)| *length).min();
    let piece = shortest.map_or(20 * 60 * MINUTE, |shortest| (9 * shortest).min(20 * 60 * MINUTE));
    let mut change = None;
    for index in (0..may.len()).rev() {
        if may.get(index + 1).is_some_and(|next| *next != may[index]) {
            change = Some(index + 1);
        }
        let is_near = index.abs_diff(may.len() / 2) < 75 || change.is_some_and(|change| change - index < 2);
        if !is_near && index % 17 != 0 {
            continue;
        }
        let now = instant(index);
        let told = calendar.at(from_jiff(now));
        let what = || format!("{what} at {now}, {}: {told:?}", slow.zone.shown(now));
        let changes = change.map(instant).map(from_jiff);
        match told {
            Opening::Open { closes } => {
                assert!(may[index], "{}", what());
                let is_long = closes.is_none_or(|closes| closes - from_jiff(now) > TimeDelta::seconds(piece));
                assert!(
                    is_long || change.is_none() || closes == changes,
                    "{} {changes:?}",
                    what()
                );
                assert!(
                    changes.is_none() || closes.is_none() || closes <= changes,
                    "{} {changes:?}",
                    what()
                );
            }
            Opening::Closed { opens } => {
                assert!(!may[index], "{}", what());
                assert!(change.is_none() || opens == changes, "{} {changes:?}", what());
            }
        }
    }
}

/// Spans of some years that are worth a look: half a day around each change of clocks, and some others.
fn spans(zone: &Zone, seed: u64, (first, last): (i16, i16), others: u64) -> Vec<(i64, i64)> {
    let begin_of = |year: i16| {
        let begin = jiff::civil::date(year, 1, 1).in_tz("UTC").unwrap();
        begin.timestamp().as_second()
    };
    let (begin, end) = (begin_of(first), begin_of(last + 1));
    let days = u64::try_from((end - begin) / DAY).unwrap();
    let mut all: Vec<i64> = (0..others)
        .map(|nth| begin + i64::try_from(drawn(seed, nth) % days).unwrap() * DAY)
        .collect();
    all.extend(
        zone.changes(Timestamp::from_second(begin).unwrap())
            .map(Timestamp::as_second)
            .take_while(|at| *at < end),
    );
    let minute = |at: i64| at - at.rem_euclid(MINUTE);
    all.into_iter()
        .map(|at| (minute(at) - DAY / 4, minute(at) + DAY / 4))
        .collect()
}

#[test]
fn every_minute_around_the_changes_of_clocks_of_thirty_years_is_as_a_walk_over_the_minutes_has_it() {
    compare_years((1996, 2025), 10);
}

/// These follow from the last rule that a zone has, and not from its table.
#[test]
fn every_minute_around_the_changes_of_clocks_of_the_next_twenty_years_is_as_a_walk_over_the_minutes_has_it() {
    compare_years((2026, 2045), 5);
}

fn compare_years(years: (i16, i16), others: u64) {
    for (nth, name) in ZONES.into_iter().enumerate() {
        let zone = Zone::named(name).unwrap();
        let seed = nth as u64;
        for (count, (from, until)) in spans(&zone, seed, years, others).into_iter().enumerate() {
            let draw = |salt: u64| drawn(seed * 1000 + salt, count as u64);
            let chosen: Vec<(&str, i64)> = (0..=draw(1) % 2)
                .map(|one| SCHEDULES[usize::try_from(draw(2 + one)).unwrap_or(0) % SCHEDULES.len()])
                .collect();
            let minimum = [0, 0, 1, 90, 130][usize::try_from(draw(5) % 5).unwrap()];
            let mut exclusions = Vec::new();
            if draw(6) % 3 == 0 {
                let start = zone.shown(
                    Timestamp::from_second(from + i64::try_from(draw(7) % 4000).unwrap() * MINUTE).unwrap(),
                );
                let length = i64::try_from(draw(8) % 2000).unwrap();
                exclusions.push((
                    start,
                    start.checked_add(SignedDuration::from_mins(length)).unwrap(),
                ));
            }
            let slow = Slow {
                zone: zone.clone(),
                windows: chosen
                    .iter()
                    .map(|(text, hours)| (Fields::new(text), hours * 60 * MINUTE))
                    .collect(),
                exclusions: exclusions.clone(),
                minimum: minimum * MINUTE,
            };
            let windows = chosen.iter().map(|(text, hours)| {
                Arc::new(Window {
                    name: Arc::from("w"),
                    schedule: text.parse().unwrap(),
                    duration: TimeDelta::hours(*hours),
                })
            });
            let excluded: Vec<Exclusion> = exclusions
                .iter()
                .map(|(start, end)| Exclusion {
                    start: Boundary::Civil(*start),
                    end: Boundary::Civil(*end),
                })
                .collect();
            let calendar = Calendar::new(
                zone.clone(),
                windows.collect(),
                &excluded,
                TimeDelta::minutes(minimum),
            );
            compare(
                &slow,
                &calendar,
                from,
                until,
                &format!("{name} {chosen:?} {exclusions:?} {minimum}m"),
            );
        }
    }
}
