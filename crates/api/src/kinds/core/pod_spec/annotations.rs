//! Annotations of pods with a meaning, most of them superseded by fields.

use std::collections::{BTreeMap, BTreeSet};

use super::{each_container, paths, scheduling, security};
use crate::field_error::{ErrorList, Path};
use crate::json;
use crate::kinds::read::{
    annotation, optional_text, present, push_forbidden, push_invalid, text, text_entries,
};
use crate::quote::Quoted;
use crate::value::{Map, Value};

/// Marks a mirror pod.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Prefix of the AppArmor profile of a container.
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Seccomp profile of the pod.
pub(crate) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Prefix of the seccomp profile of a container.
pub(crate) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Former annotations for init containers, which are ignored.
const INIT_CONTAINERS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// `true` if a pod annotation is obsolete and ignored.
#[must_use]
pub fn is_obsolete(name: &str) -> bool {
    INIT_CONTAINERS.contains(&name)
}

/// Removes obsolete annotations.
pub(crate) fn drop_obsolete(meta: &mut Value) {
    let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_map_mut) else { return };
    let before = annotations.len();
    annotations.retain(|key, _| !is_obsolete(key));
    if annotations.is_empty() && before > 0 {
        meta.make_map().remove("annotations");
    }
}

/// Validates the annotations of a pod or template.
pub(crate) fn validate(errors: &mut ErrorList, path: &Path<'_>, meta: &Value, spec: &Value) {
    let Some(annotations) = present(meta, "annotations") else { return };
    if let Some(value) = optional_text(annotations, MIRROR)
        && text(spec, "nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        push_invalid(errors, &path.key(MIRROR), value, detail);
    }
    let written = text(annotations, TOLERATIONS);
    if !written.is_empty() {
        check_tolerations(errors, path, written);
    }
    if let Some(cost) = optional_text(annotations, DELETION_COST)
        && !is_cost(cost)
    {
        push_invalid(errors, &path.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    if let Some(profile) = optional_text(annotations, SECCOMP_POD) {
        check_seccomp(errors, &path.child(SECCOMP_POD), profile);
    }
    for (key, profile) in
        text_entries(meta, "annotations").filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER))
    {
        check_seccomp(errors, &path.child(key), profile);
    }
    let mut names: Option<BTreeSet<&str>> = None;
    for (key, profile) in text_entries(meta, "annotations") {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        let names = names.get_or_insert_with(|| {
            let mut names = BTreeSet::new();
            each_container(spec, &Path::NONE, |container, _| {
                names.insert(text(container, "name"));
            });
            names
        });
        if !names.contains(name) {
            push_invalid(errors, &path.key(key), name, "container not found");
        }
        let good =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !good {
            let detail = format!("invalid AppArmor profile name: {}", Quoted(profile));
            push_invalid(errors, &path.key(key), profile, detail);
        }
    }
}

/// Neither a plus sign nor leading zeros are allowed.
fn is_cost(cost: &str) -> bool {
    let first = cost.bytes().next();
    (cost == "0" || first.is_some_and(|b| matches!(b, b'-' | b'1'..=b'9'))) && cost.parse::<i32>().is_ok()
}

fn check_seccomp(errors: &mut ErrorList, path: &Path<'_>, profile: &str) {
    match profile.strip_prefix("localhost/") {
        Some(local) => paths::check_descending(errors, path, local),
        None if matches!(profile, "runtime/default" | "docker/default" | "unconfined") => {}
        None => push_invalid(errors, path, profile, "must be a valid seccomp profile"),
    }
}

/// Validates tolerations in an annotation, whose field names are case-insensitive.
fn check_tolerations(errors: &mut ErrorList, path: &Path<'_>, written: &str) {
    let parsed = match json::parse(written.as_bytes()) {
        Ok(parsed) => parsed,
        Err(error) => return push_invalid(errors, path, TOLERATIONS, error.to_string()),
    };
    let in_lower_case = |toleration: &Value| {
        let fields = toleration.as_map().into_iter().flat_map(|map| map.iter());
        let named = fields.map(|(key, value)| {
            let key = if key.eq_ignore_ascii_case("tolerationSeconds") {
                "tolerationSeconds".to_owned()
            } else {
                key.to_lowercase()
            };
            (key, value.clone())
        });
        Value::Map(named.collect::<Map>())
    };
    let list: Vec<Value> = parsed.as_list().unwrap_or_default().iter().map(in_lower_case).collect();
    scheduling::check_tolerations(errors, &path.child(TOLERATIONS), &list);
}

/// Rejects annotations that contradict the fields that supersede them, if both are new.
pub(crate) fn check_agree_with_fields(errors: &mut ErrorList, path: &Path<'_>, meta: &Value, spec: &Value) {
    if present(meta, "annotations").is_none() {
        return;
    }
    let profile_of = |holder: &Value, field: &str| {
        holder.at(&["securityContext", field]).filter(|profile| !profile.is_null()).cloned()
    };
    if let (Some(profile), Some(written)) =
        (profile_of(spec, "seccompProfile"), annotation(meta, SECCOMP_POD))
    {
        let path = path.child("securityContext");
        check_agree(errors, &path.child("seccompProfile"), "seccomp", &profile, written);
    }
    each_container(spec, path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER}{}", text(container, "name"));
        if let (Some(profile), Some(written)) =
            (profile_of(container, "seccompProfile"), annotation(meta, &key))
        {
            let path = path.child("securityContext");
            check_agree(errors, &path.child("seccompProfile"), "seccomp", &profile, written);
        }
    });
    if spec.str_at(&["os", "name"]) == "windows" {
        return;
    }
    let of_pod = profile_of(spec, "appArmorProfile");
    each_container(spec, path, |container, path| {
        let profile = profile_of(container, "appArmorProfile").or_else(|| of_pod.clone());
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        if let (Some(profile), Some(written)) = (profile, annotation(meta, &key)) {
            let path = path.child("securityContext");
            check_agree(errors, &path.child("appArmorProfile"), "apparmor", &profile, written);
        }
    });
}

fn check_agree(errors: &mut ErrorList, path: &Path<'_>, what: &str, profile: &Value, written: &str) {
    let wrong_type = || format!("{what} type in annotation and field must match");
    let good = match text(profile, "type") {
        "Unconfined" => written == "unconfined",
        "RuntimeDefault" => {
            written == "runtime/default" || (what == "seccomp" && written == "docker/default")
        }
        "Localhost" => match written.strip_prefix("localhost/") {
            Some(local) if optional_text(profile, "localhostProfile") != Some(local) => {
                let detail = format!("{what} profile in annotation and field must match");
                return push_forbidden(errors, &path.child("localhostProfile"), detail);
            }
            local => local.is_some(),
        },
        _ => true,
    };
    if !good {
        push_forbidden(errors, &path.child("type"), wrong_type());
    }
}

/// Rejects changes of immutable annotations.
pub(crate) fn validate_update(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) {
    let none = Value::map();
    let meta = |pod: &Value| present(pod, "metadata").cloned().unwrap_or_default();
    let (new_meta, old_meta) = (meta(new), meta(old));
    let is_fixed = |key: &str| key.starts_with(APP_ARMOR) || key == MIRROR;
    let what = |key: &str| if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
    for (key, value) in text_entries(&old_meta, "annotations").filter(|(key, _)| is_fixed(key)) {
        if annotation(&new_meta, key) != Some(value) {
            push_forbidden(errors, &path.key(key), format!("may not remove or update {}", what(key)));
        }
    }
    for (key, _) in text_entries(&new_meta, "annotations").filter(|(key, _)| is_fixed(key)) {
        if annotation(&old_meta, key).is_none() {
            push_forbidden(errors, &path.key(key), format!("may not add {}", what(key)));
        }
    }
    validate(errors, path, &new_meta, present(new, "spec").unwrap_or(&none));
}

/// Profile of an annotation, if it has one.
pub(crate) fn app_armor_field(written: &str) -> Option<Value> {
    let (ty, local) = match written {
        "unconfined" => ("Unconfined", None),
        "runtime/default" => ("RuntimeDefault", None),
        other => ("Localhost", Some(other.strip_prefix("localhost/").filter(|local| !local.is_empty())?)),
    };
    let mut profile = Map::new();
    profile.insert("type", ty);
    if let Some(local) = local {
        profile.insert("localhostProfile", local);
    }
    Some(Value::Map(profile))
}

/// Copies AppArmor profiles from annotations to the fields of their containers, if those are not set.
pub(crate) fn apply_app_armor(pod: &mut Value) {
    let annotations = text_entries(pod.get("metadata").unwrap_or(&Value::Null), "annotations");
    let written: BTreeMap<String, String> = annotations
        .filter_map(|(key, value)| Some((key.strip_prefix(APP_ARMOR)?.to_owned(), value.to_owned())))
        .collect();
    let Some(spec) = pod.get_mut("spec") else { return };
    if written.is_empty() || spec.str_at(&["os", "name"]) == "windows" {
        return;
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]).cloned();
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in crate::kinds::read::list_mut(spec, field) {
            let Some(value) = written.get(text(container, "name")) else { continue };
            if container.at(&["securityContext", "appArmorProfile"]).is_some_and(|profile| !profile.is_null())
            {
                continue;
            }
            let mut faults = ErrorList::new();
            let profile = app_armor_field(value).filter(|profile| {
                security::check_app_armor(&mut faults, &Path::NONE, profile);
                faults.is_empty()
            });
            if let Some(profile) = profile.filter(|profile| Some(profile) != of_pod.as_ref()) {
                container.ensure_map("securityContext").insert("appArmorProfile", profile);
            }
        }
    }
}
