//! Names of drivers, pools and attributes.

use super::Report;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::names::{dns, key};
use crate::value::Value;

const POOL_BYTES_MAX: usize = 253;
const DOMAIN_BYTES_MAX: usize = 63;
const ID_BYTES_MAX: usize = 32;

/// Validates the name of a pool, by the handwritten rule.
pub(super) fn check_pool(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if name.len() > POOL_BYTES_MAX {
        errors.push(FieldError::too_long(path, POOL_BYTES_MAX));
    }
    for part in name.split('/') {
        errors.push_invalid(path, part, dns::subdomain(part));
    }
}

/// Validates the name of a pool, by the declarative rule.
pub(super) fn check_pool_declarative(report: &mut Report, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return report.declarative.push(FieldError::required(path, ""));
    }
    if name.len() > POOL_BYTES_MAX {
        report.declarative.push(FieldError::too_long(path, POOL_BYTES_MAX));
    }
    for (i, part) in name.split('/').enumerate() {
        if part.is_empty() {
            let detail = format!("segment {i}: must not be empty");
            report.declarative.push(FieldError::invalid(path, name, detail));
            continue;
        }
        let faults = dns::subdomain(part).into_iter().map(|fault| format!("segment {i}: {fault}"));
        report.declarative.extend(faults.map(|fault| FieldError::invalid(path, part, fault)));
    }
}

/// Validates the name of a driver, by the declarative rule.
pub(super) fn check_driver_declarative(report: &mut Report, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return report.declarative.push(FieldError::required(path, ""));
    }
    report.declarative.push_invalid(path, name, dns::subdomain_caseless(name));
    if name.chars().count() > DOMAIN_BYTES_MAX {
        report.declarative.push(FieldError::too_long_characters(path, DOMAIN_BYTES_MAX));
    }
}

/// Validates the name of an attribute or capacity: an identifier with an optional domain prefix.
pub(super) fn check_qualified(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [id] => check_identifier(errors, path, id),
        [domain, id] => {
            if domain.is_empty() {
                errors.push(FieldError::invalid(path, "", "the domain must not be empty"));
            } else {
                crate::kinds::check::check_csi_driver_name(errors, path, domain);
            }
            if id.is_empty() {
                errors.push(FieldError::invalid(path, "", "the name must not be empty"));
            } else {
                check_identifier(errors, path, id);
            }
        }
        _ => {}
    }
}

/// Validates the name of an attribute with its domain, by the declarative rule.
pub(super) fn check_fully_qualified_declarative(report: &mut Report, path: &Path<'_>, name: &str) {
    let errors = &mut report.declarative;
    match name.split('/').collect::<Vec<_>>()[..] {
        [id] => check_identifier(errors, path, id),
        [domain, id] => {
            if domain.is_empty() {
                errors.push(FieldError::invalid(path, "", "prefix must not be empty"));
            } else {
                if domain.len() > DOMAIN_BYTES_MAX {
                    errors.push(FieldError::too_long(path, DOMAIN_BYTES_MAX));
                }
                let faults = dns::subdomain(domain).into_iter().map(|fault| format!("prefix: {fault}"));
                errors.extend(faults.map(|fault| FieldError::invalid(path, domain, fault)));
            }
            if id.is_empty() {
                errors.push(FieldError::invalid(path, "", "name must not be empty"));
            } else {
                check_identifier(errors, path, id);
            }
        }
        _ => {}
    }
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn check_identifier(errors: &mut ErrorList, path: &Path<'_>, id: &str) {
    if id.len() > ID_BYTES_MAX {
        errors.push(FieldError::too_long(path, ID_BYTES_MAX));
    }
    errors.push_invalid(path, id, key::c_identifier(id));
}

/// Validates the ID of a share of a device.
pub(super) fn check_share_declarative(report: &mut Report, path: &Path<'_>, id: &Value) {
    let Some(id) = id.as_str() else { return };
    let is_uuid = id.len() == 36
        && id.bytes().enumerate().all(|(i, byte)| match i {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    if !is_uuid {
        let detail = "must be a lowercase UUID in 8-4-4-4-12 format";
        report.declarative.push(FieldError::invalid(path, id, detail));
    }
}

/// Shortens a key for the path of an error: the middle of a long key becomes `...`.
pub(super) fn shortened(key: &str) -> std::borrow::Cow<'_, str> {
    const BYTES_MAX: usize = DOMAIN_BYTES_MAX + 1 + ID_BYTES_MAX;
    if key.len() <= BYTES_MAX || !key.is_ascii() {
        return key.into();
    }
    let remaining = BYTES_MAX - 3;
    format!("{}...{}", &key[..remaining.div_ceil(2)], &key[key.len() - remaining / 2..]).into()
}
