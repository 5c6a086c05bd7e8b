//! Ephemeral containers, which are added to a running pod for debugging, and never changed or removed.

use std::collections::BTreeMap;

use super::{is_mirror, validate_pod};
use crate::field_error::{ErrorList, Path};
use crate::kinds::core::pod_spec::{annotations, drop_disabled, internal};
use crate::kinds::keep;
use crate::kinds::read::{is_equivalent, list, present, push_forbidden, text};
use crate::quote::Quoted;
use crate::value::Value;

/// Resets everything but the ephemeral containers in a write to `ephemeralcontainers`.
pub fn prepare_ephemeral_containers(new: &mut Value, old: &Value) {
    let added = new.get_mut("spec").and_then(|spec| spec.get_mut("ephemeralContainers")).map(Value::take);
    keep(new, old, "spec");
    keep(new, old, "status");
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_map_mut) {
        match added {
            Some(added) => drop(spec.insert("ephemeralContainers", added)),
            None => drop(spec.remove("ephemeralContainers")),
        }
    }
    drop_disabled(new);
}

/// Validates a write to `ephemeralcontainers`, including the pod itself.
pub fn validate_ephemeral_containers(new: &Value, old: &Value, errors: &mut ErrorList) {
    if is_mirror(old) {
        *errors = ErrorList::new();
        return push_forbidden(errors, &Path::root(""), "static pods do not support ephemeral containers");
    }
    validate_pod(errors, new);
    let meta_path = Path::root("metadata");
    annotations::validate_update(errors, &meta_path.child("annotations"), new, old);
    let none = Value::map();
    let (new, old) = (present(new, "spec").unwrap_or(&none), present(old, "spec").unwrap_or(&none));
    let path = Path::root("spec");
    let path = path.child("ephemeralContainers");
    // The last of equal names counts.
    let after: BTreeMap<&str, &Value> =
        list(new, "ephemeralContainers").iter().map(|new| (text(new, "name"), new)).collect();
    for before in list(old, "ephemeralContainers") {
        let name = text(before, "name");
        let now = after.get(name).copied();
        let name = Quoted(name);
        match now {
            None => {
                push_forbidden(
                    errors,
                    &path,
                    format!("existing ephemeral containers {name} may not be removed\n"),
                );
            }
            Some(now) if !is_equivalent(now, before) => {
                let difference = internal::difference(before, now, "EphemeralContainer");
                let detail = format!("existing ephemeral containers {name} may not be changed\n{difference}");
                push_forbidden(errors, &path, detail);
            }
            Some(_) => {}
        }
    }
}
