//! Programs beside a server, and kubectl that asks until the answer is right.

use std::process::{Child, Command, Stdio};

use super::server::{Server, installed};

/// How often a client asks before it gives up. Each time takes tens of milliseconds, so this is half a minute and more.
const ASKS_MAX: usize = 600;

/// A process that ends, without a warning, with the test.
pub struct Loop(pub Child);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs controllers in a process of their own, with these arguments.
pub fn run_controllers(server: &Server, arguments: &[&str]) -> Loop {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command.args(["run", "controllers"]).args(arguments).arg("--kubeconfig").arg(&server.kubeconfig);
    command.stdout(Stdio::null());
    Loop(command.spawn().unwrap())
}

/// What kubectl says.
pub fn kubectl(server: &Server, arguments: &[&str]) -> String {
    let mut command = Command::new(installed().join("kubectl/kubectl"));
    server.run(command.args(arguments), "").1
}

/// Asks until the answer is the expected one.
#[track_caller]
pub fn wait_for(server: &Server, arguments: &[&str], expected: impl Fn(&str) -> bool) -> String {
    let mut said = String::new();
    for _ in 0..ASKS_MAX {
        said = kubectl(server, arguments);
        if expected(&said) {
            return said;
        }
    }
    panic!("kubectl {} went on saying: {said}", arguments.join(" "));
}
