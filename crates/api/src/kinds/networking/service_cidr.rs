//! ServiceCIDR: an address range for Services, single-stack or dual-stack.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::check::{self, GoLayout};
use crate::kinds::{ALL_BUT_STATUS, Rules};
use crate::names::ip::{self, Cidr};
use crate::value::Value;

/// Rules of ServiceCIDR.
pub struct ServiceCidr;

impl Rules for ServiceCidr {
    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_ranges(errors, check::field(object, "spec"));
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let cidrs = |object| check::texts(check::field(object, "spec"), "cidrs");
        let spec = check::field(new, "spec");
        let (new, old) = (cidrs(new), cidrs(old));
        let path = Path::root("spec");
        let path = path.child("cidrs");
        let mut keep = |i: usize| {
            if new[i] != old[i] {
                errors.push(FieldError::invalid(&path.index(i), new[i], check::IMMUTABLE));
            }
        };
        match (old.len(), new.len()) {
            (one, other) if one == other => (0..one).for_each(keep),
            (1, 2) => {
                keep(0);
                check_ranges(errors, spec);
            }
            _ => errors.push(FieldError::invalid(&path, check::shown_texts(&new), check::IMMUTABLE)),
        }
    }
}

fn check_ranges(errors: &mut ErrorList, spec: &Value) {
    let cidrs = &check::texts(spec, "cidrs")[..];
    let path = Path::root("spec");
    let path = path.child("cidrs");
    if cidrs.is_empty() {
        return errors.push(FieldError::required(&path, "at least one CIDR required"));
    }
    if cidrs.len() > 2 {
        let value = check::format_go(spec, &GoLayout::Struct(&[("CIDRs", "cidrs", GoLayout::Plain)]));
        return errors.push(FieldError::invalid(&path, value, "may only hold up to 2 values"));
    }
    for (i, cidr) in cidrs.iter().enumerate() {
        ip::cidr(errors, &path.index(i), cidr);
    }
    if let [one, other] = cidrs
        && let (Some(one), Some(other)) = (Cidr::parse(one), Cidr::parse(other))
        && one.ip.to_canonical().is_ipv4() == other.ip.to_canonical().is_ipv4()
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(&path, check::shown_texts(cidrs), detail));
    }
}
