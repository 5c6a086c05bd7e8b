//! Disks that a pod names itself, without a claim: two pods on one node cannot have the same, unless both only read it.

use setpoint_reconcile::views::pod::Disk;

use super::{Helps, Rejection};
use crate::cache::Cache;
use crate::cache::node::Node;
use crate::shape::{DiskKind, Shape};

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(shape: &Shape, node: &Node, cache: &Cache) -> Result<(), Rejection> {
    if shape.disks.is_empty() {
        return Ok(());
    }
    let others = node.pods.iter().filter_map(|id| cache.shape_of(*id)).flat_map(|shape| &shape.disks);
    let mut pairs = others.flat_map(|other| named(&shape.disks, other).map(move |own| (own, other)));
    if pairs.any(|(own, other)| clashes(own, other)) {
        return Err(Rejection::by_pods("node(s) had no available disk", Helps::PODS | Helps::NODES));
    }
    Ok(())
}

/// The disks of a sorted list that have the kind and the name of another.
fn named<'a>(
    sorted: &'a [(DiskKind, Disk)],
    wanted: &'a (DiskKind, Disk),
) -> impl Iterator<Item = &'a (DiskKind, Disk)> {
    fn name((kind, disk): &(DiskKind, Disk)) -> (DiskKind, &str) {
        (*kind, &disk.name)
    }
    let from = sorted.partition_point(|own| name(own) < name(wanted));
    sorted[from..].iter().take_while(move |own| name(own) == name(wanted))
}

/// Whether both cannot be on one node.
fn clashes((kind, own): &(DiskKind, Disk), (other_kind, other): &(DiskKind, Disk)) -> bool {
    let reads = own.read_only && other.read_only;
    kind == other_kind
        && own.name == other.name
        && match kind {
            DiskKind::Aws => true,
            DiskKind::Gce | DiskKind::Iscsi => !reads,
            DiskKind::Rbd => {
                let meets = own.monitors.iter().any(|one| other.monitors.contains(one));
                !reads && own.pool == other.pool && meets
            }
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(kind: DiskKind, name: &str, monitors: &[&str], read_only: bool) -> (DiskKind, Disk) {
        let monitors = monitors.iter().map(|one| (*one).to_owned()).collect();
        (kind, Disk { name: name.to_owned(), pool: "p".to_owned(), monitors, read_only })
    }

    #[test]
    fn a_disk_is_shared_only_by_those_who_read_it_and_some_are_not_even_then() {
        for kind in [DiskKind::Gce, DiskKind::Iscsi] {
            assert!(clashes(&disk(kind, "d", &[], false), &disk(kind, "d", &[], true)));
            assert!(!clashes(&disk(kind, "d", &[], true), &disk(kind, "d", &[], true)));
            assert!(!clashes(&disk(kind, "d", &[], false), &disk(kind, "e", &[], false)));
        }
        let aws = disk(DiskKind::Aws, "d", &[], true);
        assert!(clashes(&aws, &aws));
        assert!(!clashes(&aws, &disk(DiskKind::Gce, "d", &[], false)));
        let rbd = |monitors: &[&str]| disk(DiskKind::Rbd, "d", monitors, false);
        assert!(clashes(&rbd(&["a", "b"]), &rbd(&["b", "c"])));
        assert!(!clashes(&rbd(&["a"]), &rbd(&["c"])), "they are of two clusters");
    }
}
