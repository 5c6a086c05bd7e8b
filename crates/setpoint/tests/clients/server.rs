//! A server in a directory of its own, and how to run a client against it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where `scripts/test` puts clients.
pub fn installed() -> PathBuf {
    let found = std::env::var_os("SETPOINT_CLIENTS");
    found.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients"), PathBuf::from)
}

/// A server that is ready. It ends with the test.
pub struct Server {
    child: Child,
    /// Where clients find it.
    pub kubeconfig: PathBuf,
    dir: tempfile::TempDir,
}

fn setpoint() -> Command {
    Command::new(env!("CARGO_BIN_EXE_setpoint"))
}

/// Starts a server with these arguments, and waits until it is ready.
fn up(dir: &Path, arguments: &[&str]) -> Child {
    let mut child = setpoint()
        .args(["up", "--port", "0"])
        .args(arguments)
        .arg("--data-dir")
        .arg(dir.join("data"))
        .arg("--kubeconfig")
        .arg(dir.join("kubeconfig"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("ready")));
    assert!(ready.is_some(), "the server never said that it is ready");
    // Whatever else it says must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// A server without controllers and nodes leaves what a client has written as it is.
pub const ALONE: &[&str] = &["--controllers=", "--nodes=0"];

impl Server {
    /// A server that is alone, and whose first commits are before all history, as if it had run for long: a client
    /// that asks for revision 1 is told that it is gone.
    pub fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let mut child = up(dir.path(), ALONE);
        child.kill().unwrap();
        child.wait().unwrap();
        let compact = setpoint()
            .args(["store", "compact", "--data-dir"])
            .arg(dir.path().join("data"))
            .output()
            .unwrap();
        assert!(compact.status.success(), "{compact:?}");
        Server { child: up(dir.path(), ALONE), kubeconfig: dir.path().join("kubeconfig"), dir }
    }

    /// A new server with these arguments.
    pub fn with(arguments: &[&str]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        Server { child: up(dir.path(), arguments), kubeconfig: dir.path().join("kubeconfig"), dir }
    }

    /// Kills it without a warning, and starts another on its data.
    pub fn kill_and_restart(&mut self, arguments: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = up(self.dir.path(), arguments);
    }

    /// Returns the process id of the server.
    #[allow(dead_code, reason = "only some of the tests that share this file look at the process")]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A directory for files of the test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a client to its end: whether it succeeded, and all it said.
    pub fn run(&self, client: &mut Command, input: &str) -> (bool, String) {
        let mut child = client
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{client:?} cannot be started, scripts/test installs it: {error}")
            });
        // A client that refuses its arguments does not read.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
