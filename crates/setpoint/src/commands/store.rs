//! `setpoint store`: inspection and maintenance of a data directory.

mod exercise;
mod lines;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use setpoint_api::{Clock, Resource, Revision};
use setpoint_store::disk::{Disk, OsDisk};
use setpoint_store::log::disk::{DiskLog, DiskOptions, DiskReader, files::Files};
use setpoint_store::log::{LogError, LogReader, rebuild};
use setpoint_store::{Retention, Snapshot, Store};

use super::{counted, human_bytes};
use crate::clock::{SystemClock, entropy};

/// Maximum number of attempts of an export, which restarts when compaction removes its base.
const EXPORT_ATTEMPTS_MAX: u32 = 5;

/// Resources without history: heartbeats and Events are most of the writes of an idle cluster.
const HIGH_CHURN: [&str; 2] = ["events", "leases.coordination.k8s.io"];

/// Minimum bytes of commits that make a checkpoint due, also with a small history budget.
const COMPACT_BYTES_LEAST: u64 = 4 << 20;

/// Arguments of `setpoint store`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read all files and report the first damage
    Check(Place),
    /// Show the contents of a data directory, also while a server runs
    Stat(Place),
    /// Fold all commits into a checkpoint, and drop history beyond its budget
    Compact(Place),
    /// Write all objects as JSON lines, at one revision, also while a server runs
    Export {
        #[command(flatten)]
        place: Place,
        /// File to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Fill an empty data directory from an export
    Import {
        #[command(flatten)]
        place: Place,
        /// File to read [default: standard input]
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
    },
    /// Write continuously and print acknowledgements, to test a disk with kill -9
    Exercise(exercise::Arguments),
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.action {
        Action::Check(place) => check(&place.data_dir),
        Action::Stat(place) => stat(&place.data_dir),
        Action::Compact(place) => compact(&place.data_dir),
        Action::Export { place, output } => export(&place.data_dir, output.as_deref()),
        Action::Import { place, input } => import(&place.data_dir, input.as_deref()),
        Action::Exercise(arguments) => exercise::run(&arguments),
    }
}

/// Opens the store in `dir` exclusively. The process exits if the log fails.
pub fn open(dir: &Path, retention: Retention) -> anyhow::Result<Store> {
    let exempt = HIGH_CHURN.iter().filter_map(|name| Resource::new(name).ok()).collect();
    let defaults = DiskOptions::default();
    // With a small history budget, checkpoints are frequent, so that live segments stay small as well.
    let compact_bytes_min = defaults.compact_bytes_min.min(retention.cold_bytes.max(COMPACT_BYTES_LEAST));
    let retention = Retention { exempt, ..retention };
    open_with(dir, DiskOptions { retention, compact_bytes_min, entropy: entropy(), ..defaults })
}

fn open_with(dir: &Path, options: DiskOptions) -> anyhow::Result<Store> {
    let disk = OsDisk::exclusive(dir)?;
    let retention = options.retention.clone();
    let log = DiskLog::new(Arc::new(disk), options);
    let store = Store::open(Box::new(log), retention, die)?;
    Ok(store)
}

/// Exits: after a failure of the log it is unknown which commits are durable, so no request may be answered.
fn die(error: &LogError) {
    eprintln!("setpoint: the store has failed and the process ends: {error}");
    std::process::exit(1);
}

/// Rejects a directory that does not exist, before opening would create it.
fn existing(dir: &Path) -> anyhow::Result<()> {
    ensure!(dir.is_dir(), "{} is not a directory", dir.display());
    Ok(())
}

fn check(dir: &Path) -> anyhow::Result<()> {
    existing(dir)?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::exclusive(dir)?);
    let files = Files::list(&disk)?;
    let revision = DiskReader::new(disk).check()?;
    let count = files.segments.len() + files.history.len() + files.checkpoints.len();
    println!("{} read, all whole, newest revision {revision}", counted(count, "file"));
    Ok(())
}

fn stat(dir: &Path) -> anyhow::Result<()> {
    existing(dir)?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::read_only(dir)?);
    let snapshot = newest(&disk)?;
    let files = Files::list(&disk)?;
    println!("revision   {}", snapshot.revision());
    println!("reaches to {}", files.floor());
    println!("objects    {} ({})", snapshot.len(), human_bytes(snapshot.bytes()));
    for (noun, kind) in
        [("segment", &files.segments), ("history", &files.history), ("checkpoint", &files.checkpoints)]
    {
        let lengths = kind.iter().map(|file| disk.open(&file.name()).and_then(|opened| opened.length()));
        let bytes: u64 = lengths.map(|length| length.unwrap_or(0)).sum();
        println!("{noun:<10} {} ({})", counted(kind.len(), "file"), human_bytes(bytes));
    }
    let width = snapshot.tables().map(|(resource, _)| resource.as_str().len()).max().unwrap_or(0);
    for (resource, table) in snapshot.tables().filter(|(_, table)| !table.is_empty()) {
        println!("  {:<width$}  {} ({})", resource.as_str(), table.len(), human_bytes(table.bytes()));
    }
    Ok(())
}

fn compact(dir: &Path) -> anyhow::Result<()> {
    existing(dir)?;
    let store = open(dir, Retention::default())?;
    store.compact(SystemClock.now())?;
    let stat = store.stat();
    println!(
        "compacted at revision {}: checkpoint {}, history {}",
        stat.revision,
        human_bytes(stat.log.base_bytes),
        human_bytes(stat.log.history_bytes)
    );
    Ok(())
}

/// Returns the newest state on a disk that another process may be writing.
fn newest(disk: &Arc<dyn Disk>) -> anyhow::Result<Snapshot> {
    let mut reader: Box<dyn LogReader> = Box::new(DiskReader::new(Arc::clone(disk)));
    for _ in 0..EXPORT_ATTEMPTS_MAX {
        match rebuild(&mut *reader, Revision(u64::MAX)) {
            Err(LogError::Compacted { .. }) => {}
            other => return Ok(other?),
        }
    }
    bail!("compaction was faster than reading, {EXPORT_ATTEMPTS_MAX} times: try again")
}

fn export(dir: &Path, output: Option<&Path>) -> anyhow::Result<()> {
    existing(dir)?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::read_only(dir)?);
    let snapshot = newest(&disk)?;
    let sink: Box<dyn Write> = match output {
        Some(path) => {
            Box::new(private_file(path).with_context(|| format!("cannot write {}", path.display()))?)
        }
        None => Box::new(std::io::stdout().lock()),
    };
    let mut sink = BufWriter::new(sink);
    lines::write(&snapshot, &mut sink).and_then(|()| sink.flush()).context("cannot write the export")?;
    eprintln!("exported {} at revision {}", counted(snapshot.len(), "object"), snapshot.revision());
    Ok(())
}

/// Creates a file with mode 0600, also if it exists, because an export contains every Secret.
fn private_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

fn import(dir: &Path, input: Option<&Path>) -> anyhow::Result<()> {
    let source: Box<dyn BufRead> = match input {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(std::io::stdin().lock()),
    };
    let snapshot = lines::read(source)?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::exclusive(dir)?);
    ensure!(
        DiskLog::start_from(&disk, entropy(), &snapshot)?,
        "{} already holds a store: import into an empty directory",
        dir.display()
    );
    println!("imported {} at revision {}", counted(snapshot.len(), "object"), snapshot.revision());
    Ok(())
}
