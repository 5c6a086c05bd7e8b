//! NetworkPolicy: allowed traffic of pods.

use std::net::IpAddr;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::ip::{self, Cidr};
use crate::names::key;
use crate::value::Value;

/// Directions: the field of the rules, and the field of their peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const TYPES: [&str; 2] = ["Ingress", "Egress"];

/// Rules of NetworkPolicy.
pub struct NetworkPolicy;

/// Violations of the old object that an update may keep.
#[derive(Default)]
struct KeptViolations<'a> {
    cidrs: Vec<&'a str>,
    label_values: bool,
}

impl Rules for NetworkPolicy {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        for (rules, _) in DIRECTIONS {
            let list = spec.get_mut(rules).and_then(Value::as_list_mut);
            for rule in list.into_iter().flat_map(|list| list.iter_mut()) {
                for port in check::maps_mut(rule, &["ports"]) {
                    check::set_default_with(port, "protocol", || "TCP".into());
                }
            }
        }
        let count = if check::list(spec, "egress").is_empty() { 1 } else { 2 };
        if let Some(spec) = spec.as_map_mut() {
            check::set_default_if_empty_with(spec, "policyTypes", || TYPES[..count].to_vec().into());
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(errors, check::field(object, "spec"), &KeptViolations::default());
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let old = check::field(old, "spec");
        let mut cidrs = Vec::new();
        for_each_block(old, |_, block| {
            cidrs.push(check::text(block, "cidr"));
            cidrs.extend(check::texts(block, "except"));
        });
        let label_values = check::is_invalid_selector(check::field(old, "podSelector"));
        check_spec(errors, check::field(new, "spec"), &KeptViolations { cidrs, label_values });
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for_each_block(check::field(new, "spec"), |path, block| {
            warnings.extend(ip::cidr_warnings(&path.child("cidr"), check::text(block, "cidr")));
            let path = path.child("except");
            for (i, except) in check::texts(block, "except").into_iter().enumerate() {
                warnings.extend(ip::cidr_warnings(&path.index(i), except));
            }
        });
        warnings
    }
}

/// Visits every `ipBlock`.
fn for_each_block<'a>(spec: &'a Value, mut visit: impl FnMut(&Path<'_>, &'a Value)) {
    let root = Path::root("spec");
    for (rules, peers) in DIRECTIONS {
        let path = root.child(rules);
        for (i, rule) in check::list(spec, rules).iter().enumerate() {
            let path = path.index(i);
            let path = path.child(peers);
            for (i, peer) in check::list(rule, peers).iter().enumerate() {
                if check::is_set(peer, "ipBlock") {
                    visit(&path.index(i).child("ipBlock"), check::field(peer, "ipBlock"));
                }
            }
        }
    }
}

fn check_spec(errors: &mut ErrorList, spec: &Value, kept: &KeptViolations<'_>) {
    let root = Path::root("spec");
    // Errors of declarative validation come last.
    let mut declarative = ErrorList::new();
    let pods = check::field(spec, "podSelector");
    check::check_selector(errors, &root.child("podSelector"), pods, kept.label_values);
    for (rules, peers) in DIRECTIONS {
        let path = root.child(rules);
        for (i, rule) in check::list(spec, rules).iter().enumerate() {
            let path = path.index(i);
            let at = path.child("ports");
            for (i, one) in check::list(rule, "ports").iter().enumerate() {
                check_port(errors, &at.index(i), one);
            }
            let at = path.child(peers);
            for (i, one) in check::list(rule, peers).iter().enumerate() {
                check_peer(errors, &mut declarative, &at.index(i), one, kept);
            }
        }
    }
    let (types, path) = (check::texts(spec, "policyTypes"), root.child("policyTypes"));
    if types.len() > TYPES.len() {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(&path, check::shown_texts(&types), detail));
    } else {
        for (i, one) in types.into_iter().enumerate() {
            check::check_one_of(errors, &path.index(i), one, &TYPES);
        }
    }
    errors.append(declarative);
}

fn check_port(errors: &mut ErrorList, path: &Path<'_>, port: &Value) {
    if let Some(protocol) = check::field(port, "protocol").as_str() {
        check::check_one_of(errors, &path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end = check::field(port, "endPort").as_i64();
    let end_path = path.child("endPort");
    let mut number = |path: &Path<'_>, number: i64| {
        let faults = key::port_number(number);
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, number, fault)));
    };
    match check::field(port, "port") {
        Value::Int(start) => {
            number(&path.child("port"), *start);
            let Some(end) = end else { return };
            if end < *start {
                let detail = "must be greater than or equal to `port`";
                errors.push(FieldError::invalid(&end_path, end, detail));
            }
            let faults = key::port_number(end);
            errors.extend(faults.into_iter().map(|fault| FieldError::invalid(&end_path, end, fault)));
        }
        Value::Str(name) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&end_path, end, detail));
            }
            errors.push_invalid(&path.child("port"), name, key::port_name(name));
        }
        _ => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is not specified";
                errors.push(FieldError::invalid(&end_path, end, detail));
            }
        }
    }
}

fn check_peer(
    errors: &mut ErrorList,
    declarative: &mut ErrorList,
    path: &Path<'_>,
    peer: &Value,
    kept: &KeptViolations<'_>,
) {
    let mut selectors = 0;
    for name in ["podSelector", "namespaceSelector"] {
        if check::is_set(peer, name) {
            selectors += 1;
            check::check_selector(errors, &path.child(name), check::field(peer, name), kept.label_values);
        }
    }
    let block = check::field(peer, "ipBlock");
    if !block.is_null() {
        check_ip_block(errors, declarative, &path.child("ipBlock"), block, kept);
        if selectors > 0 {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
    } else if selectors == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
}

fn check_ip_block(
    errors: &mut ErrorList,
    declarative: &mut ErrorList,
    path: &Path<'_>,
    block: &Value,
    kept: &KeptViolations<'_>,
) {
    let text = check::text(block, "cidr");
    if text.is_empty() {
        return declarative.push(FieldError::required(&path.child("cidr"), ""));
    }
    ip::cidr_legacy(errors, &path.child("cidr"), text, true, &kept.cidrs);
    let Some(outer) = Cidr::parse(text) else { return };
    let path = path.child("except");
    for (i, text) in check::texts(block, "except").into_iter().enumerate() {
        let path = path.index(i);
        ip::cidr_legacy(errors, &path, text, true, &kept.cidrs);
        let Some(inner) = Cidr::parse(text) else { continue };
        if !contains(outer, inner) || outer.prefix_bits >= inner.prefix_bits {
            let value = BadValue::from(text);
            errors.push(FieldError::invalid(&path, value, "must be a strict subset of `cidr`"));
        }
    }
}

fn contains(outer: Cidr, inner: Cidr) -> bool {
    match (outer.ip, inner.network()) {
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        (_, ip) => Cidr { ip, prefix_bits: outer.prefix_bits }.network() == outer.network(),
    }
}
