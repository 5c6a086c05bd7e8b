//! Tests of the OpenAPI documents.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::json;
use crate::protobuf::wire::{Payload, Reader};
use crate::resources;
use crate::schema;

fn document(name: &str) -> Value {
    v3::document(name).unwrap_or_else(|| panic!("no document {name}"))
}

fn text_at(value: &Value, path: &[&str]) -> String {
    json::to_text(value.at(path).unwrap_or_else(|| panic!("nothing at {path:?}")))
}

fn schema_of(document: &Value, name: &str, path: &[&str]) -> String {
    let full: Vec<&str> = ["components", "schemas", name].iter().chain(path).copied().collect();
    text_at(document, &full)
}

/// Calls `visit` with every reference and operation ID in a document.
fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a str, &'a Value)) {
    match value {
        Value::Map(map) => {
            for (key, value) in map.iter() {
                visit(key, value);
                walk(value, visit);
            }
        }
        Value::List(list) => list.iter().for_each(|value| walk(value, visit)),
        _ => {}
    }
}

/// Asserts that a document defines exactly what it refers to.
fn check_references(document: &Value, definitions: &Value, prefix: &str) {
    let mut referred = BTreeSet::new();
    walk(document, &mut |key, value| {
        if let ("$ref", Some(text)) = (key, value.as_str()) {
            referred.insert(text.strip_prefix(prefix).expect("references stay in the document"));
        }
    });
    let defined: BTreeSet<&str> = definitions.as_map().unwrap().keys().collect();
    assert_eq!(referred, defined);
}

#[test]
fn documents_define_exactly_what_they_refer_to() {
    let names = v3::names();
    assert!(names.len() > 45, "{}", names.len());
    for name in names {
        let document = document(&name);
        let none = Value::map();
        let schemas = document.at(&["components", "schemas"]).unwrap_or(&none);
        check_references(&document, schemas, "#/components/schemas/");
    }
    let document = v2::document("v1.37.0", std::iter::empty());
    check_references(&document, document.get("definitions").unwrap(), "#/definitions/");
}

#[test]
fn operation_ids_are_unique() {
    let document = v2::document("v1.37.0", std::iter::empty());
    let mut seen = BTreeMap::new();
    walk(&document, &mut |key, value| {
        if let ("operationId", Some(id)) = (key, value.as_str()) {
            *seen.entry(id).or_insert(0) += 1;
        }
    });
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(seen.len() > 800 && twice.is_empty(), "{} {twice:?}", seen.len());
    for id in [
        "listCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "watchAppsV1DeploymentListForAllNamespaces",
        "deleteRbacAuthorizationV1CollectionClusterRole",
        "connectCoreV1GetNamespacedPodProxyWithPath",
        "replaceCoreV1NamespaceFinalize",
        "createCoreV1NamespacedPodEviction",
        "patchAppsV1NamespacedDeploymentScale",
        "getAppsV1APIResources",
        "getFlowcontrolApiserverAPIGroup",
    ] {
        assert!(seen.contains_key(id), "{id}");
    }
}

#[test]
fn every_verb_of_every_resource_has_an_operation() {
    let action = |verb| match verb {
        resources::Verb::Create => "post",
        resources::Verb::Update => "put",
        other => other.as_str(),
    };
    let document = v2::document("v1.37.0", std::iter::empty());
    let mut found = BTreeSet::new();
    walk(&document, &mut |_, value| {
        if let Some(kind) =
            value.get("x-kubernetes-group-version-kind").filter(|kind| kind.as_map().is_some())
        {
            let kind = (kind.str_at(&["group"]), kind.str_at(&["version"]), kind.str_at(&["kind"]));
            found.insert((kind, value.str_at(&["x-kubernetes-action"])));
        }
    });
    for resource in resources::all() {
        for verb in resource.verbs.iter() {
            let wanted = ((&*resource.group, &*resource.version, &*resource.kind), action(verb));
            assert!(found.contains(&wanted), "{wanted:?}");
        }
    }
}

#[test]
fn schemas_contain_the_attributes_of_fields() {
    let apps = document("apis/apps/v1");
    let deployment = "io.k8s.api.apps.v1.Deployment";
    assert_eq!(
        schema_of(&apps, deployment, &["x-kubernetes-group-version-kind"]),
        r#"[{"group":"apps","kind":"Deployment","version":"v1"}]"#
    );
    assert_eq!(schema_of(&apps, deployment, &["required"]), r#"["spec"]"#);
    let spec = schema_of(&apps, "io.k8s.api.apps.v1.DeploymentSpec", &["properties", "strategy"]);
    assert!(spec.starts_with(
        r##"{"allOf":[{"$ref":"#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],"default":{},"description":"##
    ));
    assert!(spec.ends_with(r#""x-kubernetes-patch-strategy":"retainKeys"}"#), "{spec}");
    let ports = schema_of(&apps, "io.k8s.api.core.v1.Container", &["properties", "ports"]);
    assert!(ports.ends_with(
        r#""type":"array","x-kubernetes-list-map-keys":["containerPort","protocol"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"containerPort","x-kubernetes-patch-strategy":"merge"}"#
    ));
    let protocol = schema_of(&apps, "io.k8s.api.core.v1.ContainerPort", &["properties", "protocol"]);
    assert!(protocol.starts_with(r#"{"default":"TCP","description":"#), "{protocol}");
    assert!(protocol.ends_with(r#""enum":["SCTP","TCP","UDP"],"type":"string"}"#), "{protocol}");
    let modes =
        schema_of(&apps, "io.k8s.api.core.v1.PersistentVolumeClaimSpec", &["properties", "accessModes"]);
    assert!(modes.contains(r#""items":{"enum":["ReadOnlyMany","#), "{modes}");
    let reference = "io.k8s.api.core.v1.SecretKeySelector";
    assert_eq!(schema_of(&apps, reference, &["required"]), r#"["key"]"#);
    assert_eq!(schema_of(&apps, reference, &["properties", "name", "default"]), r#""""#);
    let event = schema_of(&document("apis/events.k8s.io/v1"), "io.k8s.api.events.v1.Event", &["required"]);
    assert_eq!(event, r#"["eventTime"]"#);
    let event = schema_of(&document("api/v1"), "io.k8s.api.core.v1.Event", &["required"]);
    assert_eq!(event, r#"["metadata","involvedObject"]"#);
    let selector = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector";
    assert_eq!(schema_of(&apps, selector, &["x-kubernetes-map-type"]), r#""atomic""#);
    let profile = schema_of(&apps, "io.k8s.api.core.v1.SeccompProfile", &["x-kubernetes-unions"]);
    assert_eq!(
        profile,
        r#"[{"discriminator":"type","fields-to-discriminateBy":{"localhostProfile":"LocalhostProfile"}}]"#
    );
    let options = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    assert_eq!(
        schema_of(&apps, options, &["x-kubernetes-group-version-kind"]),
        r#"[{"group":"","kind":"DeleteOptions","version":"v1"},{"group":"apps","kind":"DeleteOptions","version":"v1"}]"#
    );
}

#[test]
fn dialects_differ_in_references_and_bodies() {
    let document = v2::document("v1.37.0", std::iter::empty());
    let definition = |name: &str| text_at(&document, &["definitions", name]);
    let quantity = definition("io.k8s.apimachinery.pkg.api.resource.Quantity");
    assert!(quantity.ends_with(r#""type":"string"}"#), "{quantity}");
    let metadata = text_at(&document, &["definitions", "io.k8s.api.core.v1.Pod", "properties", "metadata"]);
    assert!(
        metadata.starts_with(r##"{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta""##)
    );
    assert!(!metadata.contains("default"));
    let pods = "/api/v1/namespaces/{namespace}/pods";
    let body = text_at(&document, &["paths", pods, "post", "parameters"]);
    assert!(body.starts_with(r##"[{"in":"body","name":"body","required":true,"schema":{"$ref":"#/definitions/io.k8s.api.core.v1.Pod"}}"##));
    let core = self::document("api/v1");
    assert_eq!(
        text_at(&core, &["paths", pods, "post", "requestBody"]),
        r##"{"content":{"*/*":{"schema":{"$ref":"#/components/schemas/io.k8s.api.core.v1.Pod"}}},"required":true}"##
    );
}

#[test]
fn shared_parameters_move_to_the_path() {
    let core = document("api/v1");
    let names = |path: &[&str]| -> Vec<&str> {
        core.at(path).unwrap().as_list().unwrap().iter().map(|p| p.str_at(&["name"])).collect()
    };
    let pod = "/api/v1/namespaces/{namespace}/pods/{name}";
    assert_eq!(names(&["paths", pod, "parameters"]), ["name", "namespace", "pretty"]);
    assert_eq!(
        names(&["paths", pod, "patch", "parameters"]),
        ["dryRun", "fieldManager", "fieldValidation", "force"]
    );
    let log = format!("{pod}/log");
    assert!(names(&["paths", &log, "parameters"]).contains(&"tailLines"));
    let proxy = format!("{pod}/proxy/{{path}}");
    assert_eq!(names(&["paths", &proxy, "parameters"]), ["name", "namespace", "path", "path"]);
}

#[test]
fn index_lists_every_document_with_its_hash() {
    let index = v3::index(&[("apis/example.com/v1".to_owned(), "0".to_owned())].into());
    let paths = index.get("paths").unwrap().as_map().unwrap();
    assert_eq!(paths.len(), v3::names().len() + 1);
    assert_eq!(
        paths.get("apis/example.com/v1").unwrap().str_at(&["serverRelativeURL"]),
        "/openapi/v3/apis/example.com/v1?hash=0"
    );
    let hashes: BTreeSet<&str> = v3::names().iter().map(|name| v3::hash(name).unwrap()).collect();
    assert_eq!(hashes.len(), v3::names().len(), "documents differ, so hashes do");
    assert!(
        paths.get("api/v1").unwrap().str_at(&["serverRelativeURL"]).ends_with(v3::hash("api/v1").unwrap())
    );
    for name in ["", "api", "apis", "api/v2", "apis/", "apis//v1", "apis/apps/v2", "apis/apps/v1/x", "x"] {
        assert_eq!(v3::document(name).is_some(), matches!(name, "api" | "apis"), "{name}");
    }
}

/// Bytes of a message field at a path of numbers; the first of each.
fn message_at<'a>(mut bytes: &'a [u8], path: &[u32]) -> &'a [u8] {
    for wanted in path {
        let mut reader = Reader::new(bytes);
        bytes = loop {
            match reader.next().unwrap() {
                Some((number, Payload::Bytes(inner))) if number == *wanted => break inner,
                Some(_) => {}
                None => panic!("no field {wanted}"),
            }
        };
    }
    bytes
}

#[test]
fn protobuf_contains_every_path_and_definition() {
    let document = v2::document("v1.37.0", std::iter::empty());
    let bytes = gnostic::to_vec(&document);
    assert_eq!(message_at(&bytes, &[1]), b"2.0");
    assert_eq!(message_at(&bytes, &[2, 2]), b"v1.37.0");
    let count = |path: &[u32], wanted: u32| {
        let mut reader = Reader::new(message_at(&bytes, path));
        let mut count = 0;
        while let Some((number, _)) = reader.next().unwrap() {
            count += usize::from(number == wanted);
        }
        count
    };
    assert_eq!(count(&[8], 2), document.get("paths").unwrap().as_map().unwrap().len());
    assert_eq!(count(&[9], 1), document.get("definitions").unwrap().as_map().unwrap().len());
    let (first, schema) = document.get("definitions").unwrap().as_map().unwrap().iter().next().unwrap();
    assert_eq!(message_at(&bytes, &[9, 1, 1]), first.as_bytes());
    let description = schema.str_at(&["description"]);
    assert_eq!(message_at(&bytes, &[9, 1, 2, 4]), description.as_bytes());
    assert_eq!(message_at(&bytes, &[12, 1, 1]), b"BearerToken");
    assert_eq!(message_at(&bytes, &[13, 1, 2, 2, 1]), b"apiKey");
    // The first operation: its extension and the schema of its response.
    let operation = message_at(&bytes, &[8, 2, 2, 2]);
    assert_eq!(message_at(operation, &[9, 1, 1]), b"200");
    assert_eq!(message_at(operation, &[9, 1, 2, 1, 1]), b"OK");
    assert_eq!(message_at(operation, &[10]), b"https");
}

#[test]
fn unions_refer_to_existing_definitions() {
    for special::Union { definition, discriminator, fields } in special::UNIONS {
        let of = schema::builtin().definition(definition).unwrap_or_else(|| panic!("{definition}"));
        assert!(discriminator.is_empty() || of.field(discriminator).is_some(), "{definition}");
        assert!(fields.iter().all(|(name, _)| of.field(name).is_some()), "{definition}");
    }
}
