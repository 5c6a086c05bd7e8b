//! Pod signature: everything about a pod that affects where it can be scheduled.
//!
//! Pods with equal signatures are interchangeable for the scheduler and share filter and score results. Objects are
//! parsed here once, into forms that are cheap to compare with many nodes. Start at [`PodSignature::new`].

mod pod_affinity;

use std::collections::BTreeMap;

use setpoint_reconcile::Object;
use setpoint_reconcile::object::Pairs;
use setpoint_requirements::host_ports::{HostPorts, host_ports};
use setpoint_requirements::node_affinity::{
    NodeSelectorTerm, RequiredNodeAffinity, read_preferred_node_terms,
};
use setpoint_requirements::request::PodRequest;
use setpoint_views::pod::{DiskSource, Pod, Volume};

use crate::plugins::node_declared_features::required_features;
use crate::tolerations::Tolerations;
pub use pod_affinity::{AffinityTerm, AffinityTerms, PodSelector, SpreadConstraint};

/// Everything about a pod that affects where it can be scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodSignature {
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.labels`.
    pub labels: Pairs,
    /// Kind and name of the controller that owns the pod.
    pub owner: Option<(Box<str>, Box<str>)>,
    /// `spec.priority`.
    pub priority: i64,
    /// `false` for `preemptionPolicy: Never`.
    pub can_preempt: bool,
    /// `spec.schedulerName`.
    pub scheduler_name: Box<str>,
    /// Requested resources.
    pub request: PodRequest,
    /// `spec.tolerations`.
    pub tolerations: Tolerations,
    /// `spec.nodeSelector` and required node affinity.
    pub node_affinity: RequiredNodeAffinity,
    /// Preferred node affinity, with weights.
    pub preferred_node_terms: Vec<(i64, NodeSelectorTerm)>,
    /// Affinity and anti-affinity to other pods.
    pub pod_affinity: AffinityTerms,
    /// `spec.topologySpreadConstraints`.
    pub spread: Vec<SpreadConstraint>,
    /// Host ports.
    pub ports: HostPorts,
    /// Images of containers and image volumes.
    pub images: PodImages,
    /// PersistentVolumeClaims of volumes, also of ephemeral ones.
    pub claims: Vec<VolumeClaimRef>,
    /// Disks that the pod names without a claim, sorted.
    pub disks: Vec<(DiskKind, DiskSource)>,
    /// Node features that the pod depends on.
    pub features: Vec<&'static str>,
    /// ResourceClaims, if there are any.
    pub resource_claims: Option<Box<ResourceClaimRefs>>,
}

/// PersistentVolumeClaim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeClaimRef {
    /// Name of the claim.
    pub name: Box<str>,
    /// Name and UID of the pod, if the claim is generated for its ephemeral volume.
    pub ephemeral_owner: Option<(Box<str>, Box<str>)>,
}

/// ResourceClaims of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceClaimRefs {
    /// Name of the pod.
    pub pod: Box<str>,
    /// UID of the pod.
    pub uid: Box<str>,
    /// Name of each claim, `None` if it is not generated yet; and `true` if it is generated from a template.
    pub claims: Vec<(Option<Box<str>>, bool)>,
}

impl ResourceClaimRefs {
    fn new(object: &Object, pod: &Pod) -> Option<Box<ResourceClaimRefs>> {
        if pod.spec.resource_claims.is_empty() {
            return None;
        }
        let (name, uid) = (object.meta().name.clone(), object.meta().uid.clone());
        let claims = pod.claims_with_status().filter_map(|(claim, status)| {
            if let Some(name) = &claim.resource_claim_name {
                return Some((Some(name.as_str().into()), false));
            }
            match status {
                // A status without a name means that no claim is needed.
                Some(status) => Some((Some(status.resource_claim_name.as_deref()?.into()), true)),
                None => Some((None, true)),
            }
        });
        Some(Box::new(ResourceClaimRefs { pod: name, uid, claims: claims.collect() }))
    }
}

/// Volume types that two pods on a node must not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are the names of volume sources")]
pub enum DiskKind {
    GcePersistentDisk,
    AwsElasticBlockStore,
    Iscsi,
    Rbd,
}

impl PodSignature {
    /// Computes the signature of a pod.
    #[must_use]
    pub fn new(object: &Object, pod: &Pod) -> PodSignature {
        let (meta, spec) = (object.meta(), &pod.spec);
        let owner = meta.controller().map(|owner| (owner.kind.clone(), owner.name.clone()));
        let affinity = spec.affinity.as_ref();
        let image = |image: &String| normalize_image(image).into();
        let mounted = spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
        let claims = spec.volumes.iter().filter_map(|volume| match &volume.persistent_volume_claim {
            Some(claim) => {
                Some(VolumeClaimRef { name: claim.claim_name.as_str().into(), ephemeral_owner: None })
            }
            None if volume.ephemeral.is_some() => {
                let name = format!("{}-{}", meta.name, volume.name).into();
                Some(VolumeClaimRef { name, ephemeral_owner: Some((meta.name.clone(), meta.uid.clone())) })
            }
            None => None,
        });
        let mut disks: Vec<(DiskKind, DiskSource)> = spec.volumes.iter().filter_map(disk).collect();
        disks.sort_unstable();
        disks.dedup();
        PodSignature {
            namespace: meta.namespace.clone(),
            labels: meta.labels.clone(),
            owner,
            priority: spec.priority.unwrap_or(0),
            can_preempt: spec.preemption_policy != "Never",
            scheduler_name: spec.scheduler_name.as_str().into(),
            request: PodRequest::new(pod),
            tolerations: Tolerations::new(&spec.tolerations),
            node_affinity: RequiredNodeAffinity::new(&spec.node_selector, affinity),
            preferred_node_terms: read_preferred_node_terms(affinity),
            pod_affinity: AffinityTerms::new(affinity, &meta.namespace, &meta.labels),
            spread: spec
                .topology_spread_constraints
                .iter()
                .map(|one| SpreadConstraint::new(one, &meta.labels))
                .collect(),
            ports: host_ports(pod).into_iter().collect(),
            images: spec
                .containers
                .iter()
                .chain(&spec.init_containers)
                .map(|one| &one.image)
                .chain(mounted.map(|one| &one.reference))
                .map(image)
                .collect(),
            claims: claims.collect(),
            disks,
            features: required_features(pod),
            resource_claims: ResourceClaimRefs::new(object, pod),
        }
    }
}

fn disk(volume: &Volume) -> Option<(DiskKind, DiskSource)> {
    let Volume { gce, aws, iscsi, rbd, .. } = volume;
    let kinds = [DiskKind::GcePersistentDisk, DiskKind::AwsElasticBlockStore, DiskKind::Iscsi, DiskKind::Rbd];
    let mut disks = kinds.into_iter().zip([gce, aws, iscsi, rbd]);
    disks.find_map(|(kind, disk)| Some((kind, disk.as_deref()?.clone())))
}

/// Adds the tag `latest` to an image name without a tag or digest.
#[must_use]
pub(crate) fn normalize_image(name: &str) -> String {
    let has_tag = name.rfind(':') > name.rfind('/');
    if has_tag { name.to_owned() } else { format!("{name}:latest") }
}

/// Images of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodImages {
    /// Each image with the number of containers that use it, sorted by name.
    names: Vec<(Box<str>, i64)>,
    /// Number of containers.
    pub container_count: i64,
}

impl FromIterator<Box<str>> for PodImages {
    fn from_iter<I: IntoIterator<Item = Box<str>>>(names: I) -> PodImages {
        let mut counts: BTreeMap<Box<str>, i64> = BTreeMap::new();
        names.into_iter().for_each(|name| *counts.entry(name).or_insert(0) += 1);
        PodImages { container_count: counts.values().sum(), names: counts.into_iter().collect() }
    }
}

impl PodImages {
    /// Returns the images of the pod that are in a sorted list: name, number of containers, and value from the list.
    pub(crate) fn find_in<'a>(
        &'a self,
        list: &'a [(Box<str>, i64)],
    ) -> impl Iterator<Item = (&'a str, i64, i64)> {
        // Searches the longer list for each item of the shorter one.
        let is_shorter = self.names.len() <= list.len();
        let (short, long) = if is_shorter { (&*self.names, list) } else { (list, &*self.names) };
        short.iter().filter_map(move |(name, one)| {
            let found = long.binary_search_by(|(other, _)| other.cmp(name)).ok()?;
            let other = long[found].1;
            let (containers, size) = if is_shorter { (*one, other) } else { (other, *one) };
            Some((&**name, containers, size))
        })
    }
}
