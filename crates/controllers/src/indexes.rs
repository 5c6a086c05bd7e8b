//! The questions that controllers ask of the world, beside who owns what.

use setpoint_api::Key;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::views::cluster_role::ClusterRole;
use setpoint_reconcile::views::custom_resource_definition::CustomResourceDefinition;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::views::pod::{BY_NODE, NEW_BY_NODE, Pod};
use setpoint_reconcile::views::resource_claim::ResourceClaim;
use setpoint_reconcile::views::resource_slice::ResourceSlice;
use setpoint_reconcile::views::service::Service;
use setpoint_reconcile::views::volume_attachment::VolumeAttachment;
use setpoint_reconcile::{Index, Object, View, World};

use crate::cluster_role_aggregation::is_aggregating;
use crate::kinds::definition_kind;
use crate::node_lifecycle::zones;

/// Roles that gather their rules from others, all under the empty text.
pub const AGGREGATING_ROLES: &str = "aggregating roles";
/// Definitions of custom resources by the kind that they define.
pub const DEFINITIONS_BY_KIND: &str = "definitions by kind";
/// Namespaces that are on their way out, by name.
pub const DELETED_NAMESPACES: &str = "deleted namespaces";
/// Pods that are announced to be disrupted and run on, all under the empty value.
pub const DISRUPTION_TARGETS: &str = "pods to be disrupted";
/// Pods that have ended, all under the empty value.
pub const ENDED_PODS: &str = "pods that ended";
/// Pods that a Job has yet to count, all under the empty value.
pub const JOB_TRACKED_PODS: &str = "pods that a job tracks";
/// Nodes that count by whether they are well, see [`crate::node_lifecycle`].
pub const NODES_BY_STATE: &str = "nodes by state";
/// Nodes by the zone that they are in.
pub const NODES_BY_ZONE: &str = "nodes by zone";
/// Pods that nobody manages, by namespace.
pub const ORPHAN_PODS: &str = "orphan pods";
/// Replica sets that nobody manages, by namespace.
pub const ORPHAN_REPLICA_SETS: &str = "orphan replica sets";
/// Revisions that nobody manages, by namespace.
pub const ORPHAN_REVISIONS: &str = "orphan revisions";
/// Pods by the node they are bound to.
pub const PODS_BY_NODE: &str = BY_NODE.name;

/// Pods by each of their labels, within a namespace: see [`labelled`].
pub const PODS_BY_LABEL: &str = "pods by label";
/// Services by the first label that they select, within a namespace: see [`labelled`].
pub const SERVICES_BY_SELECTOR: &str = "services by selector";

/// Attachments of volumes by the node that they are for.
pub const ATTACHMENTS_BY_NODE: &str = "attachments by node";
/// Attachments of volumes by the volume that they name.
pub const ATTACHMENTS_BY_VOLUME: &str = "attachments by volume";
/// Claims by each class of attributes that they have or want.
pub const CLAIMS_BY_ATTRIBUTES: &str = "claims by attributes class";
/// Claims by the volume that they name.
pub const CLAIMS_BY_VOLUME: &str = "claims by volume";
/// Claims for devices by the identity of each pod that may use them.
pub const DEVICE_CLAIMS_BY_POD: &str = "device claims by pod";
/// Claims for devices by the pool of each device that they have: see [`path`].
pub const DEVICE_CLAIMS_BY_POOL: &str = "device claims by pool";
/// Slices of devices by their pool: see [`path`].
pub const DEVICE_SLICES_BY_POOL: &str = "device slices by pool";
/// Volumes that no claim has, by class.
pub const FREE_VOLUMES: &str = "free volumes by class";
/// Pods by each claim that they use: see [`path`].
pub const PODS_BY_CLAIM: &str = "pods by claim";
/// Pods by each claim for devices that they use: see [`path`].
pub const PODS_BY_DEVICE_CLAIM: &str = "pods by device claim";
/// Pods by each template of claims for devices that they name: see [`path`].
pub const PODS_BY_DEVICE_TEMPLATE: &str = "pods by device template";
/// EndpointSlices by the Service that they name: see [`path`].
pub const SLICES_BY_SERVICE: &str = "slices by service";
/// Volumes by their class of attributes.
pub const VOLUMES_BY_ATTRIBUTES: &str = "volumes by attributes class";
/// Volumes by the claim that they name: see [`path`].
pub const VOLUMES_BY_CLAIM: &str = "volumes by claim";
/// Volumes of drivers by what these call them.
pub const VOLUMES_BY_HANDLE: &str = "volumes by handle";
/// Nodes that are down and have not been given up, by zone.
pub const WAITING_NODES_BY_ZONE: &str = "waiting nodes by zone";
/// Claims that have no volume, by class.
pub const WAITING_CLAIMS: &str = "waiting claims by class";

/// The place of a name in a namespace.
#[must_use]
pub fn path(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The place of a label in a namespace.
#[must_use]
pub fn labelled(namespace: &str, name: &str, value: &str) -> String {
    format!("{namespace}/{name}={value}")
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Index> {
    vec![
        Index { name: AGGREGATING_ROLES, resource: ClusterRole::RESOURCE, values: is_aggregating },
        Index {
            name: DEFINITIONS_BY_KIND,
            resource: CustomResourceDefinition::RESOURCE,
            values: definition_kind,
        },
        Index { name: DELETED_NAMESPACES, resource: "namespaces", values: deleted },
        Index { name: DISRUPTION_TARGETS, resource: "pods", values: disruption_target },
        Index { name: ENDED_PODS, resource: "pods", values: ended },
        Index { name: JOB_TRACKED_PODS, resource: "pods", values: job_tracked },
        Index { name: NODES_BY_STATE, resource: "nodes", values: zones::state },
        Index { name: WAITING_NODES_BY_ZONE, resource: "nodes", values: zones::zone_if_waiting },
        Index { name: NODES_BY_ZONE, resource: "nodes", values: |node, found| found(&zone_of(node)) },
        Index { name: ORPHAN_PODS, resource: "pods", values: orphan },
        Index { name: ORPHAN_REPLICA_SETS, resource: "replicasets.apps", values: orphan },
        Index { name: ORPHAN_REVISIONS, resource: "controllerrevisions.apps", values: orphan },
        Index { name: ATTACHMENTS_BY_NODE, resource: VolumeAttachment::RESOURCE, values: attached_node },
        Index { name: ATTACHMENTS_BY_VOLUME, resource: VolumeAttachment::RESOURCE, values: attached_volume },
        Index { name: CLAIMS_BY_ATTRIBUTES, resource: "persistentvolumeclaims", values: claim_attributes },
        Index { name: CLAIMS_BY_VOLUME, resource: "persistentvolumeclaims", values: volume_of_claim },
        Index { name: DEVICE_CLAIMS_BY_POD, resource: ResourceClaim::RESOURCE, values: consumers },
        Index { name: DEVICE_CLAIMS_BY_POOL, resource: ResourceClaim::RESOURCE, values: pools_of_claim },
        Index { name: DEVICE_SLICES_BY_POOL, resource: ResourceSlice::RESOURCE, values: pool_of_slice },
        Index { name: FREE_VOLUMES, resource: "persistentvolumes", values: free_volume },
        Index { name: PODS_BY_CLAIM, resource: "pods", values: claims_of_pod },
        Index { name: PODS_BY_DEVICE_CLAIM, resource: "pods", values: device_claims_of_pod },
        Index { name: PODS_BY_DEVICE_TEMPLATE, resource: "pods", values: device_templates_of_pod },
        Index { name: PODS_BY_LABEL, resource: "pods", values: labels },
        BY_NODE,
        NEW_BY_NODE,
        Index { name: SERVICES_BY_SELECTOR, resource: "services", values: first_selected },
        Index {
            name: SLICES_BY_SERVICE,
            resource: "endpointslices.discovery.k8s.io",
            values: service_of_slice,
        },
        Index { name: VOLUMES_BY_ATTRIBUTES, resource: "persistentvolumes", values: volume_attributes },
        Index { name: VOLUMES_BY_CLAIM, resource: "persistentvolumes", values: claim_of_volume },
        Index { name: VOLUMES_BY_HANDLE, resource: "persistentvolumes", values: handle_of_volume },
        Index { name: WAITING_CLAIMS, resource: "persistentvolumeclaims", values: waiting_claim },
    ]
}

fn disruption_target(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.view().is_some_and(|pod| crate::disruption::announced_since(object, pod).is_some()) {
        found("");
    }
}

fn deleted(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.meta().is_deleted() {
        found(&object.meta().name);
    }
}

fn ended(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.view::<Pod>().is_some_and(Pod::is_finished) {
        found("");
    }
}

fn job_tracked(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.meta().has_finalizer(crate::job::TRACKING) {
        found("");
    }
}

/// The zone of a node, with its region.
#[must_use]
pub fn zone_of(node: &Object) -> String {
    let label = |name: &str| node.meta().labels.get(name).unwrap_or_default();
    format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

fn orphan(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.meta().controller().is_none() {
        found(&object.meta().namespace);
    }
}

fn labels(object: &Object, found: &mut dyn FnMut(&str)) {
    for (name, value) in object.meta().labels.iter() {
        found(&labelled(&object.meta().namespace, name, value));
    }
}

fn first_selected(object: &Object, found: &mut dyn FnMut(&str)) {
    let selector = object.view::<Service>().and_then(|service| service.spec.selector.as_ref());
    if let Some((name, value)) = selector.and_then(|selector| selector.iter().next()) {
        found(&labelled(&object.meta().namespace, name, value));
    }
}

/// The names of the claims that a pod uses, those made for it among them.
pub fn pod_claims(object: &Object, found: &mut dyn FnMut(&str)) {
    let Some(pod) = object.view::<Pod>() else { return };
    for volume in &pod.spec.volumes {
        if let Some(claim) = &volume.persistent_volume_claim {
            found(&claim.claim_name);
        } else if volume.ephemeral.is_some() {
            found(&ephemeral_claim(&object.meta().name, &volume.name));
        }
    }
}

/// The name of the claim that is made for a volume of a pod.
#[must_use]
pub fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

fn claims_of_pod(object: &Object, found: &mut dyn FnMut(&str)) {
    pod_claims(object, &mut |name| found(&path(&object.meta().namespace, name)));
}

/// Wakes the claims that a pod uses.
pub fn wake_claims(pod: &Object, _: &World, wake: &mut dyn FnMut(Key)) {
    pod_claims(pod, &mut |name| {
        if let Some(key) = key_of("persistentvolumeclaims", &pod.meta().namespace, name) {
            wake(key);
        }
    });
}

/// The classes of attributes that a claim has or wants.
pub fn claim_attributes(object: &Object, found: &mut dyn FnMut(&str)) {
    let claim = object.view::<PersistentVolumeClaim>();
    claim.iter().flat_map(|claim| claim.attributes_classes()).for_each(found);
}

/// The class of attributes that a volume has.
pub fn volume_attributes(object: &Object, found: &mut dyn FnMut(&str)) {
    let volume = object.view::<PersistentVolume>();
    let name = volume.and_then(|volume| volume.spec.volume_attributes_class_name.as_deref());
    name.filter(|name| !name.is_empty()).into_iter().for_each(found);
}

fn service_of_slice(object: &Object, found: &mut dyn FnMut(&str)) {
    if let Some(name) = object.meta().labels.get(crate::endpoint_slice::SERVICE_NAME) {
        found(&path(&object.meta().namespace, name));
    }
}

fn volume_of_claim(object: &Object, found: &mut dyn FnMut(&str)) {
    let claim = object.view::<PersistentVolumeClaim>();
    if let Some(claim) = claim.filter(|claim| !claim.spec.volume_name.is_empty()) {
        found(&claim.spec.volume_name);
    }
}

fn waiting_claim(object: &Object, found: &mut dyn FnMut(&str)) {
    let claim = object.view::<PersistentVolumeClaim>();
    if let Some(claim) = claim.filter(|claim| claim.spec.volume_name.is_empty()) {
        found(claim.class(object));
    }
}

fn claim_of_volume(object: &Object, found: &mut dyn FnMut(&str)) {
    if let Some(of) = object.view::<PersistentVolume>().and_then(|volume| volume.spec.claim_ref.as_ref()) {
        found(&path(&of.namespace, &of.name));
    }
}

fn free_volume(object: &Object, found: &mut dyn FnMut(&str)) {
    if let Some(volume) = object.view::<PersistentVolume>().filter(|volume| volume.spec.claim_ref.is_none()) {
        found(volume.class(object));
    }
}

fn attached_node(object: &Object, found: &mut dyn FnMut(&str)) {
    let attachment = object.view::<VolumeAttachment>();
    attachment.into_iter().for_each(|attachment| found(&attachment.spec.node_name));
}

fn attached_volume(object: &Object, found: &mut dyn FnMut(&str)) {
    let attachment = object.view::<VolumeAttachment>();
    let name = attachment.and_then(|attachment| attachment.spec.source.persistent_volume_name.as_deref());
    name.into_iter().for_each(found);
}

fn handle_of_volume(object: &Object, found: &mut dyn FnMut(&str)) {
    let volume = object.view::<PersistentVolume>();
    if let Some(csi) = volume.and_then(|volume| volume.spec.csi.as_ref()) {
        found(&crate::attach_detach::handle(csi));
    }
}

fn consumers(object: &Object, found: &mut dyn FnMut(&str)) {
    let claim = object.view::<ResourceClaim>();
    let consumers = claim.into_iter().flat_map(|claim| &claim.status.reserved_for);
    consumers.filter(|consumer| consumer.is_pod()).for_each(|consumer| found(&consumer.uid));
}

fn pools_of_claim(object: &Object, found: &mut dyn FnMut(&str)) {
    let claim = object.view::<ResourceClaim>();
    let devices = claim.into_iter().flat_map(ResourceClaim::devices);
    devices.for_each(|device| found(&path(&device.driver, &device.pool)));
}

fn pool_of_slice(object: &Object, found: &mut dyn FnMut(&str)) {
    let slice = object.view::<ResourceSlice>();
    slice.into_iter().for_each(|slice| found(&path(&slice.spec.driver, &slice.spec.pool.name)));
}

fn device_claims_of_pod(object: &Object, found: &mut dyn FnMut(&str)) {
    let pod = object.view::<Pod>();
    let claims = pod.into_iter().flat_map(Pod::device_claims);
    claims.for_each(|(name, _)| found(&path(&object.meta().namespace, name)));
}

fn device_templates_of_pod(object: &Object, found: &mut dyn FnMut(&str)) {
    let pod = object.view::<Pod>();
    let claims = pod.into_iter().flat_map(|pod| &pod.spec.resource_claims);
    let templates = claims.filter_map(|claim| claim.resource_claim_template_name.as_deref());
    templates.for_each(|name| found(&path(&object.meta().namespace, name)));
}
