//! `simulation`: runs seeds, or replays one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Parser;
use simulation::fault::Faults;
use simulation::options::Options;
use simulation::run::{Outcome, run};
use simulation::story::{Story, shrink};
use simulation::sweep::{Totals, sweep};
use simulation::trace::Trace;

/// The system's allocator takes a third of the time of a run.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A sweep tells of its progress whenever this many seeds are done.
const PROGRESS: u64 = 5_000;

/// Runs the real controller in virtual time, with faults that follow from a seed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", version)]
struct Cli {
    /// Number of seeds.
    #[arg(long, default_value_t = 400)]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Begin with a seed that follows from the time instead of --from.
    #[arg(long, conflicts_with = "from")]
    fresh: bool,
    /// Run seeds for this many minutes instead of a number of them.
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
    /// Threads; by default one per core.
    #[arg(long, value_name = "THREADS")]
    jobs: Option<usize>,
    /// Print the hash of the trace of each seed.
    #[arg(long)]
    hashes: bool,
    /// Run only this seed, and print its options.
    #[arg(long)]
    seed: Option<u64>,
    /// Print what happens, line by line; with --seed or --story.
    #[arg(long)]
    trace: bool,
    /// Replay a story.
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    story: Option<PathBuf>,
    /// Reduce each seed that violates a rule to a story, and write it into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    stories: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let trace = if cli.trace {
        Trace::with_lines()
    } else {
        Trace::default()
    };
    if let Some(path) = &cli.story {
        let story = Story::read(path)?;
        println!("{}", story.options);
        return Ok(print(&story.play(trace)?));
    }
    let Some(seed) = cli.seed else {
        return run_many(&cli);
    };
    let options = Options::of(seed);
    println!("{options}");
    let outcome = run(&options, &Faults::ByRate, trace)?;
    keep_story(&cli, &options, &outcome)?;
    Ok(print(&outcome))
}

fn print(outcome: &Outcome) -> ExitCode {
    print!("{}", outcome.lines);
    for violation in &outcome.violations {
        println!("violated {violation}");
    }
    println!(
        "{} requests in {:.0} virtual seconds, trace {:016x}",
        outcome.requests, outcome.seconds, outcome.hash
    );
    if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Writes the shortest story of a seed that violated a rule.
fn keep_story(cli: &Cli, options: &Options, outcome: &Outcome) -> Result<()> {
    let (Some(directory), Some(violation)) = (&cli.stories, outcome.violations.first()) else {
        return Ok(());
    };
    match shrink(options, outcome, violation.rule)? {
        Some(story) => {
            let path = directory.join(format!("{}-{}.json", violation.rule.as_str(), options.seed));
            std::fs::write(&path, serde_json::to_string_pretty(&story)? + "\n")?;
            println!("  {} faults are left in {}", story.faults.len(), path.display());
        }
        None => println!("  its faults alone do not repeat the violation"),
    }
    Ok(())
}

fn run_many(cli: &Cli) -> Result<ExitCode> {
    let first = if cli.fresh { fresh_seed() } else { cli.from };
    let jobs = cli
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    println!("seeds from {first} on, {jobs} at a time");
    let begin = Instant::now();
    let is_over = |begun| match cli.minutes {
        Some(minutes) => begin.elapsed().as_secs() >= minutes * 60,
        None => begun >= cli.seeds,
    };
    let mut done = 0_u64;
    let totals = sweep(first, jobs, is_over, |options, outcome| {
        done += 1;
        if done.is_multiple_of(PROGRESS) {
            eprintln!("{done} seeds in {:.0} s", begin.elapsed().as_secs_f64());
        }
        if outcome.violations.is_empty() {
            return Ok(());
        }
        println!("{options}");
        for violation in outcome.violations.iter().take(3) {
            println!("  violated {violation}");
        }
        println!("  replay: cargo xtask sim --seed {} --trace", options.seed);
        keep_story(cli, options, outcome)
    })?;
    print_totals(&totals, begin.elapsed().as_secs_f64());
    if cli.hashes {
        for (seed, hash) in &totals.hashes {
            println!("seed {seed} trace {hash:016x}");
        }
    }
    let untried = totals.untried();
    for rule in &untried {
        println!("the rule {} was never tried", rule.as_str());
    }
    Ok(if totals.failed == 0 && untried.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print_totals(totals: &Totals, seconds: f64) {
    println!(
        "{} seeds in {seconds:.1} s, {} requests, {} with violations",
        totals.runs, totals.requests, totals.failed
    );
    print!("faults:");
    for (fault, count) in &totals.faults {
        print!("  {} {count}", fault.as_str());
    }
    print!("\nchecked:");
    for (rule, count) in &totals.checked {
        print!("  {} {count}", rule.as_str());
    }
    println!();
}

/// A seed that was hardly run before: the time in milliseconds, times 1000, so that sweeps do not overlap.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis())
        .unwrap_or_default()
        .wrapping_mul(1000)
}
