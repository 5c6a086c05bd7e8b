//! PersistentVolume: storage with a lifetime independent of pods.

use super::resource_list::{self, amounts};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::json;
use crate::kinds::core::pod_spec::internal;
use crate::kinds::read::{set_default, set_default_if_empty};
use crate::kinds::{Author, Rules, check_immutable, keep};
use crate::metadata::{self, entry, texts};
use crate::names::dns;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::{Map, Value};

mod node_affinity;
mod source;

const SPEC: Path<'static> = Path::root("spec");
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// Former annotation with the name of the storage class.
pub(super) const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Rules of PersistentVolume.
pub struct PersistentVolume;

impl Rules for PersistentVolume {
    fn default(&self, object: &mut Value) {
        set_default_if_empty(object.ensure_map("status"), "phase", "Pending");
        let spec = object.ensure_map("spec");
        set_default_if_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_default(spec, "volumeMode", "Filesystem");
        resource_list::round_up(spec.get_mut("capacity"));
        source::default(spec);
    }

    fn has_status(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        let created = metadata::text(object, "creationTimestamp").to_owned();
        let mut status = Map::with_capacity(2);
        status.insert("phase", "Pending");
        status.insert("lastPhaseTransitionTime", created);
        object.make_map().insert("status", status);
    }

    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        let path = ["status", "lastPhaseTransitionTime"];
        let is_absent = new.at(&path).is_none_or(Value::is_null);
        if let Some(time) = old.at(&path).filter(|_| is_absent && !has_phase_change(new, old)) {
            new.ensure_map("status").insert("lastPhaseTransitionTime", time.clone());
        }
    }

    fn sign_status(&self, new: &mut Value, old: &Value, author: &Author<'_>) {
        set_phase_transition_time(new, old, author.now);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate(errors, object, false);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_unchanged(errors, new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let old_affinity = old.at(&["spec", "nodeAffinity", "required"]);
        validate(errors, new, old_affinity.is_some_and(node_affinity::has_bad_values));
        check_unchanged(errors, new, old);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (key, detail) in [
            (STORAGE_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
            (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
        ] {
            if entry(new, "annotations", key).is_some() {
                warnings.push(format!("metadata.annotations[{key}]: {detail}"));
            }
        }
        if new.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
            warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
        }
        warnings.extend(node_affinity::warnings(new.at(&["spec", "nodeAffinity", "required"])));
        warnings.extend(source::warnings(new));
        warnings
    }
}

fn has_phase_change(new: &Value, old: &Value) -> bool {
    new.str_at(&["status", "phase"]) != old.str_at(&["status", "phase"])
}

/// Sets the transition time of the phase, unless the request does.
fn set_phase_transition_time(new: &mut Value, old: &Value, now: Time) {
    let path = ["status", "lastPhaseTransitionTime"];
    let requested = new.at(&path).filter(|time| !time.is_null());
    let is_omitted = requested.is_none() || requested == old.at(&path);
    if has_phase_change(new, old) && is_omitted {
        new.ensure_map("status").insert("lastPhaseTransitionTime", Seconds(now).to_string());
    }
}

fn validate(errors: &mut ErrorList, object: &Value, keeps_bad_values: bool) {
    let spec = |field: &str| object.at(&["spec", field]).filter(|value| !value.is_null());
    let modes = texts(spec("accessModes"));
    if modes.is_empty() {
        errors.push(FieldError::required(&SPEC.child("accessModes"), ""));
    }
    check_access_modes(errors, &SPEC.child("accessModes"), &modes);
    check_capacity(errors, spec("capacity"));
    let policy = object.str_at(&["spec", "persistentVolumeReclaimPolicy"]);
    if !matches!(policy, "" | "Delete" | "Recycle" | "Retain") {
        let value = BadValue::json_string(policy);
        let path = SPEC.child("persistentVolumeReclaimPolicy");
        errors.push(FieldError::not_supported(&path, value, &["Delete", "Recycle", "Retain"]));
    }
    if let Some(affinity) = spec("nodeAffinity") {
        node_affinity::check(errors, &SPEC.child("nodeAffinity"), affinity, keeps_bad_values);
    }
    source::check(errors, object, spec("nodeAffinity").is_some());
    let class = object.str_at(&["spec", "storageClassName"]);
    if !class.is_empty() {
        errors.push_invalid(&SPEC.child("storageClassName"), class, dns::subdomain(class));
    }
    check_volume_mode(errors, &SPEC.child("volumeMode"), spec("volumeMode"));
    if let Some(class) = spec("volumeAttributesClassName").and_then(Value::as_str) {
        let path = SPEC.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.push(FieldError::required(&path, "an empty string is disallowed"));
        } else {
            errors.push_invalid(&path, class, dns::subdomain(class));
        }
        if spec("csi").is_none() {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required(&SPEC.child("csi"), detail));
        }
    }
    if entry(object, "annotations", MOUNT_OPTIONS).is_some() && !source::has_mount_options(object) {
        let metadata = Path::root("metadata");
        let annotations = metadata.child("annotations");
        let detail = "may not specify mount options for this volume type";
        errors.push(FieldError::forbidden(&annotations.child(MOUNT_OPTIONS), detail));
    }
}

/// Validates access modes, of a volume or claim.
pub(super) fn check_access_modes(errors: &mut ErrorList, path: &Path<'_>, modes: &[&str]) {
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(path, BadValue::json_string(mode), &ACCESS_MODES));
    }
    let is_other = |mode: &&str| ACCESS_MODES.contains(mode) && *mode != "ReadWriteOncePod";
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(is_other) {
        errors.push(FieldError::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Validates the mode of a volume or claim.
pub(super) fn check_volume_mode(errors: &mut ErrorList, path: &Path<'_>, mode: Option<&Value>) {
    if let Some(mode) = mode.and_then(Value::as_str).filter(|mode| !matches!(*mode, "Block" | "Filesystem")) {
        let value = BadValue::json_string(mode);
        errors.push(FieldError::not_supported(path, value, &["Block", "Filesystem"]));
    }
}

fn check_capacity(errors: &mut ErrorList, capacity: Option<&Value>) {
    let path = SPEC.child("capacity");
    let count = amounts(capacity).count();
    if count == 0 {
        errors.push(FieldError::required(&path, ""));
    }
    if count != 1 || amounts(capacity).any(|(name, _)| name != "storage") {
        let value = capacity.filter(|_| count > 0).map_or(BadValue::Null, |capacity| {
            let mut sorted = capacity.clone();
            sorted.make_map().sort();
            BadValue::Json(json::to_text(&sorted).into())
        });
        errors.push(FieldError::not_supported(&path, value, &["storage"]));
    }
    for (name, amount) in amounts(capacity) {
        let path = path.key(name);
        if amount.value() < 0 {
            errors.push(FieldError::invalid(&path, amount.value(), "must be a valid resource quantity"));
        }
        if amount.sign() <= 0 {
            errors.push(FieldError::invalid(&path, amount.to_string(), "must be greater than zero"));
        }
    }
}

fn check_unchanged(errors: &mut ErrorList, new: &Value, old: &Value) {
    if let Some(difference) = source::difference(new, old) {
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(FieldError::forbidden(&SPEC.child("persistentvolumesource"), detail));
    }
    let (is, was) = (new.at(&["spec", "volumeMode"]), old.at(&["spec", "volumeMode"]));
    check_immutable(errors, &Path::root("volumeMode"), is, was);
    let affinity = |object| Value::at(object, &["spec", "nodeAffinity"]).filter(|value| !value.is_null());
    if let Some(was) = affinity(old)
        && !node_affinity::is_same(affinity(new), was)
    {
        let detail = "field is immutable, except for updating from beta label to GA";
        let value = affinity(new).map_or(BadValue::Null, |new| internal::shown(new, "VolumeNodeAffinity"));
        errors.push(FieldError::invalid(&Path::root("nodeAffinity"), value, detail));
    }
    let class = |object| Value::at(object, &["spec", "volumeAttributesClassName"]).and_then(Value::as_str);
    if class(old).is_some() && class(new).is_none() {
        let detail = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden(&SPEC.child("volumeAttributesClassName"), detail));
    }
}
