//! In-place resize of a running pod: only CPU and memory.

use super::{is_mirror, keep_pod_resources, qos_class, validate_pod};
use crate::field_error::{ErrorList, Path};
use crate::kinds::core::pod_spec::drop_disabled;
use crate::kinds::core::pod_spec::resources::{default_pod_level, is_sidecar};
use crate::kinds::keep;
use crate::kinds::read::{entries, is_equivalent, list, present, push_forbidden, push_invalid_enum, text};
use crate::value::Value;

/// Mutable resources.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// Resets everything but resources in a write to `resize`. If containers are added, removed or renamed,
/// everything is kept, so that validation reports it.
pub fn prepare_resize(new: &mut Value, old: &Value) {
    let count = |pod: &Value, field: &str| {
        pod.at(&["spec", field]).map_or(0, |list| list.as_list().map_or(0, <[_]>::len))
    };
    let same_counts =
        ["containers", "initContainers"].iter().all(|field| count(new, field) == count(old, field));
    if same_counts && let Some(spec) = new.get_mut("spec").map(Value::take) {
        keep(new, old, "spec");
        keep(new, old, "status");
        let kept = new.ensure_map("spec");
        match present(&spec, "resources") {
            Some(resources) => drop(kept.insert("resources", resources.clone())),
            None => drop(kept.remove("resources")),
        }
        for field in ["containers", "initContainers"] {
            if let Some(containers) = kept.get_mut(field).and_then(Value::as_list_mut) {
                take_resources(containers, list(&spec, field));
            }
        }
    }
    keep_pod_resources(new, old);
    if let Some(spec) = new.get_mut("spec") {
        default_pod_level(spec);
    }
    drop_disabled(new);
}

fn take_resources(kept: &mut Vec<Value>, new: &[Value]) {
    if kept.iter().zip(new).any(|(kept, new)| text(kept, "name") != text(new, "name")) {
        *kept = new.to_vec();
        return;
    }
    for (kept, new) in kept.iter_mut().zip(new) {
        for field in ["resources", "resizePolicy"] {
            match present(new, field) {
                Some(value) => drop(kept.make_map().insert(field, value.clone())),
                None => drop(kept.make_map().remove(field)),
            }
        }
    }
}

/// Validates a write to `resize`, including the pod itself.
pub fn validate_resize(new: &Value, old: &Value, errors: &mut ErrorList) {
    let none = Value::map();
    let (new_spec, old_spec) = (present(new, "spec").unwrap_or(&none), present(old, "spec").unwrap_or(&none));
    let refusal = if is_mirror(old) {
        Some("static pods cannot be resized")
    } else if old_spec.str_at(&["os", "name"]) == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(refusal) = refusal {
        *errors = ErrorList::new();
        return push_forbidden(errors, &Path::root(""), refusal);
    }
    validate_pod(errors, new);
    let path = Path::root("spec");
    let class = match old.str_at(&["status", "qosClass"]) {
        "" => qos_class(old_spec),
        class => class,
    };
    if class != qos_class(new_spec) {
        let shown = new.str_at(&["status", "qosClass"]);
        push_invalid_enum(errors, &path, shown, "Pod QOS Class may not change as a result of resizing");
    }
    if !is_supported(old) {
        push_forbidden(errors, &path, "Pod running on node without support for resize");
    }
    let mut rest = new_spec.clone();
    if has_pod_level(old_spec) || has_pod_level(new_spec) {
        check_pod_level(errors, &path, &mut rest, new_spec, old_spec);
    }
    if !is_in_order(errors, &path, new_spec, old_spec) {
        return;
    }
    check_containers(errors, &path, &mut rest, new_spec, old_spec);
    if !is_same_field(new_spec, old_spec, "volumes") {
        let detail = "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled";
        push_forbidden(errors, &path.child("volumes"), detail);
    }
    if errors.is_empty() && !is_equivalent(&rest, old_spec) {
        push_forbidden(errors, &path, "only cpu and memory resources are mutable");
    }
}

fn is_same_field(a: &Value, b: &Value, field: &str) -> bool {
    match (present(a, field), present(b, field)) {
        (Some(a), Some(b)) => is_equivalent(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// `true` if the node reports the resources of its containers; also without running containers.
fn is_supported(pod: &Value) -> bool {
    let Some(status) = present(pod, "status") else { return true };
    let is_running = |one: &&Value| one.at(&["state", "running"]).is_some_and(|state| !state.is_null());
    list(status, "containerStatuses")
        .iter()
        .find(is_running)
        .is_none_or(|one| present(one, "resources").is_some())
}

fn has_pod_level(spec: &Value) -> bool {
    present(spec, "resources")
        .is_some_and(|own| entries(own, "requests").chain(entries(own, "limits")).next().is_some())
}

fn check_pod_level(errors: &mut ErrorList, path: &Path<'_>, rest: &mut Value, new: &Value, old: &Value) {
    let resources_path = path.child("resources");
    let (was, is) = (present(old, "resources"), present(new, "resources"));
    if let Some(was) = was {
        let Some(is) = is else {
            return push_forbidden(errors, &resources_path, "pod-level resources cannot be removed");
        };
        for sort in ["requests", "limits"] {
            if is_removed(is, was, sort) {
                let detail = format!("pod-level resource {sort} cannot be removed");
                push_forbidden(errors, &resources_path.child(sort), detail);
            }
        }
    }
    if let Some(resources) = rest.get_mut("resources") {
        reset(resources, was.unwrap_or(&Value::Null));
        if was.is_none() && resources.is_empty() {
            rest.make_map().remove("resources");
        }
    }
    if !is_same_field(rest, old, "resources") {
        push_forbidden(errors, path, "only cpu and memory resources are mutable at pod-level");
    }
}

fn is_removed(new: &Value, old: &Value, sort: &str) -> bool {
    entries(old, sort).any(|(name, _)| present(new, sort).is_none_or(|new| new.get(name).is_none()))
}

/// Resets the mutable resources.
fn reset(resources: &mut Value, old: &Value) {
    for sort in ["limits", "requests"] {
        let amounts = resources.ensure_map(sort);
        for name in MUTABLE {
            amounts.remove(name);
            if let Some(amount) = present(old, sort).and_then(|old| old.get(name)) {
                amounts.insert(name, amount.clone());
            }
        }
        if amounts.is_empty() {
            resources.make_map().remove(sort);
        }
    }
}

/// `true` if the containers are the same in the same order.
fn is_in_order(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) -> bool {
    let mut good = true;
    for field in ["containers", "initContainers"] {
        let (new, old) = (list(new, field), list(old, field));
        let path = path.child(field);
        if new.len() != old.len() {
            good = false;
            push_forbidden(errors, &path, format!("{field} may not be added or removed on resize"));
            continue;
        }
        for (i, _) in new.iter().zip(old).enumerate().filter(|(_, (a, b))| text(a, "name") != text(b, "name"))
        {
            good = false;
            let detail = format!("{field} may not be renamed or reordered on resize");
            push_forbidden(errors, &path.index(i).child("name"), detail);
        }
    }
    good
}

fn check_containers(errors: &mut ErrorList, path: &Path<'_>, rest: &mut Value, new: &Value, old: &Value) {
    let none = Value::map();
    for field in ["initContainers", "containers"] {
        let list_path = path.child(field);
        for (i, (new, old)) in list(new, field).iter().zip(list(old, field)).enumerate() {
            let path = list_path.index(i);
            let path = path.child("resources");
            let (is, was) =
                (present(new, "resources").unwrap_or(&none), present(old, "resources").unwrap_or(&none));
            for sort in ["requests", "limits"] {
                if is_removed(is, was, sort) {
                    push_forbidden(errors, &path.child(sort), format!("resource {sort} cannot be removed"));
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        let list_path = path.child(field);
        let kept = crate::kinds::read::list_mut(rest, field);
        for (i, (container, old)) in kept.iter_mut().zip(list(old, field)).enumerate() {
            let was_modified = !is_equivalent(container, old);
            let resources = container.make_map().ensure("resources", Value::map);
            reset(resources, present(old, "resources").unwrap_or(&none));
            let is_init = field == "initContainers";
            if !is_equivalent(container, old) {
                if is_init {
                    let detail = "only cpu and memory resources for init or sidecar containers are mutable";
                    push_forbidden(errors, &list_path.index(i), detail);
                } else {
                    push_forbidden(errors, path, "only cpu and memory resources are mutable");
                }
            }
            if is_init && was_modified && !is_sidecar(container) {
                let restarts = |policy: &&Value| text(policy, "restartPolicy") == "RestartContainer";
                for _ in list(container, "resizePolicy").iter().filter(restarts) {
                    let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    push_forbidden(errors, &list_path.index(i), detail);
                }
            }
        }
    }
}
