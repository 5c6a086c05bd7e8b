//! Tests of the reader of definitions.

use super::*;
use crate::yaml;

const DEFINITION: &str = r#"
metadata: {name: crontabs.stable.example.com, uid: u1}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList, shortNames: [ct], categories: [all]}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1, v1beta1]
      clientConfig: {service: {namespace: default, name: hook, path: /convert, port: 8443}, caBundle: Q0E=}
  versions:
  - {name: v1beta1, served: true, storage: false, deprecated: true}
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, description: the schema}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: Spec, type: string, jsonPath: .spec.cronSpec, priority: 1}]
    selectableFields: [{jsonPath: .spec.cronSpec}]
  - {name: v0, served: false, storage: false, deprecated: true, deprecationWarning: use v1}
status:
  storedVersions: [v1beta1, v1]
  acceptedNames: {plural: crontabs, kind: CronTab, singular: crontab, listKind: CronTabList, shortNames: []}
  conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]
"#;

fn definition() -> Value {
    yaml::parse_strict(DEFINITION.as_bytes()).unwrap().0
}

#[test]
fn definition_is_read_as_it_was_written() {
    let object = definition();
    let read = CustomDefinition::read(&object).unwrap();
    assert_eq!((read.name.as_str(), read.uid.as_str()), ("crontabs.stable.example.com", "u1"));
    assert_eq!((read.group.as_str(), read.namespaced), ("stable.example.com", true));
    assert_eq!(
        (&read.names.short_names[..], &read.names.categories[..]),
        (&["ct".into()][..], &["all".into()][..])
    );
    assert_eq!(read.accepted_names.plural, "crontabs");
    assert!(read.accepted_names.short_names.is_empty(), "the short name belongs to another definition");
    assert_eq!(read.stored_versions, ["v1beta1", "v1"]);
    assert!(read.is_established && read.names_accepted && !read.is_terminating);
    assert_eq!(read.storage_version().unwrap().name, "v1");
    let served: Vec<&str> = read.served_versions().map(|version| version.name.as_str()).collect();
    assert_eq!(served, ["v1beta1", "v1"]);
    let webhook = read.conversion.unwrap();
    assert_eq!((webhook.ca_bundle.as_ref(), webhook.review_versions.len()), ("Q0E=", 2));
    let target = WebhookTarget::Service {
        namespace: "default".into(),
        name: "hook".into(),
        path: "/convert".into(),
        port: 8443,
    };
    assert_eq!(webhook.target, target);
}

#[test]
fn versions_have_their_own_parts() {
    let object = definition();
    let read = CustomDefinition::read(&object).unwrap();
    let version = read.version("v1").unwrap();
    assert!(version.has_schema && version.has_status && version.deprecation.is_none());
    let schema = version.schema(&object).unwrap();
    assert_eq!(schema.str_at(&["description"]), "the schema");
    assert_eq!(version.scale.as_ref().unwrap().spec_replicas, ".spec.replicas");
    assert_eq!(version.scale.as_ref().unwrap().label_selector, None);
    assert_eq!((version.columns[0].name.as_str(), version.columns[0].priority), ("Spec", 1));
    assert_eq!(version.selectable_fields, [".spec.cronSpec"]);
    let warning = |name: &str| read.version(name).unwrap().deprecation.clone().unwrap();
    assert_eq!(&*warning("v1beta1"), "stable.example.com/v1beta1 CronTab is deprecated");
    assert_eq!(&*warning("v0"), "use v1");
    let old = read.version("v0").unwrap();
    assert!(!old.has_schema && !old.has_status && old.scale.is_none() && old.schema(&object).is_none());
}

#[test]
fn incomplete_definitions_are_not_read() {
    for field in ["group", "names", "versions"] {
        let mut object = definition();
        object.ensure_map("spec").remove(field);
        assert_eq!(CustomDefinition::read(&object), None, "{field}");
    }
    assert_eq!(CustomDefinition::read(&Value::Null), None);
}
