//! StorageObjectInUseProtection: volumes and claims get a finalizer, which a controller removes when they are unused.

use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};

use super::AdmissionInput;

/// Finalizers of the protected resources.
const FINALIZERS: [(&str, &str); 3] = [
    ("persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("persistentvolumes", "kubernetes.io/pv-protection"),
    ("volumeattributesclasses.storage.k8s.io", "kubernetes.io/vac-protection"),
];

/// Adds the finalizer to a new object.
pub(super) fn admit(object: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if let Some((_, finalizer)) = FINALIZERS.iter().find(|(resource, _)| input.is(resource, "")) {
        add_finalizer(object, finalizer);
    }
    Ok(())
}

/// Adds the finalizer unless it is present.
fn add_finalizer(object: &mut Value, finalizer: &str) {
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

    const VOLUME: &str = FINALIZERS[1].1;

    #[test]
    fn protection_finalizer_is_added_once() {
        let mut volume = object(r#"{"metadata":{"finalizers":["a/b"]}}"#);
        add_finalizer(&mut volume, VOLUME);
        add_finalizer(&mut volume, VOLUME);
        assert_eq!(metadata::finalizers(&volume), ["a/b", VOLUME]);
    }
}
