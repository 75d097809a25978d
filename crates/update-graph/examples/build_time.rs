//! How long a graph takes from file bytes: `cargo run --release -p update-graph --example build_time -- DATA [RUNS]`, where
//! DATA is the directory with `releases-amd64.json.gz` and `graph-data.tar.gz`. The median and the least of all runs are printed.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use update_graph::query::{PathQuery, Target, path};
use update_graph::{Arch, Builder, Graph, GraphData, release_list};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ARCHES: [&str; 5] = ["amd64", "arm64", "multi", "ppc64le", "s390x"];
const THREADS: usize = 2;

/// From bytes to a graph that answers queries; lists are read on one thread while graph-data is read on another.
fn build(lists: &[(Arch, Vec<u8>)], archive: &[u8]) -> Result<Graph> {
    std::thread::scope(|scope| {
        let data = scope.spawn(|| GraphData::from_tar(archive, 1));
        let mut builder = Builder::new().threads(THREADS);
        for (arch, bytes) in lists {
            builder = builder.list(release_list::parse(bytes, arch)?);
        }
        let (data, _) = data.join().map_err(|_| "a thread fell")??;
        Ok(builder.graph_data(Arc::new(data)).build().0)
    })
}

/// The median and the least.
fn summary(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |at: usize| times.get(at).copied().unwrap_or_default();
    format!("{:>12.2?} {:>12.2?}", at(times.len() / 2), at(0))
}

fn measure<T>(runs: usize, mut work: impl FnMut() -> Result<T>) -> Result<String> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        let made = work()?;
        times.push(start.elapsed());
        drop(made);
    }
    Ok(summary(times))
}

/// The list of one architecture with unique digests.
fn list_for(plain: &str, at: usize) -> Result<Vec<u8>> {
    use std::io::Write;
    let digest = format!("@sha256:{at}");
    let text = plain.replace("@sha256:3", &digest);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes())?;
    Ok(gzip.finish()?)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = std::path::PathBuf::from(arguments.next().ok_or("usage: build_time DATA [RUNS]")?);
    let runs = arguments.next().map_or(Ok(15), |text| text.parse())?;
    let archive = std::fs::read(dir.join("graph-data.tar.gz"))?;
    let packed = std::fs::read(dir.join("releases-amd64.json.gz"))?;
    let mut plain = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut plain)?;
    let mut lists = Vec::new();
    for (at, arch) in ARCHES.iter().enumerate() {
        lists.push((
            Arch::parse(arch)?,
            if at == 0 {
                packed.clone()
            } else {
                list_for(&plain, at)?
            },
        ));
    }
    println!(
        "graph-data, 1 thread   {}",
        measure(runs, || Ok(GraphData::from_tar(&archive, 1)?))?
    );
    println!(
        "graph-data, 2 threads  {}",
        measure(runs, || Ok(GraphData::from_tar(&archive, 2)?))?
    );
    println!(
        "release list           {}",
        measure(runs, || Ok(release_list::parse(&packed, &Arch::amd64())?))?
    );
    println!(
        "one architecture       {}",
        measure(runs, || build(&lists[..1], &archive))?
    );
    println!(
        "five architectures     {}",
        measure(runs, || build(&lists, &archive))?
    );
    let graph = build(&lists, &archive)?;
    println!(
        "body of eus-4.16       {}",
        measure(runs, || Ok(graph.body("eus-4.16", &Arch::amd64())))?
    );
    println!("whole graph            {}", measure(runs, || Ok(graph.whole()))?);
    let mut query = PathQuery::new(Arch::amd64(), "4.12.0".parse()?, "4.22.9".parse::<Target>()?);
    query.channels = vec!["stable".into()];
    query.limit = 3;
    println!(
        "path over 11 hops, 3   {}",
        measure(runs, || Ok(path(&graph, &query)?))?
    );
    query.conditional = true;
    println!(
        "the same, risks too    {}",
        measure(runs, || Ok(path(&graph, &query)?))?
    );
    query.conditional = false;
    query.from = "4.16.3".parse()?;
    query.to = "4.20.10".parse()?;
    println!(
        "no path, explained     {}",
        measure(runs, || Ok(path(&graph, &query)?))?
    );
    let next = build(&lists, &archive)?;
    println!(
        "peak RSS, two graphs of five architectures   {}",
        peak_rss().unwrap_or_default()
    );
    drop((graph, next));
    Ok(())
}

/// What the kernel says, where it is Linux.
fn peak_rss() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().to_owned())
}
