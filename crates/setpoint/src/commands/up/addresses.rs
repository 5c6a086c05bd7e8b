//! Addresses and names of a server: the reachable and the advertised address, and the names in its
//! certificate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use setpoint_api::names::ip::Cidr;
use setpoint_server::pipeline::service_network::ranges;

/// Maximum number of interface addresses in a certificate.
const INTERFACE_ADDRESSES_MAX: usize = 64;

/// Returns the address for clients on this machine, of a server that may listen on all interfaces.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let everywhere = address.is_ipv4();
        address.set_ip(if everywhere { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}

/// Returns the address for clients on other machines. Endpoints must not contain a loopback address, so for
/// a server on one this is the address with the default route, on which the server may not listen. `None` if
/// the machine has no network.
pub fn advertised(mut address: SocketAddr) -> Option<SocketAddr> {
    if address.ip().is_unspecified() || address.ip().is_loopback() {
        // `connect` on UDP sends nothing: it only selects the route to an address reserved for
        // documentation.
        let (from, to) = match address {
            SocketAddr::V4(_) => ("0.0.0.0:0", "192.0.2.1:9"),
            SocketAddr::V6(_) => ("[::]:0", "[2001:db8::1]:9"),
        };
        let socket = std::net::UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        address.set_ip(socket.local_addr().ok()?.ip());
    }
    Some(address).filter(|address| !address.ip().is_loopback())
}

/// Names and addresses of a server.
pub struct ServerNames<'a> {
    /// Address that it listens on.
    pub listen: IpAddr,
    /// Address for clients on other machines.
    pub advertised: Option<IpAddr>,
    /// Names and addresses that the administrator added.
    pub extra: &'a [String],
}

/// Returns the names for the serving certificate, including those of the `kubernetes` Service. A server that
/// listens on all interfaces has the address of each.
pub fn names<'a>(identity: &ServerNames<'_>, service_ranges: impl Iterator<Item = &'a Cidr>) -> Vec<String> {
    let fixed = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names: Vec<String> = fixed.iter().map(|name| (*name).to_owned()).collect();
    if identity.listen.is_unspecified() {
        let reaches = |address: &IpAddr| address.is_ipv4() || identity.listen.is_ipv6();
        let addresses = interface_addresses().into_iter().filter(reaches);
        names.extend(addresses.take(INTERFACE_ADDRESSES_MAX).map(|address| address.to_string()));
    } else {
        names.push(identity.listen.to_string());
    }
    names.extend(identity.advertised.map(|address| address.to_string()));
    names.extend(identity.extra.iter().cloned());
    names.extend(service_ranges.filter_map(|cidr| Some(ranges::first_address(*cidr)?.to_string())));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_ascii_lowercase();
    if is_dns_name(&host) {
        names.push(host);
    }
    names.sort();
    names.dedup();
    names
}

/// Parses a list of names and addresses for `--tls-san`.
pub fn parse_names(text: &str) -> Result<Vec<String>, String> {
    let parse = |part: &str| {
        let part = part.trim();
        if let Ok(address) = part.parse::<IpAddr>() {
            return Ok(address.to_string());
        }
        let name = part.to_ascii_lowercase();
        let wildcard = name.strip_prefix("*.").unwrap_or(&name);
        if is_dns_name(wildcard) {
            return Ok(name);
        }
        Err(format!("{part:?} is neither a DNS name nor an IP address"))
    };
    text.split(',').map(parse).collect()
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(is_part)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Addresses of this machine's interfaces, without loopback and link-local ones.
fn interface_addresses() -> Vec<IpAddr> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let v4 = parse_v4(&read("/proc/net/fib_trie")).into_iter().map(IpAddr::from);
    v4.chain(parse_v6(&read("/proc/net/if_inet6")).into_iter().map(IpAddr::from)).collect()
}

/// Parses the local addresses in the kernel's routing table.
fn parse_v4(table: &str) -> Vec<Ipv4Addr> {
    let mut addresses: Vec<Ipv4Addr> = Vec::new();
    let mut last = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            addresses.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Parses the kernel's list of interfaces: the address in hexadecimal, index, prefix, scope, flags, name.
fn parse_v6(list: &str) -> Vec<Ipv6Addr> {
    const GLOBAL: &str = "00";
    let lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let global = lines.filter(|fields| fields.get(3) == Some(&GLOBAL));
    global.filter_map(|fields| Some(u128::from_str_radix(fields.first()?, 16).ok()?.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_address_is_never_advertised() {
        for address in ["127.0.0.1:6443", "0.0.0.0:6443", "[::1]:6443", "[::]:6443"] {
            let found = advertised(address.parse().unwrap());
            let useful = |found: SocketAddr| !found.ip().is_loopback() && !found.ip().is_unspecified();
            assert!(found.is_none_or(|found| useful(found) && found.port() == 6443), "{address}: {found:?}");
        }
        let own: SocketAddr = "192.0.2.9:7443".parse().unwrap();
        assert_eq!(advertised(own), Some(own));
    }

    #[test]
    fn addresses_of_all_interfaces_are_parsed() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.1.0.0\n        \
                     /24 link UNICAST\nLocal:\n     |-- 10.1.0.7\n        /32 host LOCAL\n     |-- 10.1.0.255\n        \
                     /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 192.0.2.4\n        \
                     /32 host LOCAL\n     |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(parse_v4(table), [Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::new(192, 0, 2, 4)]);
        let list = "fe800000000000000042acfffe110002 02 40 20 80     eth0\n\
                    20010db8000000000000000000000007 02 40 00 80     eth0\n\
                    00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(parse_v6(list), ["2001:db8::7".parse::<Ipv6Addr>().unwrap()]);
        assert!(parse_v4("").is_empty() && parse_v6("nonsense\n").is_empty());
    }

    #[test]
    fn certificate_has_advertised_and_added_names() {
        let listen = "0.0.0.0".parse().unwrap();
        let advertised = advertised(SocketAddr::new(listen, 6443)).map(|address| address.ip());
        let extra = parse_names("API.example.com, 192.0.2.77,*.example.org,2001:DB8::1").unwrap();
        let names = names(&ServerNames { listen, advertised, extra: &extra }, [].iter());
        for wanted in ["api.example.com", "192.0.2.77", "*.example.org", "2001:db8::1", "localhost", "::1"] {
            assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
        }
        assert!(advertised.is_none_or(|address| names.contains(&address.to_string())), "{names:?}");
        assert!(!names.contains(&"0.0.0.0".to_owned()), "clients cannot connect to it");
        for wrong in ["", "a,,b", "with space", "a/b", "*.", "*", "a_b"] {
            assert!(parse_names(wrong).is_err(), "{wrong:?}");
        }
    }
}
