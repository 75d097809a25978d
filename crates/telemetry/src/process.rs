//! Metrics of the process, read from `/proc` (proc(5)) at each scrape. Values that cannot be read are
//! omitted.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Clock ticks per second in `/proc/<pid>/stat`. User space sees 100 on every Linux architecture for which we
/// build.
const TICKS: f64 = 100.0;

/// Collects `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds` and
/// `process_start_time_seconds`.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if let Some((cpu, started)) = stat() {
            let help = "User and system CPU time of the process, in seconds.";
            let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(cpu).encode(metric)?;
            if let Some(boot) = boot_time() {
                let help = "Start of the process, in seconds since the Unix epoch.";
                gauge(&mut encoder, "process_start_time_seconds", help, boot + started)?;
            }
        }
        if let Some(bytes) = resident_bytes() {
            let help = "Resident memory of the process, in bytes.";
            gauge(&mut encoder, "process_resident_memory_bytes", help, bytes)?;
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // One of the entries is the handle of the directory that is being counted.
            let open = u32::try_from(entries.count().saturating_sub(1)).unwrap_or(u32::MAX);
            let help = "Open file descriptors of the process.";
            gauge(&mut encoder, "process_open_fds", help, f64::from(open))?;
        }
        Ok(())
    }
}

/// The registry appends a full stop to help texts, but a collector must write it itself.
fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: f64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

/// Used CPU seconds, and start in seconds after boot.
fn stat() -> Option<(f64, f64)> {
    parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_stat(text: &str) -> Option<(f64, f64)> {
    // The second field is the command in parentheses and may contain anything, so fields are counted from the
    // last ')'.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let (user, system, started) = (number(11)?, number(12)?, number(19)?);
    Some(((user + system) / TICKS, started / TICKS))
}

fn boot_time() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|value| value.trim().parse().ok())
}

fn resident_bytes() -> Option<f64> {
    parse_resident(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse_resident(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 12345 1 1";
        assert_eq!(parse_stat(stat), Some((2.0, 123.45)));
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        assert_eq!(
            parse_resident("Name:\tx\nVmRSS:\t    2048 kB\n"),
            Some(2_097_152.0)
        );
        assert_eq!(parse_resident("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_has_memory_and_a_start() {
        assert!(resident_bytes().unwrap() > 100_000.0);
        assert!(boot_time().unwrap() + stat().unwrap().1 > 1_500_000_000.0);
    }
}
