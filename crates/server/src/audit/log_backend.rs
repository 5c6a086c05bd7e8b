//! Log backend: a thread of its own writes events to a rotated file or to the standard output.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use setpoint_api::Clock;

use super::backend::{AuditBackend, BackendThread, ThreadGuard};
use super::metrics::{AuditMetrics, FailedPlugin};
use super::options::{AuditLogOptions, BatchOptions, LogTarget, Mode, RotationOptions};
use super::queue::{BatchBounds, EventQueue};
use super::rotation::{self, RotatedFile};
use super::throttle::Throttle;

/// Events that are written at once.
const WRITE_EVENTS_MAX: usize = 4096;
/// Bytes that are written at once, plus one event.
const WRITE_BYTES_MAX: usize = 4 << 20;
/// Time in which events of the mode `batch` are collected if batches have one event, upstream's default: writes are
/// shared, and requests rarely wake the thread.
const COLLECT_TIME: Duration = Duration::from_millis(10);

/// Opens the log, and starts its thread.
///
/// # Errors
/// If the file cannot be opened, or the thread cannot be started.
pub fn open_log(
    options: AuditLogOptions,
    clock: Arc<dyn Clock>,
    metrics: &Arc<AuditMetrics>,
) -> io::Result<AuditBackend> {
    let AuditLogOptions { target, format, mode, truncation } = options;
    let sink = match target {
        LogTarget::Stdout => LogSink::Stdout,
        LogTarget::File(path, rotation) => {
            let file = RotatedFile::open(&path, rotation)?;
            LogSink::File(file, start_cleaner(path, rotation, Arc::clone(&clock))?)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let queue = AuditBackend::queue(&mode);
    let (thread, guard) = BackendThread::pair();
    let mut writer = LogWriter {
        sink,
        queue: Arc::clone(&queue),
        metrics: Arc::clone(metrics),
        clock,
        mode: mode.clone(),
        bytes_max: truncation.map_or(WRITE_BYTES_MAX, |it| it.max_batch_bytes.min(WRITE_BYTES_MAX)),
        guard,
    };
    let builder = std::thread::Builder::new().name("audit-log".to_owned());
    builder.spawn(move || runtime.block_on(writer.run()))?;
    Ok(AuditBackend::with_thread((format, mode), truncation, queue, Arc::clone(metrics), thread))
}

/// Starts the thread that removes and compresses old files whenever the file was rotated. It ends with the sender.
fn start_cleaner(
    path: PathBuf,
    rotation: RotationOptions,
    clock: Arc<dyn Clock>,
) -> io::Result<SyncSender<()>> {
    let (sender, rotated) = sync_channel(1);
    let clean_up = move || {
        if let Err(error) = rotation::clean_up(&path, rotation, clock.now()) {
            tracing::warn!(%error, path = %path.display(), "old audit logs were not cleaned up");
        }
    };
    let builder = std::thread::Builder::new().name("audit-log-clean".to_owned());
    builder.spawn(move || {
        clean_up();
        rotated.iter().for_each(|()| clean_up());
    })?;
    Ok(sender)
}

enum LogSink {
    Stdout,
    File(RotatedFile, SyncSender<()>),
}

impl LogSink {
    fn write(&mut self, events: &[Bytes], clock: &dyn Clock) -> io::Result<()> {
        match self {
            LogSink::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(&events.concat())?;
                out.flush()
            }
            LogSink::File(file, rotated) => {
                if file.write(events, || clock.now())? {
                    // A cleaner that is busy looks again afterwards.
                    let _ = rotated.try_send(());
                }
                Ok(())
            }
        }
    }
}

struct LogWriter {
    sink: LogSink,
    queue: Arc<EventQueue>,
    metrics: Arc<AuditMetrics>,
    clock: Arc<dyn Clock>,
    mode: Mode,
    /// Bytes that are written at once, plus one event.
    bytes_max: usize,
    guard: ThreadGuard,
}

impl LogWriter {
    async fn run(&mut self) {
        let (bounds, mut throttle) = match &self.mode {
            Mode::Batch(batch) => (bounds(batch, self.bytes_max), batch.throttle.map(Throttle::new)),
            Mode::Blocking { .. } => {
                let (events, bytes) = (WRITE_EVENTS_MAX, self.bytes_max);
                (BatchBounds { awaited: 1, wait: Duration::ZERO, events, bytes }, None)
            }
        };
        while let Some(batch) = self.queue.next_batch(bounds).await {
            self.guard.in_hand.store(batch.len(), Ordering::Release);
            if let Some(throttle) = &mut throttle {
                throttle.take().await;
            }
            let (events, waiting): (Vec<Bytes>, Vec<_>) =
                batch.into_iter().map(|event| (event.bytes, event.written)).unzip();
            let written = self.sink.write(&events, &*self.clock);
            if let Err(error) = &written {
                self.metrics.count_errors(FailedPlugin::Log, events.len() as u64, error);
            }
            for waiting in waiting.into_iter().flatten() {
                // The request may have given up.
                let _ = waiting.send(written.is_ok());
            }
            self.guard.in_hand.store(0, Ordering::Release);
        }
    }
}

fn bounds(batch: &BatchOptions, bytes: usize) -> BatchBounds {
    match (batch.max_size, batch.throttle) {
        (1, None) => {
            BatchBounds { awaited: WRITE_EVENTS_MAX, wait: COLLECT_TIME, events: WRITE_EVENTS_MAX, bytes }
        }
        (size, _) => BatchBounds { awaited: size, wait: batch.max_wait, events: size, bytes },
    }
}
