//! Tests of the policy that follows the store.

use proptest::prelude::*;
use setpoint_api::{RequestInfo, Time, Value, resource_types, value};
use setpoint_store::{CommitCause, Precondition, Proposal, Retention};

use super::*;

const GROUP: &str = "rbac.authorization.k8s.io";

fn resource_type(table: usize) -> &'static setpoint_api::ResourceType {
    let plural = RESOURCES[table].as_str().split('.').next().unwrap();
    resource_types::find(GROUP, "v1", plural).unwrap()
}

fn is_namespaced(table: usize) -> bool {
    resource_type(table).info.namespaced
}

fn namespace(table: usize) -> &'static str {
    if is_namespaced(table) { "a" } else { "" }
}

fn key(table: usize, name: &str) -> setpoint_api::Key {
    resource_type(table).key(namespace(table), name).unwrap()
}

/// A role that allows one verb, or a binding of the user to the role of the same name.
fn object(table: usize, name: &str, verb: &str) -> Value {
    let mut object = if table < BINDINGS {
        value!({"rules": [{"verbs": [(verb)], "apiGroups": [""], "resources": ["pods"]}]})
    } else {
        let kind = if is_namespaced(table) { "Role" } else { "ClusterRole" };
        let role = value!({"apiGroup": (GROUP), "kind": (kind), "name": (name)});
        value!({"roleRef": (role), "subjects": [{"apiGroup": (GROUP), "kind": "User", "name": (verb)}]})
    };
    let metadata = object.ensure_map("metadata");
    metadata.insert("name", name);
    if is_namespaced(table) {
        metadata.insert("namespace", namespace(table));
    }
    object
}

fn put(store: &Store, table: usize, name: &str, verb: &str) {
    let draft = codec::draft(resource_type(table), object(table, name, verb), Time::EPOCH).unwrap();
    let proposal = Proposal::new(CommitCause::default(), Time(1));
    store.commit(proposal.put(key(table, name), Precondition::Any, draft)).unwrap();
}

fn delete(store: &Store, table: usize, name: &str) {
    let proposal = Proposal::new(CommitCause::default(), Time(1));
    // The object may not exist.
    let _ = store.commit(proposal.delete(key(table, name), Precondition::Present));
}

fn decide(authorizer: &RbacAuthorizer, store: &Store, user: &str, verb: &str, namespace: &str) -> Decision {
    let identity = Identity::new(user, Vec::new());
    let request = RequestInfo {
        is_resource: true,
        verb,
        resource: "pods",
        version: "v1",
        namespace,
        ..RequestInfo::default()
    };
    let attributes = Attributes { user: &identity, request, field_selector: &[], label_selector: &[] };
    authorizer.decide(&attributes, &store.snapshot())
}

#[test]
fn write_of_a_binding_costs_one_object_however_many_there_are() {
    let store = Store::in_memory(Retention::default());
    put(&store, 0, "reader", "get");
    for number in 0..10_000 {
        put(&store, 2, &format!("b{number}"), "someone");
    }
    let authorizer = RbacAuthorizer::following(store.clone());
    let objects_read = || authorizer.state(&store.snapshot()).objects_read;
    assert_eq!(objects_read(), 10_001);
    put(&store, 2, "reader", "ann");
    assert_eq!(decide(&authorizer, &store, "ann", "get", ""), {
        let why = r#"RBAC: allowed by ClusterRoleBinding "reader" of ClusterRole "reader" to User "ann""#;
        Decision::Allowed(why.to_owned())
    });
    assert_eq!(objects_read(), 10_002);
    delete(&store, 2, "b77");
    put(&store, 0, "reader", "list");
    assert!(matches!(decide(&authorizer, &store, "ann", "get", ""), Decision::NoOpinion(_)));
    assert_eq!(objects_read(), 10_004);
    put(&store, 1, "other", "get");
    assert_eq!(objects_read(), 10_005);
}

#[test]
fn dropped_changes_are_read_from_the_tables_again() {
    let store = Store::in_memory(Retention { hot_bytes: 1, ..Retention::default() });
    put(&store, 0, "reader", "get");
    let authorizer = RbacAuthorizer::following(store.clone());
    assert!(matches!(decide(&authorizer, &store, "ann", "get", ""), Decision::NoOpinion(_)));
    for number in 0..1000 {
        put(&store, 2, &format!("b{number}"), "someone");
    }
    put(&store, 2, "reader", "ann");
    store.compact(Time(1)).unwrap();
    assert!(matches!(decide(&authorizer, &store, "ann", "get", ""), Decision::Allowed(_)));
}

/// A write: table, name, and the verb or user of the object; none for a delete.
fn write() -> impl Strategy<Value = (usize, u8, Option<u8>)> {
    (0..TABLES, 0..4u8, proptest::option::of(0..3u8))
}

proptest! {
    #[test]
    fn followed_policy_equals_that_of_the_tables(writes in proptest::collection::vec(write(), 1..40)) {
        let store = Store::in_memory(Retention::default());
        let following = RbacAuthorizer::following(store.clone());
        for (table, name, content) in writes {
            let name = format!("n{name}");
            match content {
                Some(content) if table < BINDINGS => put(&store, table, &name, ["get", "list", "watch"][usize::from(content)]),
                Some(content) => put(&store, table, &name, ["ann", "bob", "eve"][usize::from(content)]),
                None => delete(&store, table, &name),
            }
            let fresh = RbacAuthorizer::default();
            for user in ["ann", "bob", "eve"] {
                for (verb, namespace) in [("get", ""), ("list", "a"), ("watch", "a"), ("get", "b")] {
                    prop_assert_eq!(
                        decide(&following, &store, user, verb, namespace),
                        decide(&fresh, &store, user, verb, namespace)
                    );
                }
            }
        }
    }
}
