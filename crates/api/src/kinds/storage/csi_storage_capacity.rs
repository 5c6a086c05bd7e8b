//! CSIStorageCapacity: available capacity of a driver by topology.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::dns;
use crate::value::Value;

/// Rules of CSIStorageCapacity.
pub struct CsiStorageCapacity;

impl Rules for CsiStorageCapacity {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check(object, false, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, check::is_invalid_selector(check::field(old, "nodeTopology")), errors);
        let topology = check::field(new, "nodeTopology");
        if topology != check::field(old, "nodeTopology") {
            let path = Path::root("nodeTopology");
            errors.push(FieldError::invalid(&path, check::shown(topology), check::IMMUTABLE));
        }
        let class = check::text(new, "storageClassName");
        if class != check::text(old, "storageClassName") {
            errors.push(FieldError::invalid(&Path::root("storageClassName"), class, check::IMMUTABLE));
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let topology = check::field(new, "nodeTopology");
        let mut warnings = Vec::new();
        for (i, expression) in check::list(topology, "matchExpressions").iter().enumerate() {
            let key = check::text(expression, "key");
            if let Some(message) = check::deprecated_node_label(key) {
                warnings.push(format!("nodeTopology.matchExpressions[{i}].key: {key} is {message}"));
            }
        }
        for (label, _) in check::entries(topology, "matchLabels") {
            if let Some(message) = check::deprecated_node_label(label) {
                warnings.push(format!("nodeTopology.matchLabels.{label}: {message}"));
            }
        }
        warnings
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn check(object: &Value, allow_invalid_values: bool, errors: &mut ErrorList) {
    let topology = check::field(object, "nodeTopology");
    check::check_selector(errors, &Path::root("nodeTopology"), topology, allow_invalid_values);
    let class = check::text(object, "storageClassName");
    errors.push_invalid(&Path::root("storageClassName"), class, dns::subdomain(class));
    check::check_nonnegative_quantity(errors, &Path::root("capacity"), check::field(object, "capacity"));
}
