//! Flags of audit, with upstream's names.

mod log_flags;
mod webhook_flags;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use setpoint_api::Clock;
use setpoint_audit::Policy;
use setpoint_server::audit::{
    AuditMetrics, Auditor, BatchOptions, LogTarget, Mode, OptionsError, ThrottleOptions, TruncationOptions,
    open_log, start_webhook,
};
use setpoint_server::webhooks::client::WebhookClient;

use self::log_flags::AuditLogArgs;
use self::webhook_flags::AuditWebhookArgs;
use super::certificate_files::CertificateFile;

/// The version of events.
const EVENT_VERSION: &str = "audit.k8s.io/v1";
/// Default size of the queue.
const BUFFER_SIZE: usize = 10_000;
/// Default maximum size of a batch.
const BATCH_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Default maximum size of an event.
const EVENT_BYTES_MAX: usize = 100 * 1024;

/// Flags of audit.
#[derive(Debug, clap::Args)]
pub struct AuditArgs {
    /// File with an audit policy
    #[arg(long, value_name = "PATH")]
    audit_policy_file: Option<PathBuf>,
    #[command(flatten)]
    log: AuditLogArgs,
    #[command(flatten)]
    webhook: AuditWebhookArgs,
}

impl AuditArgs {
    /// Checks all flags and files without side effects.
    pub fn validate(&self) -> anyhow::Result<()> {
        self.policy()?;
        self.log.options()?;
        self.webhook.options()?;
        self.webhook.endpoint().map(drop)
    }

    /// File with certificates: the kubeconfig of the webhook.
    pub fn certificate_file(&self) -> Option<CertificateFile> {
        self.webhook.config_file().map(|path| CertificateFile::Kubeconfig(path.to_owned()))
    }

    /// Returns the policy; `None` if nothing is audited. A policy needs a backend, and a backend needs a policy:
    /// otherwise nothing would be recorded.
    fn policy(&self) -> anyhow::Result<Option<Policy>> {
        let backends = [self.log.backend_flag(), self.webhook.backend_flag()];
        let backend = backends.into_iter().flatten().next();
        let Some(path) = &self.audit_policy_file else {
            if let Some(flag) = backend {
                bail!("{flag} has no effect without --audit-policy-file: set it, or remove {flag}");
            }
            return Ok(None);
        };
        if backend.is_none() {
            bail!(
                "--audit-policy-file has no effect without --audit-log-path or --audit-webhook-config-file: set one of them"
            );
        }
        let shown = path.display();
        let bytes = std::fs::read(path)
            .with_context(|| format!("loading audit policy file: failed to read file path {shown:?}"))?;
        match Policy::read(&bytes) {
            Ok(policy) => Ok(Some(policy)),
            Err(error) => bail!("loading audit policy file: {error}: from file {shown}"),
        }
    }

    /// Opens the log, starts the threads of the backends, and returns the auditor; `None` without a policy.
    pub fn start(&self, clock: &Arc<dyn Clock>) -> anyhow::Result<Option<Arc<Auditor>>> {
        let Some(policy) = self.policy()? else { return Ok(None) };
        let metrics = Arc::new(AuditMetrics::default());
        let mut backends = Vec::new();
        if let Some(options) = self.log.options()? {
            let path = match &options.target {
                LogTarget::Stdout => "the standard output".to_owned(),
                LogTarget::File(path, _) => path.display().to_string(),
            };
            let log = open_log(options, Arc::clone(clock), &metrics);
            backends.push(log.with_context(|| format!("--audit-log-path: cannot open {path}"))?);
        }
        if let Some((options, endpoint)) = self.webhook.options()?.zip(self.webhook.endpoint()?) {
            let client = Arc::new(WebhookClient::default());
            let webhook = start_webhook(endpoint, options, client, &metrics);
            backends.push(webhook.context("cannot start the thread of the audit webhook")?);
        }
        Ok(Some(Arc::new(Auditor::new(policy, backends, Arc::clone(clock), metrics))))
    }
}

/// Flags of one backend that do not depend on its kind.
struct BackendFlags<'a> {
    /// Name of the backend in flags and errors.
    name: &'static str,
    mode: &'a str,
    version: Option<&'a str>,
    batch: BatchFlags,
    truncate_enabled: Option<bool>,
    truncate_max_batch_size: Option<usize>,
    truncate_max_event_size: Option<usize>,
}

/// Flags of the mode `batch`, as far as they are set.
#[derive(Clone, Copy)]
struct BatchFlags {
    buffer_size: Option<usize>,
    max_size: Option<usize>,
    max_wait: Option<Duration>,
    throttle_enable: Option<bool>,
    throttle_qps: Option<f32>,
    throttle_burst: Option<u32>,
}

impl BatchFlags {
    /// Flag that is set; `None` if none is.
    fn first_set(&self) -> Option<&'static str> {
        let flags = [
            (self.buffer_size.is_some(), "batch-buffer-size"),
            (self.max_size.is_some(), "batch-max-size"),
            (self.max_wait.is_some(), "batch-max-wait"),
            (self.throttle_enable.is_some(), "batch-throttle-enable"),
            (self.throttle_qps.is_some(), "batch-throttle-qps"),
            (self.throttle_burst.is_some(), "batch-throttle-burst"),
        ];
        flags.into_iter().find(|(is_set, _)| *is_set).map(|(_, flag)| flag)
    }
}

impl BackendFlags<'_> {
    /// Returns the mode. `defaults` are those of the backend for batches.
    fn mode(&self, defaults: BatchOptions) -> anyhow::Result<Mode> {
        let (name, batch) = (self.name, self.batch);
        if self.version.is_some_and(|version| version != EVENT_VERSION) {
            bail!("--audit-{name}-version: invalid group version, allowed versions are [{EVENT_VERSION:?}]");
        }
        if let Some(flag) = batch.first_set().filter(|_| self.mode != "batch") {
            bail!(
                "--audit-{name}-{flag} has no effect without --audit-{name}-mode=batch: set it, or remove the flag"
            );
        }
        let throttle = defaults.throttle.unwrap_or(ThrottleOptions { qps: 0.0, burst: 0 });
        let throttle = ThrottleOptions {
            qps: batch.throttle_qps.unwrap_or(throttle.qps),
            burst: batch.throttle_burst.unwrap_or(throttle.burst),
        };
        let is_throttled = batch.throttle_enable.unwrap_or(defaults.throttle.is_some());
        if !is_throttled && (batch.throttle_qps.is_some() || batch.throttle_burst.is_some()) {
            bail!(
                "--audit-{name}-batch-throttle-qps and -burst have no effect without --audit-{name}-batch-throttle-enable"
            );
        }
        let options = BatchOptions {
            buffer_size: batch.buffer_size.unwrap_or(defaults.buffer_size),
            max_size: batch.max_size.unwrap_or(defaults.max_size),
            max_wait: batch.max_wait.unwrap_or(defaults.max_wait),
            throttle: is_throttled.then_some(throttle),
        };
        Ok(Mode::new(name, self.mode, options)?)
    }

    fn truncation(&self) -> anyhow::Result<Option<TruncationOptions>> {
        let name = self.name;
        let has_bounds = self.truncate_max_batch_size.is_some() || self.truncate_max_event_size.is_some();
        if !self.truncate_enabled.unwrap_or_default() {
            if has_bounds {
                bail!("--audit-{name}-truncate-max-* have no effect without --audit-{name}-truncate-enabled");
            }
            return Ok(None);
        }
        let options = TruncationOptions {
            max_batch_bytes: self.truncate_max_batch_size.unwrap_or(BATCH_BYTES_MAX),
            max_event_bytes: self.truncate_max_event_size.unwrap_or(EVENT_BYTES_MAX),
        };
        Ok(Some(options.check(name)?))
    }
}

/// Rejects flags of a backend that is not used.
fn check_unused(flags: &[(bool, &'static str)], backend: &str) -> Result<(), OptionsError> {
    match flags.iter().find(|(is_set, _)| *is_set) {
        Some((_, flag)) => {
            Err(OptionsError(format!("{flag} has no effect without {backend}: set it, or remove {flag}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        audit: AuditArgs,
    }

    fn validate(flags: &[&str]) -> String {
        let flags = Flags::try_parse_from(std::iter::once(&"x").chain(flags)).unwrap();
        flags.audit.validate().map_or_else(|error| format!("{error:#}"), |()| String::new())
    }

    #[test]
    fn flags_without_effect_are_rejected_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let policy = dir.path().join("policy.yaml");
        std::fs::write(&policy, "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
            .unwrap();
        let policy = format!("--audit-policy-file={}", policy.display());
        let log = "--audit-log-path=/x/audit.log";
        assert_eq!(validate(&[]), "");
        assert_eq!(validate(&[&policy, log]), "");
        assert_eq!(
            validate(&[
                &policy,
                "--audit-log-path=-",
                "--audit-log-mode=batch",
                "--audit-log-batch-max-size=3"
            ]),
            ""
        );
        for (flags, expected) in [
            (&[log][..], "--audit-log-path has no effect without --audit-policy-file"),
            (&[&policy], "--audit-policy-file has no effect without --audit-log-path or"),
            (
                &[&policy, log, "--audit-log-batch-max-size=3"],
                "--audit-log-batch-max-size has no effect without --audit-log-mode=batch",
            ),
            (&["--audit-log-maxage=3"], "--audit-log-maxage has no effect without --audit-log-path"),
            (&[&policy, "--audit-log-path=-", "--audit-log-compress"], "--audit-log-compress has no effect"),
            (
                &["--audit-webhook-mode=batch"],
                "--audit-webhook-mode has no effect without --audit-webhook-config-file",
            ),
            (&[&policy, log, "--audit-log-mode=later"], "invalid audit log mode later, allowed modes are"),
            (&[&policy, log, "--audit-log-format=xml"], "invalid audit log format xml, allowed formats are"),
            (&[&policy, log, "--audit-log-version=v2"], "--audit-log-version: invalid group version"),
            (
                &[&policy, log, "--audit-log-mode=batch", "--audit-log-batch-buffer-size=0"],
                "invalid audit batch log buffer size 0",
            ),
            (
                &[&policy, log, "--audit-log-truncate-max-event-size=5"],
                "--audit-log-truncate-max-* have no effect",
            ),
            (
                &[&policy, log, "--audit-log-truncate-enabled", "--audit-log-truncate-max-batch-size=5"],
                "invalid audit truncate log max batch size 5, must be greater than max event size",
            ),
            (&[&policy, "--audit-webhook-config-file=/nowhere"], "cannot read /nowhere"),
            (
                &["--audit-policy-file=/nowhere", log],
                "loading audit policy file: failed to read file path \"/nowhere\"",
            ),
        ] {
            let error = validate(flags);
            assert!(error.contains(expected) && !error.contains('\n'), "{flags:?}: {error}");
        }
    }
}
