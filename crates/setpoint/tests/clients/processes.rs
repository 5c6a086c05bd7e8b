//! Helper processes, and polling with kubectl.

use std::process::{Child, Command, Stdio};

use super::server::{Server, clients_dir};

/// Maximum number of polls. Each takes tens of milliseconds, so this is half a minute and more.
const POLLS_MAX: usize = 600;

/// Process that is killed with the test.
pub struct ChildProcess(pub Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs controllers in their own process, with these args.
pub fn run_controllers(server: &Server, args: &[&str]) -> ChildProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command.args(["run", "controllers"]).args(args).arg("--kubeconfig").arg(&server.kubeconfig);
    command.stdout(Stdio::null());
    ChildProcess(command.spawn().unwrap())
}

/// Returns the output of kubectl.
pub fn kubectl(server: &Server, args: &[&str]) -> String {
    let mut command = Command::new(clients_dir().join("kubectl/kubectl"));
    server.run(command.args(args), "").1
}

/// Polls until the output is the expected one.
#[track_caller]
pub fn wait_for(server: &Server, args: &[&str], expected: impl Fn(&str) -> bool) -> String {
    let mut output = String::new();
    for _ in 0..POLLS_MAX {
        output = kubectl(server, args);
        if expected(&output) {
            return output;
        }
    }
    panic!("kubectl {} kept printing: {output}", args.join(" "));
}
