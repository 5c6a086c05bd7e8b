//! Flags of the audit log.

use std::time::Duration;

use anyhow::bail;
use setpoint_server::audit::{AuditLogOptions, BatchOptions, LogFormat, LogTarget, RotationOptions};

use super::{BUFFER_SIZE, BackendFlags, BatchFlags, check_unused};
use crate::commands::fleet::parse_duration;

/// Path that stands for the standard output.
const STDOUT: &str = "-";
/// Default number of days.
const MAX_AGE_DAYS: u64 = 366;
/// Default number of old files.
const MAX_BACKUPS: usize = 100;
/// Default size of a file in megabytes.
const MAX_SIZE_MEGABYTES: u64 = 100;
const DAY: u64 = 24 * 60 * 60;
const MEGABYTE: u64 = 1024 * 1024;

/// The audit log.
#[derive(Debug, clap::Args)]
pub struct AuditLogArgs {
    /// File to write audit events to; `-` is the standard output
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    audit_log_path: Option<String>,
    /// Format of the audit log: json or legacy [default: json]
    #[arg(long, value_name = "FORMAT")]
    audit_log_format: Option<String>,
    /// API version of the events in the audit log: audit.k8s.io/v1
    #[arg(long, value_name = "VERSION")]
    audit_log_version: Option<String>,
    /// Strategy for writing audit events: batch, blocking or blocking-strict [default: blocking]
    #[arg(long, value_name = "MODE")]
    audit_log_mode: Option<String>,
    /// Maximum number of days to keep old audit log files by the time in their names (0 keeps all) [default: 366]
    #[arg(long, value_name = "DAYS")]
    audit_log_maxage: Option<u64>,
    /// Maximum number of old audit log files to keep (0 keeps all) [default: 100]
    #[arg(long, value_name = "N")]
    audit_log_maxbackup: Option<usize>,
    /// Maximum size in megabytes of the audit log before it is rotated (0 disables rotation) [default: 100]
    #[arg(long, value_name = "MEGABYTES")]
    audit_log_maxsize: Option<u64>,
    /// Compress old audit log files with gzip
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    audit_log_compress: Option<bool>,
    /// Number of events to buffer before events are dropped, in batch mode [default: 10000]
    #[arg(long, value_name = "N")]
    audit_log_batch_buffer_size: Option<usize>,
    /// Maximum number of events of a batch, in batch mode [default: 1]
    #[arg(long, value_name = "N")]
    audit_log_batch_max_size: Option<usize>,
    /// Maximum time to wait for a full batch, in batch mode
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    audit_log_batch_max_wait: Option<Duration>,
    /// Limit the rate of batches, in batch mode
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    audit_log_batch_throttle_enable: Option<bool>,
    /// Maximum average number of batches per second, in batch mode
    #[arg(long, value_name = "RATE")]
    audit_log_batch_throttle_qps: Option<f32>,
    /// Maximum number of batches at once if the rate was not used before, in batch mode
    #[arg(long, value_name = "N")]
    audit_log_batch_throttle_burst: Option<u32>,
    /// Truncate large audit events and batches
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    audit_log_truncate_enabled: Option<bool>,
    /// Maximum bytes of a batch [default: 10485760]
    #[arg(long, value_name = "BYTES")]
    audit_log_truncate_max_batch_size: Option<usize>,
    /// Maximum bytes of an audit event: request and response objects of a larger one are removed [default: 102400]
    #[arg(long, value_name = "BYTES")]
    audit_log_truncate_max_event_size: Option<usize>,
}

impl AuditLogArgs {
    /// Name of the flag that enables the backend, if it is set.
    pub fn backend_flag(&self) -> Option<&'static str> {
        self.audit_log_path.is_some().then_some("--audit-log-path")
    }

    /// Returns the options of the log; `None` if there is none.
    pub fn options(&self) -> anyhow::Result<Option<AuditLogOptions>> {
        let rotation_flags = [
            (self.audit_log_maxage.is_some(), "--audit-log-maxage"),
            (self.audit_log_maxbackup.is_some(), "--audit-log-maxbackup"),
            (self.audit_log_maxsize.is_some(), "--audit-log-maxsize"),
            (self.audit_log_compress.is_some(), "--audit-log-compress"),
        ];
        let Some(path) = self.audit_log_path.as_deref() else {
            self.check_unused(&rotation_flags)?;
            return Ok(None);
        };
        if path.is_empty() {
            bail!("--audit-log-path must not be empty");
        }
        let target = if path == STDOUT {
            check_unused(&rotation_flags, "a file as --audit-log-path")?;
            LogTarget::Stdout
        } else {
            LogTarget::File(path.into(), self.rotation()?)
        };
        let flags = self.backend();
        let defaults =
            BatchOptions { buffer_size: BUFFER_SIZE, max_size: 1, max_wait: Duration::ZERO, throttle: None };
        Ok(Some(AuditLogOptions {
            target,
            format: LogFormat::from_name(self.audit_log_format.as_deref().unwrap_or("json"))?,
            mode: flags.mode(defaults)?,
            truncation: flags.truncation()?,
        }))
    }

    fn rotation(&self) -> anyhow::Result<RotationOptions> {
        let max_size = self.audit_log_maxsize.unwrap_or(MAX_SIZE_MEGABYTES);
        let others = [
            (self.audit_log_maxage.is_some(), "--audit-log-maxage"),
            (self.audit_log_maxbackup.is_some(), "--audit-log-maxbackup"),
            (self.audit_log_compress.is_some(), "--audit-log-compress"),
        ];
        if max_size == 0 {
            check_unused(&others, "rotation, which --audit-log-maxsize=0 disables")?;
        }
        let days = self.audit_log_maxage.unwrap_or(MAX_AGE_DAYS);
        Ok(RotationOptions {
            max_bytes: max_size.saturating_mul(MEGABYTE),
            max_age: Duration::from_secs(days.saturating_mul(DAY)),
            max_backups: self.audit_log_maxbackup.unwrap_or(MAX_BACKUPS),
            compress: self.audit_log_compress.unwrap_or_default(),
        })
    }

    fn backend(&self) -> BackendFlags<'_> {
        BackendFlags {
            name: "log",
            mode: self.audit_log_mode.as_deref().unwrap_or("blocking"),
            version: self.audit_log_version.as_deref(),
            batch: BatchFlags {
                buffer_size: self.audit_log_batch_buffer_size,
                max_size: self.audit_log_batch_max_size,
                max_wait: self.audit_log_batch_max_wait,
                throttle_enable: self.audit_log_batch_throttle_enable,
                throttle_qps: self.audit_log_batch_throttle_qps,
                throttle_burst: self.audit_log_batch_throttle_burst,
            },
            truncate_enabled: self.audit_log_truncate_enabled,
            truncate_max_batch_size: self.audit_log_truncate_max_batch_size,
            truncate_max_event_size: self.audit_log_truncate_max_event_size,
        }
    }

    fn check_unused(&self, rotation_flags: &[(bool, &'static str)]) -> anyhow::Result<()> {
        let others = [
            (self.audit_log_format.is_some(), "--audit-log-format"),
            (self.audit_log_version.is_some(), "--audit-log-version"),
            (self.audit_log_mode.is_some(), "--audit-log-mode"),
            (self.backend().batch.first_set().is_some(), "--audit-log-batch-*"),
            (self.audit_log_truncate_enabled.is_some(), "--audit-log-truncate-enabled"),
            (self.audit_log_truncate_max_batch_size.is_some(), "--audit-log-truncate-max-batch-size"),
            (self.audit_log_truncate_max_event_size.is_some(), "--audit-log-truncate-max-event-size"),
        ];
        check_unused(rotation_flags, "--audit-log-path")?;
        Ok(check_unused(&others, "--audit-log-path")?)
    }
}
