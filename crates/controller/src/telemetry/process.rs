//! The process as the kernel sees it, read from `/proc` at each scrape.
//!
//! Owns the parsing of four files (proc(5)). Refuses guesses: what cannot be read is left out.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::catalogue::{PROCESS_CPU, PROCESS_FDS, PROCESS_RSS, PROCESS_START, Series};

/// Clock ticks per second in `/proc/<pid>/stat`: fixed at 100 for user space on every Linux architecture we build for.
const TICKS: f64 = 100.0;

/// Collects the `process_*` series.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if let Some((cpu, started)) = stat() {
            counter(&mut encoder, &PROCESS_CPU, cpu)?;
            if let Some(boot) = boot_time() {
                gauge(&mut encoder, &PROCESS_START, boot + started)?;
            }
        }
        if let Some(bytes) = resident_bytes() {
            gauge(&mut encoder, &PROCESS_RSS, bytes)?;
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // The directory handle that counts is itself one of the entries.
            let open = u32::try_from(entries.count().saturating_sub(1)).unwrap_or(u32::MAX);
            gauge(&mut encoder, &PROCESS_FDS, f64::from(open))?;
        }
        Ok(())
    }
}

fn counter(encoder: &mut DescriptorEncoder, series: &Series, value: f64) -> fmt::Result {
    let metric = encoder.encode_descriptor(series.stem(), &help(series), None, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

fn gauge(encoder: &mut DescriptorEncoder, series: &Series, value: f64) -> fmt::Result {
    let metric = encoder.encode_descriptor(series.stem(), &help(series), None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

/// The registry ends help texts with a full stop; collectors have to do so themselves.
pub(super) fn help(series: &Series) -> String {
    format!("{}.", series.help)
}

/// CPU seconds used, and start in seconds after boot.
fn stat() -> Option<(f64, f64)> {
    parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_stat(text: &str) -> Option<(f64, f64)> {
    // The second field is the command in parentheses and may hold anything; fields count from the last ')'.
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
