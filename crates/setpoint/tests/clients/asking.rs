//! Helper processes, and polling with kubectl.

use std::process::{Child, Command, Stdio};

use super::server::{Server, installed};

/// Maximum number of polls. Each takes tens of milliseconds, so this is half a minute and more.
const ASKS_MAX: usize = 600;

/// Process that is killed with the test.
pub struct Loop(pub Child);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs controllers in their own process, with these arguments.
pub fn run_controllers(server: &Server, arguments: &[&str]) -> Loop {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command.args(["run", "controllers"]).args(arguments).arg("--kubeconfig").arg(&server.kubeconfig);
    command.stdout(Stdio::null());
    Loop(command.spawn().unwrap())
}

/// Returns the output of kubectl.
pub fn kubectl(server: &Server, arguments: &[&str]) -> String {
    let mut command = Command::new(installed().join("kubectl/kubectl"));
    server.run(command.args(arguments), "").1
}

/// Polls until the output is the expected one.
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
