//! PersistentVolumeClaim: a request for storage.

use super::persistent_volume::{STORAGE_CLASS, check_access_modes, check_volume_mode};
use super::pod_spec::internal;
use super::resource_list::{self, amount_of, amounts};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::read;
use crate::kinds::read::{set_default, set_default_if_empty};
use crate::kinds::{Rules, check_immutable, keep};
use crate::metadata::{entry, pairs, texts};
use crate::names::{NameRule, dns, key};
use crate::quote::Quoted;
use crate::value::{Map, Value};

const SPEC: Path<'static> = Path::root("spec");
const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Rules of PersistentVolumeClaim.
pub struct PersistentVolumeClaim;

impl Rules for PersistentVolumeClaim {
    fn default(&self, object: &mut Value) {
        set_default_if_empty(object.ensure_map("status"), "phase", "Pending");
        set_default(object.ensure_map("spec"), "volumeMode", "Filesystem");
        for path in [
            &["spec", "resources", "limits"][..],
            &["spec", "resources", "requests"],
            &["status", "capacity"],
            &["status", "allocatedResources"],
        ] {
            resource_list::round_up(object.at_mut(path));
        }
    }

    fn has_status(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        let mut status = Map::with_capacity(1);
        status.insert("phase", "Pending");
        object.make_map().insert("status", status);
        sync_data_sources(object.ensure_map("spec"), None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        sync_data_sources(new.ensure_map("spec"), old.get("spec"));
    }

    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        if old.at(&["status", "healthStatus"]).is_none_or(Value::is_null)
            && let Some(Value::Map(status)) = new.get_mut("status")
        {
            status.remove("healthStatus");
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate_spec(errors, &SPEC, object.get("spec"), None);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_unchanged(errors, new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        validate_spec(errors, &SPEC, new.get("spec"), old.get("spec"));
        check_unchanged(errors, new, old);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        validate_status(errors, new);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if entry(new, "annotations", STORAGE_CLASS).is_some() {
            warnings.push(format!(
                "metadata.annotations[{STORAGE_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        for list in ["requests", "limits"] {
            let storage = amount_of(new.at(&["spec", "resources", list]), "storage");
            if let Some(storage) = storage.filter(|storage| storage.milli_value() % 1000 != 0) {
                warnings.push(format!(
                    "spec.resources.{list}[storage]: fractional byte value {} is invalid, must be an integer",
                    Quoted(&storage.to_string())
                ));
            }
        }
        warnings
    }
}

fn field<'a>(spec: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    spec?.get(name).filter(|value| !value.is_null())
}

/// Copies `dataSource` and `dataSourceRef` to each other if possible. The older field supports only claims
/// and snapshots, and the newer one no other namespace, unless the stored object has one.
fn sync_data_sources(spec: &mut Map, old: Option<&Value>) {
    let was_used = |name: &str| field(old, name).is_some();
    let set = |spec: &Map, name: &str| spec.get(name).is_some_and(|value| !value.is_null());
    let names_namespace = |spec: &Map| {
        spec.get("dataSourceRef").is_some_and(|source| !source.str_at(&["namespace"]).is_empty())
    };
    if names_namespace(spec) && !was_used("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    if !was_used("dataSource") && !was_used("dataSourceRef") && !set(spec, "dataSourceRef") {
        let source = spec.get("dataSource");
        let word = |name: &str| source.map_or("", |source| source.str_at(&[name]));
        let takes = matches!(
            (word("apiGroup"), word("kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        );
        if !takes {
            spec.remove("dataSource");
        }
    }
    let copied = |spec: &Map, from: &str| {
        let source = spec.get(from).and_then(Value::as_map);
        source.map(|source| {
            let fields = source.iter().filter(|(name, _)| matches!(*name, "apiGroup" | "kind" | "name"));
            fields.map(|(name, value)| (name, value.clone())).collect::<Map>()
        })
    };
    if set(spec, "dataSource") && !set(spec, "dataSourceRef") {
        if let Some(source) = copied(spec, "dataSource") {
            spec.insert("dataSourceRef", source);
        }
    } else if set(spec, "dataSourceRef")
        && !set(spec, "dataSource")
        && !names_namespace(spec)
        && let Some(source) = copied(spec, "dataSourceRef")
    {
        spec.insert("dataSource", source);
    }
}

/// Validates the spec of a claim or claim template. Violations that `old` has too are accepted.
pub(crate) fn validate_spec(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: Option<&Value>,
    old: Option<&Value>,
) {
    let modes = texts(field(spec, "accessModes"));
    if modes.is_empty() {
        errors.push(FieldError::required(&path.child("accessModes"), "at least 1 access mode is required"));
    }
    if let Some(selector) = field(spec, "selector") {
        let mut old_errors = ErrorList::new();
        if let Some(old) = field(old, "selector") {
            read::check_selector(&mut old_errors, path, old, false);
        }
        read::check_selector(errors, &path.child("selector"), selector, !old_errors.is_empty());
    }
    check_access_modes(errors, &path.child("accessModes"), &modes);
    check_storage(errors, path, spec);
    let class = |name: &str| field(spec, name).and_then(Value::as_str).filter(|class| !class.is_empty());
    if let Some(class) = class("storageClassName") {
        errors.push_invalid(&path.child("storageClassName"), class, dns::subdomain(class));
    }
    check_volume_mode(errors, &path.child("volumeMode"), field(spec, "volumeMode"));
    check_data_sources(errors, path, spec, old);
    if let Some(class) = class("volumeAttributesClassName") {
        errors.push_invalid(&path.child("volumeAttributesClassName"), class, dns::subdomain(class));
    }
}

fn check_storage(errors: &mut ErrorList, path: &Path<'_>, spec: Option<&Value>) {
    let resources = path.child("resources");
    let path = resources.key("storage");
    let requests = field(spec, "resources").and_then(|resources| resources.get("requests"));
    match amount_of(requests, "storage") {
        None => errors.push(FieldError::required(&path, "")),
        Some(amount) if amount.sign() <= 0 => {
            errors.push(FieldError::invalid(&path, amount.to_string(), "must be greater than zero"));
        }
        Some(_) => {}
    }
}

fn check_data_sources(errors: &mut ErrorList, path: &Path<'_>, spec: Option<&Value>, old: Option<&Value>) {
    let (source, reference) = (field(spec, "dataSource"), field(spec, "dataSourceRef"));
    let has_group = |name: &str| field(field(old, name), "apiGroup").is_some();
    let keeps_group = has_group("dataSource") || has_group("dataSourceRef");
    for (name, value) in [("dataSource", source), ("dataSourceRef", reference)] {
        if let Some(value) = value {
            check_data_source(errors, &path.child(name), value, keeps_group);
        }
    }
    let (Some(source), Some(reference)) = (source, reference) else { return };
    // The message shows an object without visible fields.
    let shown = || BadValue::Json("{}".into());
    let same = |name: &str| field(Some(source), name) == field(Some(reference), name);
    if !reference.str_at(&["namespace"]).is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.push(FieldError::invalid(path, shown(), detail));
    } else if !["apiGroup", "kind", "name"].into_iter().all(same) {
        errors.push(FieldError::invalid(path, shown(), "must match dataSourceRef"));
    }
}

fn check_data_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value, keeps_group: bool) {
    let word = |name: &str| source.str_at(&[name]);
    for name in ["name", "kind"] {
        if word(name).is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    if word("apiGroup").is_empty() {
        if word("kind") != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(FieldError::invalid(path, word("kind"), detail));
        }
    } else if !keeps_group {
        errors.push_invalid(&path.child("apiGroup"), word("apiGroup"), dns::subdomain(word("apiGroup")));
    }
    let namespace = word("namespace");
    if !namespace.is_empty() {
        errors.push_invalid(&path.child("namespace"), namespace, NameRule::Label.check(namespace));
    }
}

/// A claim may be bound, get its default storage class, and grow; the rest of its spec is immutable.
fn check_unchanged(errors: &mut ErrorList, new: &Value, old: &Value) {
    let (is, was) = (new.get("spec"), old.get("spec"));
    let annotation = |object| entry(object, "annotations", STORAGE_CLASS);
    let class = |spec| field(spec, "storageClassName").and_then(Value::as_str);
    let from_annotation = was_class_annotated(annotation(old), annotation(new), class(was), class(is));
    if !from_annotation && annotation(new).unwrap_or_default() != annotation(old).unwrap_or_default() {
        let metadata = Path::root("metadata");
        let annotations = metadata.child("annotations");
        let value = annotation(new).unwrap_or_default();
        errors.push(FieldError::invalid(&annotations.child(STORAGE_CLASS), value, "field is immutable"));
    }
    let from_nothing = class(was).is_none()
        && class(is).is_some_and(|class| annotation(old).is_none_or(|annotated| annotated == class));
    let is_bound = new.str_at(&["status", "phase"]) == "Bound";
    let keeps = AllowedChanges { class: from_annotation || from_nothing, is_bound };
    if !is_same_spec(is, was, &keeps) {
        let (was, is) = compared(was, is, &keeps);
        let difference = internal::difference(&was, &is, "PersistentVolumeClaimSpec");
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"
        );
        errors.push(FieldError::forbidden(&SPEC, detail));
    }
    check_size(errors, new, old);
    check_immutable(errors, &Path::root("volumeMode"), field(is, "volumeMode"), field(was, "volumeMode"));
    check_attributes_class(errors, new, old);
}

/// `true` if the class moved from the annotation to its field.
fn was_class_annotated(
    old_annotation: Option<&str>,
    new_annotation: Option<&str>,
    old: Option<&str>,
    new: Option<&str>,
) -> bool {
    old_annotation.is_some()
        && old.is_none()
        && new == old_annotation
        && (new_annotation.is_none() || new_annotation == old_annotation)
}

/// Fields that an update may set.
struct AllowedChanges {
    /// Name of the storage class.
    class: bool,
    /// Resource requests of a bound claim.
    is_bound: bool,
}

fn is_same_spec(is: Option<&Value>, was: Option<&Value>, keeps: &AllowedChanges) -> bool {
    let names = |spec: Option<&Value>| -> Vec<String> {
        let map = spec.and_then(Value::as_map).into_iter().flat_map(Map::keys);
        map.map(str::to_owned).collect()
    };
    names(is).iter().chain(&names(was)).all(|name| match &**name {
        "volumeName" if field(was, "volumeName").is_none_or(Value::is_empty) => true,
        "storageClassName" if keeps.class => true,
        "volumeAttributesClassName" if keeps.is_bound => true,
        "resources" => is_same_resources(field(is, name), field(was, name), keeps.is_bound),
        name => field(is, name) == field(was, name),
    })
}

/// Old and new spec for a message, without the allowed differences.
fn compared(was: Option<&Value>, is: Option<&Value>, keeps: &AllowedChanges) -> (Value, Value) {
    let (mut was, mut is) = (was.cloned().unwrap_or_default(), is.cloned().unwrap_or_default());
    let copy = |from: &Value, to: &mut Value, name: &str| match from.get(name) {
        Some(value) => drop(to.make_map().insert(name, value.clone())),
        None => drop(to.make_map().remove(name)),
    };
    if was.str_at(&["volumeName"]).is_empty() {
        copy(&is, &mut was, "volumeName");
    }
    if keeps.class {
        copy(&was, &mut is, "storageClassName");
    }
    if keeps.is_bound {
        copy(&was, &mut is, "volumeAttributesClassName");
        let size = was.at(&["resources", "requests", "storage"]).cloned();
        if let Some(requests) = is.at_mut(&["resources", "requests"]).and_then(Value::as_map_mut) {
            requests.insert("storage", size.unwrap_or_else(|| "0".into()));
        }
    }
    (was, is)
}

fn is_same_resources(is: Option<&Value>, was: Option<&Value>, is_bound: bool) -> bool {
    let list = |resources, name| field(resources, name);
    if !resource_list::has_equal_amounts(list(is, "limits"), list(was, "limits")) {
        return false;
    }
    let (requests, old_requests) = (list(is, "requests"), list(was, "requests"));
    if !is_bound || requests.is_none() {
        return resource_list::has_equal_amounts(requests, old_requests);
    }
    let others = |list| -> Vec<(String, _)> {
        let mut others: Vec<_> = amounts(list)
            .filter(|(name, _)| *name != "storage")
            .map(|(name, amount)| (name.to_owned(), amount))
            .collect();
        others.sort_by(|a, b| a.0.cmp(&b.0));
        others
    };
    others(requests) == others(old_requests)
}

fn check_size(errors: &mut ErrorList, new: &Value, old: &Value) {
    let size = |object| amount_of(Value::at(object, &["spec", "resources", "requests"]), "storage");
    let capacity = amount_of(old.at(&["status", "capacity"]), "storage").unwrap_or_default();
    let (is, was) = (size(new).unwrap_or_default(), size(old).unwrap_or_default());
    if is < was && is <= capacity {
        let resources = SPEC.child("resources");
        let requests = resources.child("requests");
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden(&requests.child("storage"), detail));
    }
}

fn check_attributes_class(errors: &mut ErrorList, new: &Value, old: &Value) {
    let class = |object| {
        Value::at(object, &["spec", "volumeAttributesClassName"]).and_then(Value::as_str).map(str::to_owned)
    };
    let current = old.at(&["status", "currentVolumeAttributesClassName"]).filter(|value| !value.is_null());
    if class(new) == class(old) || current.is_none() {
        return;
    }
    let to = match class(new).as_deref() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail =
        format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(FieldError::forbidden(&SPEC.child("volumeAttributesClassName"), detail));
}

fn validate_status(errors: &mut ErrorList, new: &Value) {
    if texts(new.at(&["spec", "accessModes"])).is_empty() {
        let path = Path::root("Spec");
        errors.push(FieldError::required(&path.child("accessModes"), ""));
    }
    let status = Path::root("status");
    for (name, amount) in amounts(new.at(&["status", "capacity"])) {
        if amount.value() < 0 {
            let path = status.child("capacity");
            let detail = "must be a valid resource quantity";
            errors.push(FieldError::invalid(&path.key(name), amount.value(), detail));
        }
    }
    let path = status.child("allocatedResourceStatuses");
    for (name, state) in pairs(new.at(&["status", "allocatedResourceStatuses"])) {
        check_resource_key(errors, &path, name);
        if !RESIZE_STATUSES.contains(&state) {
            let value = BadValue::json_string(name);
            errors.push(FieldError::not_supported(&path, value, &RESIZE_STATUSES));
        }
    }
    let path = status.child("allocatedResources");
    for (name, amount) in amounts(new.at(&["status", "allocatedResources"])) {
        let before = errors.len();
        check_resource_key(errors, &path, name);
        if errors.len() > before {
            continue;
        }
        if amount.value() < 0 {
            let detail = "must be a valid resource quantity";
            errors.push(FieldError::invalid(&path.key(name), amount.value(), detail));
        } else {
            resource_list::check_not_negative(errors, &path.key(name), amount);
        }
    }
}

fn check_resource_key(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    let faults = key::label_key(name);
    if faults.is_empty() && resource_list::is_native(name) && name != "storage" {
        errors.push(FieldError::not_supported(path, name, &["storage"]));
    }
    errors.push_invalid(path, name, faults);
}
