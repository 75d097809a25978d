//! `update-service lint`: reports errors in graph-data to people, programs and pipelines.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Serialize;
use update_graph::{Arch, Builder, GraphData, Problem, Severity};

use crate::output;
use crate::refresh::releases::read_lists;
use crate::refresh::threads;
use crate::source::graph_data::files_at;

/// Flags of `lint`.
#[derive(Clone, Debug, Args)]
pub struct LintFlags {
    /// Graph-data: a directory, or a tar or tar.gz file.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Release list file, to check the graph that the data makes of these releases as well: stranded releases, edges
    /// that lead down, unknown ends. May be repeated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub releases: Vec<PathBuf>,

    /// Architecture of releases that do not say theirs.
    #[arg(long, value_name = "ARCH", default_value = "amd64")]
    pub default_arch: String,

    /// Form of the findings.
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t = Output::Text)]
    pub output: Output,

    /// Short for --output json.
    #[arg(long, conflicts_with = "output")]
    pub json: bool,

    /// Exit with 1 from this severity on.
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = Level::Error)]
    pub fail_on: Level,
}

/// Form of the findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One line per finding, its remedy below.
    Text,
    /// One JSON object.
    Json,
    /// Annotations of GitHub Actions.
    Github,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Works, but should be fixed.
    Warning,
    /// Wrong.
    Error,
}

impl Level {
    fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    path: String,
    errors: usize,
    warnings: usize,
    notes: usize,
    problems: &'a [Problem],
}

/// Prints the findings.
///
/// # Errors
/// When the data cannot be read at all.
pub fn run(flags: &LintFlags) -> anyhow::Result<ExitCode> {
    let problems = problems(flags)?;
    let form = if flags.json { Output::Json } else { flags.output };
    output::print(&match form {
        Output::Text => text(&problems),
        Output::Json => json(flags, &problems)?,
        Output::Github => github(flags, &problems),
    });
    let worst = problems.iter().map(Problem::severity).max();
    let fails = worst.is_some_and(|worst| worst >= flags.fail_on.severity());
    Ok(ExitCode::from(u8::from(fails)))
}

/// Everything that is found, by file and line.
///
/// # Errors
/// When the data or the lists cannot be read.
pub fn problems(flags: &LintFlags) -> anyhow::Result<Vec<Problem>> {
    let files = files_at(&flags.path)?;
    let mut problems = update_graph::lint::files(files.iter().cloned());
    if !flags.releases.is_empty() {
        let arch = Arch::parse(&flags.default_arch).context("--default-arch")?;
        let listing = read_lists(&flags.releases, &arch)?;
        // What the data refuses is among the findings already.
        if let Ok((data, _)) = GraphData::from_files(files, threads()) {
            let (graph, found) = Builder::new()
                .releases(listing.releases.into_iter().map(|listed| listed.release))
                .extra_edges(listing.extra)
                .graph_data(data.into())
                .threads(threads())
                .build();
            problems.extend(found);
            problems.extend(update_graph::lint::graph(&graph));
        }
    }
    problems.sort();
    problems.dedup();
    Ok(problems)
}

fn count(problems: &[Problem], severity: Severity) -> usize {
    problems
        .iter()
        .filter(|problem| problem.severity() == severity)
        .count()
}

fn text(problems: &[Problem]) -> String {
    let mut out = String::new();
    for problem in problems {
        // Only the first line of a finding begins at the margin, whatever its file's name contains.
        let finding = problem.to_string().replace('\n', "\n    ");
        let _ = writeln!(out, "{finding}\n    {}", problem.remedy());
    }
    let counted = |severity: Severity, noun: &str| {
        let number = count(problems, severity);
        format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
    };
    let _ = writeln!(
        out,
        "{}, {}, {}",
        counted(Severity::Error, "error"),
        counted(Severity::Warning, "warning"),
        counted(Severity::Note, "note")
    );
    out
}

fn json(flags: &LintFlags, problems: &[Problem]) -> serde_json::Result<String> {
    let report = Report {
        path: flags.path.display().to_string(),
        errors: count(problems, Severity::Error),
        warnings: count(problems, Severity::Warning),
        notes: count(problems, Severity::Note),
        problems,
    };
    serde_json::to_string_pretty(&report).map(|text| text + "\n")
}

/// Workflow commands: `::error file=…,line=…,title=…::message`.
fn github(flags: &LintFlags, problems: &[Problem]) -> String {
    let value = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| value(text).replace(':', "%3A").replace(',', "%2C");
    let mut out = String::new();
    for problem in problems {
        let command = match problem.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let mut place = String::new();
        if !problem.file.is_empty() && flags.path.is_dir() {
            let file = flags.path.join(problem.file.as_str());
            place = format!("file={},", property(&file.display().to_string()));
            if let Some(line) = problem.line {
                let _ = write!(place, "line={line},");
            }
        }
        let title = property(problem.rule.as_str());
        let message = value(&format!("{}. Remedy: {}", problem.message, problem.remedy()));
        let _ = writeln!(out, "::{command} {place}title={title}::{message}");
    }
    out
}

#[cfg(test)]
mod tests;
