//! Instructions of a closure, counted by callgrind.
//!
//! Collection is on only inside [`measured`], and callgrind writes a dump whenever that function returns. The process
//! that is measured reads its own dumps, so that the next case can depend on the counts.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where the dumps go; set for processes that are measured.
const DIRECTORY: &str = "SETPOINT_COST_DIRECTORY";
/// Number of the process, and how many there are.
const SHARD: &str = "SETPOINT_COST_SHARD";

/// The function whose instructions are counted, as callgrind calls it: it takes no pattern here.
const MEASURED: &str = "setpoint_sim::cost::callgrind::measured";

/// Share of the cases that a process measures: every case whose number modulo `of` is `at`.
#[derive(Clone, Copy)]
pub struct Shard {
    at: usize,
    of: usize,
}

impl Shard {
    /// `true` if this process measures the case.
    #[must_use]
    pub fn has(self, case: usize) -> bool {
        case % self.of == self.at
    }
}

/// The share of this process, if it runs under callgrind.
///
/// # Panics
/// If the variable is set to something else.
#[must_use]
pub fn shard() -> Option<Shard> {
    let text = std::env::var(SHARD).ok()?;
    let parts = text.split_once('/').and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)));
    let (at, of) = parts.expect("a shard is AT/OF");
    Some(Shard { at, of })
}

/// Runs the test `name` of this program under callgrind, in `shards` processes, and fails if one of its cases does.
///
/// # Panics
/// If a case fails, none is measured, or valgrind is not there.
pub fn run_under_valgrind(name: &str, shards: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let start = |at: usize| {
        let own = directory.path().join(at.to_string());
        std::fs::create_dir(&own).expect("a directory of its own");
        let child = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet", "--dump-line=no", "--dump-instr=no", "--collect-jumps=no"])
            .arg("--collect-atstart=no")
            .arg(format!("--toggle-collect={MEASURED}"))
            .arg(format!("--dump-after={MEASURED}"))
            .arg(format!("--callgrind-out-file={}", own.join("dump").display()))
            .arg(std::env::current_exe().expect("the path of this program"))
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, own)
            .env(SHARD, format!("{at}/{shards}"))
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

/// Counts instructions, in a process that runs under callgrind.
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
    /// The counter of this process; there must be no second one.
    ///
    /// # Panics
    /// If the process does not run under callgrind.
    #[must_use]
    pub fn new() -> Counter {
        let directory = std::env::var_os(DIRECTORY).expect("measured processes run under callgrind");
        Counter { directory: directory.into(), dumps: 0 }
    }

    /// Runs something, and returns what it gives and the instructions that it took.
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

/// The rest of the last line that begins with `start`.
fn last_line<'a>(text: &'a [u8], start: &[u8]) -> &'a [u8] {
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(start)).expect("a dump has totals")
}

/// The only function whose instructions are counted; see [`MEASURED`].
#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
}
