//! Mutable fields of a pod: images, deadlines, additional tolerations, fewer scheduling gates.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_error::{BadValue, ErrorList, Path};
use crate::kinds::core::pod_spec::{annotations, internal, scheduling};
use crate::kinds::read::{
    entries, is_equivalent, list, optional_number, present, push_forbidden, push_invalid, push_required,
    shown, text, text_entries,
};
use crate::names::key;
use crate::value::Value;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update of a pod.
pub(super) fn validate(errors: &mut ErrorList, new: &Value, old: &Value) {
    let meta_path = Path::root("metadata");
    annotations::validate_update(errors, &meta_path.child("annotations"), new, old);
    let none = Value::map();
    let (new, old) = (present(new, "spec").unwrap_or(&none), present(old, "spec").unwrap_or(&none));
    let path = Path::root("spec");
    for field in ["containers", "initContainers"] {
        if !check_containers(errors, &path.child(field), list(new, field), list(old, field)) {
            return;
        }
    }
    if !check_deadline(errors, &path.child("activeDeadlineSeconds"), new, old) {
        return;
    }
    check_tolerations(errors, &path.child("tolerations"), list(new, "tolerations"), list(old, "tolerations"));
    let gates_path = path.child("schedulingGates");
    check_scheduling_gates(errors, &gates_path, list(new, "schedulingGates"), list(old, "schedulingGates"));
    if is_equivalent(new, old) {
        return;
    }
    let rest = check_without_updatable(errors, &path, new, old);
    if !is_equivalent(&rest, old) {
        let difference = internal::difference(old, &rest, "PodSpec");
        push_forbidden(
            errors,
            &path,
            format!("pod updates may not change fields other than {UPDATABLE}\n{difference}"),
        );
    }
}

/// `true` if the containers are the same; validates their new images.
fn check_containers(errors: &mut ErrorList, path: &Path<'_>, new: &[Value], old: &[Value]) -> bool {
    if new.len() != old.len() {
        push_forbidden(errors, path, "pod updates may not add or remove containers");
        return false;
    }
    for (i, container) in new.iter().enumerate() {
        let path = path.index(i);
        let image = text(container, "image");
        if image.is_empty() {
            push_required(errors, &path.child("image"), "");
        }
        if image.trim().len() != image.len() {
            push_invalid(errors, &path.child("image"), image, "must not have leading or trailing whitespace");
        }
    }
    true
}

/// A deadline may be set and shortened. `true` if validation should continue.
fn check_deadline(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) -> bool {
    let field = "activeDeadlineSeconds";
    match (optional_number(new, field), optional_number(old, field)) {
        (Some(new), old) => {
            let faults = key::in_range(new, 0, i64::from(i32::MAX));
            let is_good = faults.is_empty();
            for fault in faults {
                push_invalid(errors, path, new, fault);
            }
            if is_good && old.is_some_and(|old| old < new) {
                push_invalid(errors, path, new, "must be less than or equal to previous value");
                return false;
            }
            is_good
        }
        (None, Some(_)) => {
            push_invalid(
                errors,
                path,
                BadValue::Null,
                "must not update from a positive integer to nil value",
            );
            true
        }
        (None, None) => true,
    }
}

/// Tolerations may be added; of existing ones only the seconds may change.
fn check_tolerations(errors: &mut ErrorList, path: &Path<'_>, new: &[Value], old: &[Value]) {
    fn identity(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|field| text(toleration, field))
    }
    let kept: BTreeSet<[&str; 4]> = new.iter().map(identity).collect();
    if !old.iter().all(|old| kept.contains(&identity(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return push_forbidden(errors, path, detail);
    }
    scheduling::check_tolerations(errors, path, new);
}

fn check_scheduling_gates(errors: &mut ErrorList, path: &Path<'_>, new: &[Value], old: &[Value]) {
    let known: BTreeSet<&str> = old.iter().map(|gate| text(gate, "name")).collect();
    let last: BTreeMap<&str, usize> =
        new.iter().enumerate().map(|(i, gate)| (text(gate, "name"), i)).collect();
    for (i, gate) in new.iter().enumerate() {
        let name = text(gate, "name");
        if !known.contains(name) && last.get(name) == Some(&i) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            push_forbidden(errors, &path.index(i).child("name"), detail);
        }
    }
}

/// The new spec with all mutable fields reset.
fn check_without_updatable(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) -> Value {
    let mut rest = new.clone();
    for field in ["containers", "initContainers"] {
        for (at, before) in list(old, field).iter().enumerate() {
            if let Some(container) = crate::kinds::read::list_mut(&mut rest, field).get_mut(at) {
                reset(container, before, "image");
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        reset(&mut rest, old, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if optional_number(old, grace).is_some_and(|seconds| seconds < 0)
        && optional_number(new, grace) == Some(1)
    {
        reset(&mut rest, old, grace);
    }
    if !list(old, "schedulingGates").is_empty() {
        check_node_choice(errors, path, &mut rest, old);
    }
    rest
}

fn reset(new: &mut Value, old: &Value, field: &str) {
    match present(old, field) {
        Some(value) => drop(new.make_map().insert(field, value.clone())),
        None => drop(new.make_map().remove(field)),
    }
}

/// Node selector and affinity of a gated pod may become more restrictive.
fn check_node_choice(errors: &mut ErrorList, path: &Path<'_>, rest: &mut Value, old: &Value) {
    if rest.get("nodeSelector") != old.get("nodeSelector") {
        let narrows = entries(old, "nodeSelector").all(|(label, value)| {
            present(rest, "nodeSelector").and_then(|new| new.get(label)) == Some(value)
        });
        if !narrows {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            let new =
                present(rest, "nodeSelector").filter(|_| text_entries(rest, "nodeSelector").next().is_some());
            push_invalid(errors, &path.child("nodeSelector"), shown(new), detail);
        }
        reset(rest, old, "nodeSelector");
    }
    let of = |spec: &Value| spec.at(&["affinity", "nodeAffinity"]).filter(|nodes| !nodes.is_null()).cloned();
    let (new_nodes, old_nodes) = (of(rest), of(old));
    if new_nodes == old_nodes {
        return;
    }
    let affinity_path = path.child("affinity");
    let nodes_path = affinity_path.child("nodeAffinity");
    check_node_affinity(errors, &nodes_path, new_nodes.as_ref(), old_nodes.as_ref());
    let affinity = rest.ensure_map("affinity");
    match old_nodes {
        Some(nodes) => drop(affinity.insert("nodeAffinity", nodes)),
        None => drop(affinity.remove("nodeAffinity")),
    }
    if affinity.is_empty() && present(old, "affinity").is_none() {
        rest.make_map().remove("affinity");
    }
}

/// Required terms may get further requirements; if there were none, any may be added.
fn check_node_affinity(errors: &mut ErrorList, path: &Path<'_>, new: Option<&Value>, old: Option<&Value>) {
    fn terms(nodes: Option<&Value>) -> &[Value] {
        nodes
            .and_then(|nodes| present(nodes, REQUIRED))
            .map_or(&[], |selector| list(selector, "nodeSelectorTerms"))
    }
    let (new, old) = (terms(new), terms(old));
    if old.is_empty() {
        return;
    }
    let path = path.child(REQUIRED);
    let path = path.child("nodeSelectorTerms");
    if new.len() != old.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return push_invalid(errors, &path, internal::shown_list(new, "NodeSelectorTerm"), detail);
    }
    for (i, (new, old)) in new.iter().zip(old).enumerate() {
        if !is_extended_only(new, old) {
            let detail = "only additions are allowed (no mutations or deletions)";
            push_invalid(errors, &path.index(i), internal::shown(new, "NodeSelectorTerm"), detail);
        }
    }
}

fn is_extended_only(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"].map(|field| (list(new, field), list(old, field)));
    let was_empty = lists.iter().all(|(_, old)| old.is_empty());
    let is_empty = lists.iter().all(|(new, _)| new.is_empty());
    if was_empty {
        return is_empty;
    }
    lists.iter().all(|(new, old)| new.starts_with(old))
}
