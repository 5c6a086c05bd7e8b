//! Kinds of the group `flowcontrol.apiserver.k8s.io`.
//!
//! [`builtin`] has the objects that every cluster contains.

pub mod builtin;
pub mod flow_schema;
pub mod priority_level;

use super::{Rules, check};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::Value;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "FlowSchema" => &flow_schema::FlowSchema,
        "PriorityLevelConfiguration" => &priority_level::PriorityLevel,
        _ => return None,
    })
}

/// Validates the conditions of a status: types are present and unique.
fn check_status(errors: &mut ErrorList, object: &Value) {
    let path = Path::root("status");
    let path = path.child("conditions");
    let mut seen = std::collections::BTreeSet::new();
    for (i, one) in check::list(check::field(object, "status"), "conditions").iter().enumerate() {
        let path = path.index(i);
        let (path, kind) = (path.child("type"), check::text(one, "type"));
        if !seen.insert(kind) {
            let value = crate::field_error::BadValue::json_string(kind);
            errors.push(FieldError::duplicate(&path, value));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
    }
}
