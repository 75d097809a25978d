//! `simulation`: runs seeds, or replays one.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Parser};
use hub_sim::exit_code;
use simulation::fault::{Fault, Faults};
use simulation::options::Options;
use simulation::oracle::Rule;
use simulation::run::{Outcome, run};
use simulation::story::{Story, shrink};
use simulation::sweep::{Seeds, Totals, sweep};
use simulation::trace::Trace;

/// The system's allocator takes a third of the time of a run.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A sweep tells of its progress whenever this many seeds are done.
const PROGRESS: u64 = 5_000;
/// What only a sweep of many seeds has a use for.
const OF_SWEEPS: [&str; 6] = ["seeds", "from", "fresh", "minutes", "jobs", "hashes"];

/// Runs the real controller in virtual time, with faults that follow from a seed.
///
/// Without --seed and --story it runs many seeds, each with other sizes and faults. It ends with 0 if no rule was violated. --help
/// lists all faults and rules.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", version, after_long_help = menu())]
#[command(group = ArgGroup::new("one").args(["seed", "story"]))]
struct Cli {
    /// Number of seeds.
    #[arg(long, default_value_t = 400, value_parser = some())]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Begin with a seed that follows from the time instead of --from, and run seeds of all four kinds in turn: with windows and
    /// approvals or not, with preflight and worker pools or not.
    #[arg(long, conflicts_with = "from")]
    fresh: bool,
    /// Run seeds for this many minutes instead of a number of them.
    #[arg(long, value_name = "MINUTES", value_parser = some(), conflicts_with = "seeds")]
    minutes: Option<u64>,
    /// Threads; by default one per core.
    #[arg(long, value_name = "THREADS", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: Option<usize>,
    /// Print the hash of the trace of each seed.
    #[arg(long)]
    hashes: bool,
    /// Run only this seed, and print its options.
    #[arg(long, conflicts_with_all = OF_SWEEPS)]
    seed: Option<u64>,
    /// Print what happens, line by line; with --seed or --story.
    #[arg(long, requires = "one")]
    trace: bool,
    /// Replay a story.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_SWEEPS)]
    story: Option<PathBuf>,
    /// Reduce each seed that violates a rule to a story, and write it into this directory.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "story")]
    stories: Option<PathBuf>,
}

fn some() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..)
}

/// All faults and rules, with what they mean.
fn menu() -> String {
    let mut text = String::from("Faults:\n");
    for fault in Fault::ALL {
        let _ = writeln!(text, "  {:<16} {}", fault.as_str(), fault.meaning());
    }
    text.push_str("\nRules:\n");
    for rule in Rule::ALL {
        let _ = writeln!(text, "  {:<16} {}", rule.as_str(), rule.meaning());
    }
    text
}

/// Prints at once what belongs together, whatever other threads print.
fn say(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

fn main() -> ExitCode {
    match play(&Cli::parse()) {
        // Whoever reads the output has seen enough.
        Err(error) if is_unread(&error) => ExitCode::FAILURE,
        done => exit_code(done),
    }
}

fn is_unread(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn play(cli: &Cli) -> Result<ExitCode> {
    if let Some(directory) = &cli.stories {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create the directory {}", directory.display()))?;
    }
    if let Some(path) = &cli.story {
        return play_story(&Story::read(path)?, cli.trace);
    }
    let Some(seed) = cli.seed else {
        return run_many(cli);
    };
    let options = Options::of(seed);
    say(&format!("{options}\n"))?;
    let outcome = run_traced(&options, &Faults::ByRate, cli.trace)?;
    keep_story(cli.stories.as_deref(), &options, &outcome)?;
    Ok(code(outcome.violations.is_empty()))
}

fn play_story(story: &Story, is_traced: bool) -> Result<ExitCode> {
    let mut head = format!(
        "{}\nrule {}\n{}\n",
        story.about,
        story.rule.as_str(),
        story.options
    );
    for one in &story.faults {
        let _ = writeln!(head, "  {} of {} #{}", one.fault.as_str(), one.name, one.count);
    }
    say(&head)?;
    let faults = Faults::Only(story.faults.clone());
    let outcome = run_traced(&story.options, &faults, is_traced)?;
    let lacks = story.lacks(&outcome);
    for lack in &lacks {
        say(&format!("the story shows nothing any more: {lack}\n"))?;
    }
    Ok(code(outcome.violations.is_empty() && lacks.is_empty()))
}

const fn code(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs a seed or story and prints its outcome. If the run fails, what happened before is printed, too.
fn run_traced(options: &Options, faults: &Faults, is_traced: bool) -> Result<Outcome> {
    let trace = if is_traced {
        Trace::with_lines()
    } else {
        Trace::default()
    };
    let outcome = run(options, faults, trace.clone());
    say(&trace.lines())?;
    let outcome = outcome?;
    let mut text = String::new();
    for violation in &outcome.violations {
        let _ = writeln!(text, "violated {violation}");
    }
    if outcome.violations.is_empty() {
        text.push_str("no rule violated\n");
    }
    let _ = writeln!(
        text,
        "{} requests in {:.0} virtual seconds, trace {:016x}",
        outcome.requests, outcome.seconds, outcome.hash
    );
    say(&text)?;
    Ok(outcome)
}

/// Writes the shortest story of a seed that violated a rule.
fn keep_story(directory: Option<&Path>, options: &Options, outcome: &Outcome) -> Result<()> {
    let (Some(directory), Some(violation)) = (directory, outcome.violations.first()) else {
        return Ok(());
    };
    let seed = options.seed;
    match shrink(options, outcome, violation.rule)? {
        Some(story) => {
            let path = directory.join(format!("{}-{seed}.json", violation.rule.as_str()));
            std::fs::write(&path, serde_json::to_string_pretty(&story)? + "\n")?;
            let left = story.faults.len();
            say(&format!(
                "seed {seed}: {left} faults are left in {}\n",
                path.display()
            ))
        }
        None => say(&format!(
            "seed {seed}: its faults alone do not repeat the violation\n"
        )),
    }
}

/// Prints what a seed of a sweep violated.
fn tell(options: &Options, outcome: &Result<Outcome>) -> Result<()> {
    let replay = format!("  replay: cargo xtask sim --seed {} --trace\n", options.seed);
    let violations = match outcome {
        Ok(outcome) if outcome.violations.is_empty() => return Ok(()),
        Ok(outcome) => outcome.violations.as_slice(),
        Err(error) => return say(&format!("{options}\n  failed: {error:#}\n{replay}")),
    };
    let mut text = format!("{options}\n");
    for violation in violations.iter().take(3) {
        let _ = writeln!(text, "  violated {violation}");
    }
    say(&(text + &replay))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program measures how long a sweep takes, not what happens in it"
)]
fn run_many(cli: &Cli) -> Result<ExitCode> {
    let seeds = if cli.fresh {
        Seeds::InTurn(fresh_seed())
    } else {
        Seeds::From(cli.from)
    };
    let jobs = cli
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    say(&format!("{seeds}, {jobs} at a time\n"))?;
    let begin = Instant::now();
    let is_over = |begun| match cli.minutes {
        Some(minutes) => begin.elapsed().as_secs() >= minutes * 60,
        None => begun >= cli.seeds,
    };
    let done = AtomicU64::new(0);
    let totals = sweep(seeds, jobs, is_over, |options, outcome| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(PROGRESS) {
            eprintln!("{done} seeds in {:.0} s", begin.elapsed().as_secs_f64());
        }
        tell(options, outcome)?;
        let found = outcome.as_ref().ok();
        found.map_or(Ok(()), |outcome| {
            keep_story(cli.stories.as_deref(), options, outcome)
        })
    })?;
    let mut text = summary(&totals, begin.elapsed().as_secs_f64());
    for (seed, hash) in totals.hashes.iter().filter(|_| cli.hashes) {
        let _ = writeln!(text, "seed {seed} trace {hash:016x}");
    }
    let untried = totals.untried(seeds);
    for rule in &untried {
        let _ = writeln!(text, "the rule {} was never tried", rule.as_str());
    }
    let unseen = totals.unseen(seeds);
    for fault in &unseen {
        let _ = writeln!(text, "the fault {} never happened", fault.as_str());
    }
    say(&text)?;
    Ok(code(
        totals.failed == 0 && untried.is_empty() && unseen.is_empty(),
    ))
}

fn summary(totals: &Totals, seconds: f64) -> String {
    let mut text = format!(
        "{} seeds in {seconds:.1} s, {} requests, ",
        totals.runs, totals.requests
    );
    let _ = match totals.failed {
        0 => write!(text, "no rule violated"),
        failed => write!(text, "{failed} with violations"),
    };
    text.push_str("\nfaults:");
    for (fault, count) in &totals.faults {
        let _ = write!(text, "  {} {count}", fault.as_str());
    }
    text.push_str("\nchecked:");
    for (rule, count) in &totals.checked {
        let _ = write!(text, "  {} {count}", rule.as_str());
    }
    text.push('\n');
    text
}

/// A seed that was hardly run before: the time in milliseconds, times 1000, so that sweeps do not overlap.
#[expect(
    clippy::disallowed_methods,
    reason = "seeds that follow from the time are asked for"
)]
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis())
        .unwrap_or_default()
        .wrapping_mul(1000)
}
