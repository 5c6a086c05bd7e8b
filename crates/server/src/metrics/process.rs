//! Process metrics from `/proc`, read at each scrape. Values that are unavailable are left out.

use std::fs;

use super::text::{MetricType, Text};

/// Clock ticks per second in `/proc`, on every Linux machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes the process families.
pub fn write(text: &mut Text) {
    let mut write_metric = |name: &str, metric_type, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            text.family(name, metric_type, help);
            text.sample(name, &[], value);
        }
    };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let system = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    write_metric(
        "process_cpu_seconds_total",
        MetricType::Counter,
        "Total user and system CPU time spent in seconds.",
        cpu_seconds(&stat),
    );
    write_metric("process_open_fds", MetricType::Gauge, "Number of open file descriptors.", fds);
    write_metric(
        "process_max_fds",
        MetricType::Gauge,
        "Maximum number of open file descriptors.",
        open_files_max(&limits),
    );
    write_metric(
        "process_resident_memory_bytes",
        MetricType::Gauge,
        "Resident memory size in bytes.",
        bytes(&status, "VmRSS:"),
    );
    write_metric(
        "process_virtual_memory_bytes",
        MetricType::Gauge,
        "Virtual memory size in bytes.",
        bytes(&status, "VmSize:"),
    );
    let start = start_seconds(&stat, &system);
    write_metric(
        "process_start_time_seconds",
        MetricType::Gauge,
        "Start time of the process since unix epoch in seconds.",
        start,
    );
}

/// A field of `/proc/self/stat`, counted from 1. The second field is the name of the program in parentheses, which may
/// contain spaces and parentheses.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(number.checked_sub(3)?)?.trim().parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start_seconds(stat: &str, system: &str) -> Option<f64> {
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + field(stat, 22)? / TICKS_PER_SECOND)
}

fn bytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
}

fn open_files_max(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_parsed_with_parentheses_in_the_program_name() {
        let stat =
            "7 (a) b) S 1 1 1 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 12345 1000 200 18446744073709551615";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(start_seconds(stat, "cpu 1\nbtime 1000\n"), Some(1123.45));
        assert_eq!(bytes("Name:\tx\nVmRSS:\t    4 kB\n", "VmRSS:"), Some(4096.0));
        assert_eq!(
            open_files_max("Max open files            1024                 4096     files\n"),
            Some(1024.0)
        );
        assert_eq!((cpu_seconds(""), bytes("", "VmRSS:"), open_files_max("")), (None, None, None));
    }
}
