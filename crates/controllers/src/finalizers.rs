//! Finalizers: what must be done before an object goes.

use setpoint_api::{Value, value};
use setpoint_reconcile::{Act, Object, Write};

/// Adds a finalizer; nothing if it is there.
#[must_use]
pub fn add(object: &Object, name: &str) -> Option<Act> {
    let meta = object.meta();
    if meta.has_finalizer(name) {
        return None;
    }
    let all = meta.finalizers.iter().map(|one| Value::from(&**one)).chain([Value::from(name)]);
    Some(write(object, all.collect()))
}

/// Takes a finalizer away; nothing if it is not there.
#[must_use]
pub fn remove(object: &Object, name: &str) -> Option<Act> {
    let meta = object.meta();
    if !meta.has_finalizer(name) {
        return None;
    }
    let others = meta.finalizers.iter().filter(|one| &***one != name);
    Some(write(object, others.map(|one| Value::from(&**one)).collect()))
}

/// The list is replaced, so it must be as it was seen.
fn write(object: &Object, finalizers: Vec<Value>) -> Act {
    Write::merge(object, "", value!({"metadata": {"finalizers": (finalizers)}})).into()
}
