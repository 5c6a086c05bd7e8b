//! Networks in CIDR notation.

use std::net::IpAddr;

use setpoint_api::names::ip::Cidr;
use setpoint_api::quote::Quoted;

use super::{Call, Function, Returned, ip};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{Opaque, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("cidr", cidr, CostRule::Scan { times: 1 }),
    Function::new("containsCIDR", contains_cidr, CostRule::ContainsCidr),
    Function::new("containsIP", contains_ip, CostRule::ContainsIp),
    Function::new("isCIDR", is_cidr, CostRule::Scan { times: 1 }),
    Function::new("masked", masked, CostRule::Call),
    Function::new("prefixLength", prefix_length, CostRule::Call),
];

fn parse(text: &str) -> Result<Cidr, EvalError> {
    const CONTEXT: &str = "network address parse error during conversion from string:";
    let parsed = text.split_once('/').and_then(|(address, bits)| {
        let ip: IpAddr = address.parse().ok()?;
        let is_decimal = bits.bytes().all(|digit| digit.is_ascii_digit());
        let has_leading_zero = bits.len() > 1 && bits.starts_with('0');
        let prefix_bits: u8 = bits.parse().ok().filter(|_| is_decimal && !has_leading_zero)?;
        (prefix_bits <= if ip.is_ipv4() { 32 } else { 128 }).then_some(Cidr { ip, prefix_bits })
    });
    let quoted = Quoted(text);
    match parsed {
        None => {
            Err(EvalError::new(format!("{CONTEXT} {CONTEXT} netip.ParsePrefix({quoted}): unable to parse")))
        }
        Some(cidr) if ip::is_mapped(cidr.ip) => {
            Err(EvalError::new(format!("{CONTEXT} IPv4-mapped IPv6 address {quoted} is not allowed")))
        }
        Some(cidr) => Ok(cidr),
    }
}

fn receiver(call: &Call<'_, '_>) -> Result<Cidr, EvalError> {
    match call.opaque(0)? {
        Opaque::Cidr(cidr) => Ok(*cidr),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn cidr<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::opaque(Opaque::Cidr(parse(call.text(0)?)?)))
}

fn is_cidr<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(parse(call.text(0)?).is_ok()))
}

fn prefix_length<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Int(receiver(call)?.prefix_bits.into()))
}

fn masked<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let cidr = receiver(call)?;
    Ok(Value::opaque(Opaque::Cidr(Cidr { ip: cidr.network(), ..cidr })))
}

fn contains(cidr: Cidr, ip: IpAddr) -> bool {
    cidr.ip.is_ipv4() == ip.is_ipv4() && Cidr { ip, ..cidr }.network() == cidr.network()
}

fn contains_ip<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let cidr = receiver(call)?;
    let other = match call.arg(1)? {
        Value::String(text) => ip::parse(text)?,
        _ => match call.opaque(1)? {
            Opaque::Ip(ip) => *ip,
            _ => return Err(EvalError::NO_SUCH_OVERLOAD),
        },
    };
    Ok(Value::Bool(contains(cidr, other)))
}

fn contains_cidr<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let cidr = receiver(call)?;
    let other = match call.arg(1)? {
        Value::String(text) => parse(text)?,
        _ => match call.opaque(1)? {
            Opaque::Cidr(other) => *other,
            _ => return Err(EvalError::NO_SUCH_OVERLOAD),
        },
    };
    Ok(Value::Bool(cidr.prefix_bits <= other.prefix_bits && contains(cidr, other.ip)))
}
