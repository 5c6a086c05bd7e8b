//! DefaultStorageClass and DefaultIngressClass: sets the default class, the newest if there are several.

use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};
use setpoint_store::Snapshot;

use super::{AdmissionInput, all, contains_text};
use crate::codec;

const STORAGE: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const INGRESS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];

/// Sets the storage class of a new claim.
pub(super) fn admit_claim(claim: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if input.is("persistentvolumeclaims", "") {
        set_storage_class(claim, input.snapshot());
    }
    Ok(())
}

/// Sets the class of a new ingress.
pub(super) fn admit_ingress(ingress: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if input.is("ingresses.networking.k8s.io", "") {
        set_ingress_class(ingress, input.snapshot());
    }
    Ok(())
}

fn set_storage_class(claim: &mut Value, snapshot: &Snapshot) {
    let by_annotation = metadata::entry(claim, "annotations", "volume.beta.kubernetes.io/storage-class");
    if by_annotation.is_some() || has_field(claim, "storageClassName") {
        return;
    }
    if let Some(name) = default_of(snapshot, "storageclasses.storage.k8s.io", &STORAGE) {
        claim.ensure_map("spec").insert("storageClassName", name);
    }
}

fn set_ingress_class(ingress: &mut Value, snapshot: &Snapshot) {
    let by_annotation = metadata::entry(ingress, "annotations", "kubernetes.io/ingress.class");
    if by_annotation.is_some() || has_field(ingress, "ingressClassName") {
        return;
    }
    if let Some(name) = default_of(snapshot, "ingressclasses.networking.k8s.io", &INGRESS) {
        ingress.ensure_map("spec").insert("ingressClassName", name);
    }
}

fn has_field(object: &Value, field: &str) -> bool {
    object.at(&["spec", field]).is_some_and(|value| !value.is_null())
}

fn default_of(snapshot: &Snapshot, resource: &str, annotations: &[&str]) -> Option<String> {
    let mut newest: Option<(String, String)> = None;
    for record in all(snapshot, resource).filter(|record| contains_text(record, "is-default-class")) {
        let class = codec::object(record);
        let is_default =
            |annotation: &&str| metadata::entry(&class, "annotations", annotation) == Some("true");
        let created = metadata::text(&class, "creationTimestamp");
        // Of classes with the same creation time the first by name is the default; records are sorted by name.
        if annotations.iter().any(is_default)
            && newest.as_ref().is_none_or(|(newest_created, _)| created > newest_created.as_str())
        {
            newest = Some((created.to_owned(), record.name().to_owned()));
        }
    }
    newest.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{object, snapshot_with};
    use super::*;

    fn class(name: &str, created: &str, default: &str) -> String {
        format!(
            r#"{{"kind":"StorageClass","apiVersion":"storage.k8s.io/v1","provisioner":"p","metadata":{{"name":"{name}",
            "creationTimestamp":"{created}","annotations":{{"storageclass.kubernetes.io/is-default-class":"{default}"}}}}}}"#
        )
    }

    #[test]
    fn claim_without_class_gets_the_newest_default() {
        let texts = [
            class("a", "2026-01-01T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("c", "2026-01-03T00:00:00Z", "false"),
        ];
        let objects: Vec<_> =
            texts.iter().map(|text| ("storage.k8s.io", "v1", "storageclasses", text.as_str())).collect();
        let snapshot = snapshot_with(&objects);
        let mut claim = object(r#"{"spec":{}}"#);
        set_storage_class(&mut claim, &snapshot);
        assert_eq!(claim.str_at(&["spec", "storageClassName"]), "b");
        let mut claim = object(r#"{"spec":{"storageClassName":""}}"#);
        set_storage_class(&mut claim, &snapshot);
        assert_eq!(claim.str_at(&["spec", "storageClassName"]), "");
        let mut claim = object(r#"{"spec":{}}"#);
        set_storage_class(&mut claim, &snapshot_with(&[]));
        assert_eq!(claim, object(r#"{"spec":{}}"#));
    }

    #[test]
    fn ingress_without_class_gets_the_default() {
        let class = r#"{"kind":"IngressClass","apiVersion":"networking.k8s.io/v1","metadata":{"name":"x",
            "annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}}}"#;
        let snapshot = snapshot_with(&[("networking.k8s.io", "v1", "ingressclasses", class)]);
        let mut ingress = object(r#"{"spec":{}}"#);
        set_ingress_class(&mut ingress, &snapshot);
        assert_eq!(ingress.str_at(&["spec", "ingressClassName"]), "x");
        let annotated =
            object(r#"{"metadata":{"annotations":{"kubernetes.io/ingress.class":"y"}},"spec":{}}"#);
        let mut ingress = annotated.clone();
        set_ingress_class(&mut ingress, &snapshot);
        assert_eq!(ingress, annotated);
    }
}
