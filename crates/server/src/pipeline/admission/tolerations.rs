//! DefaultTolerationSeconds: bounds the time that a pod stays on an unready or unreachable node.

use setpoint_api::status::Status;
use setpoint_api::{Map, Value};

use super::AdmissionInput;

/// Taint of a node that is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Default toleration seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerations {
    /// On a node that is not ready.
    pub not_ready: i64,
    /// On a node that is unreachable.
    pub unreachable: i64,
}

impl Default for Tolerations {
    fn default() -> Tolerations {
        Tolerations { not_ready: 300, unreachable: 300 }
    }
}

/// Adds the default tolerations.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if input.is("pods", "") {
        add_defaults(pod, input.context.tolerations);
    }
    Ok(())
}

/// Adds the default tolerations unless the pod has others for the same taints.
fn add_defaults(pod: &mut Value, usual: Tolerations) {
    let tolerations = list(pod, "tolerations");
    for (key, seconds) in [(NOT_READY, usual.not_ready), (UNREACHABLE, usual.unreachable)] {
        let speaks_of = |toleration: &Value| {
            matches!(toleration.str_at(&["key"]), given if given == key || given.is_empty())
                && matches!(toleration.str_at(&["effect"]), "NoExecute" | "")
        };
        if !tolerations.iter().any(speaks_of) {
            let mut toleration = Map::with_capacity(4);
            toleration.insert("key", key);
            toleration.insert("operator", "Exists");
            toleration.insert("effect", "NoExecute");
            toleration.insert("tolerationSeconds", seconds);
            tolerations.push(toleration.into());
        }
    }
}

/// Returns a list in the spec, created if it is missing.
pub(super) fn list<'a>(object: &'a mut Value, field: &str) -> &'a mut Vec<Value> {
    let value = object.ensure_map("spec").ensure(field, || Value::List(Vec::new()));
    if value.as_list().is_none() {
        *value = Value::List(Vec::new());
    }
    match value {
        Value::List(list) => list,
        _ => unreachable!("it was made a list"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::object;
    use super::*;

    fn count(text: &str) -> usize {
        let mut pod = object(text);
        add_defaults(&mut pod, Tolerations::default());
        pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap().len()
    }

    #[test]
    fn pod_gets_missing_default_tolerations() {
        assert_eq!(count(r#"{"spec":{}}"#), 2);
        assert_eq!(count(r#"{"spec":{"tolerations":[{"operator":"Exists"}]}}"#), 1);
        let own = r#"{"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}]}}"#;
        assert_eq!(count(own), 2);
        let other = r#"{"spec":{"tolerations":[{"operator":"Exists","effect":"NoSchedule"}]}}"#;
        assert_eq!(count(other), 3);
    }

    #[test]
    fn toleration_seconds_are_configurable() {
        let mut pod = object(r#"{"spec":{}}"#);
        add_defaults(&mut pod, Tolerations { not_ready: 7, unreachable: 0 });
        let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap();
        let seconds = tolerations.iter().map(|one| one.get("tolerationSeconds").and_then(Value::as_i64));
        assert_eq!(seconds.collect::<Vec<_>>(), [Some(7), Some(0)]);
    }
}
