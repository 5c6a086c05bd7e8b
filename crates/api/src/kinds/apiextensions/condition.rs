//! Conditions of a CustomResourceDefinition.

use crate::kinds::check;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::{Map, Value};

/// The resource is served.
pub const ESTABLISHED: &str = "Established";
/// No other definition has the names.
pub const NAMES_ACCEPTED: &str = "NamesAccepted";
/// A schema is not structural.
pub const NON_STRUCTURAL_SCHEMA: &str = "NonStructuralSchema";
/// The definition is in deletion.
pub const TERMINATING: &str = "Terminating";
/// The approval of a protected group is valid.
pub const KUBERNETES_API_APPROVAL: &str = "KubernetesAPIApprovalPolicyConformant";

/// Returns the condition of a type.
#[must_use]
pub fn find<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = check::list(check::field(definition, "status"), "conditions");
    conditions.iter().find(|condition| check::text(condition, "type") == kind)
}

/// `true` if the condition of a type is true.
#[must_use]
pub fn is_true(definition: &Value, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| check::text(condition, "status") == "True")
}

/// `true` if the resource is served.
#[must_use]
pub fn is_established(definition: &Value) -> bool {
    is_true(definition, ESTABLISHED)
}

/// Sets a condition. The transition time changes only with the status.
pub fn set(definition: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: Time) {
    let conditions = definition.ensure_map("status").ensure("conditions", || Value::List(Vec::new()));
    if conditions.as_list().is_none() {
        *conditions = Value::List(Vec::new());
    }
    let Some(conditions) = conditions.as_list_mut() else { return };
    let old = conditions.iter_mut().find(|condition| check::text(condition, "type") == kind);
    let now = Seconds(now).to_string();
    let Some(condition) = old else {
        let mut condition = Map::with_capacity(5);
        condition.insert("type", kind);
        condition.insert("status", status);
        condition.insert("lastTransitionTime", now);
        condition.insert("reason", reason);
        condition.insert("message", message);
        return conditions.push(Value::Map(condition));
    };
    let has_time = !check::field(condition, "lastTransitionTime").is_empty();
    let is_transition = check::text(condition, "status") != status || !has_time;
    let condition = condition.make_map();
    if is_transition {
        condition.insert("lastTransitionTime", now);
    }
    for (field, text) in [("status", status), ("reason", reason), ("message", message)] {
        condition.insert(field, text);
    }
}
