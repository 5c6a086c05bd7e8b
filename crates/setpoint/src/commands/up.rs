//! `setpoint up`: the main job.
//!
//! Until the API server exists, it opens the store, says what it holds, and says plainly what is not there.

use std::path::PathBuf;

use setpoint_store::Store;

use super::store::open;
use super::{counted, default_data_dir, human_bytes};

/// What can be said to `setpoint up`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where to keep everything [default: the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep everything in memory, and nothing after the end
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (store, place) = if arguments.ephemeral {
        (Store::in_memory(setpoint_store::Retention::default()), "in memory".to_owned())
    } else {
        let dir = arguments.data_dir.clone().map_or_else(default_data_dir, Ok)?;
        (open(&dir)?, format!("in {}", dir.display()))
    };
    let stat = store.stat();
    println!(
        "store: {} ({}) at revision {}, {place}",
        counted(stat.objects, "object"),
        human_bytes(stat.bytes),
        stat.revision
    );
    println!(
        "The store is all there is so far: the Kubernetes API, controllers, scheduler and nodes are not built yet."
    );
    Ok(())
}
