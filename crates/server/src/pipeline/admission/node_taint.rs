//! TaintNodesByCondition: a new node is tainted as not ready.

use setpoint_api::{Map, Value};

use super::tolerations::{NOT_READY, list};

/// Taints a new node as not ready, unless it has the taint.
pub fn admit(node: &mut Value) {
    let taints = list(node, "taints");
    let is_there =
        |taint: &Value| taint.str_at(&["key"]) == NOT_READY && taint.str_at(&["effect"]) == "NoSchedule";
    if !taints.iter().any(is_there) {
        let mut taint = Map::with_capacity(2);
        taint.insert("key", NOT_READY);
        taint.insert("effect", "NoSchedule");
        taints.push(taint.into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::object;
    use super::*;

    #[test]
    fn new_node_is_tainted_once() {
        let mut node = object(r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}"#);
        admit(&mut node);
        let tainted = node.clone();
        admit(&mut node);
        assert_eq!(node, tainted);
        let taints = node.at(&["spec", "taints"]).and_then(Value::as_list).unwrap();
        assert_eq!(taints.len(), 2);
        assert_eq!(taints[1].str_at(&["key"]), NOT_READY);
    }
}
