//! Indexes of the world that controllers use, besides the index of owners.

use setpoint_api::Key;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Index, Object, View, WorldReader};
use setpoint_views::cluster_role::ClusterRole;
use setpoint_views::custom_resource_definition::CustomResourceDefinition;
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::pod::{BY_NODE, NEW_BY_NODE, Pod};
use setpoint_views::resource_claim::ResourceClaim;
use setpoint_views::resource_slice::ResourceSlice;
use setpoint_views::service::Service;
use setpoint_views::volume_attachment::VolumeAttachment;

use crate::cluster_role_aggregation::index_aggregating_roles;
use crate::kinds::index_definition_kind;
use crate::node_lifecycle::zones;

/// ClusterRoles with an aggregation rule, all under the empty value.
pub const AGGREGATING_ROLES: &str = "aggregating roles";
/// Accepted names of CustomResourceDefinitions, see [`crate::crd_names`].
pub const DEFINITION_NAMES: &str = "definition names";
/// Established CustomResourceDefinitions by the kind that they define.
pub const DEFINITIONS_BY_KIND: &str = "definitions by kind";
/// CustomResourceDefinitions whose instances have to be removed, all under the empty value.
pub const DELETED_DEFINITIONS: &str = "deleted definitions";
/// CustomResourceDefinitions whose names are not accepted or that are not established, by group.
pub const PENDING_DEFINITIONS: &str = "pending definitions";
/// Terminating namespaces by name.
pub const DELETED_NAMESPACES: &str = "deleted namespaces";
/// Pods with the condition `DisruptionTarget` that are not being deleted, all under the empty value.
pub const DISRUPTION_TARGETS: &str = "disruption targets";
/// Terminated pods, all under the empty value.
pub const TERMINATED_PODS: &str = "terminated pods";
/// Pods with the finalizer of a Job, all under the empty value.
pub const JOB_TRACKED_PODS: &str = "job tracked pods";
/// Counted nodes by health, see [`crate::node_lifecycle`].
pub const NODES_BY_STATE: &str = "nodes by state";
/// Nodes by zone.
pub const NODES_BY_ZONE: &str = "nodes by zone";
/// Pods without a controller, by namespace.
pub const ORPHAN_PODS: &str = "orphan pods";
/// ReplicaSets without a controller, by namespace.
pub const ORPHAN_REPLICA_SETS: &str = "orphan replica sets";
/// ControllerRevisions without a controller, by namespace.
pub const ORPHAN_REVISIONS: &str = "orphan revisions";
/// Pods by the node they are bound to.
pub const PODS_BY_NODE: &str = BY_NODE.name;

/// Pods by each of their labels, within a namespace: see [`label_key`].
pub const PODS_BY_LABEL: &str = "pods by label";
/// Services by the first label of their selector, within a namespace: see [`label_key`].
pub const SERVICES_BY_SELECTOR: &str = "services by selector";

/// VolumeAttachments by node.
pub const ATTACHMENTS_BY_NODE: &str = "attachments by node";
/// VolumeAttachments by PersistentVolume.
pub const ATTACHMENTS_BY_VOLUME: &str = "attachments by volume";
/// PersistentVolumeClaims by each VolumeAttributesClass that they have or request.
pub const CLAIMS_BY_ATTRIBUTES: &str = "claims by attributes class";
/// PersistentVolumeClaims by the volume that they name.
pub const CLAIMS_BY_VOLUME: &str = "claims by volume";
/// ResourceClaims by the UID of each pod that they are reserved for.
pub const DEVICE_CLAIMS_BY_POD: &str = "device claims by pod";
/// ResourceClaims by the pool of each allocated device: see [`path`].
pub const DEVICE_CLAIMS_BY_POOL: &str = "device claims by pool";
/// ResourceSlices by pool: see [`path`].
pub const DEVICE_SLICES_BY_POOL: &str = "device slices by pool";
/// PersistentVolumes without a claim, by class.
pub const UNCLAIMED_VOLUMES: &str = "unclaimed volumes by class";
/// Pods by each PersistentVolumeClaim that they use: see [`path`].
pub const PODS_BY_CLAIM: &str = "pods by claim";
/// Pods by each ResourceClaim that they use: see [`path`].
pub const PODS_BY_DEVICE_CLAIM: &str = "pods by device claim";
/// Pods by each ResourceClaimTemplate that they name: see [`path`].
pub const PODS_BY_DEVICE_TEMPLATE: &str = "pods by device template";
/// EndpointSlices by Service: see [`path`].
pub const SLICES_BY_SERVICE: &str = "slices by service";
/// PersistentVolumes by VolumeAttributesClass.
pub const VOLUMES_BY_ATTRIBUTES: &str = "volumes by attributes class";
/// PersistentVolumes by the claim that they refer to: see [`path`].
pub const VOLUMES_BY_CLAIM: &str = "volumes by claim";
/// CSI volumes by driver and handle.
pub const VOLUMES_BY_HANDLE: &str = "volumes by handle";
/// Nodes that are down and not yet tainted for eviction, by zone.
pub const NODES_PENDING_TAINT_BY_ZONE: &str = "nodes pending taint by zone";
/// PersistentVolumeClaims without a volume, by class.
pub const PENDING_CLAIMS: &str = "pending claims by class";

/// Index value of a name in a namespace.
#[must_use]
pub fn path(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Index value of a label in a namespace.
#[must_use]
pub fn label_key(namespace: &str, name: &str, value: &str) -> String {
    format!("{namespace}/{name}={value}")
}

/// All indexes.
#[must_use]
pub fn all() -> Vec<Index> {
    let mut all = crate::crd::indexes();
    all.extend([
        Index { name: AGGREGATING_ROLES, resource: ClusterRole::RESOURCE, values: index_aggregating_roles },
        Index {
            name: DEFINITIONS_BY_KIND,
            resource: CustomResourceDefinition::RESOURCE,
            values: index_definition_kind,
        },
        Index { name: DELETED_NAMESPACES, resource: "namespaces", values: index_deleted },
        Index { name: DISRUPTION_TARGETS, resource: "pods", values: index_disruption_target },
        Index { name: TERMINATED_PODS, resource: "pods", values: index_terminated },
        Index { name: JOB_TRACKED_PODS, resource: "pods", values: index_job_tracked },
        Index { name: NODES_BY_STATE, resource: "nodes", values: zones::index_state },
        Index {
            name: NODES_PENDING_TAINT_BY_ZONE,
            resource: "nodes",
            values: zones::index_zone_pending_taint,
        },
        Index { name: NODES_BY_ZONE, resource: "nodes", values: |node, emit| emit(&zone_of(node)) },
        Index { name: ORPHAN_PODS, resource: "pods", values: index_orphan },
        Index { name: ORPHAN_REPLICA_SETS, resource: "replicasets.apps", values: index_orphan },
        Index { name: ORPHAN_REVISIONS, resource: "controllerrevisions.apps", values: index_orphan },
        Index {
            name: ATTACHMENTS_BY_NODE,
            resource: VolumeAttachment::RESOURCE,
            values: index_attached_node,
        },
        Index {
            name: ATTACHMENTS_BY_VOLUME,
            resource: VolumeAttachment::RESOURCE,
            values: index_attached_volume,
        },
        Index {
            name: CLAIMS_BY_ATTRIBUTES,
            resource: "persistentvolumeclaims",
            values: claim_attributes_classes,
        },
        Index { name: CLAIMS_BY_VOLUME, resource: "persistentvolumeclaims", values: index_claim_volume },
        Index { name: DEVICE_CLAIMS_BY_POD, resource: ResourceClaim::RESOURCE, values: index_consumers },
        Index { name: DEVICE_CLAIMS_BY_POOL, resource: ResourceClaim::RESOURCE, values: index_claim_pools },
        Index { name: DEVICE_SLICES_BY_POOL, resource: ResourceSlice::RESOURCE, values: index_slice_pool },
        Index { name: UNCLAIMED_VOLUMES, resource: "persistentvolumes", values: index_unclaimed_volume },
        Index { name: PODS_BY_CLAIM, resource: "pods", values: index_pod_claims },
        Index { name: PODS_BY_DEVICE_CLAIM, resource: "pods", values: index_pod_device_claims },
        Index { name: PODS_BY_DEVICE_TEMPLATE, resource: "pods", values: index_pod_device_templates },
        Index { name: PODS_BY_LABEL, resource: "pods", values: index_labels },
        BY_NODE,
        NEW_BY_NODE,
        Index { name: SERVICES_BY_SELECTOR, resource: "services", values: index_first_selected },
        Index {
            name: SLICES_BY_SERVICE,
            resource: "endpointslices.discovery.k8s.io",
            values: index_slice_service,
        },
        Index { name: VOLUMES_BY_ATTRIBUTES, resource: "persistentvolumes", values: volume_attributes_class },
        Index { name: VOLUMES_BY_CLAIM, resource: "persistentvolumes", values: index_volume_claim },
        Index { name: VOLUMES_BY_HANDLE, resource: "persistentvolumes", values: index_volume_handle },
        Index { name: PENDING_CLAIMS, resource: "persistentvolumeclaims", values: index_pending_claim },
    ]);
    all
}

fn index_disruption_target(object: &Object, emit: &mut dyn FnMut(&str)) {
    if object.view().is_some_and(|pod| crate::disruption::disruption_target_since(object, pod).is_some()) {
        emit("");
    }
}

fn index_deleted(object: &Object, emit: &mut dyn FnMut(&str)) {
    if object.meta().is_deleted() {
        emit(&object.meta().name);
    }
}

fn index_terminated(object: &Object, emit: &mut dyn FnMut(&str)) {
    if object.view::<Pod>().is_some_and(Pod::is_finished) {
        emit("");
    }
}

fn index_job_tracked(object: &Object, emit: &mut dyn FnMut(&str)) {
    if object.meta().has_finalizer(crate::job::TRACKING_FINALIZER) {
        emit("");
    }
}

/// Zone of a node, with its region.
#[must_use]
pub fn zone_of(node: &Object) -> String {
    let label = |name: &str| node.meta().labels.get(name).unwrap_or_default();
    format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

fn index_orphan(object: &Object, emit: &mut dyn FnMut(&str)) {
    if object.meta().controller().is_none() {
        emit(&object.meta().namespace);
    }
}

fn index_labels(object: &Object, emit: &mut dyn FnMut(&str)) {
    for (name, value) in object.meta().labels.iter() {
        emit(&label_key(&object.meta().namespace, name, value));
    }
}

fn index_first_selected(object: &Object, emit: &mut dyn FnMut(&str)) {
    let selector = object.view::<Service>().and_then(|service| service.spec.selector.as_ref());
    if let Some((name, value)) = selector.and_then(|selector| selector.iter().next()) {
        emit(&label_key(&object.meta().namespace, name, value));
    }
}

/// Names of the claims that a pod uses, including those of ephemeral volumes.
pub fn for_each_pod_claim(object: &Object, emit: &mut dyn FnMut(&str)) {
    let Some(pod) = object.view::<Pod>() else { return };
    for volume in &pod.spec.volumes {
        if let Some(claim) = &volume.persistent_volume_claim {
            emit(&claim.claim_name);
        } else if volume.ephemeral.is_some() {
            emit(&ephemeral_claim_name(&object.meta().name, &volume.name));
        }
    }
}

/// Name of the claim of a pod's ephemeral volume.
#[must_use]
pub fn ephemeral_claim_name(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

fn index_pod_claims(object: &Object, emit: &mut dyn FnMut(&str)) {
    for_each_pod_claim(object, &mut |name| emit(&path(&object.meta().namespace, name)));
}

/// Enqueues the claims that a pod uses.
pub fn enqueue_claims(pod: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for_each_pod_claim(pod, &mut |name| {
        if let Some(key) = key_of("persistentvolumeclaims", &pod.meta().namespace, name) {
            enqueue(key);
        }
    });
}

/// VolumeAttributesClasses that a claim has or requests.
pub fn claim_attributes_classes(object: &Object, emit: &mut dyn FnMut(&str)) {
    let claim = object.view::<PersistentVolumeClaim>();
    claim.iter().flat_map(|claim| claim.attributes_classes()).for_each(emit);
}

/// VolumeAttributesClass of a volume.
pub fn volume_attributes_class(object: &Object, emit: &mut dyn FnMut(&str)) {
    let volume = object.view::<PersistentVolume>();
    let name = volume.and_then(|volume| volume.spec.volume_attributes_class_name.as_deref());
    name.filter(|name| !name.is_empty()).into_iter().for_each(emit);
}

fn index_slice_service(object: &Object, emit: &mut dyn FnMut(&str)) {
    if let Some(name) = object.meta().labels.get(crate::endpoint_slice::SERVICE_NAME) {
        emit(&path(&object.meta().namespace, name));
    }
}

fn index_claim_volume(object: &Object, emit: &mut dyn FnMut(&str)) {
    let claim = object.view::<PersistentVolumeClaim>();
    if let Some(claim) = claim.filter(|claim| !claim.spec.volume_name.is_empty()) {
        emit(&claim.spec.volume_name);
    }
}

fn index_pending_claim(object: &Object, emit: &mut dyn FnMut(&str)) {
    let claim = object.view::<PersistentVolumeClaim>();
    if let Some(claim) = claim.filter(|claim| claim.spec.volume_name.is_empty()) {
        emit(claim.class(object));
    }
}

fn index_volume_claim(object: &Object, emit: &mut dyn FnMut(&str)) {
    if let Some(of) = object.view::<PersistentVolume>().and_then(|volume| volume.spec.claim_ref.as_ref()) {
        emit(&path(&of.namespace, &of.name));
    }
}

fn index_unclaimed_volume(object: &Object, emit: &mut dyn FnMut(&str)) {
    if let Some(volume) = object.view::<PersistentVolume>().filter(|volume| volume.spec.claim_ref.is_none()) {
        emit(volume.class(object));
    }
}

fn index_attached_node(object: &Object, emit: &mut dyn FnMut(&str)) {
    let attachment = object.view::<VolumeAttachment>();
    attachment.into_iter().for_each(|attachment| emit(&attachment.spec.node_name));
}

fn index_attached_volume(object: &Object, emit: &mut dyn FnMut(&str)) {
    let attachment = object.view::<VolumeAttachment>();
    let name = attachment.and_then(|attachment| attachment.spec.source.persistent_volume_name.as_deref());
    name.into_iter().for_each(emit);
}

fn index_volume_handle(object: &Object, emit: &mut dyn FnMut(&str)) {
    let volume = object.view::<PersistentVolume>();
    if let Some(csi) = volume.and_then(|volume| volume.spec.csi.as_ref()) {
        emit(&crate::attach_detach::handle(csi));
    }
}

fn index_consumers(object: &Object, emit: &mut dyn FnMut(&str)) {
    let claim = object.view::<ResourceClaim>();
    let consumers = claim.into_iter().flat_map(|claim| &claim.status.reserved_for);
    consumers.filter(|consumer| consumer.is_pod()).for_each(|consumer| emit(&consumer.uid));
}

fn index_claim_pools(object: &Object, emit: &mut dyn FnMut(&str)) {
    let claim = object.view::<ResourceClaim>();
    let devices = claim.into_iter().flat_map(ResourceClaim::devices);
    devices.for_each(|device| emit(&path(&device.driver, &device.pool)));
}

fn index_slice_pool(object: &Object, emit: &mut dyn FnMut(&str)) {
    let slice = object.view::<ResourceSlice>();
    slice.into_iter().for_each(|slice| emit(&path(&slice.spec.driver, &slice.spec.pool.name)));
}

fn index_pod_device_claims(object: &Object, emit: &mut dyn FnMut(&str)) {
    let pod = object.view::<Pod>();
    let claims = pod.into_iter().flat_map(Pod::device_claims);
    claims.for_each(|(name, _)| emit(&path(&object.meta().namespace, name)));
}

fn index_pod_device_templates(object: &Object, emit: &mut dyn FnMut(&str)) {
    let pod = object.view::<Pod>();
    let claims = pod.into_iter().flat_map(|pod| &pod.spec.resource_claims);
    let templates = claims.filter_map(|claim| claim.resource_claim_template_name.as_deref());
    templates.for_each(|name| emit(&path(&object.meta().namespace, name)));
}
