//! Service CIDRs: ranges of cluster IPs.
//!
//! Ranges are `ServiceCIDR` objects, so a snapshot contains them all. The one named `kubernetes` defines the IP
//! families of the cluster and their order; others add addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use setpoint_api::kinds::core::service::families::Families;
use setpoint_api::names::ip::{Cidr, parse_ip};
use setpoint_api::{Resource, Value, metadata};
use setpoint_store::{Snapshot, Table};
use thiserror::Error;

use crate::codec;

/// Name of the default ServiceCIDR.
pub(crate) const DEFAULT_NAME: &str = "kubernetes";
/// Service CIDR if none is configured.
const DEFAULT: Cidr = Cidr { ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix_bits: 16 };
/// Largest IPv6 range, as a prefix length.
const IPV6_PREFIX_MIN: u8 = 64;

/// Invalid Service CIDRs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// Not a CIDR.
    #[error("{0:?} is not a CIDR such as 10.0.0.0/16 or fd00::/108")]
    NotCidr(String),
    /// Too small or too large.
    #[error("{0} is too small or too large: the largest IPv6 range is /64")]
    Size(Cidr),
    /// More than one CIDR of a family.
    #[error("at most one Service CIDR per IP family is allowed")]
    Families,
}

/// Parses one CIDR, or one of each family separated by a comma. The first is the primary family.
///
/// # Errors
/// If one is invalid.
pub fn parse_ranges(text: &str) -> Result<Vec<Cidr>, RangeError> {
    let parse = |text: &str| {
        let cidr = Cidr::parse(text.trim()).ok_or_else(|| RangeError::NotCidr(text.to_owned()))?;
        let cidr = Cidr { ip: cidr.network(), ..cidr };
        let fits = cidr.ip.is_ipv4() || cidr.prefix_bits >= IPV6_PREFIX_MIN;
        if fits && Network::of(cidr).is_some() { Ok(cidr) } else { Err(RangeError::Size(cidr)) }
    };
    let cidrs = text.split(',').map(parse).collect::<Result<Vec<Cidr>, RangeError>>()?;
    match &cidrs[..] {
        [_] => Ok(cidrs),
        [primary, secondary] if primary.ip.is_ipv4() != secondary.ip.is_ipv4() => Ok(cidrs),
        _ => Err(RangeError::Families),
    }
}

/// Ranges of a cluster.
pub struct Ranges {
    /// IP families of the cluster.
    pub families: Families,
    /// CIDRs of the default ServiceCIDR.
    cluster: Vec<Cidr>,
    /// `true` if the default ServiceCIDR exists.
    exists: bool,
    networks: Vec<Network>,
}

impl Ranges {
    /// Reads the ranges of a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Ranges {
        let table = Resource::new("servicecidrs.networking.k8s.io").ok().and_then(|it| snapshot.table(&it));
        let mut cluster = Vec::new();
        let mut networks = Vec::new();
        for record in table.into_iter().flat_map(Table::iter) {
            let range = codec::object(record);
            let cidrs = cidrs(&range);
            if record.name() == DEFAULT_NAME {
                cluster.clone_from(&cidrs);
            }
            if metadata::text(&range, "deletionTimestamp").is_empty() {
                networks.extend(cidrs.into_iter().filter_map(Network::of));
            }
        }
        let exists = !cluster.is_empty();
        if !exists {
            cluster.push(DEFAULT);
            networks.extend(Network::of(DEFAULT));
        }
        let families = Families { primary_is_ipv6: cluster[0].ip.is_ipv6(), dual_stack: cluster.len() == 2 };
        Ranges { families, cluster, exists, networks }
    }

    /// CIDRs of the default ServiceCIDR, the primary one first.
    #[must_use]
    pub fn cluster(&self) -> &[Cidr] {
        &self.cluster
    }

    /// CIDRs of the default ServiceCIDR after a start with the configured ones. An existing cluster can gain a second
    /// family; its other CIDRs stay.
    #[must_use]
    pub fn cluster_with<'a>(&'a self, configured: &'a [Cidr]) -> &'a [Cidr] {
        let can_change = !self.exists || configured.starts_with(&self.cluster);
        if can_change && !configured.is_empty() { configured } else { &self.cluster }
    }

    /// `true` if an address is in a range.
    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(ip))
    }

    /// Returns a free address of a family. The search starts at a random address of the upper band, and covers the lower
    /// band last.
    pub(super) fn find(
        &self,
        is_ipv6: bool,
        random: u64,
        is_free: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let networks = self.networks.iter().filter(|network| network.is_ipv6 == is_ipv6);
        networks.flat_map(|network| network.search_order(random)).find(|ip| is_free(*ip))
    }
}

/// CIDRs of a `ServiceCIDR`.
pub fn cidrs(range: &Value) -> Vec<Cidr> {
    let texts = range.at(&["spec", "cidrs"]).and_then(Value::as_list).unwrap_or_default();
    texts.iter().filter_map(|text| Cidr::parse(text.as_str()?)).collect()
}

/// First address of a range, which is that of the `kubernetes` Service.
#[must_use]
pub fn first_address(cidr: Cidr) -> Option<IpAddr> {
    Network::of(cidr).map(|network| network.address(network.first))
}

/// Parses an address in any notation.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    parse_ip(text).map(|ip| ip.to_canonical())
}

/// Usable addresses of a CIDR.
#[derive(Clone, Copy)]
struct Network {
    is_ipv6: bool,
    first: u128,
    last: u128,
    /// First address of the upper band. Addresses below it are allocated dynamically only if no other is free.
    dynamic: u128,
}

impl Network {
    /// `None` if the CIDR has no usable address.
    fn of(cidr: Cidr) -> Option<Network> {
        /// Lower band: minimum size, maximum size, and divisor of the range size.
        const BAND: (u128, u128, u128) = (16, 256, 16);
        let (base, bits) = match cidr.network().to_canonical() {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        let size = 1_u128.checked_shl(bits - u32::from(cidr.prefix_bits)).filter(|size| *size > 2)?;
        let band = if size <= BAND.0 { 0 } else { (size / BAND.2).clamp(BAND.0, BAND.1) };
        // The last address of an IPv4 network is its broadcast address.
        let last = base.checked_add(size - 1)? - u128::from(bits == 32);
        Some(Network { is_ipv6: bits == 128, first: base + 1, last, dynamic: base + 1 + band })
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let bits = match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        ip.is_ipv6() == self.is_ipv6 && (self.first..=self.last).contains(&bits)
    }

    /// All addresses, upper band first, each band from a random address on.
    fn search_order(self, random: u64) -> impl Iterator<Item = IpAddr> {
        let band = move |first: u128, end: u128| {
            let size = end.saturating_sub(first);
            let start = u128::from(random).checked_rem(size).unwrap_or(0);
            (0..size).map(move |i| self.address(first + (start + i) % size))
        };
        band(self.dynamic, self.last + 1).chain(band(self.first, self.dynamic))
    }

    fn address(self, bits: u128) -> IpAddr {
        match u32::try_from(bits) {
            Ok(bits) if !self.is_ipv6 => Ipv4Addr::from_bits(bits).into(),
            _ => Ipv6Addr::from_bits(bits).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network(text: &str) -> Network {
        Network::of(Cidr::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn service_cidrs_are_one_or_one_of_each_family() {
        for good in ["10.0.0.0/16", "fd00::/108", "10.0.0.0/16,fd00::/108", "fd00::/64, 10.0.0.0/30"] {
            assert!(parse_ranges(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", "is not a CIDR"),
            ("10.0.0.0", "is not a CIDR"),
            ("10.0.0.0/31", "too small"),
            ("fd00::/63", "largest IPv6 range is /64"),
            ("10.0.0.0/16,10.1.0.0/16", "at most one Service CIDR per IP family"),
            ("10.0.0.0/16,fd00::/64,fd01::/64", "at most one Service CIDR per IP family"),
        ] {
            assert!(parse_ranges(bad).unwrap_err().to_string().contains(why), "{bad}");
        }
        assert_eq!(parse_ranges("10.0.7.1/16").unwrap()[0].to_string(), "10.0.0.0/16");
    }

    #[test]
    fn network_and_broadcast_addresses_are_not_allocated() {
        let ipv4 = network("10.0.0.0/24");
        let ip = |text: &str| text.parse().unwrap();
        assert!(ipv4.contains(ip("10.0.0.1")) && ipv4.contains(ip("10.0.0.254")));
        assert!(
            !ipv4.contains(ip("10.0.0.0"))
                && !ipv4.contains(ip("10.0.0.255"))
                && !ipv4.contains(ip("fd00::1"))
        );
        let ipv6 = network("fd00::/108");
        assert!(ipv6.contains(ip("fd00::1")) && ipv6.contains(ip("fd00::f:ffff")));
        assert!(
            !ipv6.contains(ip("fd00::"))
                && !ipv6.contains(ip("fd00::10:0"))
                && !ipv6.contains(ip("10.0.0.1"))
        );
    }

    #[test]
    fn lower_band_grows_with_the_range() {
        for (text, band) in
            [("10.0.0.0/28", 0), ("10.0.0.0/27", 16), ("10.0.0.0/21", 128), ("fd00::/64", 256)]
        {
            let network = network(text);
            assert_eq!(network.dynamic - network.first, band, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_address_of_a_range_is_tried_once(random: u64, prefix in 20_u8..=30, six: bool) {
            let ip = if six { "fd00::" } else { "10.0.0.0" }.parse().unwrap();
            let prefix_bits = if six { prefix + 96 } else { prefix };
            let network = Network::of(Cidr { ip, prefix_bits }).unwrap();
            let mut tried: Vec<IpAddr> = network.search_order(random).collect();
            prop_assert!(tried.iter().all(|ip| network.contains(*ip)));
            let count = tried.len();
            tried.sort();
            tried.dedup();
            prop_assert_eq!((tried.len(), count as u128), (count, network.last - network.first + 1));
        }
    }
}
