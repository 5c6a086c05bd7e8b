//! Signer names: `example.com/signer-name`.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::names::dns::{self, LABEL_BYTES_MAX, SUBDOMAIN_BYTES_MAX};
use crate::quote::Quoted;

/// Maximum bytes of a name: a domain, a slash, and a namespace and a name joined by a dot.
const NAME_BYTES_MAX: usize = 2 * SUBDOMAIN_BYTES_MAX + LABEL_BYTES_MAX + 2;

/// Validates the name of a signer.
pub(super) fn check_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.push(FieldError::invalid(path, name, detail));
    };
    if domain.len() > SUBDOMAIN_BYTES_MAX {
        errors.push(FieldError::too_long(path, SUBDOMAIN_BYTES_MAX));
    }
    check_parts(errors, path, domain, dns::label);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, domain, detail));
    }
    check_parts(errors, path, rest, dns::subdomain);
    if name.len() > NAME_BYTES_MAX {
        errors.push(FieldError::too_long(path, NAME_BYTES_MAX));
    }
}

/// Validates the parts between dots, up to the first invalid one.
fn check_parts(
    errors: &mut ErrorList,
    path: &Path<'_>,
    text: &str,
    rule: impl Fn(&str) -> crate::names::Faults,
) {
    for part in text.split('.') {
        let faults = rule(part);
        if !faults.is_empty() {
            let detail = |fault| format!("validating label {}: {fault}", Quoted(part));
            errors.extend(faults.iter().map(|fault| FieldError::invalid(path, text, detail(fault))));
            return;
        }
    }
}

/// `true` if a signer belongs to Kubernetes itself.
pub(super) fn is_kubernetes(name: &str) -> bool {
    let domain = name.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}
