//! PersistentVolumeClaimResize: a claim may grow only if it is bound and its class allows expansion.

use setpoint_api::quantity::Quantity;
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};
use setpoint_store::Snapshot;

use super::{AdmissionInput, Findings, find};

/// Rejects an updated claim that grows although it is not bound or its class does not allow expansion.
pub(super) fn validate(claim: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    match input.old {
        Some(old) if input.is("persistentvolumeclaims", "") => {
            check_size(claim, old, input.snapshot()).map_err(|why| input.forbidden(claim, &why))
        }
        _ => Ok(()),
    }
}

fn check_size(claim: &Value, old: &Value, snapshot: &Snapshot) -> Result<(), String> {
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old.str_at(&["status", "phase"]) != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".to_owned());
    }
    let class =
        find(snapshot, "storageclasses.storage.k8s.io", class(claim)).filter(|_| class(claim) == class(old));
    match class.and_then(|class| class.at(&["allowVolumeExpansion"]).and_then(Value::as_bool)) {
        Some(true) => Ok(()),
        _ => Err("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                  support resize"
            .to_owned()),
    }
}

fn size(claim: &Value) -> Quantity {
    Quantity::parse(claim.str_at(&["spec", "resources", "requests", "storage"])).unwrap_or_default()
}

fn class(claim: &Value) -> &str {
    let by_annotation = metadata::entry(claim, "annotations", "volume.beta.kubernetes.io/storage-class");
    by_annotation.unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{object, snapshot_with};
    use super::*;

    fn claim(size: &str, class: &str, phase: &str) -> Value {
        object(&format!(
            r#"{{"spec":{{"storageClassName":"{class}","resources":{{"requests":{{"storage":"{size}"}}}}}},
            "status":{{"phase":"{phase}"}}}}"#
        ))
    }

    #[test]
    fn only_bound_claims_of_a_class_that_allows_it_may_grow() {
        let class = |name: &str, allows: bool| {
            format!(r#"{{"metadata":{{"name":"{name}"}},"provisioner":"p","allowVolumeExpansion":{allows}}}"#)
        };
        let (elastic, stiff) = (class("elastic", true), class("stiff", false));
        let snapshot = snapshot_with(&[
            ("storage.k8s.io", "v1", "storageclasses", &elastic),
            ("storage.k8s.io", "v1", "storageclasses", &stiff),
        ]);
        let resize = |size: &str, class: &str, phase: &str| {
            check_size(&claim(size, class, phase), &claim("1Gi", class, phase), &snapshot)
        };
        assert_eq!(resize("2Gi", "elastic", "Bound"), Ok(()));
        assert_eq!(resize("1024Mi", "stiff", "Pending"), Ok(()), "the size is equal");
        assert!(resize("2Gi", "elastic", "Pending").unwrap_err().starts_with("Only bound"));
        for class in ["stiff", "absent", ""] {
            assert!(resize("2Gi", class, "Bound").unwrap_err().starts_with("only dynamically provisioned"));
        }
    }
}
