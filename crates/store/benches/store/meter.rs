//! Measurements of a process: wall time, CPU time and memory, from `/proc`.

use std::time::{Duration, Instant};

/// Printer of results beside budgets.
pub struct Report;

impl Report {
    /// Prints one result.
    pub fn line(&mut self, what: &str, measured: &str, budget: &str) {
        println!("{what:<44} {measured:<40} budget: {budget}");
    }
}

/// Wall and CPU time of a measured section.
pub struct Spent {
    pub wall: Duration,
    pub cpu: Duration,
}

/// Measures this process while `work` runs.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Spent) {
    measure_process(std::process::id(), work)
}

/// Measures another process while `work` runs.
#[expect(clippy::disallowed_methods, reason = "a benchmark is there to read the clock")]
pub fn measure_process<T>(pid: u32, work: impl FnOnce() -> T) -> (T, Spent) {
    let (cpu, start) = (cpu_time(pid), Instant::now());
    let done = work();
    (done, Spent { wall: start.elapsed(), cpu: cpu_time(pid) - cpu })
}

/// CPU time of all threads of a process so far: utime and stime in ticks of 10 ms.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Resident memory of this process in bytes.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Microseconds per item.
pub fn micros_per(duration: Duration, items: u64) -> f64 {
    duration.as_secs_f64() * 1e6 / items as f64
}
