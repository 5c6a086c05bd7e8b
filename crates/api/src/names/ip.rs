//! IP addresses and CIDRs.
//!
//! Legacy fields accept addresses with leading zeros (`010.1.2.3` is 10.1.2.3) and IPv4-mapped IPv6 addresses
//! (`::ffff:1.2.3.4`): an update may keep such a value; a new one is an error or, if the caller is lenient, a
//! warning. Newer fields accept only the canonical form.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field_error::{ErrorList, FieldError, Path};
use crate::quote::Quoted;

const IP_FAULT: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR_FAULT: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const INTERFACE_FAULT: &str = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";

/// Parses an address, with or without leading zeros. An IPv4-mapped IPv6 address stays one.
#[must_use]
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| strip_leading_zeros(text).parse().ok())
}

/// Removes leading zeros from each number.
fn strip_leading_zeros(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_zeros = true;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let digit_follows = chars.peek().is_some_and(char::is_ascii_hexdigit);
        if c == '0' && in_zeros && digit_follows {
            continue;
        }
        in_zeros = !c.is_ascii_hexdigit();
        out.push(c);
    }
    out
}

/// An address with the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// Address with all its bits.
    pub ip: IpAddr,
    /// Number of bits of the network prefix.
    pub prefix_bits: u8,
}

impl Cidr {
    /// Parses a CIDR, with or without leading zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<Cidr> {
        let (ip, bits) = text.split_once('/')?;
        let ip = parse_ip(ip)?;
        if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let significant = bits.trim_start_matches('0');
        let prefix_bits: u8 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
        (prefix_bits <= bits_of(ip)).then_some(Cidr { ip, prefix_bits })
    }

    /// Address with the bits after the prefix cleared.
    #[must_use]
    pub fn network(self) -> IpAddr {
        let drop = u32::from(bits_of(self.ip) - self.prefix_bits);
        match self.ip {
            IpAddr::V4(ip) => {
                Ipv4Addr::from_bits(ip.to_bits() & u32::MAX.checked_shl(drop).unwrap_or(0)).into()
            }
            IpAddr::V6(ip) => {
                Ipv6Addr::from_bits(ip.to_bits() & u128::MAX.checked_shl(drop).unwrap_or(0)).into()
            }
        }
    }
}

impl fmt::Display for Cidr {
    /// Network in canonical form; an IPv4-mapped network prints as IPv4.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_canonical(f, self.network(), self.prefix_bits)
    }
}

fn write_canonical(f: &mut fmt::Formatter<'_>, ip: IpAddr, prefix_bits: u8) -> fmt::Result {
    let canonical = ip.to_canonical();
    let dropped = bits_of(ip) - bits_of(canonical);
    write!(f, "{canonical}/{}", prefix_bits.saturating_sub(dropped))
}

fn bits_of(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn canonical_fault(canonical: impl fmt::Display) -> Cow<'static, str> {
    format!("must be in canonical form ({})", Quoted(&canonical.to_string())).into()
}

/// Checks an address that must be in canonical form.
pub(super) fn faults(text: &str) -> super::Faults {
    let mut errors = ErrorList::new();
    ip(&mut errors, &Path::NONE, text);
    errors.into_iter().map(|error| error.detail).collect()
}

/// Checks an address in a field that accepts only the canonical form.
pub fn ip(errors: &mut ErrorList, path: &Path<'_>, text: &str) {
    match ip_fault(text, true) {
        Err(fault) => errors.push(FieldError::invalid(path, text, fault)),
        Ok(ip) => {
            let canonical = ip.to_canonical().to_string();
            if canonical != text {
                errors.push(FieldError::invalid(path, text, canonical_fault(canonical)));
            }
        }
    }
}

/// Checks an address in a legacy field. `strict` rejects the legacy forms; a value of the old object, in
/// `kept`, is always accepted.
pub(crate) fn ip_legacy(errors: &mut ErrorList, path: &Path<'_>, text: &str, strict: bool, kept: &[&str]) {
    // The search through `kept` is last: it runs for at most as many values as there are errors.
    if let Err(fault) = ip_fault(text, strict)
        && !errors.is_full()
        && !kept.contains(&text)
    {
        errors.push(FieldError::invalid(path, text, fault));
    }
}

fn ip_fault(text: &str, strict: bool) -> Result<IpAddr, &'static str> {
    let ip = parse_ip(text).ok_or(IP_FAULT)?;
    match text.parse::<IpAddr>() {
        Err(_) if strict => Err("must not have leading 0s"),
        Ok(ip) if strict && is_mapped(ip) => Err("must not be an IPv4-mapped IPv6 address"),
        _ => Ok(ip),
    }
}

/// Warning for an accepted address of a legacy field that is not canonical.
#[must_use]
pub(crate) fn ip_warning(path: &Path<'_>, text: &str) -> Option<String> {
    let sloppy = parse_ip(text)?.to_canonical().to_string();
    match text.parse::<IpAddr>() {
        Ok(ip) if !is_mapped(ip) => (ip.is_ipv6() && sloppy != text).then(|| {
            format!(
                "{path}: IPv6 address {} should be in RFC 5952 canonical format ({})",
                Quoted(text),
                Quoted(&sloppy)
            )
        }),
        _ => Some(format!(
            "{path}: non-standard IP address {} is invalid: use {}",
            Quoted(text),
            Quoted(&sloppy)
        )),
    }
}

/// Checks a CIDR in a field that accepts only the canonical form.
pub fn cidr(errors: &mut ErrorList, path: &Path<'_>, text: &str) {
    match cidr_fault(text, true) {
        Err(fault) => errors.push(FieldError::invalid(path, text, fault)),
        Ok(cidr) => {
            let canonical = cidr.to_string();
            if canonical != text {
                errors.push(FieldError::invalid(path, text, canonical_fault(canonical)));
            }
        }
    }
}

/// Checks a CIDR in a legacy field; `strict` and `kept` are as for [`ip_legacy`].
pub(crate) fn cidr_legacy(errors: &mut ErrorList, path: &Path<'_>, text: &str, strict: bool, kept: &[&str]) {
    if let Err(fault) = cidr_fault(text, strict)
        && !errors.is_full()
        && !kept.contains(&text)
    {
        errors.push(FieldError::invalid(path, text, fault));
    }
}

fn cidr_fault(text: &str, strict: bool) -> Result<Cidr, &'static str> {
    let cidr = Cidr::parse(text).ok_or(CIDR_FAULT)?;
    if !strict {
        return Ok(cidr);
    }
    if !is_strict_cidr(text) {
        return Err("must not have leading 0s in IP or prefix length");
    }
    if is_mapped(cidr.ip) {
        return Err("must not have an IPv4-mapped IPv6 address");
    }
    if cidr.ip != cidr.network() {
        return Err("must not have bits set beyond the prefix length");
    }
    Ok(cidr)
}

/// `true` if neither part of a CIDR has leading zeros.
fn is_strict_cidr(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(ip, bits)| ip.parse::<IpAddr>().is_ok() && (bits.len() == 1 || !bits.starts_with('0')))
}

/// Warnings for an accepted CIDR of a legacy field that is not canonical.
#[must_use]
pub(crate) fn cidr_warnings(path: &Path<'_>, text: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse(text) else {
        return Vec::new();
    };
    let (quoted, network) = (Quoted(text), cidr.to_string());
    let mut warnings = Vec::new();
    if cidr.ip != cidr.network() {
        let alone = format!("{}/{}", cidr.ip.to_canonical(), bits_of(cidr.ip));
        warnings.push(format!(
            "{path}: CIDR value {quoted} is ambiguous in this context (should be {} or {}?)",
            Quoted(&network),
            Quoted(&alone)
        ));
    }
    if !is_strict_cidr(text) || is_mapped(cidr.ip) {
        warnings
            .push(format!("{path}: non-standard CIDR value {quoted} is invalid: use {}", Quoted(&network)));
    }
    if warnings.is_empty() && cidr.ip.is_ipv6() && network != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format ({})",
            Quoted(&network)
        ));
    }
    warnings
}

/// Checks an interface address: a full address with a prefix length.
pub(crate) fn interface_address(errors: &mut ErrorList, path: &Path<'_>, text: &str) {
    let Some(cidr) = Cidr::parse(text) else {
        return errors.push(FieldError::invalid(path, text, INTERFACE_FAULT));
    };
    let ip = cidr.ip.to_canonical();
    // An IPv4-mapped prefix is converted from 128 to 32 bits; a shorter one is shown as given.
    let bits = match (is_mapped(cidr.ip), cidr.prefix_bits) {
        (true, bits @ 33..) => bits.saturating_sub(96),
        (_, bits) => bits,
    };
    let canonical = format!("{ip}/{bits}");
    if canonical != text {
        errors.push(FieldError::invalid(path, text, canonical_fault(canonical)));
    }
}

#[cfg(test)]
mod tests;
