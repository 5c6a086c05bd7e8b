//! Controllers of CustomResourceDefinitions, which are part of every server as in upstream.
//!
//! [`crate::crd_names`] accepts names and establishes, [`crate::crd_conditions`] reports properties of the definition,
//! [`crate::crd_cleanup`] removes instances of a deleted definition, [`crate::crd_registration`] maintains the
//! APIServices of their group versions. See [`server_controllers`].

use setpoint_api::{Time, Value, value};
use setpoint_reconcile::object::View;
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Controller, Index, Object, Write};
use setpoint_views::custom_resource_definition::CustomResourceDefinition;
use setpoint_views::{Condition, condition};

use crate::conditions::{is_same, set_condition};
use crate::indexes::{DEFINITION_NAMES, DELETED_DEFINITIONS, PENDING_DEFINITIONS};
use crate::{crd_cleanup, crd_conditions, crd_names, crd_registration};

/// User of the writes: upstream's API server itself.
pub(crate) const USER: &str = "system:apiserver";
/// Field manager of the writes.
pub(crate) const MANAGER: &str = "kube-apiserver";
/// Resource of CustomResourceDefinitions.
pub(crate) const DEFINITIONS: &str = CustomResourceDefinition::RESOURCE;

/// Controllers that are part of the server.
#[must_use]
pub fn server_controllers() -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(crd_names::CrdNames),
        Box::new(crd_conditions::CrdConditions),
        Box::new(crd_cleanup::CrdCleanup),
        Box::new(crd_registration::CrdRegistration),
    ]
}

/// Indexes of these controllers, for a server without others.
#[must_use]
pub fn indexes() -> Vec<Index> {
    vec![
        Index { name: DEFINITION_NAMES, resource: DEFINITIONS, values: crd_names::index_accepted },
        Index { name: DELETED_DEFINITIONS, resource: DEFINITIONS, values: crd_cleanup::index_deleted },
        Index { name: PENDING_DEFINITIONS, resource: DEFINITIONS, values: crd_names::index_pending },
    ]
}

/// Sets a condition; returns `true` if that changes its status, reason or message.
pub(crate) fn update_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    if condition(conditions, &new.kind).is_some_and(|old| is_same(old, &new)) {
        return false;
    }
    // Only the controller of migrations sets it, in its own condition.
    let observed_generation = condition(conditions, &new.kind).and_then(|old| old.observed_generation);
    set_condition(conditions, Condition { observed_generation, ..new });
    true
}

/// Condition with `now` as its transition time.
pub(crate) fn new_condition(kind: &str, is: bool, (reason, message): (&str, &str), now: Time) -> Condition {
    Condition::new(kind, if is { "True" } else { "False" }, reason, message, now)
}

/// Write of the conditions and other fields of the status.
pub(crate) fn write_status(object: &Object, conditions: &[Condition], others: Value) -> Write {
    let mut status = others;
    status.make_map().insert("conditions", value_of(&conditions));
    Write::status(object, status)
}

/// No other fields of a status.
pub(crate) fn no_fields() -> Value {
    value!({})
}
