//! `setpoint` binary: flags, wiring, terminal output. The functionality is in the library crates.

mod clock;
mod commands;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// A write allocates and frees some hundreds of small values on several threads. The system allocator takes
/// a fifth of the write's time for that, mimalloc less than half as much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Delay after which unused memory is returned to the system: bursts of writes leave much of it, and idle
/// servers should be small. A shorter delay costs more CPU than it is worth.
const PURGE_DELAY: Duration = Duration::from_millis(10);

/// A control plane that speaks the Kubernetes API.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Allow core dumps and debuggers of the same user; both see keys, tokens and Secrets
    #[arg(long, global = true)]
    allow_core_dumps: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the control plane
    Up(Box<commands::up::UpArgs>),
    /// Run a part of the control plane in its own process
    Run(commands::run::RunArgs),
    /// Run simulated nodes, or control their power and network
    Node(commands::node::NodeArgs),
    /// Inspect and maintain a data directory
    Store(commands::store::StoreArgs),
    /// List certificates with their expiry
    Certs(commands::certs::CertsArgs),
    /// Issue client certificates for users
    Users(commands::users::UsersArgs),
    /// Request a service account token
    Token(commands::token::TokenArgs),
}

fn main() -> ExitCode {
    setpoint_sys::set_purge_delay(PURGE_DELAY);
    let cli = Cli::parse();
    if !cli.allow_core_dumps {
        setpoint_sys::forbid_core_dumps();
    }
    let outcome = match cli.command {
        Command::Up(args) => commands::up::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Node(args) => commands::node::run(&args),
        Command::Store(args) => commands::store::run(args),
        Command::Certs(args) => commands::certs::run(&args),
        Command::Users(args) => commands::users::run(&args),
        Command::Token(args) => commands::token::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line for the whole chain of causes, so that it fits a log.
            eprintln!("setpoint: {}", join_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// Joins the causes of an error, each once: many errors already contain their source.
fn join_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
