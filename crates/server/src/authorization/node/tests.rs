//! The graph follows the store.

use setpoint_api::{RequestInfo, Time, json, resource_types};
use setpoint_store::{CommitCause, Precondition, Proposal, Retention};

use super::*;

fn put(store: &Store, plural: &str, text: &str) {
    let (group, plural) = plural.split_once('|').unwrap_or(("", plural));
    let resource_type = resource_types::find(group, "v1", plural).unwrap();
    let object = json::parse(text.as_bytes()).unwrap();
    let (namespace, name) = (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]));
    let key = resource_type.key(namespace, name).unwrap();
    let draft = codec::draft(resource_type, object.clone(), Time::EPOCH).unwrap();
    let proposal = Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft);
    store.commit(proposal).unwrap();
}

fn delete(store: &Store, plural: &str, path: &str) {
    let (group, plural) = plural.split_once('|').unwrap_or(("", plural));
    let resource_type = resource_types::find(group, "v1", plural).unwrap();
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    let key = resource_type.key(namespace, name).unwrap();
    store.commit(Proposal::new(CommitCause::default(), Time(1)).delete(key, Precondition::Any)).unwrap();
}

fn pod(name: &str, node: &str, secret: &str, more: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"a"}},
            "spec":{{"nodeName":"{node}","volumes":[{{"name":"v","secret":{{"secretName":"{secret}"}}}}]{more}}}}}"#
    )
}

fn answer(authorizer: &NodeAuthorizer, store: &Store, group: &str, resource: &str, at: &str) -> Answer {
    let user = Identity::new("system:node:n", vec!["system:nodes".to_owned()]);
    let (namespace, name) = at.split_once('/').unwrap_or(("", at));
    let request = RequestInfo {
        is_resource: true,
        verb: "get",
        group,
        version: "v1",
        resource,
        namespace,
        name,
        ..RequestInfo::default()
    };
    let attributes = Attributes { user: &user, request, field_selector: &[], label_selector: &[] };
    authorizer.authorize(&attributes, &store.snapshot())
}

/// Decision of a single-threaded runtime, also if another thread makes it.
fn allows(authorizer: &NodeAuthorizer, store: &Store, group: &str, resource: &str, at: &str) -> bool {
    let decision = match answer(authorizer, store, group, resource, at) {
        Answer::Now(decision) => decision,
        Answer::Later(pending) => {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(pending)
        }
    };
    matches!(decision, Decision::Allowed(_))
}

#[test]
fn secret_is_readable_while_a_pod_on_the_node_refers_to_it() {
    let store = Store::in_memory(Retention::default());
    let authorizer = NodeAuthorizer::new(store.clone());
    let secret = |name: &str| allows(&authorizer, &store, "", "secrets", name);
    put(&store, "pods", &pod("p", "", "s", ""));
    assert!(!secret("a/s"), "the pod is not bound");
    put(&store, "pods", &pod("p", "n", "s", ""));
    assert!(secret("a/s") && !secret("a/other") && !secret("b/s"));
    put(&store, "pods", &pod("q", "m", "other", ""));
    assert!(!secret("a/other"), "the pod is on another node");
    delete(&store, "pods", "a/p");
    assert!(!secret("a/s"));
}

#[test]
fn ephemeral_container_adds_references() {
    let store = Store::in_memory(Retention::default());
    let authorizer = NodeAuthorizer::new(store.clone());
    put(&store, "pods", &pod("p", "n", "s", ""));
    assert!(!allows(&authorizer, &store, "", "configmaps", "a/c"));
    let debugger = r#","ephemeralContainers":[{"name":"d","envFrom":[{"configMapRef":{"name":"c"}}]}]"#;
    put(&store, "pods", &pod("p", "n", "s", debugger));
    assert!(allows(&authorizer, &store, "", "configmaps", "a/c"));
    assert!(allows(&authorizer, &store, "", "secrets", "a/s"));
}

#[test]
fn volumes_attachments_and_slices_follow_their_objects() {
    let store = Store::in_memory(Retention::default());
    let authorizer = NodeAuthorizer::new(store.clone());
    let allows = |group: &str, resource: &str, at: &str| allows(&authorizer, &store, group, resource, at);
    let claimed = r#","hostname":"h""#;
    let text = pod("p", "n", "s", claimed)
        .replace(r#""secret":{"secretName":"s"}"#, r#""persistentVolumeClaim":{"claimName":"c"}"#);
    put(&store, "pods", &text);
    assert!(allows("", "persistentvolumeclaims", "a/c") && !allows("", "persistentvolumes", "v"));
    put(
        &store,
        "persistentvolumes",
        r#"{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"v"},"spec":{
            "claimRef":{"namespace":"a","name":"c"},
            "csi":{"driver":"d","volumeHandle":"h","nodeStageSecretRef":{"name":"s","namespace":"x"}}}}"#,
    );
    assert!(allows("", "persistentvolumes", "v") && allows("", "secrets", "x/s"));
    put(
        &store,
        "storage.k8s.io|volumeattachments",
        r#"{"kind":"VolumeAttachment","apiVersion":"storage.k8s.io/v1","metadata":{"name":"va"},
            "spec":{"nodeName":"n","attacher":"d","source":{}}}"#,
    );
    assert!(allows("storage.k8s.io", "volumeattachments", "va"));
    delete(&store, "storage.k8s.io|volumeattachments", "va");
    assert!(!allows("storage.k8s.io", "volumeattachments", "va"));
    put(
        &store,
        "resource.k8s.io|resourceslices",
        r#"{"kind":"ResourceSlice","apiVersion":"resource.k8s.io/v1","metadata":{"name":"s"},
            "spec":{"nodeName":"n","driver":"d"}}"#,
    );
    assert!(allows("resource.k8s.io", "resourceslices", "s"));
    delete(&store, "persistentvolumes", "v");
    assert!(!allows("", "secrets", "x/s"));
}

#[test]
fn graph_that_is_far_behind_is_read_by_another_thread() {
    let store = Store::in_memory(Retention::default());
    let authorizer = NodeAuthorizer::new(store.clone());
    put(&store, "pods", &pod("p", "n", "s", ""));
    let is_later = || matches!(answer(&authorizer, &store, "", "secrets", "a/s"), Answer::Later(_));
    assert!(is_later(), "it is not built yet");
    assert!(allows(&authorizer, &store, "", "secrets", "a/s"));
    put(&store, "pods", &pod("p", "n", "s", r#","hostname":"h""#));
    assert!(!is_later());
    for number in 0..=CATCH_UP_COMMITS_MAX {
        put(&store, "pods", &pod("p", "n", &format!("s{number}"), ""));
        delete(&store, "pods", "a/p");
    }
    assert!(is_later());
    assert!(!allows(&authorizer, &store, "", "secrets", "a/s"));
}

#[test]
fn graph_is_built_anew_if_changes_were_dropped() {
    let store = Store::in_memory(Retention { hot_bytes: 1, ..Retention::default() });
    let authorizer = NodeAuthorizer::new(store.clone());
    put(&store, "pods", &pod("p", "n", "s", ""));
    assert!(allows(&authorizer, &store, "", "secrets", "a/s"));
    for number in 0..20 {
        put(&store, "pods", &pod("q", "n", &format!("s{number}"), ""));
        delete(&store, "pods", "a/q");
    }
    put(&store, "pods", &pod("r", "n", "last", ""));
    assert!(allows(&authorizer, &store, "", "secrets", "a/last"));
    assert!(allows(&authorizer, &store, "", "secrets", "a/s"));
    assert!(!allows(&authorizer, &store, "", "secrets", "a/s3"));
}
