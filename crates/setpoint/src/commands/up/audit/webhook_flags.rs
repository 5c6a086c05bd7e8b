//! Flags of the audit webhook.

use std::path::{Path, PathBuf};
use std::time::Duration;

use setpoint_server::audit::{BatchOptions, ThrottleOptions, WebhookOptions};
use setpoint_server::webhooks::endpoint::WebhookEndpoint;
use setpoint_server::webhooks::kubeconfig::read_endpoint;

use super::{BUFFER_SIZE, BackendFlags, BatchFlags, check_unused};
use crate::commands::fleet::parse_duration;

/// Default time to wait before the first retry.
const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
/// Default number of events of a batch.
const MAX_SIZE: usize = 400;
/// Default time to wait for a full batch.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Default rate of batches.
const THROTTLE: ThrottleOptions = ThrottleOptions { qps: 10.0, burst: 15 };

/// The audit webhook.
#[derive(Debug, clap::Args)]
pub struct AuditWebhookArgs {
    /// Kubeconfig of the service to send audit events to
    #[arg(long, value_name = "PATH")]
    audit_webhook_config_file: Option<PathBuf>,
    /// Time to wait before the first failed call is repeated [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    audit_webhook_initial_backoff: Option<Duration>,
    /// API version of the events for the webhook: audit.k8s.io/v1
    #[arg(long, value_name = "VERSION")]
    audit_webhook_version: Option<String>,
    /// Strategy for sending audit events: batch, blocking or blocking-strict [default: batch]
    #[arg(long, value_name = "MODE")]
    audit_webhook_mode: Option<String>,
    /// Number of events to buffer before events are dropped, in batch mode [default: 10000]
    #[arg(long, value_name = "N")]
    audit_webhook_batch_buffer_size: Option<usize>,
    /// Maximum number of events of a batch, in batch mode [default: 400]
    #[arg(long, value_name = "N")]
    audit_webhook_batch_max_size: Option<usize>,
    /// Maximum time to wait for a full batch, in batch mode [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    audit_webhook_batch_max_wait: Option<Duration>,
    /// Limit the rate of batches, in batch mode [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    audit_webhook_batch_throttle_enable: Option<bool>,
    /// Maximum average number of batches per second, in batch mode [default: 10]
    #[arg(long, value_name = "RATE")]
    audit_webhook_batch_throttle_qps: Option<f32>,
    /// Maximum number of batches at once if the rate was not used before, in batch mode [default: 15]
    #[arg(long, value_name = "N")]
    audit_webhook_batch_throttle_burst: Option<u32>,
    /// Truncate large audit events and batches
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    audit_webhook_truncate_enabled: Option<bool>,
    /// Maximum bytes of a batch [default: 10485760]
    #[arg(long, value_name = "BYTES")]
    audit_webhook_truncate_max_batch_size: Option<usize>,
    /// Maximum bytes of an audit event: request and response objects of a larger one are removed [default: 102400]
    #[arg(long, value_name = "BYTES")]
    audit_webhook_truncate_max_event_size: Option<usize>,
}

impl AuditWebhookArgs {
    /// Name of the flag that enables the backend, if it is set.
    pub fn backend_flag(&self) -> Option<&'static str> {
        self.audit_webhook_config_file.is_some().then_some("--audit-webhook-config-file")
    }

    /// Kubeconfig of the webhook; `None` if there is none.
    pub fn config_file(&self) -> Option<&Path> {
        self.audit_webhook_config_file.as_deref()
    }

    /// Reads the endpoint of the webhook; `None` if there is none.
    pub fn endpoint(&self) -> anyhow::Result<Option<WebhookEndpoint>> {
        Ok(self.audit_webhook_config_file.as_deref().map(read_endpoint).transpose()?)
    }

    /// Returns the options of the webhook; `None` if there is none.
    pub fn options(&self) -> anyhow::Result<Option<WebhookOptions>> {
        if self.audit_webhook_config_file.is_none() {
            self.check_unused()?;
            return Ok(None);
        }
        let flags = self.backend();
        let defaults = BatchOptions {
            buffer_size: BUFFER_SIZE,
            max_size: MAX_SIZE,
            max_wait: MAX_WAIT,
            throttle: Some(THROTTLE),
        };
        Ok(Some(WebhookOptions {
            initial_backoff: self.audit_webhook_initial_backoff.unwrap_or(INITIAL_BACKOFF),
            mode: flags.mode(defaults)?,
            truncation: flags.truncation()?,
        }))
    }

    fn backend(&self) -> BackendFlags<'_> {
        BackendFlags {
            name: "webhook",
            mode: self.audit_webhook_mode.as_deref().unwrap_or("batch"),
            version: self.audit_webhook_version.as_deref(),
            batch: BatchFlags {
                buffer_size: self.audit_webhook_batch_buffer_size,
                max_size: self.audit_webhook_batch_max_size,
                max_wait: self.audit_webhook_batch_max_wait,
                throttle_enable: self.audit_webhook_batch_throttle_enable,
                throttle_qps: self.audit_webhook_batch_throttle_qps,
                throttle_burst: self.audit_webhook_batch_throttle_burst,
            },
            truncate_enabled: self.audit_webhook_truncate_enabled,
            truncate_max_batch_size: self.audit_webhook_truncate_max_batch_size,
            truncate_max_event_size: self.audit_webhook_truncate_max_event_size,
        }
    }

    fn check_unused(&self) -> anyhow::Result<()> {
        let flags = [
            (self.audit_webhook_initial_backoff.is_some(), "--audit-webhook-initial-backoff"),
            (self.audit_webhook_version.is_some(), "--audit-webhook-version"),
            (self.audit_webhook_mode.is_some(), "--audit-webhook-mode"),
            (self.backend().batch.first_set().is_some(), "--audit-webhook-batch-*"),
            (self.audit_webhook_truncate_enabled.is_some(), "--audit-webhook-truncate-enabled"),
            (self.audit_webhook_truncate_max_batch_size.is_some(), "--audit-webhook-truncate-max-batch-size"),
            (self.audit_webhook_truncate_max_event_size.is_some(), "--audit-webhook-truncate-max-event-size"),
        ];
        Ok(check_unused(&flags, "--audit-webhook-config-file")?)
    }
}
