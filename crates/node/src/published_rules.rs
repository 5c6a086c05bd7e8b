//! Rules of a fleet that runs in another process, published in a ConfigMap. Logs and usage of its containers
//! follow from the rules and the pods, so the server computes them without a request to the fleet.

use std::sync::Arc;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{ClientIdentity, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::config_map::ConfigMap;

use crate::behavior::rules_file::{self, BehaviorRule};
use crate::fleet::{Fleet, KUBELET};

/// Namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// Key in the ConfigMap.
const RULES_KEY: &str = "rules.yaml";

/// Decodes the rules of a ConfigMap; `None` if it holds none.
#[must_use]
pub fn decode_rules(object: &Object) -> Option<Vec<BehaviorRule>> {
    let map: ConfigMap = object.decode()?;
    rules_file::parse_rules(map.data.get(RULES_KEY)?.as_bytes()).ok()
}

/// Planner that publishes the rules of a fleet.
pub struct RulesPublisher(pub Arc<Fleet>);

impl Planner for RulesPublisher {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node-rules"
    }

    fn identity(&self) -> Option<ClientIdentity> {
        Some(KUBELET)
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("configmaps")];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        key_of("configmaps", NAMESPACE, &self.0.owner).into_iter().collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(text) = self.0.published_rules.as_deref() else { return plan };
        let is_ours = key.name() == self.0.owner && key.namespace() == Some(NAMESPACE);
        if !is_ours || world.find("namespaces", "", NAMESPACE).is_none() {
            return plan;
        }
        let data = value!({"rules.yaml": (text)});
        match world.view::<ConfigMap>(NAMESPACE, key.name()) {
            None => {
                let wanted = value!({"metadata": {"name": (key.name())}, "data": (data)});
                plan.push(Write::create("configmaps", NAMESPACE, wanted));
            }
            Some((object, map)) if map.data.get(RULES_KEY) != Some(text) => {
                plan.push(Write::merge(object, "", value!({"data": (data)})));
            }
            Some(_) => {}
        }
        plan
    }
}
