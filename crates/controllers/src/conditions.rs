//! Conditions of a status: comparison and the update rules of upstream.
//!
//! [`set_condition`] is the general rule (`meta.SetStatusCondition`). Deployments, Jobs and controllers that
//! write a condition as a whole have rules of their own.

use setpoint_api::Time;
use setpoint_views::{Condition, condition};

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

/// Sets a condition as the last one (upstream's `SetDeploymentCondition`). If status and reason are equal,
/// the existing one stays, even with another message.
pub fn set_condition_by_reason(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(existing) = condition(conditions, &new.kind)
        && existing.status == new.status
    {
        if existing.reason == new.reason {
            return;
        }
        new.last_transition_time = existing.last_transition_time;
    }
    remove_condition(conditions, &new.kind);
    conditions.push(new);
}

/// Sets a condition with new times, and returns `true` if it changes (upstream's `ensureJobConditionStatus`).
/// A condition with status `False` is not added.
pub fn ensure_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    match conditions.iter_mut().find(|existing| existing.kind == new.kind) {
        Some(existing) if is_same(existing, &new) => false,
        Some(existing) => {
            *existing = new;
            true
        }
        None if new.status == "False" => false,
        None => {
            conditions.push(new);
            true
        }
    }
}

/// Replaces the condition of the same type as a whole. The new one is the last.
#[must_use]
pub fn with_condition(conditions: &[Condition], new: Condition) -> Vec<Condition> {
    let others = conditions.iter().filter(|existing| existing.kind != new.kind).cloned();
    others.chain([new.clone()]).collect()
}

/// Removes the condition of a type.
pub fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|existing| existing.kind != kind);
}

/// `true` if two conditions have the same status, reason and message, at whatever time.
#[must_use]
pub fn is_same(one: &Condition, other: &Condition) -> bool {
    (&one.status, &one.reason, &one.message) == (&other.status, &other.reason, &other.message)
}

/// Condition with `lastUpdateTime`, as those of Deployments and CertificateSigningRequests.
#[must_use]
pub fn new_updated_condition(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Condition {
    Condition { last_update_time: Some(now), ..Condition::new(kind, status, reason, message, now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    #[test]
    fn transition_time_stays_while_the_status_stays() {
        let mut conditions = vec![Condition::new("Ready", "True", "A", "a", at(1))];
        set_condition(&mut conditions, Condition::new("Ready", "True", "B", "b", at(2)));
        assert_eq!((&*conditions[0].message, conditions[0].last_transition_time), ("b", Some(at(1))));
        set_condition(&mut conditions, Condition::new("Ready", "False", "B", "b", at(3)));
        assert_eq!((conditions.len(), conditions[0].last_transition_time), (1, Some(at(3))));
    }

    #[test]
    fn condition_with_the_same_reason_stays() {
        let mut conditions = vec![
            Condition::new("Progressing", "True", "A", "a", at(1)),
            Condition::new("Available", "True", "", "", at(1)),
        ];
        set_condition_by_reason(&mut conditions, Condition::new("Progressing", "True", "A", "b", at(2)));
        assert_eq!((&*conditions[0].message, conditions.len()), ("a", 2));
        set_condition_by_reason(&mut conditions, Condition::new("Progressing", "True", "B", "b", at(2)));
        assert_eq!((&*conditions[1].message, conditions[1].last_transition_time), ("b", Some(at(1))));
    }

    #[test]
    fn false_condition_is_updated_but_not_added() {
        let mut conditions = Vec::new();
        assert!(!ensure_condition(&mut conditions, Condition::new("Suspended", "False", "R", "r", at(1))));
        assert!(ensure_condition(&mut conditions, Condition::new("Suspended", "True", "S", "s", at(1))));
        assert!(!ensure_condition(&mut conditions, Condition::new("Suspended", "True", "S", "s", at(2))));
        assert!(ensure_condition(&mut conditions, Condition::new("Suspended", "False", "R", "r", at(3))));
        assert_eq!((conditions.len(), conditions[0].last_transition_time), (1, Some(at(3))));
    }
}
