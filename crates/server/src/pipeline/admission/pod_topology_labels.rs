//! PodTopologyLabels: a pod gets the zone and region of its node as labels, when it is bound or created on a node.

use setpoint_api::status::Status;
use setpoint_api::{Key, Resource, Value};

use super::AdmissionInput;

/// Labels of a node that its pods get.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Copies the topology labels of the node to a binding, or to a pod that has a node.
pub(super) fn admit(object: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    for (label, value) in labels(object, input) {
        object.ensure_map("metadata").ensure_map("labels").insert(label, value);
    }
    Ok(())
}

/// Topology labels of the node of a binding or pod.
fn labels(object: &Value, input: &AdmissionInput<'_>) -> Vec<(&'static str, String)> {
    let node = if input.is("pods", "binding") && object.str_at(&["target", "kind"]) == "Node" {
        object.str_at(&["target", "name"])
    } else if input.is("pods", "") {
        object.str_at(&["spec", "nodeName"])
    } else {
        ""
    };
    if node.is_empty() {
        return Vec::new();
    }
    let key = Resource::new("nodes").ok().and_then(|nodes| Key::cluster(&nodes, node).ok());
    let Some(node) = key.and_then(|key| input.snapshot().get(&key)) else { return Vec::new() };
    let attributes = node.attributes();
    TOPOLOGY.into_iter().filter_map(|label| Some((label, attributes.label(label)?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    const NODE: (&str, &str, &str, &str) = (
        "",
        "v1",
        "nodes",
        r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","a":"b"}}}"#,
    );

    #[test]
    fn binding_and_bound_pod_get_the_topology_of_the_node() {
        let labels = |subresource, text: &str| {
            let mut admitted = object(text);
            let review = Review::create("", "v1", "pods").subresource(subresource).over(&[NODE]);
            review.run(|input| admit(&mut admitted, input)).unwrap();
            admitted.at(&["metadata", "labels"]).cloned().unwrap_or_default()
        };
        let zone = object(r#"{"topology.kubernetes.io/zone":"z"}"#);
        assert_eq!(labels("binding", r#"{"target":{"kind":"Node","name":"n"}}"#), zone);
        let own = r#"{"metadata":{"labels":{"topology.kubernetes.io/zone":"own"}},"spec":{"nodeName":"n"}}"#;
        assert_eq!(labels("", own), zone);
        assert_eq!(labels("", r#"{"spec":{}}"#), Value::Null);
        assert_eq!(labels("binding", r#"{"target":{"kind":"Node","name":"gone"}}"#), Value::Null);
    }
}
