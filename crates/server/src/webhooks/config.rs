//! Compiled webhook configurations.
//!
//! [`WebhookRegistry`] compiles the configurations of a snapshot once per change of their tables. A cluster without
//! configurations costs two table lookups per decision.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::kinds::workload::{expressions, match_labels};
use setpoint_api::labels::Selector;
use setpoint_api::{Resource, Revision, Value, metadata};
use setpoint_extensions::SMALL_COST_MAX;
use setpoint_extensions::policy::MatchConditions;
use setpoint_store::{Snapshot, Table};

use super::endpoint::ClientConfig;
use crate::codec;

/// Timeout of a webhook without `timeoutSeconds`.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;

/// Type of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WebhookType {
    /// Called in order, may change the object.
    Mutating,
    /// Called in parallel after validation.
    Validating,
}

impl WebhookType {
    /// Value of the metric label `type`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            WebhookType::Mutating => "admit",
            WebhookType::Validating => "validating",
        }
    }
}

/// Scope of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// Every resource.
    All,
    /// Resources in namespaces.
    Namespaced,
    /// Cluster-scoped resources, and namespaces.
    Cluster,
    /// A scope that this server does not know: it matches nothing.
    Unknown,
}

/// A rule of a webhook: it matches a request if every part does.
#[derive(Clone, Debug)]
pub struct WebhookRule {
    /// Operations, or `*`.
    pub operations: Vec<Box<str>>,
    /// API groups, or `*`.
    pub groups: Vec<Box<str>>,
    /// API versions, or `*`.
    pub versions: Vec<Box<str>>,
    /// Resources and subresources, each of which may be `*`.
    pub resources: Vec<(Box<str>, Box<str>)>,
    /// Scope.
    pub scope: RuleScope,
}

/// `sideEffects` of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEffects {
    /// Dry runs may be sent.
    NoneOnDryRun,
    /// Dry runs must not be sent.
    Some,
    /// Not specified, by an old configuration.
    Missing,
}

/// A webhook of a configuration.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Type of its configuration.
    pub webhook_type: WebhookType,
    /// Name of its configuration.
    pub configuration: Box<str>,
    /// Its own name.
    pub name: Box<str>,
    /// Endpoint to call.
    pub client_config: ClientConfig,
    /// Rules: one must match.
    pub rules: Vec<WebhookRule>,
    /// `true` if rules also match other served versions of a resource.
    pub matches_equivalent: bool,
    /// `true` if failures to call it are ignored.
    pub ignores_failures: bool,
    /// Labels of the namespace; the text of the error if the selector is invalid.
    pub namespace_selector: Result<Selector, String>,
    /// Labels of the object.
    pub object_selector: Result<Selector, String>,
    /// Expressions that the request must satisfy.
    pub match_conditions: Arc<MatchConditions>,
    /// Versions of AdmissionReview that it accepts, preferred first.
    pub review_versions: Vec<Box<str>>,
    /// Time for a call.
    pub timeout: Duration,
    /// Side effects.
    pub side_effects: SideEffects,
    /// `true` if it is called again when a later plugin changes the object.
    pub is_reinvoked: bool,
}

/// Webhooks of all configurations, ordered by configuration name and position.
#[derive(Debug, Default)]
pub struct CompiledWebhooks {
    /// Mutating webhooks.
    pub mutating: Vec<Webhook>,
    /// Validating webhooks.
    pub validating: Vec<Webhook>,
    /// `true` if their match conditions may take milliseconds for a small object.
    is_costly: bool,
}

impl CompiledWebhooks {
    /// Compiles the configurations of a snapshot; `None` if there are none.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Option<CompiledWebhooks> {
        let (mutating, validating) = tables(snapshot);
        if is_empty(mutating) && is_empty(validating) {
            return None;
        }
        let compile = |table: Option<&Table>, webhook_type| {
            let records = table.into_iter().flat_map(Table::iter);
            records.flat_map(|record| webhooks(&codec::object(record), webhook_type)).collect()
        };
        let mutating: Vec<Webhook> = compile(mutating, WebhookType::Mutating);
        let validating: Vec<Webhook> = compile(validating, WebhookType::Validating);
        let costs = mutating.iter().chain(&validating).map(|webhook| webhook.match_conditions.cost_max());
        let is_costly = costs.fold(0, u64::saturating_add) > SMALL_COST_MAX;
        Some(CompiledWebhooks { mutating, validating, is_costly })
    }
}

fn tables(snapshot: &Snapshot) -> (Option<&Table>, Option<&Table>) {
    static RESOURCES: LazyLock<Option<[Resource; 2]>> = LazyLock::new(|| {
        let resource = |plural: &str| Resource::new(&format!("{plural}.admissionregistration.k8s.io")).ok();
        Some([resource("mutatingwebhookconfigurations")?, resource("validatingwebhookconfigurations")?])
    });
    let Some([mutating, validating]) = &*RESOURCES else { return (None, None) };
    (snapshot.table(mutating), snapshot.table(validating))
}

fn is_empty(table: Option<&Table>) -> bool {
    table.is_none_or(Table::is_empty)
}

/// Memo of [`CompiledWebhooks::of`] for the newest snapshots of one store.
#[derive(Debug, Default)]
pub struct WebhookRegistry {
    compiled: Mutex<Option<(TableVersions, Arc<CompiledWebhooks>)>>,
}

/// Last changes of both tables, and their numbers of objects: a table that was not changed since the store was opened
/// has the revision zero.
type TableVersions = [(Revision, usize); 2];

impl WebhookRegistry {
    /// Returns the compiled configurations of a snapshot; `None` if there are none.
    #[must_use]
    pub fn compiled(&self, snapshot: &Snapshot) -> Option<Arc<CompiledWebhooks>> {
        let versions = versions(snapshot)?;
        let mut memo = self.compiled.lock();
        if let Some((_, compiled)) = memo.as_ref().filter(|(of, _)| *of == versions) {
            return Some(Arc::clone(compiled));
        }
        let compiled = Arc::new(CompiledWebhooks::of(snapshot)?);
        *memo = Some((versions, Arc::clone(&compiled)));
        Some(compiled)
    }

    /// `true` if match conditions of a snapshot may take milliseconds for a small object, or are not compiled yet.
    #[must_use]
    pub fn is_costly(&self, snapshot: &Snapshot) -> bool {
        let Some(versions) = versions(snapshot) else { return false };
        // The lock is held during a compilation.
        let Some(memo) = self.compiled.try_lock() else { return true };
        !memo.as_ref().is_some_and(|(of, compiled)| *of == versions && !compiled.is_costly)
    }
}

/// Versions of both tables; `None` if there are no configurations.
fn versions(snapshot: &Snapshot) -> Option<TableVersions> {
    let (mutating, validating) = tables(snapshot);
    if is_empty(mutating) && is_empty(validating) {
        return None;
    }
    let version =
        |table: Option<&Table>| table.map_or((Revision(0), 0), |table| (table.changed(), table.len()));
    Some([mutating, validating].map(version))
}

/// Compiles the webhooks of one configuration.
fn webhooks(configuration: &Value, webhook_type: WebhookType) -> Vec<Webhook> {
    let name = metadata::name(configuration);
    list(configuration, "webhooks").iter().map(|hook| webhook(name, hook, webhook_type)).collect()
}

fn webhook(configuration: &str, hook: &Value, webhook_type: WebhookType) -> Webhook {
    let seconds = hook.get("timeoutSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    let conditions = MatchConditions::of_webhook(list(hook, "matchConditions"));
    Webhook {
        webhook_type,
        configuration: configuration.into(),
        name: hook.str_at(&["name"]).into(),
        client_config: client_config(hook.get("clientConfig").unwrap_or(&Value::Null)),
        rules: list(hook, "rules").iter().map(rule).collect(),
        matches_equivalent: hook.str_at(&["matchPolicy"]) != "Exact",
        ignores_failures: hook.str_at(&["failurePolicy"]) == "Ignore",
        namespace_selector: selector(hook.get("namespaceSelector")),
        object_selector: selector(hook.get("objectSelector")),
        match_conditions: Arc::new(conditions),
        review_versions: texts(hook, "admissionReviewVersions"),
        timeout: Duration::from_secs(seconds.clamp(1, 30).unsigned_abs()),
        side_effects: match hook.str_at(&["sideEffects"]) {
            "None" | "NoneOnDryRun" => SideEffects::NoneOnDryRun,
            "" => SideEffects::Missing,
            _ => SideEffects::Some,
        },
        is_reinvoked: hook.str_at(&["reinvocationPolicy"]) == "IfNeeded",
    }
}

/// Reads a rule of a webhook or policy.
pub(crate) fn rule(rule: &Value) -> WebhookRule {
    let resources = texts(rule, "resources").into_iter().map(|text| match text.split_once('/') {
        Some((resource, subresource)) => (resource.into(), subresource.into()),
        None => (text, Box::default()),
    });
    WebhookRule {
        operations: texts(rule, "operations"),
        groups: texts(rule, "apiGroups"),
        versions: texts(rule, "apiVersions"),
        resources: resources.collect(),
        scope: match rule.str_at(&["scope"]) {
            "" | "*" => RuleScope::All,
            "Namespaced" => RuleScope::Namespaced,
            "Cluster" => RuleScope::Cluster,
            _ => RuleScope::Unknown,
        },
    }
}

/// Reads the client configuration of an admission or conversion webhook.
#[must_use]
pub fn client_config(config: &Value) -> ClientConfig {
    let ca_bundle = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        config.str_at(&["caBundle"]).as_bytes(),
    );
    let ca_bundle = Bytes::from(ca_bundle.unwrap_or_default());
    match config.get("service").filter(|service| !service.is_null()) {
        Some(service) => {
            let port = service.get("port").and_then(Value::as_i64);
            ClientConfig::Service {
                namespace: service.str_at(&["namespace"]).into(),
                name: service.str_at(&["name"]).into(),
                path: service.str_at(&["path"]).into(),
                port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                ca_bundle,
            }
        }
        None => ClientConfig::Url { url: config.str_at(&["url"]).into(), ca_bundle },
    }
}

/// Compiles a selector. An absent one selects everything: the kind defaults it to an empty one.
pub(crate) fn selector(selector: Option<&Value>) -> Result<Selector, String> {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
        return Ok(Selector::EVERYTHING);
    };
    Selector::from_parts(match_labels(selector), expressions(selector)).map_err(|error| error.to_string())
}

pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_list).unwrap_or_default()
}

pub(crate) fn texts(value: &Value, field: &str) -> Vec<Box<str>> {
    list(value, field).iter().filter_map(Value::as_str).map(Into::into).collect()
}
