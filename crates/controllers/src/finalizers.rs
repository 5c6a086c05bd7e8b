//! Addition and removal of finalizers.

use setpoint_api::{Value, value};
use setpoint_reconcile::{Action, Object, Write};

/// Adds a finalizer; `None` if it is present.
#[must_use]
pub fn add(object: &Object, name: &str) -> Option<Action> {
    let meta = object.meta();
    if meta.has_finalizer(name) {
        return None;
    }
    let all = meta.finalizers.iter().map(|finalizer| Value::from(&**finalizer)).chain([Value::from(name)]);
    Some(write(object, all.collect()))
}

/// Removes a finalizer; `None` if it is missing.
#[must_use]
pub fn remove(object: &Object, name: &str) -> Option<Action> {
    let meta = object.meta();
    if !meta.has_finalizer(name) {
        return None;
    }
    let others = meta.finalizers.iter().filter(|finalizer| &***finalizer != name);
    Some(write(object, others.map(|finalizer| Value::from(&**finalizer)).collect()))
}

/// Replaces the list, at the seen version of the object.
fn write(object: &Object, finalizers: Vec<Value>) -> Action {
    Write::merge(object, "", value!({"metadata": {"finalizers": (finalizers)}})).into()
}
