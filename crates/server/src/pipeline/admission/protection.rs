//! StorageObjectInUseProtection: volumes and claims get a finalizer, which a controller removes when they are unused.

use setpoint_api::{Value, metadata};

/// Finalizer of claims.
pub const CLAIM: &str = "kubernetes.io/pvc-protection";
/// Finalizer of volumes.
pub(crate) const VOLUME: &str = "kubernetes.io/pv-protection";

/// Finalizer of VolumeAttributesClasses.
pub(crate) const ATTRIBUTES_CLASS: &str = "kubernetes.io/vac-protection";

/// Adds the finalizer unless it is present.
pub fn admit(object: &mut Value, finalizer: &str) {
    if metadata::finalizers(object).contains(&finalizer) {
        return;
    }
    let list = object.ensure_map("metadata").ensure("finalizers", || Value::List(Vec::new()));
    match list {
        Value::List(list) => list.push(finalizer.into()),
        other => *other = Value::List(vec![finalizer.into()]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::object;
    use super::*;

    #[test]
    fn protection_finalizer_is_added_once() {
        let mut volume = object(r#"{"metadata":{"finalizers":["a/b"]}}"#);
        admit(&mut volume, VOLUME);
        admit(&mut volume, VOLUME);
        assert_eq!(metadata::finalizers(&volume), ["a/b", VOLUME]);
    }
}
