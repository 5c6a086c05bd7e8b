//! Rules of each kind: defaulting, validation and the fields that a write may change.
//!
//! Everything that kinds have in common (names, metadata, decoding, apply, storage) is driven by the schema and
//! lives elsewhere. [`Rules`] holds the rest: one implementation per kind, one file per kind or small group. To
//! add a kind, add its file and a line in [`rules`].

pub mod apps;
pub mod autoscaling;
pub mod batch;
mod check;
pub mod core;
pub mod policy;
mod read;
pub mod workload;

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod authentication;
pub mod authorization;
pub mod certificates;
pub mod coordination;
pub mod discovery;
pub mod flowcontrol;
pub mod networking;
pub mod node;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod storagemigration;

#[cfg(test)]
mod group_tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::field_error::{ErrorList, Path};
use crate::fields::{FieldLabels, FieldSelector, FieldSelectorError};
use crate::names::NameRule;
use crate::time::Time;
use crate::value::Value;

/// Request attributes that a kind may record in its objects: the time and the user.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// Time of the request.
    pub now: Time,
    /// Name of the user.
    pub user: &'a str,
    /// UID of the user; empty if it has none.
    pub uid: &'a str,
    /// Groups of the user.
    pub groups: &'a [String],
    /// Extra fields of the user.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// Selectable fields of one object: field labels with their values.
pub type SelectableFields<'o> = Vec<(&'o str, Cow<'o, str>)>;

/// Reset fields of a status update that can change nothing but the status.
pub const ALL_BUT_STATUS: &[&str] = &["metadata", "spec"];

/// Rules of one kind, the counterpart of upstream's strategy. Objects are decoded and in the storage version;
/// absent and null are the same.
///
/// The pipeline calls, for a create: `default`, admission, `prepare_create`, `validate`, `validate_create`.
/// For an update: `default`, admission, `prepare_update`, `validate_update`. For the status subresource:
/// `default`, `prepare_status`, `validate_status`. Methods that take the time or the user run next to these:
/// `default_times` after `default`, `sign` after `prepare_create` and `prepare_update`, `sign_status` after
/// `prepare_status`.
pub trait Rules: Send + Sync {
    /// Format of `metadata.name`.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// `true` if a write of a small object may take milliseconds: its rules are expressions, or are not compiled yet.
    fn is_costly(&self) -> bool {
        false
    }

    /// Sets the defaults of the versioned type, as upstream does. Idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Sets the defaults for a status update, after which the pipeline resets the rest of the object. The
    /// default is [`Rules::default`], which covers the status too.
    fn default_status(&self, object: &mut Value) {
        self.default(object);
    }

    /// Fields of the spec that a status update or a binding does not read, so that they may stay unparsed,
    /// see [`crate::json::parse_with_raw_spec`]. A kind that lists any needs a [`Rules::default_status`] that
    /// skips them.
    fn raw_spec_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Sets the defaults that depend on the clock.
    fn default_times(&self, _object: &mut Value, _now: Time) {}

    /// Clears the fields that a create may not set: by default `status`, where that is a subresource.
    fn prepare_create(&self, object: &mut Value) {
        if self.has_status()
            && let Some(map) = object.as_map_mut()
        {
            map.remove("status");
        }
    }

    /// Resets the fields that an update may not change: by default `status`, where that is a subresource.
    fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.has_status() {
            keep(new, old, "status");
        }
    }

    /// Resets the fields that a status update may not change: by default `spec`. The pipeline resets the
    /// metadata fields in [`Rules::status_reset_fields`].
    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
    }

    /// Records the user or the time in an object that is created (`old` is `None`) or updated.
    fn sign(&self, _new: &mut Value, _old: Option<&Value>, _author: &Author<'_>) {}

    /// Records the user or the time in a status update.
    fn sign_status(&self, _new: &mut Value, _old: &Value, _author: &Author<'_>) {}

    /// Fields that never get a manager from a create or an update, because those reset them: by default
    /// `status`, where that is a subresource.
    fn reset_fields(&self) -> &[&'static str] {
        if self.has_status() { &["status"] } else { &[] }
    }

    /// Fields that never get a manager from a status update. Metadata fields among them keep their old
    /// values.
    fn status_reset_fields(&self) -> &[&'static str] {
        &["spec"]
    }

    /// `true` if `status` is a subresource.
    fn has_status(&self) -> bool {
        false
    }

    /// `true` if the kind maintains `metadata.generation`: it starts at 1 and rises when
    /// [`Rules::has_new_generation`].
    fn has_generation(&self) -> bool {
        false
    }

    /// `true` if an update increments `metadata.generation`: by default if `spec` changed.
    fn has_new_generation(&self, new: &Value, old: &Value) -> bool {
        new.get("spec") != old.get("spec")
    }

    /// Validates an object, except its metadata.
    fn validate(&self, object: &Value, errors: &mut ErrorList);

    /// Validates a new object, in addition to [`Rules::validate`].
    fn validate_create(&self, _object: &Value, _errors: &mut ErrorList) {}

    /// Validates the transition from `old` to `new`, in addition to [`Rules::validate`] of the new object.
    fn validate_transition(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    /// Validates an update: by default [`Rules::validate`] of the new object, then
    /// [`Rules::validate_transition`]. Overridden by kinds with ratcheting validation (errors that the old object
    /// has too are accepted) and by kinds whose updates follow other rules than creates.
    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate(new, errors);
        self.validate_transition(new, old, errors);
    }

    /// Validates a status update.
    fn validate_status(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    /// Warnings for the client that writes the object.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Warnings for a create that depend on fields which [`Rules::prepare_create`] clears.
    fn early_warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Warnings for the client that updates the status.
    fn status_warnings(&self, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// `true` if an update creates the object when it does not exist.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// `true` if an update may omit `metadata.resourceVersion`.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Field labels that can be selected by, beside name and namespace.
    fn field_labels(&self) -> &FieldLabels<'_> {
        &FieldLabels::METADATA
    }

    /// Translates the labels of a field selector to those under which the kind stores its fields.
    ///
    /// # Errors
    /// If a label is not supported.
    fn translate_fields(&self, selector: FieldSelector) -> Result<FieldSelector, FieldSelectorError> {
        selector.translate(self.field_labels())
    }

    /// Values of those field labels.
    fn fields<'o>(&'o self, _object: &'o Value) -> SelectableFields<'o> {
        Vec::new()
    }
}

/// Returns the rules of a kind, or `None` if the kind is not served.
#[must_use]
pub fn rules(group: &str, kind: &str) -> Option<&'static dyn Rules> {
    Some(match (group, kind) {
        ("", "Binding") => &core::binding::Binding,
        ("", "ConfigMap") => &core::config_map::ConfigMap,
        ("", "Endpoints") => &core::endpoints::Endpoints,
        ("", "Event") => &core::event::CORE,
        ("events.k8s.io", "Event") => &core::event::EVENTS,
        ("", "LimitRange") => &core::limit_range::LimitRange,
        ("", "Namespace") => &core::namespace::Namespace,
        ("", "Node") => &core::node::Node,
        ("", "PersistentVolume") => &core::persistent_volume::PersistentVolume,
        ("", "PersistentVolumeClaim") => &core::persistent_volume_claim::PersistentVolumeClaim,
        ("", "Pod") => &core::pod::Pod,
        ("", "PodTemplate") => &core::pod_template::PodTemplate,
        ("", "ReplicationController") => &core::replication_controller::ReplicationController,
        ("", "ResourceQuota") => &core::resource_quota::ResourceQuota,
        ("", "Secret") => &core::secret::Secret,
        ("", "Service") => &core::service::Service,
        ("", "ServiceAccount") => &core::service_account::ServiceAccount,
        ("apps", "ControllerRevision") => &apps::controller_revision::ControllerRevision,
        ("apps", "DaemonSet") => &apps::daemon_set::DaemonSet,
        ("apps", "Deployment") => &apps::deployment::Deployment,
        ("apps", "ReplicaSet") => &apps::replica_set::ReplicaSet,
        ("apps", "StatefulSet") => &apps::stateful_set::StatefulSet,
        ("autoscaling", "HorizontalPodAutoscaler") => {
            &autoscaling::horizontal_pod_autoscaler::HorizontalPodAutoscaler
        }
        ("batch", "CronJob") => &batch::cron_job::CronJob,
        ("batch", "Job") => &batch::job::Job,
        ("policy", "PodDisruptionBudget") => &policy::pod_disruption_budget::PodDisruptionBudget,
        (group, kind) => return group_rules(group, kind),
    })
}

/// Rules of the kinds outside the core and workload groups.
fn group_rules(group: &str, kind: &str) -> Option<&'static dyn Rules> {
    match group {
        "admissionregistration.k8s.io" => admissionregistration::rules(kind),
        "apiextensions.k8s.io" => apiextensions::rules(kind),
        "apiregistration.k8s.io" => apiregistration::rules(kind),
        "authentication.k8s.io" => authentication::rules(kind),
        "authorization.k8s.io" => authorization::rules(kind),
        "certificates.k8s.io" => certificates::rules(kind),
        "coordination.k8s.io" => coordination::rules(kind),
        "discovery.k8s.io" => discovery::rules(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::rules(kind),
        "networking.k8s.io" => networking::rules(kind),
        "node.k8s.io" => node::rules(kind),
        "rbac.authorization.k8s.io" => rbac::rules(kind),
        "resource.k8s.io" => resource::rules(kind),
        "scheduling.k8s.io" => scheduling::rules(kind),
        "storage.k8s.io" => storage::rules(kind),
        "storagemigration.k8s.io" => storagemigration::rules(kind),
        _ => None,
    }
}

/// Resets a top-level field of `new` to its value in `old`.
pub fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = new.as_map_mut() else { return };
    match old.get(field) {
        Some(value) => drop(map.insert(field, value.clone())),
        None => drop(map.remove(field)),
    }
}

/// Adds an error if an immutable field changed.
pub(crate) fn check_immutable(
    errors: &mut ErrorList,
    path: &Path<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
) {
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    if new != old {
        let shown = crate::field_error::BadValue::Json(crate::json::to_text(new).into());
        errors.push(crate::field_error::FieldError::invalid(path, shown, "field is immutable"));
    }
}
