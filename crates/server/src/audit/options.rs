//! Options of the backends, and their checks with upstream's texts.

use std::path::PathBuf;
use std::time::Duration;

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// One line of text per event.
    Legacy,
}

impl LogFormat {
    /// Format with a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_name(name: &str) -> Result<LogFormat, OptionsError> {
        match name {
            "json" => Ok(LogFormat::Json),
            "legacy" => Ok(LogFormat::Legacy),
            _ => Err(OptionsError(format!(
                "invalid audit log format {name}, allowed formats are \"legacy,json\""
            ))),
        }
    }
}

/// Strategy for sending events.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// Requests wait for nothing; a full queue drops events.
    Batch(BatchOptions),
    /// Requests wait until their events are written.
    Blocking {
        /// `true` if a request is rejected when its first event cannot be written.
        is_strict: bool,
    },
}

impl Mode {
    /// Mode with a name. `backend` is the name of the backend in errors.
    ///
    /// # Errors
    /// If there is none, or the options of batches are invalid.
    pub fn new(backend: &str, name: &str, batch: BatchOptions) -> Result<Mode, OptionsError> {
        match name {
            "batch" => batch.checked(backend).map(Mode::Batch),
            "blocking" => Ok(Mode::Blocking { is_strict: false }),
            "blocking-strict" => Ok(Mode::Blocking { is_strict: true }),
            _ => Err(OptionsError(format!(
                "invalid audit {backend} mode {name}, allowed modes are \"batch,blocking,blocking-strict\""
            ))),
        }
    }
}

/// Rejection of an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub String);

/// Options of the mode `batch`.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchOptions {
    /// Events in the queue.
    pub buffer_size: usize,
    /// Events of a batch.
    pub max_size: usize,
    /// Time to wait for a full batch.
    pub max_wait: Duration,
    /// Rate of batches; `None` if it is not limited.
    pub throttle: Option<ThrottleOptions>,
}

/// Rate of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleOptions {
    /// Batches per second.
    pub qps: f32,
    /// Batches at once if the rate was not used before.
    pub burst: u32,
}

impl BatchOptions {
    fn checked(self, backend: &str) -> Result<BatchOptions, OptionsError> {
        let invalid = |what: &str, value: String| {
            Err(OptionsError(format!(
                "invalid audit batch {backend} {what} {value}, must be a positive number"
            )))
        };
        if self.buffer_size == 0 {
            return invalid("buffer size", self.buffer_size.to_string());
        }
        if self.max_size == 0 {
            return invalid("max batch size", self.max_size.to_string());
        }
        match self.throttle {
            Some(throttle) if throttle.qps <= 0.0 || !throttle.qps.is_finite() => {
                invalid("throttle QPS", throttle.qps.to_string())
            }
            Some(throttle) if throttle.burst == 0 => invalid("throttle burst", throttle.burst.to_string()),
            _ => Ok(self),
        }
    }
}

/// Bounds on the size of events and batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncationOptions {
    /// Bytes of a batch.
    pub max_batch_bytes: usize,
    /// Bytes of an event. The objects of a larger one are removed; if it is still too large, it is dropped.
    pub max_event_bytes: usize,
}

impl TruncationOptions {
    /// Checks the bounds.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn check(self, backend: &str) -> Result<TruncationOptions, OptionsError> {
        let TruncationOptions { max_batch_bytes, max_event_bytes } = self;
        if max_event_bytes == 0 {
            return Err(OptionsError(format!(
                "invalid audit truncate {backend} max event size {max_event_bytes}, must be a positive number"
            )));
        }
        if max_batch_bytes < max_event_bytes {
            return Err(OptionsError(format!(
                "invalid audit truncate {backend} max batch size {max_batch_bytes}, must be greater than max event size \
                 ({max_event_bytes})"
            )));
        }
        Ok(self)
    }
}

/// Destination of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard output.
    Stdout,
    /// A file, with its rotation.
    File(PathBuf, RotationOptions),
}

/// Rotation of a log file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationOptions {
    /// Bytes of a file; 0 for no rotation.
    pub max_bytes: u64,
    /// Age of old files by the time in their names; zero keeps them.
    pub max_age: Duration,
    /// Number of old files; 0 keeps all.
    pub max_backups: usize,
    /// `true` to compress old files.
    pub compress: bool,
}

/// Options of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditLogOptions {
    /// Destination.
    pub target: LogTarget,
    /// Format.
    pub format: LogFormat,
    /// Mode.
    pub mode: Mode,
    /// Bounds on the size of events; `None` if they are not truncated.
    pub truncation: Option<TruncationOptions>,
}

/// Options of the webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookOptions {
    /// Time to wait before the first retry.
    pub initial_backoff: Duration,
    /// Mode.
    pub mode: Mode,
    /// Bounds on the size of events and batches; `None` if they are not truncated.
    pub truncation: Option<TruncationOptions>,
}
