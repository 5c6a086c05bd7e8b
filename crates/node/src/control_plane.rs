//! Mirror pods of the control plane components that run in this process, on the first node.
//!
//! As with a kubelet's static pods, a deleted mirror pod is recreated, and nothing evicts it. The pods have
//! no requests, because no container runs them: the image and an annotation show that. The pod of an earlier
//! process is replaced, so that its age is that of the component.

use std::sync::Arc;

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Key, Map, Time, Value, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{ClientIdentity, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};

use crate::fleet::{Fleet, KUBELET, NodeRef};
use crate::images::hex_digest;

/// Namespace of the pods.
pub const NAMESPACE: &str = "kube-system";
/// All component names, as upstream spells them.
pub const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// Annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation of pods whose component runs in the control plane process.
const IN_PROCESS: &str = "setpoint.dev/in-process";

/// Components that run in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Components {
    /// Component names.
    pub names: Vec<&'static str>,
    /// Start time.
    pub started_at: Time,
}

impl Fleet {
    /// Returns the component of a mirror pod; `None` for every other pod.
    #[must_use]
    pub fn component(&self, pod: &Object) -> Option<&'static str> {
        let meta = pod.meta();
        if &*meta.namespace != NAMESPACE || meta.annotations.get(MIRROR).is_none() {
            return None;
        }
        let node = self.node_name(0);
        let is_for = |component: &&str| {
            meta.name.strip_prefix(component).and_then(|rest| rest.strip_prefix('-')) == Some(&node)
        };
        COMPONENTS.into_iter().find(is_for)
    }
}

/// Planner of the mirror pods.
pub struct ControlPlane(pub Arc<Fleet>);

impl Planner for ControlPlane {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node-control-plane"
    }

    fn identity(&self) -> Option<ClientIdentity> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, _: &WorldReader<'_>) -> Option<String> {
        Some(key.name().to_owned())
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary("nodes"),
            Watch::mapped("pods", enqueue_node_of_pod),
            Watch::mapped("namespaces", enqueue_nodes_of_namespace),
        ];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        key_of("nodes", "", &self.0.node_name(0)).into_iter().collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(node) = self.0.running_node(key.name(), world).filter(|node| node.number == 0) else {
            return plan;
        };
        if world.find("namespaces", "", NAMESPACE).is_none() {
            return plan;
        }
        for component in COMPONENTS {
            let is_enabled = self.0.components.names.contains(&component);
            let known = world.find("pods", NAMESPACE, &format!("{component}-{}", key.name()));
            match known {
                None if is_enabled => {
                    plan.push(Write::create("pods", NAMESPACE, self.pod(component, &node)));
                }
                // The pod is deleted with grace period 0: it has no container to stop.
                Some(pod)
                    if !is_enabled || !self.is_of_this_process(pod, component) || pod.meta().is_deleted() =>
                {
                    plan.push(Write::delete(pod).with_grace_period(0));
                }
                _ => {}
            }
        }
        plan
    }
}

impl ControlPlane {
    /// Returns the value of the mirror annotation, which identifies the process.
    fn identity(&self, component: &str) -> String {
        let text = format!("{component} {} {}", env!("CARGO_PKG_VERSION"), self.0.components.started_at.0);
        hex_digest(&text)[..32].to_owned()
    }

    fn is_of_this_process(&self, pod: &Object, component: &str) -> bool {
        // A pod of that name with another annotation was created by a user, and is replaced.
        pod.meta().annotations.get(MIRROR) == Some(&self.identity(component))
    }

    fn pod(&self, component: &str, node: &NodeRef<'_>) -> Value {
        let (name, identity) = (node.object.key().name(), self.identity(component));
        let mut annotations = Map::new();
        let seen = Micros(self.0.components.started_at).to_string();
        for (name, text) in [
            ("kubernetes.io/config.hash", identity.as_str()),
            (MIRROR, identity.as_str()),
            ("kubernetes.io/config.seen", seen.as_str()),
            ("kubernetes.io/config.source", "file"),
            (IN_PROCESS, "true: this component runs in the process of setpoint, and no container runs it"),
        ] {
            annotations.insert(name, text);
        }
        let owner = value!({
            "apiVersion": "v1", "kind": "Node", "name": (name), "uid": (&*node.object.meta().uid), "controller": true,
        });
        let image = format!("setpoint.dev/in-process/{component}:{}", env!("CARGO_PKG_VERSION"));
        value!({
            "metadata": {
                "name": (format!("{component}-{name}")),
                "labels": {"component": (component), "tier": "control-plane"},
                "annotations": (annotations),
                "ownerReferences": [(owner)],
            },
            "spec": {
                "nodeName": (name),
                "hostNetwork": true,
                "priorityClassName": "system-node-critical",
                "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
                "containers": [{"name": (component), "image": (image), "imagePullPolicy": "IfNotPresent"}],
            },
        })
    }
}

/// Enqueues the node of a component's pod.
fn enqueue_node_of_pod(pod: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*pod.meta().namespace != NAMESPACE {
        return;
    }
    let name = &*pod.meta().name;
    let node = COMPONENTS.into_iter().find_map(|one| name.strip_prefix(one)?.strip_prefix('-'));
    if let Some(key) = node.and_then(|node| key_of("nodes", "", node)) {
        enqueue(key);
    }
}

/// Enqueues every node when the namespace of the pods changes.
fn enqueue_nodes_of_namespace(namespace: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*namespace.meta().name == NAMESPACE {
        world.all("nodes").for_each(|node| enqueue(node.key().clone()));
    }
}
