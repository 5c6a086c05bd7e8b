//! Store benchmarks with budgets: `cargo bench -p setpoint-store`.
//!
//! Each case prints one line with the measured number and the budget. Arguments after `--` select cases by
//! name. The comparison with etcd runs if `etcd` is in `PATH` (Debian: `etcd-server`), in the same run and
//! directory, with the same load.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod etcd;
mod meter;
mod past;
mod watch;
mod write;

use meter::Report;

/// Name and function of a benchmark case.
type Case = (&'static str, fn(&mut Report));

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let cases: [Case; 6] = [
        // First, while the process is small: this case measures its growth.
        ("snapshot", past::snapshot_fork_memory),
        ("writers", write::sixty_four_writers),
        ("lone", write::one_writer),
        ("cursors", watch::a_thousand_cursors),
        ("fields", watch::five_thousand_values),
        ("restart", past::restart),
    ];
    let mut report = Report;
    for (name, case) in cases {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            case(&mut report);
        }
    }
}
