//! Built-in provisioner: directories on the node, so claims bind without an external provisioner.
//!
//! Only the PersistentVolume object is created here. The node creates and removes the directory.

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::storage_class::StorageClass;

use super::volume::FINALIZER;

/// Name in classes and volumes.
pub const PROVISIONER: &str = "kubernetes.io/host-path";
/// Default directory of volumes.
pub const DIRECTORY: &str = "/var/lib/setpoint/volumes";
/// Name of the initial StorageClass.
const CLASS: &str = "standard";

/// Name of the volume that is provisioned for a claim.
pub(super) fn volume_name(claim: &Object) -> String {
    format!("pvc-{}", claim.meta().uid)
}

/// `true` if a path is strictly below a directory.
pub(super) fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.split('/').any(|part| part == ".."))
}

/// Volume for a claim, on the selected node, if any.
pub(super) fn volume(
    object: &Object,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Object>,
    directory: &str,
) -> Value {
    let meta = object.meta();
    let name = volume_name(object);
    let modes: Vec<&str> = claim.spec.access_modes.iter().map(String::as_str).collect();
    let finalizers: Vec<&str> = if class.reclaim_policy == "Delete" { vec![FINALIZER] } else { Vec::new() };
    let affinity = node.map(|node| {
        let hostname = node.meta().labels.get("kubernetes.io/hostname").unwrap_or(&node.meta().name);
        let here = value!({"key": "kubernetes.io/hostname", "operator": "In", "values": [(hostname)]});
        value!({"required": {"nodeSelectorTerms": [{"matchExpressions": [(here)]}]}})
    });
    value!({
        "metadata": {
            "name": (name.as_str()),
            "annotations": {
                "pv.kubernetes.io/bound-by-controller": "yes",
                "pv.kubernetes.io/provisioned-by": (PROVISIONER),
                "kubernetes.io/createdby": "hostpath-dynamic-provisioner",
            },
            "finalizers": (finalizers),
        },
        "spec": {
            "capacity": {"storage": (claim.spec.resources.requests.get("storage"))},
            "accessModes": (modes),
            "volumeMode": (claim.spec.volume_mode.as_deref()),
            "persistentVolumeReclaimPolicy": (class.reclaim_policy.as_str()),
            "storageClassName": (claim.class(object)),
            "hostPath": {"path": (format!("{directory}/{name}")), "type": "DirectoryOrCreate"},
            "nodeAffinity": (affinity),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": (&*meta.namespace),
                "name": (&*meta.name),
                "uid": (&*meta.uid),
                "resourceVersion": (object.revision().to_string()),
            },
        },
    })
}

/// Creates the StorageClass of the built-in provisioner, as the default class.
pub struct DefaultStorageClass;

impl Planner for DefaultStorageClass {
    type Memo = ();

    fn name(&self) -> &'static str {
        "default-storage-class-controller"
    }

    /// The server itself: upstream has no such controller, so no role of upstream allows it to create classes.
    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::mapped("storageclasses.storage.k8s.io", |_, _, enqueue| enqueue_class(enqueue)),
            // The first namespace exists before any claim.
            Watch::mapped("namespaces", |_, _, enqueue| enqueue_class(enqueue)),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        // Users with classes of their own may delete this one.
        if world.get(key).is_some() || world.count("storageclasses.storage.k8s.io") > 0 {
            return plan;
        }
        let class = value!({
            "metadata": {
                "name": (CLASS),
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": (PROVISIONER),
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": true,
        });
        plan.stage([Write::create("storageclasses.storage.k8s.io", "", class).into()]);
        plan
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        key_of("storageclasses.storage.k8s.io", "", CLASS).into_iter().collect()
    }
}

fn enqueue_class(enqueue: &mut dyn FnMut(Key)) {
    if let Some(key) = key_of("storageclasses.storage.k8s.io", "", CLASS) {
        enqueue(key);
    }
}
