//! Tests of FlowSchemas and PriorityLevelConfigurations.

use setpoint_api::{json, value};
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::testing::{condition, names};

const SCHEMAS: &str = FlowSchema::RESOURCE;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (server_controllers(), crate::indexes::all()), 1);
    cluster.run(setpoint_reconcile::engine::RESYNC * 2 + std::time::Duration::from_secs(2));
    cluster
}

fn dangling(cluster: &Cluster, schema: &str) -> String {
    condition(cluster, SCHEMAS, schema, DANGLING)
}

#[test]
fn empty_cluster_gets_the_bootstrap_objects() {
    let mut cluster = cluster();
    let mut expected: Vec<&str> = builtin::schema_names().collect();
    expected.sort_unstable();
    assert_eq!(names(&cluster, SCHEMAS), expected);
    assert_eq!(names(&cluster, PRIORITY_LEVELS).len(), builtin::level_names().count());
    for name in expected {
        assert!(dangling(&cluster, name).starts_with("False Found "), "{name}");
    }
    cluster.assert_quiet();
}

#[test]
fn schema_with_a_missing_priority_level_is_dangling() {
    let mut cluster = cluster();
    let spec = value!({"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 7});
    cluster.create(SCHEMAS, "", value!({"metadata": {"name": "s"}, "spec": (spec)}));
    cluster.settle();
    let text = "This FlowSchema references the PriorityLevelConfiguration object named \"mine\"";
    assert_eq!(dangling(&cluster, "s"), format!("True NotFound {text} but there is no such object"));
    let level = value!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}});
    cluster.create(PRIORITY_LEVELS, "", value!({"metadata": {"name": "mine"}, "spec": (level)}));
    cluster.settle();
    assert_eq!(dangling(&cluster, "s"), format!("False Found {text} and it exists"));
    cluster.delete(PRIORITY_LEVELS, "mine", &Value::map()).unwrap();
    cluster.settle();
    assert!(dangling(&cluster, "s").starts_with("True NotFound "));
    cluster.assert_quiet();
    let object = cluster.get(SCHEMAS, "s").unwrap();
    let managed = object.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap();
    let ours = managed.iter().find(|entry| entry.str_at(&["operation"]) == "Apply").unwrap();
    assert_eq!(ours.str_at(&["manager"]), Planner::manager(&ConfigConsumer));
    assert_eq!(
        json::to_text(ours.get("fieldsV1").unwrap()),
        r#"{"f:status":{"f:conditions":{"k:{\"type\":\"Dangling\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}}}}"#
    );
}

#[test]
fn auto_updated_objects_are_restored_and_user_managed_ones_kept() {
    let mut cluster = cluster();
    for (resource, name) in [(SCHEMAS, "exempt"), (SCHEMAS, "probes"), (PRIORITY_LEVELS, "catch-all")] {
        cluster.delete(resource, name, &Value::map()).unwrap();
        cluster.settle();
        assert!(cluster.get(resource, name).is_some(), "{name}");
    }
    let precedence = |cluster: &Cluster| {
        cluster.get(SCHEMAS, "probes").unwrap().at(&["spec", "matchingPrecedence"]).and_then(Value::as_i64)
    };
    let other = value!({"spec": {"matchingPrecedence": 77}});
    cluster.patch(SCHEMAS, "probes", "", other.clone()).unwrap();
    cluster.settle();
    assert_eq!(precedence(&cluster), Some(2));
    let mut taken = other;
    taken.ensure_map("metadata").insert("annotations", builtin::auto_update_annotation(false));
    cluster.patch(SCHEMAS, "probes", "", taken).unwrap();
    cluster.settle();
    assert_eq!(precedence(&cluster), Some(77));
    let tuned = value!({"spec": {"exempt": {"nominalConcurrencyShares": 9}}});
    cluster.patch(PRIORITY_LEVELS, "exempt", "", tuned).unwrap();
    cluster.settle();
    let exempt = cluster.get(PRIORITY_LEVELS, "exempt").unwrap();
    assert_eq!(exempt.at(&["spec", "exempt", "nominalConcurrencyShares"]).and_then(Value::as_i64), Some(9));
    cluster.assert_quiet();
}

#[test]
fn auto_updated_objects_without_a_bootstrap_object_are_deleted() {
    let mut cluster = cluster();
    let spec = value!({"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 7});
    for (name, metadata) in
        [("stale", builtin::auto_update_annotation(true)), ("own", builtin::auto_update_annotation(false))]
    {
        let metadata = value!({"name": (name), "annotations": (metadata)});
        cluster.create(SCHEMAS, "", value!({"metadata": (metadata), "spec": (spec.clone())}));
    }
    cluster.settle();
    assert!(cluster.get(SCHEMAS, "stale").is_none() && cluster.get(SCHEMAS, "own").is_some());
    cluster.assert_quiet();
}
