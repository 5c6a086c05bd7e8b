//! PodResizeValidator: a pod that runs on a node is not resized beyond what the node can allocate.

use setpoint_api::quantity::Quantity;
use setpoint_api::status::{Status, StatusCause};
use setpoint_api::{Value, metadata};

use super::limit_range::total;
use super::{AdmissionInput, Findings, find};

/// Rejects a resize that the node cannot carry out.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    let name = pod.str_at(&["spec", "nodeName"]);
    let is_changed = input.old.is_some_and(|old| metadata::generation(old) != metadata::generation(pod));
    if !input.is("pods", "resize") || name.is_empty() || !is_changed {
        return Ok(());
    }
    let Some(node) = find(input.snapshot(), "nodes", name) else {
        return Err(input.forbidden(pod, &format!("node {name:?} not found")));
    };
    let refuse = |why: String, reason: &'static str| {
        let mut status = input.forbidden(pod, &why);
        let cause = StatusCause { reason: reason.into(), message: "".into(), field: "".into() };
        status.details.get_or_insert_default().causes.push(cause);
        Err(status)
    };
    let system = metadata::entry(&node, "labels", "kubernetes.io/os").unwrap_or("linux");
    if system != "linux" {
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return refuse(why, "UnsupportedPlatform");
    }
    match missing_resources(pod, &node) {
        Some(why) => refuse(why, "NodeCapacity"),
        None => Ok(()),
    }
}

/// Requests of the pod that exceed the allocatable resources of the node.
fn missing_resources(pod: &Value, node: &Value) -> Option<String> {
    let requests = total(pod, "requests");
    let overhead = |name: &str| quantity(pod.at(&["spec", "overhead", name]));
    let sum = |name: &str| {
        let mut sum = requests.get(name).copied().unwrap_or_default();
        sum += overhead(name);
        sum
    };
    let allocatable = |name: &str| quantity(node.at(&["status", "allocatable", name]));
    let mut missing = Vec::new();
    let (cpu, memory) = (sum("cpu"), sum("memory"));
    if cpu > allocatable("cpu") {
        let allocatable = allocatable("cpu").milli_value();
        missing.push(format!("cpu, requested: {}, allocatable: {allocatable}", cpu.milli_value()));
    }
    if memory > allocatable("memory") {
        let allocatable = allocatable("memory").value();
        missing.push(format!("memory, requested: {}, allocatable: {allocatable}", memory.value()));
    }
    (!missing.is_empty())
        .then(|| format!("node didn't have enough allocatable resources: {}", missing.join("; ")))
}

fn quantity(value: Option<&Value>) -> Quantity {
    value.and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    fn resize(node: &str, cpu: &str) -> Result<(), Status> {
        let pod = |generation: i64, cpu: &str| {
            object(&format!(
                r#"{{"metadata":{{"name":"p","generation":{generation}}},"spec":{{"nodeName":"n","containers":[
                {{"name":"c","resources":{{"requests":{{"cpu":"{cpu}","memory":"1Gi"}}}}}}]}}}}"#
            ))
        };
        let old = pod(1, "1");
        let review = Review::update("", "v1", "pods", &old).subresource("resize");
        let review = review.over(&[("", "v1", "nodes", node)]);
        review.run(|input| validate(&pod(2, cpu), input, &mut Findings::default()))
    }

    #[test]
    fn resize_beyond_the_node_is_rejected() {
        let node = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","labels":{"kubernetes.io/os":"linux"}},
            "status":{"allocatable":{"cpu":"2","memory":"1Gi"}}}"#;
        assert_eq!(resize(node, "2"), Ok(()));
        let status = resize(node, "2500m").unwrap_err();
        assert_eq!(
            status.message,
            "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000"
        );
        assert_eq!(&*status.details.unwrap().causes[0].reason, "NodeCapacity");
        let windows = resize(&node.replace("linux", "windows"), "2").unwrap_err();
        assert!(
            windows
                .message
                .ends_with("pod resize is only supported on linux nodes, node \"n\" is \"windows\"")
        );
        assert!(
            resize(&node.replace("\"n\"", "\"m\""), "2")
                .unwrap_err()
                .message
                .ends_with("node \"n\" not found")
        );
    }
}
