//! `simulation`: runs seeds, or replays one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use simulation::fault::{Fault, Faults};
use simulation::options::Options;
use simulation::oracle::Rule;
use simulation::run::{Outcome, run};
use simulation::story::{Story, shrink};
use simulation::trace::Trace;

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
    /// Run seeds for this many minutes instead of a number of them.
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
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
        return sweep(&cli);
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

fn sweep(cli: &Cli) -> Result<ExitCode> {
    let begin = Instant::now();
    let (mut faults, mut checked) = (BTreeMap::<Fault, u64>::new(), BTreeMap::<Rule, u64>::new());
    let (mut done, mut failed, mut requests) = (0_u64, 0_u64, 0_u64);
    let is_over = |done: u64| match cli.minutes {
        Some(minutes) => begin.elapsed().as_secs() >= minutes * 60,
        None => done >= cli.seeds,
    };
    while !is_over(done) {
        let options = Options::of(cli.from + done);
        let outcome: Outcome = run(&options, &Faults::ByRate, Trace::default())?;
        done += 1;
        requests += outcome.requests;
        for occasion in &outcome.faults {
            *faults.entry(occasion.fault).or_default() += 1;
        }
        for (rule, count) in &outcome.checked {
            *checked.entry(*rule).or_default() += count;
        }
        if !outcome.violations.is_empty() {
            failed += 1;
            println!("{options}");
            for violation in outcome.violations.iter().take(3) {
                println!("  violated {violation}");
            }
            keep_story(cli, &options, &outcome)?;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{done} seeds in {seconds:.1} s, {requests} requests, {failed} with violations");
    let show = |name: &str, count: u64| print!("  {name} {count}");
    print!("faults:");
    for (fault, count) in &faults {
        show(fault.as_str(), *count);
    }
    print!("\nchecked:");
    for (rule, count) in &checked {
        show(rule.as_str(), *count);
    }
    println!();
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
