//! CSINode: the storage drivers of a node.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::check::{self, GoLayout};
use crate::kinds::{ALL_BUT_STATUS, Rules, keep};
use crate::value::Value;

const NODE_ID_BYTES_MAX: usize = 256;
const HEALTH_CONDITIONS_MAX: usize = 16;
const REASON_BYTES_MAX: usize = 256;
const MESSAGE_BYTES_MAX: usize = 1024;

/// A driver as errors show it: without the allocatable count, which may change.
const DRIVER: GoLayout = GoLayout::Struct(&[
    ("Name", "name", GoLayout::Text),
    ("NodeID", "nodeID", GoLayout::Text),
    ("TopologyKeys", "topologyKeys", GoLayout::Plain),
    ("Allocatable", "", GoLayout::Plain),
]);

/// Rules of CSINode.
pub struct CsiNode;

impl Rules for CsiNode {
    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    /// Storage health is a disabled feature: existing values are kept, new ones are cleared.
    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        if check::list(check::field(old, "status"), "storageHealth").is_empty()
            && let Some(status) = new.get_mut("status").and_then(Value::as_map_mut)
        {
            status.remove("storageHealth");
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let path = path.child("drivers");
        let mut names = BTreeSet::new();
        for (i, one) in check::list(check::field(object, "spec"), "drivers").iter().enumerate() {
            check_driver(errors, &path.index(i), one, &mut names);
        }
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let drivers = |object| check::list(check::field(object, "spec"), "drivers");
        let path = Path::root("spec");
        let mut by_name: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for driver in drivers(new) {
            by_name.entry(check::text(driver, "name")).or_default().push(driver);
        }
        for old in drivers(old) {
            for new in by_name.get(check::text(old, "name")).into_iter().flatten() {
                if !is_same_driver(new, old) {
                    let value = check::format_go(new, &DRIVER);
                    errors.push(FieldError::invalid(&path.child("drivers"), value, check::IMMUTABLE));
                }
            }
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let path = Path::root("status");
        let path = path.child("storageHealth");
        let mut names = BTreeSet::new();
        for (i, one) in check::list(check::field(new, "status"), "storageHealth").iter().enumerate() {
            let path = path.index(i);
            let name = check::text(one, "name");
            if !names.insert(name) {
                errors.push(FieldError::duplicate(&path, name));
            }
            check_health(errors, &path, one);
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// `true` if two entries differ at most in the allocatable count.
fn is_same_driver(new: &Value, old: &Value) -> bool {
    ["nodeID", "topologyKeys"]
        .iter()
        .all(|name| check::is_equivalent(check::field(new, name), check::field(old, name)))
}

fn check_driver<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    driver: &'a Value,
    names: &mut BTreeSet<&'a str>,
) {
    let (name, id) = (check::text(driver, "name"), check::text(driver, "nodeID"));
    check::check_csi_driver_name(errors, &path.child("name"), name);
    let at = path.child("nodeID");
    if id.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    if id.len() > NODE_ID_BYTES_MAX {
        errors.push(FieldError::invalid(&at, id, format!("must be {NODE_ID_BYTES_MAX} characters or less")));
    }
    let count = driver.at(&["allocatable", "count"]).and_then(Value::as_i64);
    if let Some(count) = count.filter(|count| *count < 0) {
        let at = path.child("allocatable");
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&at.child("count"), count, detail));
    }
    if !names.insert(name) {
        errors.push(FieldError::duplicate(&path.child("name"), name));
    }
    let mut keys = BTreeSet::new();
    for key in check::texts(driver, "topologyKeys") {
        if key.is_empty() {
            errors.push(FieldError::required(path, ""));
        }
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(path, key));
        }
        check::check_label_key(errors, path, key);
    }
}

fn check_health(errors: &mut ErrorList, path: &Path<'_>, health: &Value) {
    check::check_csi_driver_name(errors, &path.child("name"), check::text(health, "name"));
    let (path, conditions) = (path.child("healthConditions"), check::list(health, "healthConditions"));
    if conditions.len() > HEALTH_CONDITIONS_MAX {
        return errors.push(FieldError::too_many(&path, Some(conditions.len()), HEALTH_CONDITIONS_MAX));
    }
    for (i, one) in conditions.iter().enumerate() {
        check_condition(errors, &path.index(i), one);
    }
}

fn check_condition(errors: &mut ErrorList, path: &Path<'_>, condition: &Value) {
    let statuses = ["StorageDegraded", "StorageUnreachable"];
    check::check_one_of(errors, &path.child("status"), check::text(condition, "status"), &statuses);
    let at = path.child("reason");
    match check::text(condition, "reason") {
        "" => errors.push(FieldError::required(&at, "")),
        reason => {
            errors.push_invalid(&at, reason, check::reason_faults(reason));
            if reason.len() > REASON_BYTES_MAX {
                errors.push(FieldError::too_long(&at, REASON_BYTES_MAX));
            }
        }
    }
    if check::text(condition, "message").len() > MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("message"), MESSAGE_BYTES_MAX));
    }
    if let Some(mode) = check::field(condition, "accessMode").as_str() {
        let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
        check::check_one_of(errors, &path.child("accessMode"), mode, &modes);
    }
    if let Some(mode) = check::field(condition, "volumeMode").as_str() {
        check::check_one_of(errors, &path.child("volumeMode"), mode, &["Filesystem", "Block"]);
    }
}
