//! Node TTL: cache time of Secrets and ConfigMaps on nodes, which grows with the number of nodes.

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::{Plan, Planner, Seed, Seen, Watch, WorldReader, Write};

/// Annotation that kubelets read.
const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// Minimum and maximum number of nodes, and the TTL in seconds. The ranges overlap, so a node that is added
/// and removed changes nothing.
const STEPS: [(usize, usize, &str); 5] =
    [(0, 100, "0"), (90, 500, "15"), (450, 1000, "30"), (900, 2000, "60"), (1800, usize::MAX, "300")];

/// The node TTL controller.
pub struct NodeTtl;

impl Planner for NodeTtl {
    type Memo = ();

    fn name(&self) -> &'static str {
        "ttl-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("nodes")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let current = object.meta().annotations.get(TTL);
        let ttl = ttl_seconds(world.count("nodes"), current);
        if current != Some(ttl) {
            let patch = value!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": (ttl)}}});
            plan.stage([Write::merge(object, "", patch).at_any_revision().into()]);
        }
        plan
    }
}

/// TTL for a number of nodes: the current one if it is still in range.
fn ttl_seconds(nodes: usize, current: Option<&str>) -> &'static str {
    let is_in_range = |(min, max, _): &&(usize, usize, &str)| *min <= nodes && nodes <= *max;
    let current_step = STEPS.iter().find(|step| is_in_range(step) && Some(step.2) == current);
    current_step.or_else(|| STEPS.iter().find(is_in_range)).map_or("300", |step| step.2)
}

#[cfg(test)]
mod tests {
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    #[test]
    fn ttl_annotation_is_set_and_edits_are_reverted() {
        let controllers: Controllers = || (vec![Box::new(NodeTtl)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        let odd = value!({"metadata": {"name": "n", "annotations": {"node.alpha.kubernetes.io/ttl": "odd"}}});
        cluster.create("nodes", "", odd);
        cluster.settle();
        let node = cluster.get("nodes", "n").unwrap();
        assert_eq!(node.str_at(&["metadata", "annotations", TTL]), "0");
        cluster.assert_quiet();
    }

    #[test]
    fn ttl_has_hysteresis_at_the_bounds() {
        assert_eq!(
            (ttl_seconds(95, Some("0")), ttl_seconds(95, Some("15")), ttl_seconds(95, None)),
            ("0", "15", "0")
        );
        assert_eq!((ttl_seconds(101, Some("0")), ttl_seconds(89, Some("15"))), ("15", "0"));
        assert_eq!(ttl_seconds(100_000, Some("60")), "300");
    }
}
