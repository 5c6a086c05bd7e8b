//! PodSecurity: Pod Security Standards by the labels of a namespace.
//!
//! A pod that violates the `enforce` level is rejected; a pod or pod template that violates the `warn` level causes a
//! warning. Policies of older versions are evaluated with the current rules.

mod checks;

use setpoint_api::ResourceType;
use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::{Key, Resource, Value, metadata};
use setpoint_store::{Record, Snapshot};

use super::contains_text;
use crate::codec;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Levels of the Pod Security Standards, from permissive to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// A level and the version of its rules, as in `baseline:latest`.
struct Policy {
    level: Level,
    version: String,
}

impl Policy {
    /// Policy of a namespace for a mode. A malformed label counts as `restricted:latest`, as upstream.
    fn of(namespace: &Value, mode: &str) -> Policy {
        let label = |name: String| namespace.at(&["metadata", "labels", &name]).and_then(Value::as_str);
        let level = label(format!("{PREFIX}{mode}"));
        let level = level.map_or(Level::Privileged, |text| Level::parse(text).unwrap_or(Level::Restricted));
        let version = label(format!("{PREFIX}{mode}-version")).unwrap_or("latest").to_owned();
        Policy { level, version }
    }

    /// Violations by a pod with this metadata and spec, in upstream's words.
    fn violation(&self, metadata: &Value, spec: &Value) -> Option<String> {
        let found = checks::violations(self.level, metadata, spec);
        let name = self.level.name();
        (!found.is_empty())
            .then(|| format!("violate PodSecurity \"{name}:{}\": {}", self.version, found.join(", ")))
    }
}

/// Validates policy labels of a namespace, unless they are unchanged.
pub fn validate_fields(namespace: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let Some(labels) = namespace.at(&["metadata", "labels"]).and_then(Value::as_map) else { return };
    let root = Path::root("metadata");
    let path = root.child("labels");
    for mode in ["enforce", "audit", "warn"] {
        for (suffix, detail) in [
            ("", "must be one of privileged, baseline, restricted"),
            ("-version", "must be \"latest\" or \"v1.x\""),
        ] {
            let label = format!("{PREFIX}{mode}{suffix}");
            let Some(given) = labels.get(&label).and_then(Value::as_str) else { continue };
            let is_known = if suffix.is_empty() { Level::parse(given).is_some() } else { is_version(given) };
            let before = old.and_then(|old| old.at(&["metadata", "labels", &label])).and_then(Value::as_str);
            if !is_known && before != Some(given) {
                errors.push(FieldError::invalid(&path.key(&label), given, detail));
            }
        }
    }
}

fn is_version(text: &str) -> bool {
    let is_number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u32>().is_ok();
    text == "latest"
        || text
            .strip_prefix("v1.")
            .is_some_and(|minor| is_number(minor) && (minor == "0" || !minor.starts_with('0')))
}

/// Validates a pod.
///
/// # Errors
/// If it violates the level that its namespace enforces.
pub fn validate(pod: &Value, old: Option<&Value>, snapshot: &Snapshot) -> Result<(), String> {
    let Some(namespace) = namespace_of(pod, snapshot) else { return Ok(()) };
    if old.is_some_and(|old| !has_new_images(pod, old)) {
        return Ok(());
    }
    let (nothing, spec) = (Value::Null, pod.get("spec"));
    let metadata = pod.get("metadata").unwrap_or(&nothing);
    let violation = Policy::of(&namespace, "enforce").violation(metadata, spec.unwrap_or(&nothing));
    violation.map_or(Ok(()), |text| Err(text.replacen("violate ", "violates ", 1)))
}

/// Warnings for an object with a pod spec.
pub fn warnings(
    resource_type: &ResourceType,
    object: &Value,
    old: Option<&Value>,
    snapshot: &Snapshot,
) -> Vec<String> {
    let template: &[&str] = match (&*resource_type.info.group, &*resource_type.info.plural) {
        ("", "pods") => &[],
        ("", "podtemplates") => &["template"],
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => &["spec", "template"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template"],
        _ => return Vec::new(),
    };
    let Some(namespace) = namespace_of(object, snapshot) else { return Vec::new() };
    if template.is_empty() && old.is_some_and(|old| !has_new_images(object, old)) {
        return Vec::new();
    }
    let (nothing, pod) = (Value::Null, object.at(template));
    let part = |field| pod.and_then(|pod| pod.get(field)).unwrap_or(&nothing);
    let violation = Policy::of(&namespace, "warn").violation(part("metadata"), part("spec"));
    violation.map(|text| format!("would {text}")).into_iter().collect()
}

/// Namespace of an object, if it has policy labels.
fn namespace_of(object: &Value, snapshot: &Snapshot) -> Option<Value> {
    let key = Key::cluster(&Resource::new("namespaces").ok()?, metadata::namespace(object)).ok()?;
    let has_policy = |record: &&Record| contains_text(record, PREFIX);
    snapshot.get(&key).filter(has_policy).map(codec::object)
}

/// `true` if an update changes images, so that the pod is evaluated again.
fn has_new_images(pod: &Value, old: &Value) -> bool {
    let images = |pod: &Value, field: &str| -> Vec<(String, String)> {
        let list = pod.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default();
        let of = |container: &Value| ["name", "image"].map(|field| container.str_at(&[field]).to_owned());
        list.iter().map(of).map(|[name, image]| (name, image)).collect()
    };
    ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .any(|field| images(pod, field) != images(old, field))
}

#[cfg(test)]
mod tests;
