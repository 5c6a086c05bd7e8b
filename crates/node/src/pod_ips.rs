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
const RESERVED: u128 = 3;

/// Admitted pods without an IP, by node.
pub const WITHOUT_IP_BY_NODE: Index = Index {
    name: "pods without IP by node",
    resource: PodView::RESOURCE,
    values: |object, found| {
        if let Some(pod) = object.view::<PodView>()
            && is_waiting_for_ip(object, pod)
        {
            found(&pod.spec.node_name);
        }
    },
};

/// `true` if the pod is admitted and has no IP yet.
#[must_use]
pub fn is_waiting_for_ip(object: &Object, pod: &PodView) -> bool {
    let (spec, status) = (&pod.spec, &pod.status);
    let is_admitted = !spec.node_name.is_empty() && status.start_time.is_some() && status.phase == "Pending";
    is_admitted && status.pod_ip.is_empty() && !spec.host_network && !object.meta().is_deleted()
}

/// IP range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IpRange {
    first: u128,
    size: u128,
    is_v4: bool,
}

fn parse_cidr(text: &str) -> Option<IpRange> {
    let (address, prefix) = text.split_once('/')?;
    let prefix: u32 = prefix.parse().ok()?;
    let (number, bits, is_v4): (u128, u32, bool) = match address.parse().ok()? {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32, true),
        IpAddr::V6(address) => (u128::from(address), 128, false),
    };
    let size = 1_u128.checked_shl(bits.checked_sub(prefix)?)?;
    Some(IpRange { first: number & !(size - 1), size, is_v4 })
}

impl IpRange {
    fn address_at(self, offset: u128) -> String {
        let number = self.first | offset;
        if self.is_v4 {
            IpAddr::from(Ipv4Addr::from(u32::try_from(number).unwrap_or(0))).to_string()
        } else {
            IpAddr::from(number.to_be_bytes()).to_string()
        }
    }
}

/// Returns one free IP per range, at the same offset in each; `None` if there is none. The search starts at
/// `seed`, so that a released IP is not reused at once.
#[must_use]
pub fn allocate_ips(ranges: &[String], taken: &BTreeSet<Cow<'_, str>>, seed: u64) -> Option<Vec<String>> {
    let ranges: Vec<IpRange> = ranges.iter().filter_map(|text| parse_cidr(text)).collect();
    let size = ranges.iter().map(|range| range.size).min()?.checked_sub(RESERVED).filter(|size| *size > 0)?;
    let offsets = (0..size.min(1 << 20)).map(|step| 2 + (u128::from(seed) + step) % size);
    let mut candidates =
        offsets.map(|offset| ranges.iter().map(|range| range.address_at(offset)).collect::<Vec<String>>());
    candidates.find(|addresses| addresses.iter().all(|address| !taken.contains(address.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_reused_before_the_range_is_exhausted() {
        let ranges = ["10.1.2.0/28".to_owned(), "fd00::/64".to_owned()];
        let mut taken = BTreeSet::new();
        for seed in 0..13 {
            let addresses = allocate_ips(&ranges, &taken, seed * 7).unwrap();
            assert!(addresses[0].starts_with("10.1.2.") && addresses[1].starts_with("fd00::"));
            assert!(!["10.1.2.0", "10.1.2.1", "10.1.2.15"].contains(&addresses[0].as_str()));
            assert!(addresses.into_iter().all(|address| taken.insert(address.into())));
        }
        assert_eq!(allocate_ips(&ranges, &taken, 0), None);
        assert_eq!(allocate_ips(&[], &taken, 0), None);
        assert_eq!(allocate_ips(&["nonsense".to_owned()], &taken, 0), None);
    }
}
