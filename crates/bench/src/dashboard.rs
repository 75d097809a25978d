//! `bench dashboard`: the dashboard of a large fleet in a real browser. The hub is simulated, in this process; `kubectl mcu
//! dashboard` is a process of its own, so its memory is its own.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chrono::Utc;
use clap::Args;
use e2e::audit::measures::float;
use e2e::reported_fleet::{NAMESPACE, rows_in_the_middle, status_of};
use e2e::{Browser, ReportedFleet};
use repository::browser::{self, BrowserPrograms};
use repository::{Profile, Programs};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{MissedTickBehavior, interval};

use crate::fleet::history::cpu_seconds;
use crate::fleet::test_bed::{note, peak_rss_mib};
use crate::thresholds::{Side, Threshold, require_counts, show};

const WINDOW: (u32, u32) = (1600, 1200);
/// Changes that the controller writes into a report at once.
const CHANGES_PER_WRITE: u32 = 3;

/// What to measure.
#[derive(Clone, Copy, Debug, Args)]
pub struct DashboardArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    clusters: usize,
    /// Changes per second.
    #[arg(long, value_name = "N", default_value_t = 60)]
    changes: u32,
    /// How long clusters change.
    #[arg(long, value_name = "S", default_value_t = 20)]
    seconds: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    clusters: usize,
    changes_per_second: u32,
    /// Milliseconds from the request for the page to the frame that shows all tiles.
    first_paint_ms: f64,
    /// Most changes that were written and not shown yet.
    most_behind: u64,
    /// Milliseconds from the last write to the page that shows it.
    last_change_ms: f64,
    frames_per_second: f64,
    /// Share of one core that the CLI process used while clusters changed.
    cpu_share: f64,
    peak_rss_mib: f64,
    thresholds: Vec<Threshold>,
}

/// Measures and prints; says whether every threshold was met.
///
/// # Errors
/// There is no browser, or the dashboard does not work as it should.
pub async fn run(args: &DashboardArgs) -> Result<bool> {
    let browser = browser::find().context("the dashboard is measured in a browser")?;
    let report = round(args, &browser).await?;
    show(&report, args.json, print)?;
    Ok(report.thresholds.iter().all(|threshold| threshold.met))
}

/// A short run, of which only the memory is judged. It is skipped where there is no browser.
///
/// # Errors
/// The dashboard does not show every change, or needs too much memory.
pub async fn check_counts() -> Result<()> {
    let Some(browser) = browser::find() else {
        return Ok(());
    };
    let args = DashboardArgs {
        clusters: 10_000,
        changes: 60,
        seconds: 5,
        json: false,
    };
    let report = round(&args, &browser).await?;
    print(&report);
    require_counts(&report.thresholds)
}

async fn round(args: &DashboardArgs, programs: &BrowserPrograms) -> Result<Report> {
    let built = Programs::build(Profile::own())?;
    note(&format!("reporting {} clusters", args.clusters));
    let rows = rows_in_the_middle(args.clusters, Utc::now());
    let mut fleet = ReportedFleet::start(&rows).await?;
    fleet.set_status(&status_of(&rows)).await?;
    let mut dashboard = Command::new(built.path("kubectl-mcu"))
        .args(["dashboard", "--namespace", NAMESPACE, "--kubeconfig"])
        .arg(fleet.kubeconfig())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("kubectl-mcu does not start")?;
    let address = address(&mut dashboard).await?;
    let pid = dashboard.id().context("kubectl-mcu has no process id")?;
    let browser = Browser::start(programs, WINDOW).await?;
    let report = measure(args, &mut fleet, &browser, (&address, pid)).await;
    browser.quit().await?;
    dashboard.kill().await?;
    report
}

/// The address that the command prints first.
async fn address(dashboard: &mut Child) -> Result<String> {
    let output = dashboard.stdout.take().context("kubectl-mcu has no output")?;
    let line = BufReader::new(output).lines().next_line().await?;
    line.context("kubectl-mcu ended before it printed its address")
}

async fn measure(
    args: &DashboardArgs,
    fleet: &mut ReportedFleet,
    browser: &Browser,
    (address, pid): (&str, u32),
) -> Result<Report> {
    browser.open(address).await?;
    let painted = "performance.getEntriesByName('fleet-painted')";
    browser.wait(&format!("{painted}.length")).await?;
    let first_paint_ms = browser.run(&format!("return {painted}[0].startTime")).await?;
    note(&format!(
        "painted after {first_paint_ms:.0} ms; changing clusters"
    ));
    browser
        .run::<Value>(
            "window.frames_ = 0; window.since_ = performance.now(); \
             (function frame() { window.frames_ += 1; requestAnimationFrame(frame) })()",
        )
        .await?;
    let before = cpu_seconds(pid);
    let started = Instant::now();
    let (written, most_behind) = change(args, fleet, browser).await?;
    let last = Instant::now();
    browser.wait(&format!("{SHOWN} >= {written}")).await?;
    let last_change_ms = last.elapsed().as_secs_f64() * 1000.0;
    let cpu_share = (cpu_seconds(pid) - before) / started.elapsed().as_secs_f64();
    let frames_per_second = browser
        .run("return window.frames_ * 1000 / (performance.now() - window.since_)")
        .await?;
    let peak_rss_mib = peak_rss_mib(pid);
    let thresholds = vec![
        Threshold::count(
            "peak RSS of kubectl mcu dashboard",
            (Side::Below, 150.0),
            peak_rss_mib,
            "MiB",
        ),
        Threshold::time("first paint", (Side::Below, 2000.0), first_paint_ms, "ms"),
        Threshold::time(
            "from the last change to the page",
            (Side::Below, 1000.0),
            last_change_ms,
            "ms",
        ),
        Threshold::time(
            "most changes behind, of one second's",
            (Side::Below, 1.0),
            float(usize::try_from(most_behind)?) / f64::from(args.changes),
            "",
        ),
    ];
    Ok(Report {
        clusters: args.clusters,
        changes_per_second: args.changes,
        first_paint_ms,
        most_behind,
        last_change_ms,
        frames_per_second,
        cpu_share,
        peak_rss_mib,
        thresholds,
    })
}

/// The changes that the page has shown.
const SHOWN: &str = "Number(document.documentElement.dataset.changes)";

/// Changes clusters at the rate, each once. Returns the number of changes, and most that were behind.
async fn change(args: &DashboardArgs, fleet: &mut ReportedFleet, browser: &Browser) -> Result<(u64, u64)> {
    let writes = args.changes * args.seconds / CHANGES_PER_WRITE;
    let (reports, count) = (fleet.reports(), usize::try_from(CHANGES_PER_WRITE)?);
    let mut ticks = interval(Duration::from_secs(1) * CHANGES_PER_WRITE / args.changes);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut written, mut most_behind) = (0, 0);
    for write in 0..writes {
        ticks.tick().await;
        let write_index = usize::try_from(write)?;
        let first = write_index / reports * count;
        let positions: Vec<usize> = (first..first + count).collect();
        let now = api::time::to_rfc3339(Utc::now());
        let advance = |row: &mut Value| {
            row["phase"] = json!(if row["phase"] == "Complete" {
                "PostAction"
            } else {
                "Complete"
            });
            row["since"] = json!(now);
        };
        fleet.change(write_index % reports, &positions, advance).await?;
        written += u64::from(CHANGES_PER_WRITE);
        if write % 20 == 19 {
            let shown: u64 = browser.run(&format!("return {SHOWN}")).await?;
            most_behind = most_behind.max(written.saturating_sub(shown));
        }
    }
    Ok((written, most_behind))
}

fn print(report: &Report) {
    println!(
        "dashboard of {} clusters, {} changes a second, simulated hub, headless Chromium\n\n{:.1} frames a second; at most {} changes \
         behind; the CLI process used {:.0} % of one core\n",
        report.clusters,
        report.changes_per_second,
        report.frames_per_second,
        report.most_behind,
        report.cpu_share * 100.0,
    );
    for threshold in &report.thresholds {
        println!("{threshold}");
    }
}
