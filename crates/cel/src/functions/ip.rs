//! IP addresses.

use std::net::IpAddr;

use setpoint_api::quote::Quoted;

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{Opaque, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "family",
        |call| receiver(call, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        CostRule::Call,
    ),
    Function::new("ip", ip, CostRule::ParseIp),
    Function::new("ip.isCanonical", is_canonical, CostRule::Scan { times: 2 }),
    Function::new(
        "isGlobalUnicast",
        |call| receiver(call, |ip| Value::Bool(is_global_unicast(ip))),
        CostRule::Call,
    ),
    Function::new("isIP", is_ip, CostRule::Scan { times: 1 }),
    Function::new(
        "isLinkLocalMulticast",
        |call| receiver(call, |ip| Value::Bool(is_link_local_multicast(ip))),
        CostRule::Call,
    ),
    Function::new(
        "isLinkLocalUnicast",
        |call| receiver(call, |ip| Value::Bool(is_link_local_unicast(ip))),
        CostRule::Call,
    ),
    Function::new("isLoopback", |call| receiver(call, |ip| Value::Bool(ip.is_loopback())), CostRule::Call),
    Function::new(
        "isUnspecified",
        |call| receiver(call, |ip| Value::Bool(ip.is_unspecified())),
        CostRule::Call,
    ),
];

/// Parses an address without a zone, which is not an IPv4-mapped IPv6 address.
pub(super) fn parse(text: &str) -> Result<IpAddr, EvalError> {
    let quoted = Quoted(text);
    let Ok(ip) = text.parse::<IpAddr>() else {
        if text
            .split_once('%')
            .is_some_and(|(ip, zone)| ip.contains(':') && ip.parse::<IpAddr>().is_ok() && !zone.is_empty())
        {
            return Err(EvalError::new(format!("IP address {quoted} with zone value is not allowed")));
        }
        return Err(EvalError::new(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): unable to parse IP"
        )));
    };
    if is_mapped(ip) {
        return Err(EvalError::new(format!("IPv4-mapped IPv6 address {quoted} is not allowed")));
    }
    Ok(ip)
}

pub(super) fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn ip<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    if let Value::Opaque(opaque) = call.arg(0)?
        && let Opaque::Cidr(cidr) = &**opaque
    {
        return Ok(Value::opaque(Opaque::Ip(cidr.ip)));
    }
    Ok(Value::opaque(Opaque::Ip(parse(call.text(0)?)?)))
}

fn is_ip<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(parse(call.text(0)?).is_ok()))
}

fn is_canonical<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    Ok(Value::Bool(parse(text)?.to_string() == text))
}

fn receiver<'a>(call: &mut Call<'_, 'a>, read: fn(IpAddr) -> Value<'static>) -> Returned<'a> {
    match call.opaque(0)? {
        Opaque::Ip(ip) => Ok(read(*ip)),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

/// As Go, counts private addresses, but not the IPv4 broadcast address.
fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(is_broadcast
        || ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_multicast()
        || is_link_local_unicast(ip))
}
