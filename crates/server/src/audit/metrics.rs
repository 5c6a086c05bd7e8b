//! Metrics of audit, with upstream's names.

use std::sync::atomic::{AtomicU64, Ordering};

use setpoint_audit::Level;

use crate::metrics::{MetricType, Text};

/// Part of audit that failed to record an event; the label `plugin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedPlugin {
    /// A queue was full or closed.
    Buffered,
    /// The log could not be written.
    Log,
    /// The event was too large.
    Truncate,
    /// The webhook could not be reached.
    Webhook,
}

impl FailedPlugin {
    const ALL: [FailedPlugin; 4] =
        [FailedPlugin::Buffered, FailedPlugin::Log, FailedPlugin::Truncate, FailedPlugin::Webhook];

    const fn as_str(self) -> &'static str {
        match self {
            FailedPlugin::Buffered => "buffered",
            FailedPlugin::Log => "log",
            FailedPlugin::Truncate => "truncate",
            FailedPlugin::Webhook => "webhook",
        }
    }
}

/// Counters of audit.
#[derive(Debug, Default)]
pub struct AuditMetrics {
    events: AtomicU64,
    errors: [AtomicU64; FailedPlugin::ALL.len()],
    levels: [AtomicU64; Level::ALL.len()],
    rejected: AtomicU64,
}

impl AuditMetrics {
    pub(crate) fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_level(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts events that were not recorded, and logs when their number has doubled: events themselves never get into
    /// the log, since they may contain secrets.
    pub(crate) fn count_errors(&self, plugin: FailedPlugin, events: u64, error: &dyn std::fmt::Display) {
        let before = self.errors[plugin as usize].fetch_add(events, Ordering::Relaxed);
        let after = before + events;
        if before == 0 || before.ilog2() != after.ilog2() {
            tracing::warn!(plugin = plugin.as_str(), total = after, %error, "audit events are lost");
        }
    }

    /// Events that were not recorded.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Writes all families.
    pub fn write(&self, text: &mut Text) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let name = "apiserver_audit_event_total";
        text.family(
            name,
            MetricType::Counter,
            "Counter of audit events generated and sent to the audit backend.",
        );
        text.sample(name, &[], load(&self.events));
        let name = "apiserver_audit_error_total";
        let help = "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.";
        text.family(name, MetricType::Counter, help);
        for (plugin, count) in FailedPlugin::ALL.iter().zip(&self.errors).filter(|(_, count)| load(count) > 0)
        {
            text.sample(name, &[("plugin", plugin.as_str())], load(count));
        }
        let name = "apiserver_audit_level_total";
        text.family(name, MetricType::Counter, "Counter of policy levels for audit events (1 per request).");
        for (level, count) in Level::ALL.iter().zip(&self.levels).filter(|(_, count)| load(count) > 0) {
            text.sample(name, &[("level", level.as_str())], load(count));
        }
        let name = "apiserver_audit_requests_rejected_total";
        let help = "Counter of apiserver requests rejected due to an error in audit logging backend.";
        text.family(name, MetricType::Counter, help);
        text.sample(name, &[], load(&self.rejected));
    }
}
