//! Instructions of a request, counted by callgrind.
//!
//! Collection is on only inside [`measured_request`], and callgrind writes a dump whenever that function returns. The
//! process that is measured reads its own dumps, so that the next case can depend on the counts.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue, Method};
use setpoint_api::{ManualClock, Time};
use setpoint_server::api::{Api, Options, service};
use setpoint_server::exchange::{Body, Identity, Request, Response, Service};
use setpoint_store::{Retention, Store};

/// Where the dumps go; set for processes that are measured.
const DIRECTORY: &str = "SETPOINT_COST_DIRECTORY";
/// Number of the process, and how many there are.
const SHARD: &str = "SETPOINT_COST_SHARD";

/// The function whose instructions are counted, as callgrind calls it: it takes no pattern here.
const MEASURED: &str = "cost::meter::measured_request";

/// Share of the cases that a process measures: every case whose number modulo `of` is `at`.
#[derive(Clone, Copy)]
pub struct Shard {
    at: usize,
    of: usize,
}

impl Shard {
    /// `true` if this process measures the case.
    pub fn has(self, case: usize) -> bool {
        case % self.of == self.at
    }
}

/// The share of this process, if it runs under callgrind.
pub fn shard() -> Option<Shard> {
    let text = std::env::var(SHARD).ok()?;
    let (at, of) = text.split_once('/').unwrap();
    Some(Shard { at: at.parse().unwrap(), of: of.parse().unwrap() })
}

/// Runs the test `name` of this program under callgrind, in `shards` processes, and fails if one of its cases does.
pub fn run_under_valgrind(name: &str, shards: usize) {
    let directory = tempfile::tempdir().unwrap();
    let start = |at: usize| {
        let own = directory.path().join(at.to_string());
        std::fs::create_dir(&own).unwrap();
        let child = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet", "--dump-line=no", "--dump-instr=no", "--collect-jumps=no"])
            .arg("--collect-atstart=no")
            .arg(format!("--toggle-collect={MEASURED}"))
            .arg(format!("--dump-after={MEASURED}"))
            .arg(format!("--callgrind-out-file={}", own.join("dump").display()))
            .arg(std::env::current_exe().unwrap())
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
        let output = child.wait_with_output().unwrap();
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
    assert!(failed.is_empty(), "cost grows faster than the request:\n{}", failed.join("\n"));
}

/// A request as a case writes it.
pub struct Call<'a> {
    pub method: Method,
    pub path: &'a str,
    pub content_type: &'a str,
    pub accept: &'a str,
    pub body: Vec<u8>,
}

impl<'a> Call<'a> {
    pub fn new(method: Method, path: &'a str, body: Vec<u8>) -> Call<'a> {
        Call { method, path, content_type: "application/json", accept: "application/json", body }
    }
}

/// The API, and the counter of its instructions.
pub struct Meter {
    api: Api,
    runtime: tokio::runtime::Runtime,
    directory: PathBuf,
    dumps: usize,
}

impl Meter {
    pub fn new() -> Meter {
        let count = AtomicU64::new(1);
        let options = Options {
            clock: Arc::new(ManualClock::new(Time::from_seconds(1_800_000_000))),
            entropy: Arc::new(move || count.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)),
            address: "127.0.0.1:6443".into(),
            advertised: None,
            service_ranges: Vec::new(),
            tolerations: Default::default(),
        };
        let api = service(Store::in_memory(Retention::default()), options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Meter { api, runtime, directory: std::env::var_os(DIRECTORY).unwrap().into(), dumps: 0 }
    }

    fn request(call: Call<'_>) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_str(call.content_type).unwrap());
        headers.insert("accept", HeaderValue::from_str(call.accept).unwrap());
        headers.insert("user-agent", HeaderValue::from_static("tester/1"));
        let (path, query) = call.path.split_once('?').unwrap_or((call.path, ""));
        Request {
            method: call.method,
            path: path.into(),
            query: query.into(),
            headers,
            body: call.body.into(),
            identity: Identity { user: "ann".into(), groups: vec!["system:masters".into()] },
        }
    }

    /// Sends a request without counting.
    pub fn call(&self, call: Call<'_>) -> (u16, Vec<u8>) {
        shown(self.runtime.block_on(self.api.answer(Self::request(call))))
    }

    /// Sends a request, and returns the status code and the instructions that it took.
    pub fn count(&mut self, call: Call<'_>) -> (u16, u64) {
        let request = Self::request(call);
        let answer = measured_request(&self.runtime, &self.api, request);
        let code = answer.status.as_u16();
        drop(answer);
        self.dumps += 1;
        let path = self.directory.join(format!("dump.{}", self.dumps));
        let dump = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        std::fs::remove_file(&path).unwrap();
        let at = last_line(&dump, b"totals: ");
        let count = std::str::from_utf8(at).unwrap().trim().parse().unwrap();
        (code, count)
    }
}

/// The rest of the last line that begins with `start`.
fn last_line<'a>(text: &'a [u8], start: &[u8]) -> &'a [u8] {
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(start)).expect("a dump has totals")
}

/// The only function whose instructions are counted; see [`MEASURED`].
#[inline(never)]
fn measured_request(runtime: &tokio::runtime::Runtime, api: &Api, request: Request) -> Response {
    runtime.block_on(api.answer(request))
}

fn shown(answer: Response) -> (u16, Vec<u8>) {
    let mut out = Vec::new();
    if let Body::Whole(parts) = &answer.body {
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
    (answer.status.as_u16(), out)
}
