//! Instruction counter for closures, on callgrind.
//!
//! Callgrind collects only inside [`measured`], and writes a dump when that function returns. The measured process reads
//! its own dumps, so that its next case can depend on the counts.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Environment variable with the directory of the dumps. Set for measured processes.
const DIRECTORY: &str = "SETPOINT_COST_DIRECTORY";
/// Environment variable with the index of the process and their number: `0/2`.
const SHARD: &str = "SETPOINT_COST_SHARD";

/// Name of the measured function, without wildcards, since callgrind allows none here.
const MEASURED: &str = "setpoint_sim::cost::callgrind::measured";

/// Share of the cases that a process measures: those whose number modulo `count` is `index`.
#[derive(Clone, Copy)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// `true` if this process measures the case.
    #[must_use]
    pub fn contains(self, case: usize) -> bool {
        case % self.count == self.index
    }
}

/// Returns the share of this process, if it runs under callgrind.
///
/// # Panics
/// If its environment variable is malformed.
#[must_use]
pub fn current_shard() -> Option<Shard> {
    let text = std::env::var(SHARD).ok()?;
    let parts =
        text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    let (index, count) = parts.expect("a shard is INDEX/COUNT");
    Some(Shard { index, count })
}

/// Runs the test `name` of this program under callgrind in `shards` processes.
///
/// # Panics
/// If a case fails, no case is measured, or valgrind is not installed.
pub fn run_under_valgrind(name: &str, shards: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let start = |index: usize| {
        let own = directory.path().join(index.to_string());
        std::fs::create_dir(&own).expect("a directory per process");
        let child = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet", "--dump-line=no", "--dump-instr=no", "--collect-jumps=no"])
            .arg("--collect-atstart=no")
            .arg(format!("--toggle-collect={MEASURED}"))
            .arg(format!("--dump-after={MEASURED}"))
            .arg(format!("--callgrind-out-file={}", own.join("dump").display()))
            .arg(std::env::current_exe().expect("the path of this program"))
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, own)
            .env(SHARD, format!("{index}/{shards}"))
            .stdout(Stdio::piped())
            .spawn();
        child.unwrap_or_else(|error| panic!("valgrind cannot be started (Debian package valgrind): {error}"))
    };
    let children: Vec<_> = (0..shards).map(start).collect();
    let (mut cases, mut failed) = (0, Vec::new());
    for child in children {
        let output = child.wait_with_output().expect("the output of the measured process");
        let text = String::from_utf8_lossy(&output.stdout);
        if std::env::var_os("SETPOINT_COST_VERBOSE").is_some() {
            println!("{text}");
        }
        assert!(output.status.success(), "the measured process failed: {text}");
        cases += text.lines().filter(|line| line.starts_with("ok ")).count();
        failed.extend(text.lines().filter(|line| line.starts_with("FAILED ")).map(str::to_owned));
    }
    println!("{} cases", cases + failed.len());
    assert!(cases > 0, "no case was measured");
    assert!(failed.is_empty(), "cost grows too fast, or is too high:\n{}", failed.join("\n"));
}

/// Instruction counter of a process that runs under callgrind.
pub struct Counter {
    directory: PathBuf,
    dumps: usize,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

impl Counter {
    /// Returns the counter of this process. There must be only one, since dumps are numbered.
    ///
    /// # Panics
    /// If the process does not run under callgrind.
    #[must_use]
    pub fn new() -> Counter {
        let directory = std::env::var_os(DIRECTORY).expect("measured processes run under callgrind");
        Counter { directory: directory.into(), dumps: 0 }
    }

    /// Runs a closure. Returns its result and its instructions.
    ///
    /// # Panics
    /// If callgrind wrote no dump.
    pub fn count<T>(&mut self, run: impl FnOnce() -> T) -> (T, u64) {
        let (mut run, mut result) = (Some(run), None);
        measured(&mut || result = run.take().map(|run| run()));
        self.dumps += 1;
        let path = self.directory.join(format!("dump.{}", self.dumps));
        let dump = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        std::fs::remove_file(&path).expect("a dump can be removed");
        let at = last_line(&dump, b"totals: ");
        let count = std::str::from_utf8(at).ok().and_then(|text| text.trim().parse().ok());
        (result.expect("it ran"), count.expect("a number of instructions"))
    }
}

/// Returns the rest of the last line that begins with `start`.
fn last_line<'a>(text: &'a [u8], start: &[u8]) -> &'a [u8] {
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(start)).expect("a dump has totals")
}

/// Runs a closure inside the function that callgrind measures; see [`MEASURED`].
#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
}
