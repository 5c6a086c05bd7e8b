//! The networks that addresses of Services come from.
//!
//! They are said by `ServiceCIDR` objects, so a snapshot holds all there is to know. That which is named `kubernetes`
//! says which families of addresses the cluster has, and which comes first; others add room.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use setpoint_api::kinds::core::service::families::Families;
use setpoint_api::names::ip::{Cidr, parse_ip};
use setpoint_api::{Resource, Value, metadata};
use setpoint_store::{Snapshot, Table};
use thiserror::Error;

use crate::codec;

/// The name of the range that the cluster is made with.
pub const DEFAULT_NAME: &str = "kubernetes";
/// The network of Services where nobody says another.
const DEFAULT: Cidr = Cidr { ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix_bits: 16 };
/// The largest network of IPv6 addresses.
const IPV6_PREFIX_MIN: u8 = 64;

/// Why networks cannot be those of Services.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// It is no network.
    #[error("{0:?} is no network such as 10.0.0.0/16 or fd00::/108")]
    NoNetwork(String),
    /// It is too small or too large.
    #[error("{0} has no room for addresses, or more than fits: a network of IPv6 addresses begins at /64")]
    Size(Cidr),
    /// There are too many, or two of one family.
    #[error("there is one network of Services, or one of each family of addresses")]
    Families,
}

/// Reads networks of Services: one, or one of each family with a comma in between. The first family is that of Services
/// that do not say.
///
/// # Errors
/// If they cannot be those of Services.
pub fn parse_ranges(text: &str) -> Result<Vec<Cidr>, RangeError> {
    let parse = |text: &str| {
        let cidr = Cidr::parse(text.trim()).ok_or_else(|| RangeError::NoNetwork(text.to_owned()))?;
        let cidr = Cidr { ip: cidr.network(), ..cidr };
        let fits = cidr.ip.is_ipv4() || cidr.prefix_bits >= IPV6_PREFIX_MIN;
        if fits && Network::of(cidr).is_some() { Ok(cidr) } else { Err(RangeError::Size(cidr)) }
    };
    let cidrs = text.split(',').map(parse).collect::<Result<Vec<Cidr>, RangeError>>()?;
    match &cidrs[..] {
        [_] => Ok(cidrs),
        [one, other] if one.ip.is_ipv4() != other.ip.is_ipv4() => Ok(cidrs),
        _ => Err(RangeError::Families),
    }
}

/// Where addresses of Services come from.
pub struct Ranges {
    /// The families of addresses that the cluster has.
    pub families: Families,
    /// The networks that the cluster is made with.
    cluster: Vec<Cidr>,
    /// Whether the cluster is made.
    is_made: bool,
    networks: Vec<Network>,
}

impl Ranges {
    /// Those of a store.
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
        let is_made = !cluster.is_empty();
        if !is_made {
            cluster.push(DEFAULT);
            networks.extend(Network::of(DEFAULT));
        }
        let families = Families { primary_is_ipv6: cluster[0].ip.is_ipv6(), dual_stack: cluster.len() == 2 };
        Ranges { families, cluster, is_made, networks }
    }

    /// The networks that the cluster is made with, the primary one first.
    #[must_use]
    pub fn cluster(&self) -> &[Cidr] {
        &self.cluster
    }

    /// The same once a server starts to which others may have been said. Those that are there can get a second family,
    /// and stay what they are otherwise.
    #[must_use]
    pub fn cluster_with<'a>(&'a self, said: &'a [Cidr]) -> &'a [Cidr] {
        let can_be = !self.is_made || said.starts_with(&self.cluster);
        if can_be && !said.is_empty() { said } else { &self.cluster }
    }

    /// Whether an address can be one of a Service.
    pub(super) fn hold(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|network| network.holds(ip))
    }

    /// An address of a family that is free: some in the upper band of a network, from a random place on, or else one in
    /// the lower band.
    pub(super) fn find(
        &self,
        is_ipv6: bool,
        chance: u64,
        is_free: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let networks = self.networks.iter().filter(|network| network.is_ipv6 == is_ipv6);
        networks.flat_map(|network| network.from(chance)).find(|ip| is_free(*ip))
    }
}

/// The networks of a `ServiceCIDR`.
pub fn cidrs(range: &Value) -> Vec<Cidr> {
    let texts = range.at(&["spec", "cidrs"]).and_then(Value::as_list).unwrap_or_default();
    texts.iter().filter_map(|text| Cidr::parse(text.as_str()?)).collect()
}

/// The first address of a network, which is that of the API itself.
#[must_use]
pub fn first_address(cidr: Cidr) -> Option<IpAddr> {
    Network::of(cidr).map(|network| network.address(network.first))
}

/// The address that a text says, whatever its form.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    parse_ip(text).map(|ip| ip.to_canonical())
}

/// The addresses of a network that Services can have.
#[derive(Clone, Copy)]
struct Network {
    is_ipv6: bool,
    first: u128,
    last: u128,
    /// Addresses below are left to those who ask for a certain one, while there are others.
    dynamic: u128,
}

impl Network {
    /// Nothing if there is no room in it.
    fn of(cidr: Cidr) -> Option<Network> {
        /// The bounds of the lower band, and its share of the network.
        const BAND: (u128, u128, u128) = (16, 256, 16);
        let (base, bits) = match cidr.network().to_canonical() {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        let size = 1_u128.checked_shl(bits - u32::from(cidr.prefix_bits)).filter(|size| *size > 2)?;
        let band = if size <= BAND.0 { 0 } else { (size / BAND.2).clamp(BAND.0, BAND.1) };
        // The last address of an IPv4 network is for all, and for no Service.
        let last = base.checked_add(size - 1)? - u128::from(bits == 32);
        Some(Network { is_ipv6: bits == 128, first: base + 1, last, dynamic: base + 1 + band })
    }

    fn holds(&self, ip: IpAddr) -> bool {
        let bits = match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        ip.is_ipv6() == self.is_ipv6 && (self.first..=self.last).contains(&bits)
    }

    /// All addresses, from a random place on in each band.
    fn from(self, chance: u64) -> impl Iterator<Item = IpAddr> {
        let band = move |first: u128, end: u128| {
            let size = end.saturating_sub(first);
            let start = u128::from(chance).checked_rem(size).unwrap_or(0);
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
    fn networks_of_services_are_one_or_one_of_each_family() {
        for good in ["10.0.0.0/16", "fd00::/108", "10.0.0.0/16,fd00::/108", "fd00::/64, 10.0.0.0/30"] {
            assert!(parse_ranges(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", "is no network"),
            ("10.0.0.0", "is no network"),
            ("10.0.0.0/31", "no room"),
            ("fd00::/63", "begins at /64"),
            ("10.0.0.0/16,10.1.0.0/16", "one of each family"),
            ("10.0.0.0/16,fd00::/64,fd01::/64", "one of each family"),
        ] {
            assert!(parse_ranges(bad).unwrap_err().to_string().contains(why), "{bad}");
        }
        assert_eq!(parse_ranges("10.0.7.1/16").unwrap()[0].to_string(), "10.0.0.0/16");
    }

    #[test]
    fn the_ends_of_a_network_are_for_no_service() {
        let old = network("10.0.0.0/24");
        let ip = |text: &str| text.parse().unwrap();
        assert!(old.holds(ip("10.0.0.1")) && old.holds(ip("10.0.0.254")));
        assert!(!old.holds(ip("10.0.0.0")) && !old.holds(ip("10.0.0.255")) && !old.holds(ip("fd00::1")));
        let new = network("fd00::/108");
        assert!(new.holds(ip("fd00::1")) && new.holds(ip("fd00::f:ffff")));
        assert!(!new.holds(ip("fd00::")) && !new.holds(ip("fd00::10:0")) && !new.holds(ip("10.0.0.1")));
    }

    #[test]
    fn the_lower_band_grows_with_the_network() {
        for (text, band) in
            [("10.0.0.0/28", 0), ("10.0.0.0/27", 16), ("10.0.0.0/21", 128), ("fd00::/64", 256)]
        {
            let network = network(text);
            assert_eq!(network.dynamic - network.first, band, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_address_of_a_network_is_tried_once(chance: u64, prefix in 20_u8..=30, six: bool) {
            let ip = if six { "fd00::" } else { "10.0.0.0" }.parse().unwrap();
            let prefix_bits = if six { prefix + 96 } else { prefix };
            let network = Network::of(Cidr { ip, prefix_bits }).unwrap();
            let mut tried: Vec<IpAddr> = network.from(chance).collect();
            prop_assert!(tried.iter().all(|ip| network.holds(*ip)));
            let count = tried.len();
            tried.sort();
            tried.dedup();
            prop_assert_eq!((tried.len(), count as u128), (count, network.last - network.first + 1));
        }
    }
}
