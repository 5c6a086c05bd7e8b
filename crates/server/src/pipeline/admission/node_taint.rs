//! TaintNodesByCondition: a new node is tainted as not ready.

use setpoint_api::status::Status;
use setpoint_api::{Map, Value};

use super::AdmissionInput;
use super::tolerations::{NOT_READY, list};

/// Taints a new node as not ready, unless it has the taint.
pub(super) fn admit(node: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if input.is("nodes", "") {
        taint(node);
    }
    Ok(())
}

fn taint(node: &mut Value) {
    let taints = list(node, "taints");
    let is_there =
        |taint: &Value| taint.str_at(&["key"]) == NOT_READY && taint.str_at(&["effect"]) == "NoSchedule";
    if !taints.iter().any(is_there) {
        let mut not_ready = Map::with_capacity(2);
        not_ready.insert("key", NOT_READY);
        not_ready.insert("effect", "NoSchedule");
        taints.push(not_ready.into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::object;
    use super::*;

    #[test]
    fn new_node_is_tainted_once() {
        let mut node = object(r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}"#);
        taint(&mut node);
        let tainted = node.clone();
        taint(&mut node);
        assert_eq!(node, tainted);
        let taints = node.at(&["spec", "taints"]).and_then(Value::as_list).unwrap();
        assert_eq!(taints.len(), 2);
        assert_eq!(taints[1].str_at(&["key"]), NOT_READY);
    }
}
