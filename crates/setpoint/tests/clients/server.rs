//! Test server: `setpoint up` as a process with a temporary data directory, and clients that run against it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Directory in which `scripts/test` installs clients.
pub fn clients_dir() -> PathBuf {
    let found = std::env::var_os("SETPOINT_CLIENTS");
    found.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients"), PathBuf::from)
}

/// Running server; killed on drop.
pub struct Server {
    child: Child,
    /// Path of the admin kubeconfig.
    pub kubeconfig: PathBuf,
    dir: tempfile::TempDir,
}

/// Program under test: that of `SETPOINT_BINARY`, or the one that was built with the tests.
fn setpoint() -> Command {
    Command::new(std::env::var_os("SETPOINT_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_setpoint").into()))
}

/// Starts a server with these args, and waits until it is ready.
fn spawn_server(dir: &Path, args: &[&str]) -> Child {
    let mut child = setpoint()
        .args(["up", "--port", "0"])
        .args(args)
        .arg("--data-dir")
        .arg(dir.join("data"))
        .arg("--kubeconfig")
        .arg(dir.join("kubeconfig"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("ready")));
    assert!(ready.is_some(), "the server ended without the line `ready`");
    // Drain the output, so that it cannot fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// Arguments for a server without controllers and nodes, which leaves the objects of clients unchanged.
pub const WITHOUT_CONTROLLERS: &[&str] = &["--controllers=", "--nodes=0"];

impl Server {
    /// Starts a server with [`WITHOUT_CONTROLLERS`], whose first commits are compacted as if it had run for long: a client
    /// that requests revision 1 gets 410 Gone.
    pub fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let mut child = spawn_server(dir.path(), WITHOUT_CONTROLLERS);
        child.kill().unwrap();
        child.wait().unwrap();
        let compact = setpoint()
            .args(["store", "compact", "--data-dir"])
            .arg(dir.path().join("data"))
            .output()
            .unwrap();
        assert!(compact.status.success(), "{compact:?}");
        Server {
            child: spawn_server(dir.path(), WITHOUT_CONTROLLERS),
            kubeconfig: dir.path().join("kubeconfig"),
            dir,
        }
    }

    /// Starts a new server with these args.
    pub fn start_with(args: &[&str]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        Server { child: spawn_server(dir.path(), args), kubeconfig: dir.path().join("kubeconfig"), dir }
    }

    /// Kills the server with SIGKILL, and starts another on its data.
    pub fn kill_and_restart(&mut self, args: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn_server(self.dir.path(), args);
    }

    /// Returns the process id of the server.
    #[allow(dead_code, reason = "only some of the tests that share this file look at the process")]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Directory for files of the test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a client to its end. Returns its success and its output.
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
        // A client that rejects its arguments does not read its input.
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
