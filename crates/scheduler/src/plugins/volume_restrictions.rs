//! VolumeRestrictions plugin, for disks that a pod names without a claim: two pods on one node cannot use the same disk,
//! unless both mount it read-only.

use setpoint_views::pod::DiskSource;

use super::{QueueingHint, Rejection};
use crate::cache::SchedulerCache;
use crate::cache::node_info::NodeInfo;
use crate::signature::{DiskKind, PodSignature};

/// Filters nodes on which a pod uses a conflicting disk.
///
/// # Errors
/// Rejects the node.
pub fn filter(signature: &PodSignature, node: &NodeInfo, cache: &SchedulerCache) -> Result<(), Rejection> {
    if signature.disks.is_empty() {
        return Ok(());
    }
    let others = node.pods.iter().filter_map(|id| cache.signature_of(*id)).flat_map(|other| &other.disks);
    let mut pairs =
        others.flat_map(|other| find_same_name(&signature.disks, other).map(move |own| (own, other)));
    if pairs.any(|(own, other)| has_conflict(own, other)) {
        let hint = QueueingHint::ASSIGNED_POD_DELETE | QueueingHint::NODE_ADD_OR_UPDATE;
        return Err(Rejection::resolvable("node(s) had no available disk", hint));
    }
    Ok(())
}

/// Disks of a sorted list with the kind and the name of another disk.
fn find_same_name<'a>(
    sorted: &'a [(DiskKind, DiskSource)],
    other: &'a (DiskKind, DiskSource),
) -> impl Iterator<Item = &'a (DiskKind, DiskSource)> {
    fn name((kind, disk): &(DiskKind, DiskSource)) -> (DiskKind, &str) {
        (*kind, &disk.name)
    }
    let from = sorted.partition_point(|own| name(own) < name(other));
    sorted[from..].iter().take_while(move |own| name(own) == name(other))
}

/// `true` if two pods with these disks cannot share a node.
fn has_conflict((kind, own): &(DiskKind, DiskSource), (other_kind, other): &(DiskKind, DiskSource)) -> bool {
    let is_read_only = own.read_only && other.read_only;
    kind == other_kind
        && own.name == other.name
        && match kind {
            DiskKind::AwsElasticBlockStore => true,
            DiskKind::GcePersistentDisk | DiskKind::Iscsi => !is_read_only,
            DiskKind::Rbd => {
                let has_common_monitor = own.monitors.iter().any(|one| other.monitors.contains(one));
                !is_read_only && own.pool == other.pool && has_common_monitor
            }
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(kind: DiskKind, name: &str, monitors: &[&str], read_only: bool) -> (DiskKind, DiskSource) {
        let monitors = monitors.iter().map(|one| (*one).to_owned()).collect();
        (kind, DiskSource { name: name.to_owned(), pool: "p".to_owned(), monitors, read_only })
    }

    #[test]
    fn disk_is_shared_only_read_only_and_ebs_volume_never() {
        for kind in [DiskKind::GcePersistentDisk, DiskKind::Iscsi] {
            assert!(has_conflict(&disk(kind, "d", &[], false), &disk(kind, "d", &[], true)));
            assert!(!has_conflict(&disk(kind, "d", &[], true), &disk(kind, "d", &[], true)));
            assert!(!has_conflict(&disk(kind, "d", &[], false), &disk(kind, "e", &[], false)));
        }
        let aws = disk(DiskKind::AwsElasticBlockStore, "d", &[], true);
        assert!(has_conflict(&aws, &aws));
        assert!(!has_conflict(&aws, &disk(DiskKind::GcePersistentDisk, "d", &[], false)));
        let rbd = |monitors: &[&str]| disk(DiskKind::Rbd, "d", monitors, false);
        assert!(has_conflict(&rbd(&["a", "b"]), &rbd(&["b", "c"])));
        assert!(!has_conflict(&rbd(&["a"]), &rbd(&["c"])), "monitors of two Ceph clusters");
    }
}
