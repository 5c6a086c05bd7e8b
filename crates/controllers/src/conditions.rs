//! Conditions of a status.

use setpoint_reconcile::views::Condition;

/// Sets a condition. The transition time stays if the status does not change.
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions.iter_mut().find(|old| old.kind == new.kind) {
        Some(old) => {
            let since = if old.status == new.status { old.last_transition_time } else { None };
            *old = Condition { last_transition_time: since.or(new.last_transition_time), ..new };
        }
        None => conditions.push(new),
    }
}
