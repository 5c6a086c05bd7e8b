//! Pod IP allocation from the ranges of a node.
//!
//! A pod gets its IP with its sandbox: at admission, or once its volumes can be mounted. Until then it has
//! none.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use setpoint_reconcile::{Index, Object, View};
use setpoint_views::pod::Pod as PodView;

/// Reserved addresses of a range: network, gateway, and broadcast.
const KEPT: u128 = 3;

/// Admitted pods without an IP, by node.
pub const WITHOUT_ADDRESS_BY_NODE: Index = Index {
    name: "pods without address by node",
    resource: PodView::RESOURCE,
    values: |object, found| {
        if let Some(pod) = object.view::<PodView>()
            && is_without(object, pod)
        {
            found(&pod.spec.node_name);
        }
    },
};

/// `true` if the pod is admitted and has no IP yet.
#[must_use]
pub fn is_without(object: &Object, pod: &PodView) -> bool {
    let (spec, status) = (&pod.spec, &pod.status);
    let is_taken_up = !spec.node_name.is_empty() && status.start_time.is_some() && status.phase == "Pending";
    is_taken_up && status.pod_ip.is_empty() && !spec.host_network && !object.meta().is_deleted()
}

/// IP range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u128,
    size: u128,
    is_v4: bool,
}

fn range(text: &str) -> Option<Range> {
    let (address, prefix) = text.split_once('/')?;
    let prefix: u32 = prefix.parse().ok()?;
    let (number, bits, is_v4): (u128, u32, bool) = match address.parse().ok()? {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32, true),
        IpAddr::V6(address) => (u128::from(address), 128, false),
    };
    let size = 1_u128.checked_shl(bits.checked_sub(prefix)?)?;
    Some(Range { first: number & !(size - 1), size, is_v4 })
}

impl Range {
    fn at(self, offset: u128) -> String {
        let number = self.first | offset;
        if self.is_v4 {
            IpAddr::from(Ipv4Addr::from(u32::try_from(number).unwrap_or(0))).to_string()
        } else {
            IpAddr::from(number.to_be_bytes()).to_string()
        }
    }
}

/// Returns one free IP per range, at the same offset in each; `None` if there is none. The search starts at
/// `chance`, so that a released IP is not reused at once.
#[must_use]
pub fn free(ranges: &[String], taken: &BTreeSet<Cow<'_, str>>, chance: u64) -> Option<Vec<String>> {
    let ranges: Vec<Range> = ranges.iter().filter_map(|text| range(text)).collect();
    let size = ranges.iter().map(|range| range.size).min()?.checked_sub(KEPT).filter(|size| *size > 0)?;
    let offsets = (0..size.min(1 << 20)).map(|step| 2 + (u128::from(chance) + step) % size);
    let mut candidates =
        offsets.map(|offset| ranges.iter().map(|range| range.at(offset)).collect::<Vec<String>>());
    candidates.find(|addresses| addresses.iter().all(|address| !taken.contains(address.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_reused_before_the_range_is_exhausted() {
        let ranges = ["10.1.2.0/28".to_owned(), "fd00::/64".to_owned()];
        let mut taken = BTreeSet::new();
        for chance in 0..13 {
            let addresses = free(&ranges, &taken, chance * 7).unwrap();
            assert!(addresses[0].starts_with("10.1.2.") && addresses[1].starts_with("fd00::"));
            assert!(!["10.1.2.0", "10.1.2.1", "10.1.2.15"].contains(&addresses[0].as_str()));
            assert!(addresses.into_iter().all(|address| taken.insert(address.into())));
        }
        assert_eq!(free(&ranges, &taken, 0), None);
        assert_eq!(free(&[], &taken, 0), None);
        assert_eq!(free(&["nonsense".to_owned()], &taken, 0), None);
    }
}
