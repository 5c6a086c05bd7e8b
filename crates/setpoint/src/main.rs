//! The `setpoint` binary: flags, wiring, terminal output. The substance is in the library crates.

mod clock;
mod commands;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// A write makes and drops some hundreds of small values, on several threads: the system's allocator takes a fifth of
/// its time for that, this one less than half as much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// After how long memory that is not used goes back to the system: of a burst of writes much is left over, and idle
/// servers should be small. Sooner costs more CPU than it is worth.
const GIVE_BACK_AFTER: Duration = Duration::from_millis(10);

/// A control plane that speaks the Kubernetes API.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the control plane
    Up(Box<commands::up::Arguments>),
    /// Run a part of the control plane in a process of its own
    Run(commands::run::Arguments),
    /// Simulated nodes, and what happens to nodes
    Node(commands::node::Arguments),
    /// Look after a data directory
    Store(commands::store::Arguments),
}

fn main() -> ExitCode {
    setpoint_sys::give_back_memory_after(GIVE_BACK_AFTER);
    let outcome = match Arguments::parse().command {
        Command::Up(arguments) => commands::up::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Node(arguments) => commands::node::run(&arguments),
        Command::Store(arguments) => commands::store::run(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, whatever the depth of the cause, so that it can be read in a log.
            eprintln!("setpoint: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// The causes of an error, each once: many errors already tell their source.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
