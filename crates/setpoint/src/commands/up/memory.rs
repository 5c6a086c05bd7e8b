//! Default limit of live objects, from the memory of the machine.
//!
//! All live objects are in memory, and with indexes, views and history they take some five times their
//! bytes.

use std::fs::read_to_string;

/// Fraction of the memory that live objects may take: an eighth.
const MEMORY_FRACTION: u64 = 8;
/// Minimum limit, and the limit if the memory is unknown: some 50,000 small objects.
const LIVE_BYTES_MIN: u64 = 64 << 20;

/// Returns the default maximum of bytes of live objects.
pub fn live_bytes() -> u64 {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| parse_total(&text));
    let group = read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    limit_for(machine.into_iter().chain(group).min())
}

fn limit_for(memory: Option<u64>) -> u64 {
    memory.map_or(0, |bytes| bytes / MEMORY_FRACTION).max(LIVE_BYTES_MIN)
}

/// Parses `/proc/meminfo`. Returns the memory of the machine in bytes.
fn parse_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_follows_the_memory_of_the_machine() {
        assert_eq!(parse_total("MemTotal:       24582912 kB\nMemFree: 1 kB\n"), Some(24_582_912 << 10));
        assert_eq!(parse_total("nothing"), None);
        assert_eq!(limit_for(Some(16 << 30)), 2 << 30);
        assert_eq!((limit_for(Some(1 << 20)), limit_for(None)), (LIVE_BYTES_MIN, LIVE_BYTES_MIN));
        assert!(live_bytes() >= LIVE_BYTES_MIN);
    }
}
