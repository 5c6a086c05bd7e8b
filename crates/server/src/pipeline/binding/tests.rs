//! Tests that the fast path and the pod's rules store the same bytes.

use proptest::prelude::*;
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
    let pod = pods().stored_schema.decode(pod, &[]).unwrap().value;
    stored_as(codec::draft(pods(), pod, Time::EPOCH).unwrap())
}

/// Binds a pod through its rules.
fn bind_by_rules(record: &Record, binding: &Value) -> Option<Record> {
    let mut pod = codec::partial(pods(), record);
    pod::bind(&mut pod, binding, NOW).ok()?;
    codec::draft(pods(), pod, Time::EPOCH).map(stored_as)
}

fn binding(metadata: Value) -> Value {
    value!({"metadata": (metadata), "target": {"kind": "Node", "name": "n-1"}})
}

/// A pod with these fields.
fn pod_with(metadata: Value, spec: Value, status: Value) -> Value {
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
fn any_subset(fields: Value) -> impl Strategy<Value = Value> {
    let fields: Vec<(String, Value)> =
        fields.as_map().unwrap().iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let count = fields.len();
    prop::sample::subsequence(fields, 0..=count).prop_map(|some| Value::Map(some.into_iter().collect()))
}

fn any_pod() -> impl Strategy<Value = Value> {
    let metadata = any_subset(value!({
        "annotations": {"nodeName": "m", "pod.beta.kubernetes.io/init": "x"}, "generation": 1, "finalizers": ["a/b"],
        "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:nodeName": {}}}}],
    }));
    let spec = any_subset(value!({
        "restartPolicy": "Never", "nodeSelector": {"nodeName": "m"}, "serviceAccountName": "s", "hostNetwork": true,
        "securityContext": {}, "schedulerName": "d", "tolerations": [{"operator": "Exists"}], "priority": 3,
    }));
    let status = any_subset(value!({
        "conditions": [{"type": "Other", "status": "False", "message": "\"PodScheduled\""}],
        "message": "m", "qosClass": "Burstable",
    }));
    (metadata, spec, status).prop_map(|(metadata, spec, status)| pod_with(metadata, spec, status))
}

proptest! {
    #[test]
    fn binding_in_place_equals_binding_by_the_rules(pod in any_pod(), uid in prop_oneof![Just(""), Just("u")]) {
        let (record, binding) = (record(pod), binding(value!({"uid": (uid)})));
        let fast = in_place::bound(pods(), &record, &binding, NOW).map(stored_as).expect("the pod is plain");
        let by_rules = bind_by_rules(&record, &binding).unwrap();
        let text = |record: &Record| String::from_utf8(record.value().to_vec()).unwrap();
        prop_assert_eq!(text(&fast), text(&by_rules));
        prop_assert!(fast.attributes().labels().eq(by_rules.attributes().labels()));
        prop_assert!(fast.attributes().fields().eq(by_rules.attributes().fields()));
    }
}

#[test]
fn pods_that_are_not_plain_are_bound_by_the_rules() {
    let none = Value::map;
    let plain = binding(value!({"uid": "u"}));
    let scheduled = value!({"conditions": [{"type": "PodScheduled", "status": "False"}]});
    let obsolete = value!({"annotations": {"pod.beta.kubernetes.io/init-containers": "x"}});
    for (pod, binding) in [
        (pod_with(none(), value!({"nodeName": "m"}), none()), &plain),
        (pod_with(none(), value!({"schedulingGates": [{"name": "g"}]}), none()), &plain),
        (pod_with(value!({"deletionTimestamp": (NOW)}), none(), none()), &plain),
        (pod_with(obsolete, none(), none()), &plain),
        (pod_with(none(), none(), value!({"nominatedNodeName": "m"})), &plain),
        (pod_with(none(), none(), scheduled), &plain),
        (pod_with(none(), none(), none()), &binding(value!({"uid": "v"}))),
        (pod_with(none(), none(), none()), &binding(value!({"resourceVersion": "1"}))),
        (pod_with(none(), none(), none()), &binding(value!({"annotations": {"a": "b"}}))),
    ] {
        assert!(in_place::bound(pods(), &record(pod.clone()), binding, NOW).is_none(), "{pod:?} {binding:?}");
    }
}
