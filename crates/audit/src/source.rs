//! Addresses from which a request came.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Headers that proxies add. A client can set them to anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardingHeaders<'a> {
    /// `X-Forwarded-For`: addresses separated by commas.
    pub forwarded_for: Option<&'a str>,
    /// `X-Real-Ip`.
    pub real_ip: Option<&'a str>,
}

/// Returns the addresses of a client, in upstream's order: those of `X-Forwarded-For`, that of `X-Real-Ip` unless it is
/// among them, and the peer of the connection unless it is the last one. Only the last one can be trusted.
#[must_use]
pub fn source_ips(headers: ForwardingHeaders<'_>, peer: Option<IpAddr>) -> Vec<IpAddr> {
    let forwarded = headers.forwarded_for.unwrap_or_default().split(',');
    let mut ips: Vec<IpAddr> = forwarded.filter_map(|part| parse_sloppy(part.trim())).collect();
    let real = headers.real_ip.and_then(parse_sloppy);
    ips.extend(real.filter(|ip| !ips.contains(ip)));
    ips.extend(peer.map(canonical).filter(|ip| ips.last() != Some(ip)));
    ips
}

/// Parses an address as upstream does: octets of IPv4 addresses may have leading zeros.
fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(|ip| canonical(IpAddr::V6(ip)));
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part =
            parts.next().filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))?;
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// IPv4 addresses within IPv6 are shown as IPv4 addresses.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(forwarded_for: Option<&str>, real_ip: Option<&str>, peer: &str) -> Vec<String> {
        let headers = ForwardingHeaders { forwarded_for, real_ip };
        source_ips(headers, peer.parse().ok()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn peer_comes_after_the_addresses_of_proxies() {
        assert_eq!(ips(None, None, "127.0.0.1"), ["127.0.0.1"]);
        assert_eq!(ips(Some("1.1.1.1, 2.2.2.2"), None, "127.0.0.1"), ["1.1.1.1", "2.2.2.2", "127.0.0.1"]);
        assert_eq!(ips(Some("1.1.1.1"), Some("1.1.1.1"), "1.1.1.1"), ["1.1.1.1"]);
        assert_eq!(ips(Some("1.1.1.1"), Some("3.3.3.3"), "::1"), ["1.1.1.1", "3.3.3.3", "::1"]);
        assert_eq!(ips(None, Some("010.0.0.1"), "::ffff:10.0.0.1"), ["10.0.0.1"]);
    }

    #[test]
    fn malformed_addresses_are_left_out() {
        for header in
            ["", ",", "x", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.-4", ":", "1.2.3.4:80", "\u{e9}"]
        {
            assert_eq!(ips(Some(header), Some(header), "10.0.0.1"), ["10.0.0.1"], "{header}");
        }
        assert!(ips(None, None, "").is_empty());
    }
}
