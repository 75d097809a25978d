//! The service as a process: throughput and latency beside the bare server, and memory with a swap under load.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use e2e::program::free_address;
use repository::{Programs, UPDATE_SERVICE};
use serde::Serialize;
use testenv::{Process, ProcessSpec};

use super::bare::BareArgs;
use super::data::{ARCHITECTURES, Files, replace};
use super::load::{Answer, Outcome, Target};
use super::{GraphBenchArgs, mean, median};
use crate::fleet::test_bed::{note, peak_rss_mib};

const PREFIX: &str = "/api/upgrades_info/v1";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);
/// Requests per second while the snapshot is swapped.
const SWAP_LOAD: f64 = 300.0;

/// One encoding of the largest channel's body.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Served {
    pub(super) encoding: &'static str,
    pub(super) bytes: usize,
    /// Requests per second of the service, per round.
    pub(super) service_rates: Vec<f64>,
    /// The same of the bare server.
    pub(super) bare_rates: Vec<f64>,
    /// Mean over mean.
    pub(super) ratio: f64,
    /// Latency of the service under full load, median of the rounds.
    pub(super) full_load_p99_ms: f64,
    /// Requests per second at half of the service's throughput.
    pub(super) half_load_rate: f64,
    /// Medians of the rounds, so that a moment of other load on the machine affects a round but not the figure.
    pub(super) half_load_p50_ms: f64,
    pub(super) half_load_p99_ms: f64,
    /// Per round.
    pub(super) half_load_p99s_ms: Vec<f64>,
    /// The bare server's at the same rate, per round.
    pub(super) bare_half_load_p99s_ms: Vec<f64>,
}

/// What the process needed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// Five architectures loaded, before the first request.
    pub(super) loaded_mib: f64,
    /// Every channel of every architecture requested once, in both encodings.
    pub(super) all_bodies_mib: f64,
    /// The snapshot replaced under load, and everything requested again.
    pub(super) peak_mib: f64,
    /// From the new file to the first answer out of it.
    pub(super) swap_seconds: f64,
    /// Latency of the load around the swap.
    pub(super) swap_p99_ms: f64,
}

fn each(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> Vec<f64> {
    outcomes.iter().map(value).collect()
}

/// A process that serves HTTP on an address of this machine.
struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    fn start(spec: &ProcessSpec, address: SocketAddr, dir: &Path, ready: &str) -> Result<Self> {
        let server = Self {
            process: Process::start(spec, dir)?,
            address,
        };
        let target = Target::new(address, ready, &["Connection: close"]);
        let started = Instant::now();
        while !target.ask().is_ok_and(|answer| answer.status == 200) {
            if server.process.exited()?.is_some() || started.elapsed() > WAIT_TIMEOUT {
                bail!(
                    "{} does not answer:\n{}",
                    server.process.name(),
                    server.process.log_tail(15)
                );
            }
            std::thread::sleep(POLL);
        }
        Ok(server)
    }

    fn graph(&self, channel: &str, arch: &str, encoding: &str) -> Target {
        let path = format!("{PREFIX}/graph?channel={channel}&arch={arch}");
        let accept = format!("Accept-Encoding: {encoding}");
        Target::new(self.address, &path, &["Accept: application/json", &accept])
    }

    /// The body of the answer, whatever its status.
    fn ask(&self, channel: &str, arch: &str, encoding: &str) -> Result<Answer> {
        let answer = self.graph(channel, arch, encoding).ask()?;
        if answer.status != 200 {
            bail!("{channel}, {arch}: status {}", answer.status);
        }
        Ok(answer)
    }
}

/// The service over five architectures.
pub(super) struct Bench<'a> {
    args: &'a GraphBenchArgs,
    files: &'a Files,
    dir: tempfile::TempDir,
    service: Server,
    channels: &'a [String],
    largest: &'a str,
}

impl<'a> Bench<'a> {
    /// Writes the files, starts the service and waits until it is ready.
    pub(super) fn start(
        args: &'a GraphBenchArgs,
        programs: &Programs,
        files: &'a Files,
        channels: &'a [String],
        largest: &'a str,
    ) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("mcu-bench-").tempdir()?;
        let releases = dir.path().join("releases.json.gz");
        let graph_data = dir.path().join("graph-data.tar.gz");
        replace(&releases, &files.releases_for_all(0)?)?;
        replace(&graph_data, &files.graph_data)?;
        let address: SocketAddr = free_address()?.parse()?;
        let spec = ProcessSpec::new(UPDATE_SERVICE, &programs.path(UPDATE_SERVICE)).args([
            "serve".to_owned(),
            format!("--releases={}", releases.display()),
            format!("--graph-data={}", graph_data.display()),
            format!("--listen={address}"),
        ]);
        let service = Server::start(&spec, address, dir.path(), "/readyz")?;
        Ok(Self {
            args,
            files,
            dir,
            service,
            channels,
            largest,
        })
    }

    fn releases(&self) -> PathBuf {
        self.dir.path().join("releases.json.gz")
    }

    /// Throughput and latency of one encoding, beside the bare server.
    pub(super) fn served(&self, encoding: &'static str) -> Result<Served> {
        let answer = self.service.ask(self.largest, ARCHITECTURES[0], encoding)?;
        let sent = answer.headers.iter().find(|(name, _)| name == "content-encoding");
        if sent.map_or("identity", |(_, value)| value.as_str()) != encoding {
            bail!("the service does not send {encoding}: {sent:?}");
        }
        let bare = self.bare(&answer, encoding)?;
        let target = self.service.graph(self.largest, ARCHITECTURES[0], encoding);
        let other = bare.graph(self.largest, ARCHITECTURES[0], encoding);
        if other.ask()?.body != answer.body {
            bail!("the bare server sends other bytes");
        }
        let time = Duration::from_secs(self.args.seconds.into());
        let connections = self.args.connections;
        note(&format!("{encoding}: full load"));
        let (ours, theirs) = self.in_turns(&target, &other, |target| {
            // Some load first warms both sides up.
            target.closed(connections, Duration::from_millis(300))?;
            target.closed(connections, time)
        })?;
        let (service_rates, bare_rates) = (each(&ours, Outcome::rate), each(&theirs, Outcome::rate));
        let half = mean(&service_rates) / 2.0;
        note(&format!("{encoding}: half load, {half:.0} requests/s"));
        let (paced, bare_paced) =
            self.in_turns(&target, &other, |target| target.paced(connections, half, time))?;
        Ok(Served {
            encoding,
            bytes: answer.body.len(),
            ratio: mean(&service_rates) / mean(&bare_rates),
            service_rates,
            bare_rates,
            full_load_p99_ms: median(each(&ours, |outcome| outcome.latency_ms(99))),
            half_load_rate: mean(&each(&paced, Outcome::rate)),
            half_load_p50_ms: median(each(&paced, |outcome| outcome.latency_ms(50))),
            half_load_p99_ms: median(each(&paced, |outcome| outcome.latency_ms(99))),
            half_load_p99s_ms: each(&paced, |outcome| outcome.latency_ms(99)),
            bare_half_load_p99s_ms: each(&bare_paced, |outcome| outcome.latency_ms(99)),
        })
    }

    /// Loads service and bare server in every round; they take turns in going first.
    fn in_turns(
        &self,
        service: &Target,
        bare: &Target,
        load: impl Fn(&Target) -> Result<Outcome>,
    ) -> Result<(Vec<Outcome>, Vec<Outcome>)> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..self.args.rounds.max(1) {
            let mut sides = [(service, &mut ours), (bare, &mut theirs)];
            if round % 2 == 1 {
                sides.reverse();
            }
            for (target, outcomes) in sides {
                outcomes.push(load(target)?);
            }
        }
        Ok((ours, theirs))
    }

    fn bare(&self, answer: &Answer, encoding: &str) -> Result<Server> {
        let address: SocketAddr = free_address()?.parse()?;
        let body = self.dir.path().join(format!("{encoding}.body"));
        let own = std::env::current_exe().context("this program has no path")?;
        let spec =
            ProcessSpec::new(&format!("bare-{encoding}"), &own).args(BareArgs::line(address, &body, answer)?);
        Server::start(&spec, address, self.dir.path(), "/")
    }

    /// Every channel of every architecture, in both encodings.
    fn ask_everything(&self) -> Result<()> {
        for arch in ARCHITECTURES {
            for channel in self.channels {
                for encoding in ["gzip", "identity"] {
                    self.service.ask(channel, arch, encoding)?;
                }
            }
        }
        Ok(())
    }

    /// Swaps the snapshot under load and reads the process's peak.
    pub(super) fn memory(&self) -> Result<Memory> {
        let peak = || peak_rss_mib(self.service.process.pid());
        let loaded_mib = peak();
        note("asking every channel of every architecture");
        self.ask_everything()?;
        let all_bodies_mib = peak();
        note("swapping the snapshot under load");
        let target = self.service.graph(self.largest, ARCHITECTURES[0], "identity");
        let next = self.files.releases_for_all(1)?;
        let time = Duration::from_secs(self.args.seconds.max(5).into());
        let (swap, load) = std::thread::scope(|scope| {
            let load = scope.spawn(|| target.paced(self.args.connections, SWAP_LOAD, time));
            let swap = self.swap(&target, &next);
            let load = load.join().map_err(|_| anyhow!("the load panicked"));
            (swap, load)
        });
        let (swap_seconds, load) = (swap?, load??);
        self.ask_everything()?;
        Ok(Memory {
            loaded_mib,
            all_bodies_mib,
            peak_mib: peak(),
            swap_seconds,
            swap_p99_ms: load.latency_ms(99),
        })
    }

    /// Replaces the releases and waits for an answer out of the new ones.
    fn swap(&self, target: &Target, releases: &[u8]) -> Result<f64> {
        let etag = |answer: Answer| answer.headers.into_iter().find(|(name, _)| name == "etag");
        let before = etag(target.ask()?).context("an answer without ETag")?;
        let started = Instant::now();
        replace(&self.releases(), releases)?;
        while etag(target.ask()?).as_ref() == Some(&before) {
            if started.elapsed() > WAIT_TIMEOUT {
                bail!("the new releases are not served");
            }
            std::thread::sleep(POLL);
        }
        Ok(started.elapsed().as_secs_f64())
    }
}
