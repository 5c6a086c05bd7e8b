//! StorageClass: provisioner and parameters of dynamic volumes.

use std::collections::{BTreeMap, BTreeSet};

use super::check_parameters;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::value::Value;

/// Immutable fields, in the order of their errors.
const IMMUTABLE_FIELDS: [&str; 4] = ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"];

/// Rules of StorageClass.
pub struct StorageClass;

impl Rules for StorageClass {
    fn default(&self, object: &mut Value) {
        let object = object.make_map();
        check::set_default_with(object, "reclaimPolicy", || "Delete".into());
        check::set_default_with(object, "volumeBindingMode", || "Immediate".into());
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_fields(object, errors);
        if check::text(object, "provisioner").is_empty() {
            errors.push(FieldError::required(&Path::root("provisioner"), ""));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_fields(new, errors);
        for name in IMMUTABLE_FIELDS {
            let (new, old) = (check::field(new, name), check::field(old, name));
            if name == "provisioner" && new.is_empty() {
                errors.push(FieldError::required(&Path::root(name), ""));
            }
            check::check_immutable(errors, &Path::root(name), new, old);
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (i, term) in check::list(new, "allowedTopologies").iter().enumerate() {
            for (j, expression) in check::list(term, "matchLabelExpressions").iter().enumerate() {
                if let Some(message) = check::deprecated_node_label(check::text(expression, "key")) {
                    warnings
                        .push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {message}"));
                }
            }
        }
        warnings
    }
}

fn check_fields(object: &Value, errors: &mut ErrorList) {
    let provisioner = check::text(object, "provisioner");
    if !provisioner.is_empty() {
        check::check_label_key(errors, &Path::root("provisioner"), &provisioner.to_lowercase());
    }
    check_parameters(errors, &Path::root("parameters"), object);
    let policy = check::text(object, "reclaimPolicy");
    if !policy.is_empty() {
        check::check_one_of(errors, &Path::root("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let path = Path::root("volumeBindingMode");
    match check::field(object, "volumeBindingMode").as_str() {
        None => errors.push(FieldError::required(&path, "")),
        Some(mode) => check::check_one_of(errors, &path, mode, &["Immediate", "WaitForFirstConsumer"]),
    }
    check_topologies(errors, check::list(object, "allowedTopologies"));
}

fn check_topologies(errors: &mut ErrorList, terms: &[Value]) {
    let path = Path::root("allowedTopologies");
    // Number of earlier terms with the same requirements.
    let mut seen: BTreeMap<BTreeMap<&str, BTreeSet<&str>>, usize> = BTreeMap::new();
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("matchLabelExpressions");
        let mut values = BTreeMap::new();
        for (i, one) in check::list(term, "matchLabelExpressions").iter().enumerate() {
            let path = path.index(i);
            let set = check_requirement(errors, &path, one);
            if values.insert(check::text(one, "key"), set).is_some() {
                errors.push(FieldError::duplicate(&path.child("key"), check::text(one, "key")));
            }
        }
        // Upstream compares with as many empty terms as there are terms, so an empty one is always a
        // duplicate.
        let empty = if values.is_empty() { terms.len() } else { 0 };
        let equal = seen.entry(values).or_default();
        errors.extend((0..empty + *equal).map(|_| FieldError::duplicate(&path, "")));
        *equal += 1;
    }
}

fn check_requirement<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    requirement: &'a Value,
) -> BTreeSet<&'a str> {
    let at = path.child("values");
    let values = check::texts(requirement, "values");
    if values.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    let mut set = BTreeSet::new();
    for (i, value) in values.into_iter().enumerate() {
        if !set.insert(value) {
            errors.push(FieldError::duplicate(&at.index(i), value));
        }
    }
    check::check_label_key(errors, &path.child("key"), check::text(requirement, "key"));
    set
}
