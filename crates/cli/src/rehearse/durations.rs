//! How long the steps of clusters take: from the reports of the hub, or from a file.

use std::fmt::Write as _;

use api::report::{Outcome, ReportRow, Stage};
use api::validate::parse_duration;
use api::views::Report;
use chrono::TimeDelta;
use observe::record::{ReportRelation, relation_of};
use rollout::Step;
use rollout::forecast::{Kind, MIN_SAMPLES, Samples, VersionChange};
use serde_json::Value;

use crate::table::one_line;

/// Largest number of samples that are written to a file. More are reduced to as many quantiles.
const MAX_WRITTEN: usize = 101;
/// Spread of times around a median that is given without one, in percent of it.
const SPREAD_PERCENT: f64 = 25.0;

/// What a time is for: a step, and for the platform the kind of update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    /// The pre-action.
    PreAction,
    /// An update of the platform within a minor version, or of an unknown kind.
    PatchUpdate,
    /// An update of the platform to another minor version.
    MinorUpdate,
    /// The approval of the operators' InstallPlans.
    Operators,
    /// The post-action.
    PostAction,
}

impl Timed {
    /// All of them, in order.
    const ALL: [Timed; 5] = [
        Timed::PreAction,
        Timed::PatchUpdate,
        Timed::MinorUpdate,
        Timed::Operators,
        Timed::PostAction,
    ];

    /// The path in a file of durations.
    const fn path(self) -> &'static [&'static str] {
        match self {
            Timed::PreAction => &["preAction"],
            Timed::PatchUpdate => &["platform", "patch"],
            Timed::MinorUpdate => &["platform", "minor"],
            Timed::Operators => &["operators"],
            Timed::PostAction => &["postAction"],
        }
    }

    fn of(row: &ReportRow, stage: Stage) -> Option<Timed> {
        Some(match stage {
            Stage::PreAction => Timed::PreAction,
            // The controller notes no version that is the target already, so these clusters may have changed nothing.
            Stage::Platform if row.from_version.is_empty() => return None,
            Stage::Platform => update_of(VersionChange::of(&row.from_version, &row.to_version))?,
            Stage::Operators => Timed::Operators,
            Stage::PostAction => Timed::PostAction,
            Stage::Soak => return None,
        })
    }
}

/// The update that is timed; `None` for [`VersionChange::Nothing`], whose times say nothing about updates.
const fn update_of(change: VersionChange) -> Option<Timed> {
    match change {
        VersionChange::Patch => Some(Timed::PatchUpdate),
        VersionChange::Minor => Some(Timed::MinorUpdate),
        VersionChange::Nothing => None,
    }
}

/// A median, and the spread of times around it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Median {
    time: TimeDelta,
    percent: f64,
}

impl Median {
    fn samples(self) -> Samples {
        Samples::around(self.time, self.percent / 100.0)
    }
}

impl std::fmt::Display for Median {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = match self.time.num_seconds() {
            seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
            seconds => format!("{seconds}s"),
        };
        write!(f, "{{median: {time}, spread: {}%}}", self.percent)
    }
}

/// The times that are known, as a file that [`FileTimes::read`] accepts: those that a file gives, and for the other steps those of
/// the reports, of the upgrade with this namespace, name and UID if it has enough, else of all upgrades.
#[must_use]
pub fn to_yaml(reports: &[Report], upgrade: (&str, &str, &str), file: &FileTimes) -> String {
    let mut text = String::from(
        "# How long the steps of clusters take, for kubectl mcu rehearse --durations.\n# An entry is a list of measured times, or a median with a spread. Without an entry, reports of the hub count.\n",
    );
    let mut parents = Vec::new();
    let mut unknown = Vec::new();
    for timed in Timed::ALL {
        let Some((entry, source)) = known(reports, upgrade, file, timed) else {
            unknown.push(timed.path().join("."));
            continue;
        };
        let (key, indent) = match timed.path() {
            [parent, key] => {
                if !parents.contains(parent) {
                    let _ = writeln!(text, "{parent}:");
                    parents.push(*parent);
                }
                (*key, "  ")
            }
            path => (path.first().copied().unwrap_or_default(), ""),
        };
        let _ = match entry {
            Entry::Median(median) => writeln!(text, "{indent}{key}: {median} # {source}"),
            Entry::List(samples) => writeln!(
                text,
                "{indent}{key}: [{}] # {} of {source}",
                written(&samples).join(", "),
                api::message::count(samples.count(), "sample"),
            ),
        };
    }
    if !unknown.is_empty() {
        let _ = writeln!(text, "# Not measured yet: {}", unknown.join(", "));
    }
    text
}

/// The times of a step and where they come from; `None` if nobody knows them.
fn known(
    reports: &[Report],
    (namespace, name, uid): (&str, &str, &str),
    file: &FileTimes,
    kind: Timed,
) -> Option<(Entry, &'static str)> {
    let of_file = file.0[kind as usize].clone().map(|entry| match entry {
        Entry::List(_) => (entry, "the file of durations"),
        Entry::Median(_) => (entry, "a median in the file of durations, not sampled"),
    });
    let measured = |only_own: bool| {
        let is_own = |report: &&Report| relation_of(report, namespace, name, uid) == ReportRelation::Own;
        let reports = reports.iter().filter(|report| !only_own || is_own(report));
        let times = reports.flat_map(|report| times_of(report, kind));
        Samples::new(times).filter(|samples| samples.count() >= MIN_SAMPLES)
    };
    of_file
        .or_else(|| measured(true).map(|samples| (Entry::List(samples), "reports of this upgrade")))
        .or_else(|| measured(false).map(|samples| (Entry::List(samples), "reports of the hub")))
}

/// The times of a kind that a file gives, and how many of them are measured ones.
#[must_use]
pub fn given(file: &FileTimes, (step, change, _): Kind) -> Option<(Samples, usize)> {
    let timed = timed_of(step, change)?;
    match file.0[timed as usize].clone()? {
        Entry::List(samples) => {
            let measured = samples.count();
            Some((samples, measured))
        }
        Entry::Median(median) => Some((median.samples(), 0)),
    }
}

/// The times of a kind in all reports of a hub. Reports do not tell the class of a cluster.
#[must_use]
pub fn of_hub(reports: &[Report], (step, change, _): Kind) -> Option<Samples> {
    let timed = timed_of(step, change)?;
    Samples::new(reports.iter().flat_map(|report| times_of(report, timed)))
}

const fn timed_of(step: Step, change: VersionChange) -> Option<Timed> {
    match step {
        Step::PreAction => Some(Timed::PreAction),
        Step::Platform => update_of(change),
        Step::Operators => Some(Timed::Operators),
        Step::PostAction => Some(Timed::PostAction),
    }
}

/// The times of the steps of a report that succeeded.
fn times_of(report: &Report, timed: Timed) -> impl Iterator<Item = TimeDelta> {
    report.rows.good().flat_map(move |row| {
        let steps = row.steps.iter();
        let done = steps.filter(move |step| {
            step.outcome == Some(Outcome::Succeeded) && Timed::of(row, step.name) == Some(timed)
        });
        done.filter_map(|step| Some(step.finished_at? - step.started_at))
    })
}

/// The samples as durations, or quantiles of them.
fn written(samples: &Samples) -> Vec<String> {
    let text = |time: TimeDelta| format!("{}s", time.num_seconds());
    if samples.count() <= MAX_WRITTEN {
        return samples.sorted().iter().map(|time| text(*time)).collect();
    }
    (0..=100)
        .map(|percent| text(samples.quantile(f64::from(percent) / 100.0)))
        .collect()
}

/// The times that a file gives. It may leave steps out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileTimes([Option<Entry>; 5]);

/// An entry of a file.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    List(Samples),
    Median(Median),
}

impl FileTimes {
    /// Reads a file of durations from YAML.
    ///
    /// # Errors
    /// The text is not YAML, or a field is unknown or invalid. The error names the field.
    pub fn read(text: &str) -> Result<FileTimes, String> {
        let value: Value = serde_saphyr::from_str(text).map_err(|error| {
            format!(
                "cannot be read: {}",
                one_line(&error.without_snippet().to_string())
            )
        })?;
        let mut times = FileTimes::default();
        if value.is_null() {
            return Ok(times);
        }
        for (key, entry) in fields("", &value)? {
            if key == "platform" {
                for (inner, entry) in fields("platform", entry)? {
                    times.set(&["platform", inner], entry)?;
                }
            } else {
                times.set(&[key], entry)?;
            }
        }
        Ok(times)
    }

    fn set(&mut self, path: &[&str], entry: &Value) -> Result<(), String> {
        let name = path.join(".");
        let timed = Timed::ALL
            .into_iter()
            .find(|timed| timed.path() == path)
            .ok_or_else(|| {
                format!(
                    "{name}: unknown field; write preAction, platform.patch, platform.minor, operators or postAction"
                )
            })?;
        self.0[timed as usize] = Some(read_entry(&name, entry)?);
        Ok(())
    }
}

fn fields<'a>(name: &str, value: &'a Value) -> Result<impl Iterator<Item = (&'a str, &'a Value)>, String> {
    let colon = if name.is_empty() { "" } else { ": " };
    let map = value
        .as_object()
        .ok_or_else(|| format!("{name}{colon}must be a mapping of steps to durations"))?;
    Ok(map.iter().map(|(key, value)| (key.as_str(), value)))
}

fn read_entry(name: &str, entry: &Value) -> Result<Entry, String> {
    let hint = "write a list of durations such as [52m, 1h5m], or {median: 60m, spread: 25%}";
    let time = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        parse_duration(text).ok_or_else(|| format!("{name}: {value} is not a duration; {hint}"))
    };
    if let Value::Array(items) = entry {
        let times: Vec<TimeDelta> = items.iter().map(time).collect::<Result<_, _>>()?;
        let samples = Samples::new(times).ok_or_else(|| format!("{name}: the list is empty; {hint}"))?;
        return Ok(Entry::List(samples));
    }
    let Some(map) = entry.as_object() else {
        return Err(format!("{name}: {hint}"));
    };
    if let Some(other) = map
        .keys()
        .find(|key| !matches!(key.as_str(), "median" | "spread"))
    {
        return Err(format!("{name}.{}: unknown field; {hint}", one_line(other)));
    }
    let median = time(map.get("median").unwrap_or(&Value::Null))?;
    let percent = match map.get("spread") {
        None => SPREAD_PERCENT,
        Some(value) => {
            let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
            let percent = percent.and_then(|text| text.parse::<f64>().ok());
            percent
                .filter(|percent| (0.0..=100.0).contains(percent))
                .ok_or_else(|| format!("{name}.spread: must be a share from 0% to 100%"))?
        }
    };
    Ok(Entry::Median(Median {
        time: median,
        percent,
    }))
}

#[cfg(test)]
mod tests;
