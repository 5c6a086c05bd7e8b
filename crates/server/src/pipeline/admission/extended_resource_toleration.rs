//! ExtendedResourceToleration: a pod that requests an extended resource tolerates the taint of its nodes.
//!
//! Nodes with special hardware are tainted with the name of the resource, so that no other pods run there.

use std::collections::BTreeSet;

use setpoint_api::names::key::label_key;
use setpoint_api::status::Status;
use setpoint_api::{Map, Value};

use super::AdmissionInput;
use super::tolerations::list;

/// Adds the tolerations of a pod's extended resources.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    for resource in extended_resources(pod) {
        add_toleration(list(pod, "tolerations"), &resource);
    }
    Ok(())
}

/// Extended resources that the containers request, sorted.
fn extended_resources(pod: &Value) -> BTreeSet<String> {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|field| pod.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default());
    let requests = containers.filter_map(|container| container.at(&["resources", "requests"])?.as_map());
    let names = requests.flat_map(|requests| requests.keys().map(str::to_owned).collect::<Vec<_>>());
    names.filter(|name| is_extended(name)).collect()
}

/// `true` for a qualified resource name outside of the `kubernetes.io` domains.
fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && label_key(&format!("requests.{name}")).is_empty()
}

fn add_toleration(tolerations: &mut Vec<Value>, resource: &str) {
    let mut toleration = Map::with_capacity(3);
    toleration.insert("key", resource);
    toleration.insert("operator", "Exists");
    toleration.insert("effect", "NoSchedule");
    let toleration = Value::Map(toleration);
    let fields = ["key", "operator", "effect", "value"];
    let is_same =
        |other: &Value| fields.iter().all(|field| other.str_at(&[field]) == toleration.str_at(&[field]));
    let mut is_present = false;
    for other in tolerations.iter_mut().filter(|other| is_same(other)) {
        *other = toleration.clone();
        is_present = true;
    }
    if !is_present {
        tolerations.push(toleration);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn pod_tolerates_the_taints_of_its_extended_resources() {
        let mut pod = object(
            r#"{"spec":{"containers":[{"name":"a","resources":{"requests":{"example.org/gpu":"1","cpu":"1","hugepages-2Mi":"1"}}}],
            "initContainers":[{"name":"b","resources":{"requests":{"a.org/x":"1","example.org/gpu":"1"}}}]}}"#,
        );
        let review = Review::create("", "v1", "pods");
        review.run(|input| admit(&mut pod, input)).unwrap();
        let keys = |pod: &Value| -> Vec<String> {
            let list = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap();
            list.iter().map(|toleration| toleration.str_at(&["key"]).to_owned()).collect()
        };
        assert_eq!(keys(&pod), ["a.org/x", "example.org/gpu"]);
        review.run(|input| admit(&mut pod, input)).unwrap();
        assert_eq!(keys(&pod).len(), 2, "no toleration is added twice");
    }
}
