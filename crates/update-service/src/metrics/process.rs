//! The process as the kernel sees it, read from `/proc` at each scrape. What cannot be read is left out.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Clock ticks per second in `/proc/self/stat`: 100 for user space on every architecture we build for.
const TICKS: f64 = 100.0;

/// Collects the `process_*` series.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if let Some(seconds) = fs::read_to_string("/proc/self/stat")
            .ok()
            .and_then(|text| cpu(&text))
        {
            let help = "User and system CPU time, in seconds.";
            let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        if let Some(bytes) = fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|text| resident(&text))
        {
            let help = "Resident memory, in bytes.";
            let name = "process_resident_memory_bytes";
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(bytes).encode(metric)?;
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // The directory handle that counts is itself one of the entries.
            let open = u32::try_from(entries.count().saturating_sub(1)).unwrap_or(u32::MAX);
            let help = "Open file descriptors.";
            let metric = encoder.encode_descriptor("process_open_fds", help, None, MetricType::Gauge)?;
            ConstGauge::new(f64::from(open)).encode(metric)?;
        }
        Ok(())
    }
}

fn cpu(stat: &str) -> Option<f64> {
    // The second field is the command in parentheses and may hold anything; fields count from the last ')'.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((number(11)? + number(12)?) / TICKS)
}

fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 12345 1 1";
        assert_eq!(cpu(stat), Some(2.0));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!(resident("Name:\tx\n"), None);
    }
}
