//! Conditions in a status.

use setpoint_reconcile::views::Condition;

/// Sets a condition. The time since when it is so stays if it only gets other words.
pub fn set(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions.iter_mut().find(|old| old.kind == new.kind) {
        Some(old) => {
            let since = if old.status == new.status { old.last_transition_time } else { None };
            *old = Condition { last_transition_time: since.or(new.last_transition_time), ..new };
        }
        None => conditions.push(new),
    }
}
