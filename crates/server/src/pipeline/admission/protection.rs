//! A volume or claim that is in use does not go: from the start it has a finalizer, which a controller takes away.

use setpoint_api::{Value, metadata};

/// The finalizer of a claim.
pub const CLAIM: &str = "kubernetes.io/pvc-protection";
/// The finalizer of a volume.
pub const VOLUME: &str = "kubernetes.io/pv-protection";

/// The finalizer of a class of attributes.
pub const ATTRIBUTES_CLASS: &str = "kubernetes.io/vac-protection";

/// Adds the finalizer where it is not there.
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
    fn the_finalizer_is_added_once() {
        let mut volume = object(r#"{"metadata":{"finalizers":["a/b"]}}"#);
        admit(&mut volume, VOLUME);
        admit(&mut volume, VOLUME);
        assert_eq!(metadata::finalizers(&volume), ["a/b", VOLUME]);
    }
}
