//! What is particular to each kind: defaults, validation, what a write may touch.
//!
//! Everything that kinds have in common (names, metadata, decoding, apply, storage) is done elsewhere, driven by
//! the schema. What is left is [`Rules`], one implementation per kind, one file per kind or small group. To
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

use crate::field_error::{ErrorList, Path};
use crate::fields::FieldLabels;
use crate::names::NameRule;
use crate::time::Time;
use crate::value::Value;

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The time.
    pub now: Time,
    /// The name of the user.
    pub user: &'a str,
    /// The groups of the user.
    pub groups: &'a [String],
}

/// Names of fields that objects can be selected by, with their values.
pub type Fields<'o> = Vec<(&'static str, Cow<'o, str>)>;

/// What a status update sets back where it can change nothing but the status.
pub const ALL_BUT_STATUS: &[&str] = &["metadata", "spec"];

/// What is particular to a kind. Objects are those of its storage version, decoded; absent and null are the same.
///
/// The pipeline calls, for a create: `default`, admission, `prepare_create`, `validate`, `validate_create`. For
/// an update: `default`, admission, `prepare_update`, `check_update`. For the status subresource:
/// `default`, `prepare_status`, `validate_status`. What takes a clock or the writer goes with these: `default_times`
/// after `default`, `sign` after `prepare_create` and `prepare_update`, `sign_status` after `prepare_status`.
pub trait Rules: Send + Sync {
    /// How the object may be called.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Fills in what the client left out, as upstream's versioned defaults do. Idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Fills in what a write of the status left out. The rest of the object is set back to what it was, so by default this
    /// is [`Rules::default`] only because that knows the status too.
    fn default_status(&self, object: &mut Value) {
        self.default(object);
    }

    /// The parts of the spec that a write of the status, or a binding, need not look into: they may be left as they are
    /// written, see [`crate::json::parse_closed`]. Whoever names any has a [`Rules::default_status`] that knows it.
    fn closed_to_status(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fills in the times that the client left out, where upstream's defaults look at the clock.
    fn default_times(&self, _object: &mut Value, _now: Time) {}

    /// What a create may not say: by default nothing but `status`, where that is a subresource.
    fn prepare_create(&self, object: &mut Value) {
        if self.has_status()
            && let Some(map) = object.as_map_mut()
        {
            map.remove("status");
        }
    }

    /// What an update may not change: by default `status`, where that is a subresource.
    fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.has_status() {
            keep(new, old, "status");
        }
    }

    /// What a status update may not change: by default `spec`. Of the metadata, the pipeline keeps what
    /// [`Rules::status_reset_fields`] names.
    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
    }

    /// Writes down who writes, or when, for a create (`old` is nothing) or an update.
    fn sign(&self, _new: &mut Value, _old: Option<&Value>, _author: &Author<'_>) {}

    /// Writes down who writes, or when, for a status update.
    fn sign_status(&self, _new: &mut Value, _old: &Value, _author: &Author<'_>) {}

    /// Which fields nobody comes to own by a create or an update, because they are set back: by default `status`,
    /// where that is a subresource.
    fn reset_fields(&self) -> &'static [&'static str] {
        if self.has_status() { &["status"] } else { &[] }
    }

    /// Which fields nobody comes to own by a status update. What it names of the metadata stays as it was.
    fn status_reset_fields(&self) -> &'static [&'static str] {
        &["spec"]
    }

    /// Whether `status` is written through a subresource of its own.
    fn has_status(&self) -> bool {
        false
    }

    /// Whether `metadata.generation` counts: it is 1 at first and rises when [`Rules::desire_changed`].
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether an update changed what is wanted: by default `spec`.
    fn desire_changed(&self, new: &Value, old: &Value) -> bool {
        new.get("spec") != old.get("spec")
    }

    /// What is wrong with an object, metadata apart.
    fn validate(&self, object: &Value, errors: &mut ErrorList);

    /// What is wrong with a new object, beside what is wrong with any.
    fn validate_create(&self, _object: &Value, _errors: &mut ErrorList) {}

    /// What is wrong with a change, beside what is wrong with the new object.
    fn validate_update(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    /// What is wrong with an update: by default [`Rules::validate`] of the new object, then
    /// [`Rules::validate_update`]. A kind that forgives what the old object said already, or that judges
    /// updates by other rules than creates, says so here.
    fn check_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate(new, errors);
        self.validate_update(new, old, errors);
    }

    /// What is wrong with a change of the status.
    fn validate_status(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    /// What the writer should know, although it is no error.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// What the maker of an object should know of what it said, before [`Rules::prepare_create`] puts it right.
    fn early_warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// What the writer of a status should know.
    fn status_warnings(&self, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update may make the object if it is not there.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update may leave out the revision it expects.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// By which fields, beside name and namespace, objects can be selected.
    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &FieldLabels::METADATA
    }

    /// The values of those fields.
    fn fields<'o>(&self, _object: &'o Value) -> Fields<'o> {
        Vec::new()
    }
}

/// The rules of a kind, by group and kind; nothing if it is not served.
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

/// The rules of the kinds outside the core and workload groups.
fn group_rules(group: &str, kind: &str) -> Option<&'static dyn Rules> {
    match group {
        "admissionregistration.k8s.io" => admissionregistration::rules(kind),
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

/// Sets a top-level field of `new` back to what it is in `old`.
pub fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = new.as_map_mut() else { return };
    match old.get(field) {
        Some(value) => drop(map.insert(field, value.clone())),
        None => drop(map.remove(field)),
    }
}

/// The error for a field that differs from what it was.
pub fn check_immutable(errors: &mut ErrorList, path: &Path<'_>, new: Option<&Value>, old: Option<&Value>) {
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    if new != old {
        let shown = crate::field_error::BadValue::Json(crate::json::to_text(new).into());
        errors.push(crate::field_error::FieldError::invalid(path, shown, "field is immutable"));
    }
}
