//! `setpoint store`: inspection and maintenance of a data directory.

mod exercise;
mod export;
mod sealed;

use std::collections::BTreeMap;
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
use setpoint_store::{Retention, Sealer, Snapshot, Store};

use self::sealed::Unopened;
use super::encryption::EncryptionArgs;
use super::{counted, human_bytes};
use crate::clock::{SystemClock, entropy};

/// Maximum number of attempts of an export, which restarts when compaction removes its base.
const EXPORT_ATTEMPTS_MAX: u32 = 5;

/// Resources without history: heartbeats and Events are most of the writes of an idle cluster.
const HIGH_CHURN: [&str; 2] = ["events", "leases.coordination.k8s.io"];

/// Minimum bytes of commits that make a checkpoint due, also with a small history budget.
const COMPACT_BYTES_MIN: u64 = 4 << 20;

/// Arguments of `setpoint store`.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read all files and report the first damage
    Check(DataDirArgs),
    /// Show the contents of a data directory, also while a server runs
    Stat(DataDirArgs),
    /// Fold all commits into a checkpoint, and drop history beyond its budget
    Compact {
        #[command(flatten)]
        dir: DataDirArgs,
        /// Maximum bytes of history to keep
        #[arg(long, value_name = "BYTES", default_value_t = Retention::default().cold_bytes)]
        history_bytes: u64,
    },
    /// Write all objects as JSON lines, at one revision, also while a server runs
    Export {
        #[command(flatten)]
        dir: DataDirArgs,
        /// File to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Fill an empty data directory from an export
    Import {
        #[command(flatten)]
        dir: DataDirArgs,
        /// File to read [default: standard input]
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
    },
    /// Write continuously and print acknowledgements, to test a disk with kill -9
    Exercise(exercise::ExerciseArgs),
}

#[derive(Debug, clap::Args)]
struct DataDirArgs {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    #[command(flatten)]
    encryption: EncryptionArgs,
}

impl DataDirArgs {
    /// Returns the sealer of the configuration, if there is one.
    fn sealer(&self) -> anyhow::Result<Option<Arc<dyn Sealer>>> {
        Ok(self.encryption.open()?.map(|encryption| encryption.sealer()))
    }
}

/// Runs the command.
pub fn run(args: StoreArgs) -> anyhow::Result<()> {
    match args.command {
        StoreCommand::Check(dir) => check(&dir.data_dir, dir.sealer()?),
        StoreCommand::Stat(dir) => stat(&dir.data_dir, &dir.encryption),
        StoreCommand::Compact { dir, history_bytes } => compact(&dir.data_dir, dir.sealer()?, history_bytes),
        StoreCommand::Export { dir, output } => export(&dir.data_dir, dir.sealer()?, output.as_deref()),
        StoreCommand::Import { dir, input } => import(&dir.data_dir, dir.sealer()?, input.as_deref()),
        StoreCommand::Exercise(args) => exercise::run(&args),
    }
}

/// Opens the store in `dir` exclusively. The process exits if the log fails.
pub fn open(dir: &Path, retention: Retention, sealer: Option<Arc<dyn Sealer>>) -> anyhow::Result<Store> {
    let exempt = HIGH_CHURN.iter().filter_map(|name| Resource::new(name).ok()).collect();
    let defaults = DiskOptions::default();
    // With a small history budget, checkpoints are frequent, so that live segments stay small as well.
    let compact_bytes_min = defaults.compact_bytes_min.min(retention.cold_bytes.max(COMPACT_BYTES_MIN));
    let retention = Retention { exempt, ..retention };
    open_with(dir, DiskOptions { retention, compact_bytes_min, entropy: entropy(), sealer, ..defaults })
}

fn open_with(dir: &Path, options: DiskOptions) -> anyhow::Result<Store> {
    let disk = OsDisk::exclusive(dir)?;
    let retention = options.retention.clone();
    let log = DiskLog::new(Arc::new(disk), options);
    let store = Store::open(Box::new(log), retention, exit_on_failure)?;
    Ok(store)
}

/// Exits: after a failure of the log it is unknown which commits are durable, so no request may be answered.
fn exit_on_failure(error: &LogError) {
    eprintln!("setpoint: store failed, exiting: {error}");
    std::process::exit(1);
}

/// Rejects a directory that does not exist, before opening would create it.
fn ensure_directory(dir: &Path) -> anyhow::Result<()> {
    ensure!(dir.is_dir(), "{} is not a directory", dir.display());
    Ok(())
}

fn check(dir: &Path, sealer: Option<Arc<dyn Sealer>>) -> anyhow::Result<()> {
    ensure_directory(dir)?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::exclusive(dir)?);
    let files = Files::list(&disk)?;
    let revision = DiskReader::new(disk).with_sealer(sealer).check()?;
    let count = files.segments.len() + files.history.len() + files.checkpoints.len();
    println!("checked {}: no damage found, newest revision {revision}", counted(count, "file"));
    Ok(())
}

fn stat(dir: &Path, encryption: &EncryptionArgs) -> anyhow::Result<()> {
    ensure_directory(dir)?;
    // The values are not needed, so sealed ones are not opened.
    encryption.validate()?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::read_only(dir)?);
    let unopened = Arc::new(Unopened::default());
    let snapshot = read_newest(&disk, Some(Arc::clone(&unopened) as _))?;
    unopened.take_counts();
    let files = Files::list(&disk)?;
    println!("revision   {}", snapshot.revision());
    println!("oldest     {}", files.floor());
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
    for (key, count) in sealed_counts(&disk, &files, &unopened)? {
        println!("sealed     {} with key {key}", counted(count.try_into().unwrap_or(usize::MAX), "write"));
    }
    Ok(())
}

/// Counts the sealed writes in all files, history included, by key.
fn sealed_counts(
    disk: &Arc<dyn Disk>,
    files: &Files,
    unopened: &Arc<Unopened>,
) -> anyhow::Result<BTreeMap<Arc<str>, u64>> {
    let mut reader = DiskReader::new(Arc::clone(disk)).with_sealer(Some(Arc::clone(unopened) as _));
    let read = (|| {
        for checkpoint in &files.checkpoints {
            reader.base(checkpoint.first)?;
        }
        reader.tail(files.floor(), Revision(u64::MAX), &mut |_| ())
    })();
    match read {
        // Files were compacted meanwhile, so the numbers are those of some moment.
        Ok(()) | Err(LogError::Compacted { .. }) => Ok(unopened.take_counts()),
        Err(error) => Err(error.into()),
    }
}

fn compact(dir: &Path, sealer: Option<Arc<dyn Sealer>>, history_bytes: u64) -> anyhow::Result<()> {
    ensure_directory(dir)?;
    let retention = Retention { cold_bytes: history_bytes, ..Retention::default() };
    let store = open(dir, retention, sealer)?;
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
fn read_newest(disk: &Arc<dyn Disk>, sealer: Option<Arc<dyn Sealer>>) -> anyhow::Result<Snapshot> {
    let reader = DiskReader::new(Arc::clone(disk)).with_sealer(sealer);
    let mut reader: Box<dyn LogReader> = Box::new(reader);
    for _ in 0..EXPORT_ATTEMPTS_MAX {
        match rebuild(&mut *reader, Revision(u64::MAX)) {
            Err(LogError::Compacted { .. }) => {}
            other => return Ok(other?),
        }
    }
    bail!("files were compacted during each of {EXPORT_ATTEMPTS_MAX} attempts to read them: retry")
}

fn export(dir: &Path, sealer: Option<Arc<dyn Sealer>>, output: Option<&Path>) -> anyhow::Result<()> {
    ensure_directory(dir)?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::read_only(dir)?);
    // Without keys, sealed objects are copied as they are.
    let unopened = Arc::new(Unopened::keeping());
    let reading = sealer.clone().unwrap_or_else(|| Arc::clone(&unopened) as _);
    let snapshot = read_newest(&disk, Some(reading))?;
    let seals = match &sealer {
        Some(sealer) => export::Seals::New(&**sealer),
        None => export::Seals::Copied(unopened.take_writes()),
    };
    let destination: Box<dyn Write> = match output {
        Some(path) => {
            Box::new(private_file(path).with_context(|| format!("cannot write {}", path.display()))?)
        }
        None => Box::new(std::io::stdout().lock()),
    };
    let mut out = BufWriter::new(destination);
    export::write(&snapshot, &seals, &mut out)
        .and_then(|()| out.flush())
        .context("cannot write the export")?;
    eprintln!("exported {} at revision {}", counted(snapshot.len(), "object"), snapshot.revision());
    Ok(())
}

/// Creates a file with mode 0600, also if it exists, because an export contains every Secret
/// that is not encrypted.
fn private_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

fn import(dir: &Path, sealer: Option<Arc<dyn Sealer>>, input: Option<&Path>) -> anyhow::Result<()> {
    let source: Box<dyn BufRead> = match input {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(std::io::stdin().lock()),
    };
    let snapshot = export::read(source, sealer.as_deref())?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::exclusive(dir)?);
    ensure!(
        DiskLog::start_from(&disk, entropy(), &snapshot, sealer.as_deref())?,
        "{} already holds a store: import into an empty directory",
        dir.display()
    );
    println!("imported {} at revision {}", counted(snapshot.len(), "object"), snapshot.revision());
    Ok(())
}
