//! Admission in the context of a decision: enabled plugins, their configurations, and state that outlives a
//! request.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use setpoint_api::Value;

use super::annotations::AuditAnnotations;
use super::event_rate_limit::{EventBuckets, EventRateLimit};
use super::plugins::{Plugin, PluginSet};
use super::pod_security::{PodSecurityConfig, PodSecurityMetrics};
use super::pod_toleration_restriction::TolerationConfig;
use crate::metrics::Text;
use crate::pipeline::quota::limited::LimitedResource;

/// Enabled plugins and their configurations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdmissionConfig {
    /// Enabled plugins.
    pub plugins: PluginSet,
    /// Resources that a quota must cover to be consumed.
    pub limited_resources: Vec<LimitedResource>,
    /// Defaults and exemptions of PodSecurity.
    pub pod_security: PodSecurityConfig,
    /// Limits of EventRateLimit.
    pub event_rate_limits: Vec<EventRateLimit>,
    /// Node selectors of PodNodeSelector, by namespace; `clusterDefaultNodeSelector` is the default.
    pub node_selectors: BTreeMap<String, String>,
    /// Tolerations of PodTolerationRestriction.
    pub tolerations: TolerationConfig,
}

impl AdmissionConfig {
    /// `true` if the plugin is enabled.
    #[must_use]
    pub fn is_enabled(&self, plugin: Plugin) -> bool {
        self.plugins.contains(plugin)
    }

    /// `true` if a built-in plugin may reject or count Events.
    #[must_use]
    pub(crate) fn checks_events(&self) -> bool {
        [Plugin::EventRateLimit, Plugin::AlwaysDeny, Plugin::NamespaceAutoProvision]
            .into_iter()
            .any(|plugin| self.is_enabled(plugin))
            || !self.is_enabled(Plugin::NamespaceLifecycle)
            || !self.limited_resources.is_empty()
    }
}

/// Built-in admission in the context of a decision.
#[derive(Clone, Copy)]
pub struct AdmissionContext<'a> {
    /// Enabled plugins and their configurations.
    pub config: &'a AdmissionConfig,
    /// Token buckets of EventRateLimit; `None` if Events are not counted.
    pub events: Option<&'a EventBuckets>,
    /// Audit annotations of the request; `None` if they are not recorded.
    pub annotations: Option<&'a AuditAnnotations>,
    /// Counters of PodSecurity; `None` if its evaluations are not counted.
    pub pod_security: Option<&'a PodSecurityMetrics>,
}

impl AdmissionContext<'static> {
    /// Default plugins without configuration, for writes of the server itself.
    #[must_use]
    pub fn standard() -> AdmissionContext<'static> {
        static CONFIG: LazyLock<AdmissionConfig> = LazyLock::new(AdmissionConfig::default);
        AdmissionContext { config: &CONFIG, events: None, annotations: None, pod_security: None }
    }
}

/// Parts of admission that all requests of a server share. Cheap to clone.
#[derive(Clone)]
pub struct AdmissionControl(Arc<SharedParts>);

struct SharedParts {
    config: AdmissionConfig,
    events: EventBuckets,
    pod_security: PodSecurityMetrics,
}

impl Default for AdmissionControl {
    fn default() -> AdmissionControl {
        AdmissionControl::new(AdmissionConfig::default())
    }
}

impl AdmissionControl {
    /// Admission with a configuration.
    #[must_use]
    pub fn new(config: AdmissionConfig) -> AdmissionControl {
        let events = EventBuckets::new(&config.event_rate_limits);
        AdmissionControl(Arc::new(SharedParts {
            config,
            events,
            pod_security: PodSecurityMetrics::default(),
        }))
    }

    /// Returns the context of a decision.
    #[must_use]
    pub fn context<'a>(&'a self, annotations: Option<&'a AuditAnnotations>) -> AdmissionContext<'a> {
        let SharedParts { config, events, pod_security } = &*self.0;
        AdmissionContext { config, events: Some(events), annotations, pod_security: Some(pod_security) }
    }

    /// Writes the metrics of plugins.
    pub fn write_metrics(&self, text: &mut Text) {
        self.0.pod_security.write(text);
    }

    /// Enabled plugins and their configurations.
    #[must_use]
    pub fn config(&self) -> &AdmissionConfig {
        &self.0.config
    }
}

/// Results of validating admission beside its verdict.
#[derive(Debug, Default)]
pub struct Findings {
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Audit annotations, by key.
    pub annotations: BTreeMap<String, String>,
}

/// Reads a list of a configuration.
pub(super) fn list<'a>(config: &'a Value, field: &str) -> &'a [Value] {
    config.get(field).and_then(Value::as_list).unwrap_or_default()
}
