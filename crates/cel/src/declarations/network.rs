//! IP addresses and CIDRs.

use super::Signature;

/// Parsers, predicates and accessors.
pub(super) const FUNCTIONS: &[Signature] = &[
    ("ip", "string_to_ip", "(string) -> net.IP"),
    ("family", "ip_family", "net.IP.() -> int"),
    ("ip.isCanonical", "ip_is_canonical", "(string) -> bool"),
    ("isUnspecified", "ip_is_unspecified", "net.IP.() -> bool"),
    ("isLoopback", "ip_is_loopback", "net.IP.() -> bool"),
    ("isLinkLocalMulticast", "ip_is_link_local_multicast", "net.IP.() -> bool"),
    ("isLinkLocalUnicast", "ip_is_link_local_unicast", "net.IP.() -> bool"),
    ("isGlobalUnicast", "ip_is_global_unicast", "net.IP.() -> bool"),
    ("isIP", "is_ip", "(string) -> bool"),
    ("string", "ip_to_string", "(net.IP) -> string"),
    ("cidr", "string_to_cidr", "(string) -> net.CIDR"),
    ("containsIP", "cidr_contains_ip_string", "net.CIDR.(string) -> bool"),
    ("containsIP", "cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool"),
    ("containsCIDR", "cidr_contains_cidr_string", "net.CIDR.(string) -> bool"),
    ("containsCIDR", "cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool"),
    ("ip", "cidr_ip", "net.CIDR.() -> net.IP"),
    ("prefixLength", "cidr_prefix_length", "net.CIDR.() -> int"),
    ("masked", "cidr_masked", "net.CIDR.() -> net.CIDR"),
    ("isCIDR", "is_cidr", "(string) -> bool"),
    ("string", "cidr_to_string", "(net.CIDR) -> string"),
];
