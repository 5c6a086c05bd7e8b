//! PodTolerationRestriction: default tolerations of a namespace, and those that its pods may have.
//!
//! Both come from annotations of the namespace, or from the configuration. A pod that is not BestEffort tolerates memory
//! pressure.

use setpoint_api::kinds::core::pod::qos_class;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Value, json, metadata, value};

use super::runtime_class::{covers, merge_into};
use super::tolerations::list;
use super::{AdmissionInput, Findings};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// Tolerations for namespaces without annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TolerationConfig {
    /// Tolerations that new pods get.
    pub default: Vec<Value>,
    /// Tolerations that pods may have; empty for all.
    pub allowed: Vec<Value>,
}

/// Adds the default tolerations of the namespace.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    let mut added = Vec::new();
    if input.is_create() {
        let of_namespace = of_namespace(input, DEFAULTS)?;
        added = of_namespace.unwrap_or_else(|| input.config().tolerations.default.clone());
    }
    if qos_class(pod.get("spec").unwrap_or(&Value::Null)) != "BestEffort" {
        let (key, operator, effect) = ("node.kubernetes.io/memory-pressure", "Exists", "NoSchedule");
        added.push(value!({"key": (key), "operator": (operator), "effect": (effect)}));
    }
    if !added.is_empty() {
        merge_into(list(pod, "tolerations"), &added);
    }
    validate(pod, input, &mut Findings::default())
}

/// Rejects tolerations that are not allowed.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
    if !input.is("pods", "") || tolerations.is_empty() {
        return Ok(());
    }
    let (allowed, scope) = match of_namespace(input, ALLOWED)? {
        Some(allowed) => (allowed, "namespace"),
        None => (input.config().tolerations.allowed.clone(), "cluster"),
    };
    let is_allowed = |toleration: &Value| allowed.iter().any(|allowed| covers(allowed, toleration));
    if allowed.is_empty() || tolerations.iter().all(is_allowed) {
        return Ok(());
    }
    // Upstream's message, but not its code, which is 500.
    Err(input.forbidden(
        pod,
        &format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        ),
    ))
}

/// Tolerations in an annotation of the namespace; `None` without the annotation.
fn of_namespace(input: &AdmissionInput<'_>, annotation: &str) -> Result<Option<Vec<Value>>, Status> {
    let missing = || Status::not_found(Qualified { group: "", name: "namespaces" }, input.request.namespace);
    let namespace = input.namespace().ok_or_else(missing)?;
    let Some(text) = metadata::entry(&namespace, "annotations", annotation) else { return Ok(None) };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    // 403 of the namespace: its owner has to correct the annotation. Upstream answers 500.
    let unreadable = |why: &str| {
        let about = Qualified { group: "", name: "namespaces" };
        Status::forbidden(about, input.request.namespace, format!("annotation {annotation}: {why}"))
    };
    match json::parse(text.as_bytes()) {
        Ok(Value::List(tolerations)) => Ok(Some(tolerations)),
        Ok(Value::Null) => Ok(Some(Vec::new())),
        Ok(other) => Err(unreadable(&format!(
            "json: cannot unmarshal {} into Go value of type []v1.Toleration",
            other.type_name()
        ))),
        Err(error) => Err(unreadable(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::AdmissionConfig;
    use super::super::testing::{Review, object};
    use super::*;

    fn admitted(annotations: Value, config: TolerationConfig, spec: &str) -> Result<Vec<Value>, Status> {
        let mut namespace = object(r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}"#);
        namespace.ensure_map("metadata").insert("annotations", annotations);
        let config = AdmissionConfig { tolerations: config, ..AdmissionConfig::default() };
        let namespace = json::to_text(&namespace);
        let review = Review::create("", "v1", "pods").with_config(config);
        let mut pod = object(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#));
        review.over(&[("", "v1", "namespaces", &namespace)]).run(|input| admit(&mut pod, input))?;
        let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
        Ok(tolerations.to_vec())
    }

    fn toleration(key: &str) -> Value {
        value!({"key": (key), "operator": "Exists"})
    }

    /// Annotations with a toleration of `key` in the annotation `name`.
    fn annotations(name: &str, key: &str) -> Value {
        let mut annotations = Value::map();
        annotations.make_map().insert(name, json::to_text(&Value::List(vec![toleration(key)])));
        annotations
    }

    #[test]
    fn new_pod_gets_the_tolerations_of_its_namespace_or_the_cluster() {
        let config = TolerationConfig { default: vec![toleration("cluster")], allowed: Vec::new() };
        let keys = |result: Result<Vec<Value>, Status>| -> Vec<String> {
            result.unwrap().iter().map(|toleration| toleration.str_at(&["key"]).to_owned()).collect()
        };
        let annotated = annotations(DEFAULTS, "namespace");
        assert_eq!(keys(admitted(annotated, config.clone(), r#"{"containers":[]}"#)), ["namespace"]);
        let guaranteed = r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}"#;
        let both = ["cluster", "node.kubernetes.io/memory-pressure"];
        assert_eq!(keys(admitted(value!({}), config, guaranteed)), both);
    }

    #[test]
    fn toleration_that_is_not_allowed_is_rejected() {
        let spec = r#"{"containers":[],"tolerations":[{"key":"b","operator":"Exists"}]}"#;
        let config = |key: &str| TolerationConfig { default: Vec::new(), allowed: vec![toleration(key)] };
        assert!(admitted(value!({}), config("b"), spec).is_ok());
        let error = admitted(value!({}), config("a"), spec).unwrap_err();
        let text = "pods \"p\" is forbidden: pod tolerations (possibly merged with namespace default tolerations) conflict \
                    with its cluster whitelist";
        assert_eq!((error.code, &*error.message), (403, text));
        let annotated = annotations(ALLOWED, "b");
        assert!(admitted(annotated, config("a"), spec).is_ok(), "the annotation replaces the configuration");
    }

    #[test]
    fn unreadable_annotation_of_the_namespace_is_no_failure_of_the_server() {
        for text in ["{}", "[", "7"] {
            let mut annotated = Value::map();
            annotated.make_map().insert(DEFAULTS, text);
            let error = admitted(annotated, TolerationConfig::default(), r#"{"containers":[]}"#).unwrap_err();
            let expected = format!("namespaces \"a\" is forbidden: annotation {DEFAULTS}: ");
            assert!(error.code == 403 && error.message.starts_with(&expected), "{}", error.message);
        }
    }
}
