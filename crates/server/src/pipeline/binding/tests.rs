//! The fast path and the pod's rules store the same bytes.

use proptest::prelude::*;
use setpoint_api::decode::decode;
use setpoint_api::{Key, Time, Value, value};
use setpoint_store::{CommitCause, Draft, Proposal, Record, Retention, Store};

use super::*;

const NOW: &str = "2027-01-15T08:00:01Z";

fn pods() -> &'static resource_types::ResourceType {
    resource_types::find("", "v1", "pods").unwrap()
}

/// Returns the stored record of a draft.
fn stored_as(draft: Draft) -> Record {
    let (store, now) = (Store::in_memory(Retention::default()), Time::from_seconds(1_800_000_000));
    let key: Key = pods().key("a", "x").unwrap();
    store
        .commit(Proposal::new(CommitCause::default(), now).put(key.clone(), Precondition::Absent, draft))
        .unwrap();
    store.snapshot().get(&key).unwrap().clone()
}

fn record(pod: Value) -> Record {
    let pod = decode(pod, pods().stored_schema, &[]).unwrap().value;
    stored_as(codec::draft(pods(), pod, Time::EPOCH).unwrap())
}

/// Binds a pod through its rules.
fn by_the_rules(record: &Record, binding: &Value) -> Option<Record> {
    let mut pod = codec::partial(pods(), record);
    pod::bind(&mut pod, binding, NOW).ok()?;
    codec::draft(pods(), pod, Time::EPOCH).map(stored_as)
}

fn binding(metadata: Value) -> Value {
    value!({"metadata": (metadata), "target": {"kind": "Node", "name": "n-1"}})
}

/// A pod with these fields.
fn a_pod(metadata: Value, spec: Value, status: Value) -> Value {
    let mut pod = value!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "x", "namespace": "a", "uid": "u", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "}],\"nodeName\":\"m\"", "value": "\\"}]}]},
        "status": {"phase": "Pending"},
    });
    for (part, more) in [("metadata", metadata), ("spec", spec), ("status", status)] {
        for (field, value) in more.as_map().unwrap().iter() {
            pod.ensure_map(part).insert(field, value.clone());
        }
    }
    pod
}

/// A random subset of these fields.
fn some_of(fields: Value) -> impl Strategy<Value = Value> {
    let fields: Vec<(String, Value)> =
        fields.as_map().unwrap().iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let count = fields.len();
    prop::sample::subsequence(fields, 0..=count).prop_map(|some| Value::Map(some.into_iter().collect()))
}

fn any_pod() -> impl Strategy<Value = Value> {
    let metadata = some_of(value!({
        "annotations": {"nodeName": "m", "pod.beta.kubernetes.io/init": "x"}, "generation": 1, "finalizers": ["a/b"],
        "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:nodeName": {}}}}],
    }));
    let spec = some_of(value!({
        "restartPolicy": "Never", "nodeSelector": {"nodeName": "m"}, "serviceAccountName": "s", "hostNetwork": true,
        "securityContext": {}, "schedulerName": "d", "tolerations": [{"operator": "Exists"}], "priority": 3,
    }));
    let status = some_of(value!({
        "conditions": [{"type": "Other", "status": "False", "message": "\"PodScheduled\""}],
        "message": "m", "qosClass": "Burstable",
    }));
    (metadata, spec, status).prop_map(|(metadata, spec, status)| a_pod(metadata, spec, status))
}

proptest! {
    #[test]
    fn binding_in_place_equals_binding_by_the_rules(pod in any_pod(), uid in prop_oneof![Just(""), Just("u")]) {
        let (record, binding) = (record(pod), binding(value!({"uid": (uid)})));
        let ours = in_place::bound(pods(), &record, &binding, NOW).map(stored_as).expect("it is a plain one");
        let theirs = by_the_rules(&record, &binding).unwrap();
        let text = |record: &Record| String::from_utf8(record.value().to_vec()).unwrap();
        prop_assert_eq!(text(&ours), text(&theirs));
        prop_assert!(ours.attributes().labels().eq(theirs.attributes().labels()));
        prop_assert!(ours.attributes().fields().eq(theirs.attributes().fields()));
    }
}

#[test]
fn pods_that_are_not_plain_are_bound_by_the_rules() {
    let none = Value::map;
    let plain = binding(value!({"uid": "u"}));
    let scheduled = value!({"conditions": [{"type": "PodScheduled", "status": "False"}]});
    let obsolete = value!({"annotations": {"pod.beta.kubernetes.io/init-containers": "x"}});
    for (pod, binding) in [
        (a_pod(none(), value!({"nodeName": "m"}), none()), &plain),
        (a_pod(none(), value!({"schedulingGates": [{"name": "g"}]}), none()), &plain),
        (a_pod(value!({"deletionTimestamp": (NOW)}), none(), none()), &plain),
        (a_pod(obsolete, none(), none()), &plain),
        (a_pod(none(), none(), value!({"nominatedNodeName": "m"})), &plain),
        (a_pod(none(), none(), scheduled), &plain),
        (a_pod(none(), none(), none()), &binding(value!({"uid": "v"}))),
        (a_pod(none(), none(), none()), &binding(value!({"resourceVersion": "1"}))),
        (a_pod(none(), none(), none()), &binding(value!({"annotations": {"a": "b"}}))),
    ] {
        assert!(in_place::bound(pods(), &record(pod.clone()), binding, NOW).is_none(), "{pod:?} {binding:?}");
    }
}
