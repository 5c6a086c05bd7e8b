//! A pod stays for a while on a node that does not answer, unless it says how long.

use setpoint_api::{Map, Value};

/// The taint of a node that is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const SECONDS: i64 = 300;

/// Adds the usual tolerations where the pod says nothing of them.
pub fn admit(pod: &mut Value) {
    let tolerations = list(pod, "tolerations");
    for key in [NOT_READY, UNREACHABLE] {
        let speaks_of = |toleration: &Value| {
            matches!(toleration.str_at(&["key"]), said if said == key || said.is_empty())
                && matches!(toleration.str_at(&["effect"]), "NoExecute" | "")
        };
        if !tolerations.iter().any(speaks_of) {
            let mut toleration = Map::with_capacity(4);
            toleration.insert("key", key);
            toleration.insert("operator", "Exists");
            toleration.insert("effect", "NoExecute");
            toleration.insert("tolerationSeconds", SECONDS);
            tolerations.push(toleration.into());
        }
    }
}

/// A list in the spec, made if it is not there.
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
        admit(&mut pod);
        pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap().len()
    }

    #[test]
    fn a_pod_gets_the_tolerations_it_does_not_speak_of() {
        assert_eq!(count(r#"{"spec":{}}"#), 2);
        assert_eq!(count(r#"{"spec":{"tolerations":[{"operator":"Exists"}]}}"#), 1);
        let own = r#"{"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}]}}"#;
        assert_eq!(count(own), 2);
        let other = r#"{"spec":{"tolerations":[{"operator":"Exists","effect":"NoSchedule"}]}}"#;
        assert_eq!(count(other), 3);
    }
}
