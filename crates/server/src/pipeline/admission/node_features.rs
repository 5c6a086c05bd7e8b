//! NodeDeclaredFeatureValidator: a pod on a node is updated only in ways that the node declares to support.

use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};

use super::{AdmissionInput, Findings, find};

/// Resize of pod-level resources.
const POD_LEVEL_RESIZE: &str = "InPlacePodLevelResourcesVerticalScaling";
/// Resize of init containers that are not sidecars.
const INIT_CONTAINER_RESIZE: &str = "InPlacePodVerticalScalingInitContainers";

/// Rejects an update that needs a feature which the node does not declare.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    let name = pod.str_at(&["spec", "nodeName"]);
    let Some(old) = input.old.filter(|old| metadata::generation(old) != metadata::generation(pod)) else {
        return Ok(());
    };
    if !(input.is("pods", "") || input.is("pods", "resize")) || name.is_empty() {
        return Ok(());
    }
    let required = required_features(pod, old);
    if required.is_empty() {
        return Ok(());
    }
    let Some(node) = find(input.snapshot(), "nodes", name) else {
        return Err(input.forbidden(pod, &format!("node {name:?} not found")));
    };
    let declared = node.at(&["status", "declaredFeatures"]).and_then(Value::as_list).unwrap_or_default();
    let is_missing = |feature: &&str| !declared.iter().any(|declared| declared.as_str() == Some(feature));
    let missing: Vec<&str> = required.into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    let why = format!("pod update requires features {missing} which are not available on node {name:?}");
    Err(input.forbidden(pod, &why))
}

/// Features that an update needs, sorted.
fn required_features(new: &Value, old: &Value) -> Vec<&'static str> {
    let mut required = Vec::new();
    let pod_level = |pod: &Value| pod.at(&["spec", "resources"]).cloned().unwrap_or_default();
    if pod_level(new) != pod_level(old) {
        required.push(POD_LEVEL_RESIZE);
    }
    let init_resources = |pod: &Value| -> Vec<Value> {
        let list = pod.at(&["spec", "initContainers"]).and_then(Value::as_list).unwrap_or_default();
        let plain = list.iter().filter(|container| container.str_at(&["restartPolicy"]) != "Always");
        plain.map(|container| container.get("resources").cloned().unwrap_or_default()).collect()
    };
    if init_resources(new) != init_resources(old) {
        required.push(INIT_CONTAINER_RESIZE);
    }
    required
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn update_needs_the_features_that_the_node_declares() {
        let pod = |generation: i64, cpu: &str| {
            object(&format!(
                r#"{{"metadata":{{"name":"p","generation":{generation}}},"spec":{{"nodeName":"n","resources":{{"requests":{{"cpu":"{cpu}"}}}},
                "initContainers":[{{"name":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
            ))
        };
        let old = pod(1, "1");
        let check = |declared: &str, cpu: &str| {
            let node = format!(
                r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"n"}},"status":{{"declaredFeatures":[{declared}]}}}}"#
            );
            let review = Review::update("", "v1", "pods", &old).subresource("resize");
            let review = review.over(&[("", "v1", "nodes", &node)]);
            review.run(|input| validate(&pod(2, cpu), input, &mut Findings::default()))
        };
        assert_eq!(check("", "1"), Ok(()));
        let both = format!("{POD_LEVEL_RESIZE:?},{INIT_CONTAINER_RESIZE:?}");
        assert_eq!(check(&both, "2"), Ok(()));
        assert_eq!(
            check(&format!("{POD_LEVEL_RESIZE:?}"), "2").unwrap_err().message,
            "pods \"p\" is forbidden: pod update requires features InPlacePodVerticalScalingInitContainers which are not \
             available on node \"n\""
        );
    }
}
