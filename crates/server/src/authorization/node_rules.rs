//! Rules of nodes, until the node authorizer takes their place.

use setpoint_api::Identity;
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::Snapshot;

use super::{Answer, Authorizer, UserRules};

/// Group of all nodes.
const NODES: &str = "system:nodes";

/// Authorizer of `system:nodes`: allows every node what the rules of upstream's node authorizer allow to some node. It
/// does not know which objects belong to which node, so the node authorizer is stricter.
#[derive(Debug)]
pub struct NodeRules;

impl Authorizer for NodeRules {
    fn name(&self) -> &str {
        "Node"
    }

    fn authorize(&self, attributes: &Attributes<'_>, _: &Snapshot) -> Answer {
        let is_node = attributes.user.groups.iter().any(|group| group == NODES);
        let rules = setpoint_authorization::bootstrap::node_rules();
        let is_allowed = is_node && rules.iter().any(|rule| rule.allows(&attributes.request));
        let decision = if is_allowed { Decision::Allowed } else { Decision::NoOpinion };
        Answer::Now(decision(String::new()))
    }

    fn add_rules(&self, user: &Identity, _: &str, _: &Snapshot, rules: &mut UserRules) {
        if user.groups.iter().any(|group| group == NODES) {
            rules.is_incomplete = true;
            rules.errors.push("node authorizer does not support user rule resolution".to_owned());
        }
    }
}
