//! Tests of deletes that mark an object.

use setpoint_api::{Key, Revision, Time, json, value};
use setpoint_store::{CommitCause, CommitError, Draft, Proposal, RejectReason, Retention, Store};

use super::*;
use crate::catalog::Catalogs;
use crate::exchange::Identity;

const NAME: &str = "foos.example.com";

/// Definition of Foo with a default, established.
fn definition(default: i64) -> Value {
    let schema = value!({
        "type": "object",
        "properties": {"size": {"type": "integer", "default": (default)}},
    });
    value!({
        "metadata": {"name": (NAME)},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": (schema)},
            }],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })
}

fn put(store: &Store, resource: &str, name: &str, object: &Value) -> Revision {
    let key = Key::cluster(&setpoint_api::Resource::new(resource).unwrap(), name).unwrap();
    let draft = Draft::new(json::to_vec(object));
    let proposal = Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft);
    store.commit(proposal).unwrap().revision
}

#[test]
fn marked_custom_object_is_not_stored_by_a_schema_that_changed_meanwhile() {
    let store = Store::in_memory(Retention::default());
    put(&store, DEFINITIONS.as_str(), NAME, &definition(1));
    let held = value!({
        "apiVersion": "example.com/v1", "kind": "Foo", "size": 1,
        "metadata": {"name": "x", "uid": "u", "finalizers": ["example.com/hold"]},
    });
    put(&store, NAME, "x", &held);
    let snapshot = store.snapshot();
    let catalog = Catalogs::default().of(&snapshot);
    let resource_type = catalog.find("example.com", "v1", "foos").unwrap();
    let context = RequestContext {
        snapshot: &snapshot,
        now: Time::from_seconds(1_800_000_000),
        entropy: [7; 3],
        tolerations: Default::default(),
        catalog: &catalog,
        webhooks: None,
        conversions: None,
        authorization: None,
    };
    let writer = WriteOrigin {
        identity: Identity::new("u", Vec::new()),
        manager: "m".into(),
        dry_run: false,
        reconciler: String::new(),
        takes_over: false,
    };
    let record = snapshot.get(&resource_type.key("", "x").unwrap()).unwrap();
    let none = Value::map();
    let decided =
        delete(resource_type, record, &DeleteOptions::from_value(&none), &writer, &context).unwrap();
    let PipelineResult::Commit(proposal) = decided else { panic!("the finalizer holds the object") };
    put(&store, DEFINITIONS.as_str(), NAME, &definition(2));
    match store.commit(*proposal) {
        Err(CommitError::Rejected(RejectReason::Conflict(conflict))) => {
            assert_eq!(*conflict.key.resource(), *DEFINITIONS);
        }
        other => panic!("{other:?}"),
    }
}
