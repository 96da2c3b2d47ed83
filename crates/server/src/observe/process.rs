//! Identity of the process and its use of the machine: `tollgate_build_info`, and the `process_…` metrics
//! that Prometheus' own clients have, from `/proc`. Without `/proc`, only metrics that do not need it.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tollgate_core::Timestamp;

use crate::family::Family;

/// Ticks of a second in `/proc/self/stat`: Linux shows programs a hundred, whatever the kernel counts in.
const TICKS: f64 = 100.0;

/// Metrics of the process itself.
#[derive(Debug)]
pub(crate) struct ProcessMetrics {
    /// When it began to serve.
    pub(crate) started: Timestamp,
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut to;
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("arch", std::env::consts::ARCH),
            ("os", std::env::consts::OS),
        ];
        to.encode_descriptor("tollgate_build", "What runs here", None, MetricType::Info)?
            .encode_info(&labels)?;
        let help = "When the process began to serve, Unix time";
        Family::gauge("process_start_time_seconds", help).write(to, self.started.unix_seconds())?;
        if let Some(seconds) = read("stat").as_deref().and_then(cpu_seconds) {
            let help = "CPU time of the process, of user and system";
            to.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, f64, u64>(&seconds, None)?;
        }
        let status = read("status").unwrap_or_default();
        let limits = read("limits").unwrap_or_default();
        let open = std::fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as u64);
        let gauges = [
            ("process_resident_memory_bytes", "Memory in use", kilobytes(&status, "VmRSS:")),
            ("process_virtual_memory_bytes", "Addresses in use", kilobytes(&status, "VmSize:")),
            ("process_threads", "Threads", first_number(&status, "Threads:")),
            ("process_open_fds", "Open file descriptors", open),
            ("process_max_fds", "File descriptors that may be open", first_number(&limits, "Max open files")),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                Family::gauge(name, help).write(to, value)?;
            }
        }
        Ok(())
    }
}

fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/{name}")).ok()
}

/// The CPU time of `/proc/self/stat`. Its second field is the program's name, which may contain anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / TICKS)
}

/// The first number after `name` in lines of names and numbers; `None` also where it is `unlimited`.
fn first_number(lines: &str, name: &str) -> Option<u64> {
    let rest = lines.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    first_number(status, name)?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_writes_them() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1000 0 10 0 1234 66 0 0 20 0 4 0 5000 1 2 3";
        assert_eq!(cpu_seconds(stat), Some(13.0));
        assert_eq!(cpu_seconds("7 (a) S 1 7"), None);
        let status = "Name:\ttollgate\nVmSize:\t  2048 kB\nVmRSS:\t    12 kB\nThreads:\t5\n";
        assert_eq!(
            (kilobytes(status, "VmRSS:"), kilobytes(status, "VmSize:")),
            (Some(12_288), Some(2_097_152))
        );
        assert_eq!((first_number(status, "Threads:"), first_number(status, "VmSwap:")), (Some(5), None));
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 1048576              files     \n\
                      Max locked memory         unlimited            unlimited            bytes     \n";
        assert_eq!(first_number(limits, "Max open files"), Some(1_024));
        assert_eq!(first_number(limits, "Max locked memory"), None);
    }
}
