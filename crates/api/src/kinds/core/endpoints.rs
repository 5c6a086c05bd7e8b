//! Endpoints: the addresses of a Service, in the deprecated form.

use std::net::IpAddr;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::metadata::entry;
use crate::names::ip::{ip_legacy, ip_warning, parse_ip};
use crate::names::{dns, key};
use crate::value::Value;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

/// Rules of Endpoints.
pub struct Endpoints;

impl Rules for Endpoints {
    fn default(&self, object: &mut Value) {
        let Some(Value::List(subsets)) = object.get_mut("subsets") else { return };
        let ports = subsets.iter_mut().filter_map(|subset| match subset.get_mut("ports") {
            Some(Value::List(ports)) => Some(ports),
            _ => None,
        });
        for port in ports.flatten().filter_map(Value::as_map_mut) {
            if port.get("protocol").is_none_or(Value::is_empty) {
                port.insert("protocol", "TCP");
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("subsets");
        for (i, subset) in items(object, "subsets").iter().enumerate() {
            check_subset(errors, &path.index(i), subset);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        // Ratcheting: stored subsets may violate newer rules, and stay valid until they change.
        if new.get("subsets") != old.get("subsets") {
            self.validate(new, errors);
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if entry(new, "labels", MANAGED_BY) == Some(CONTROLLER) {
            return warnings;
        }
        let path = Path::root("subsets");
        for (i, subset) in items(new, "subsets").iter().enumerate() {
            for field in ["addresses", "notReadyAddresses"] {
                for (j, address) in items(subset, field).iter().enumerate() {
                    let (subset_path, ip) = (path.index(i), address.str_at(&["ip"]));
                    warnings.extend(ip_warning(&subset_path.child(field).index(j).child("ip"), ip));
                }
            }
        }
        warnings
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_list).unwrap_or_default()
}

fn check_subset(errors: &mut ErrorList, path: &Path<'_>, subset: &Value) {
    let (ready, not_ready) = (items(subset, "addresses"), items(subset, "notReadyAddresses"));
    if ready.is_empty() && not_ready.is_empty() {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for (field, addresses) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
        for (i, address) in addresses.iter().enumerate() {
            check_address(errors, &path.child(field).index(i), address);
        }
    }
    let ports = items(subset, "ports");
    for (i, port) in ports.iter().enumerate() {
        check_port(errors, &path.child("ports").index(i), port, ports.len() > 1);
    }
}

fn check_address(errors: &mut ErrorList, path: &Path<'_>, address: &Value) {
    let (ip, host) = (address.str_at(&["ip"]), address.str_at(&["hostname"]));
    ip_legacy(errors, &path.child("ip"), ip, true, &[]);
    if !host.is_empty() {
        errors.push_invalid(&path.child("hostname"), host, dns::label(host));
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        errors.push_invalid(&path.child("nodeName"), node, dns::subdomain(node));
    }
    check_endpoint_ip(errors, &path.child("ip"), ip);
}

fn check_port(errors: &mut ErrorList, path: &Path<'_>, port: &Value, needs_name: bool) {
    let (name, protocol) = (port.str_at(&["name"]), port.str_at(&["protocol"]));
    if !name.is_empty() {
        errors.push_invalid(&path.child("name"), name, dns::label(name));
    } else if needs_name {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
    let faults = key::port_number(number).into_iter();
    let number_path = path.child("port");
    errors.extend(faults.map(|fault| FieldError::invalid(&number_path, number, fault)));
    match protocol {
        "TCP" | "UDP" | "SCTP" => {}
        "" => errors.push(FieldError::required(&path.child("protocol"), "")),
        other => {
            let known = ["SCTP", "TCP", "UDP"];
            let value = BadValue::json_string(other);
            errors.push(FieldError::not_supported(&path.child("protocol"), value, &known));
        }
    }
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        errors.push_invalid(&path.child("appProtocol"), protocol, key::label_key(protocol));
    }
}

/// Validates an endpoint address: not unspecified, loopback or link-local.
pub(crate) fn check_endpoint_ip(errors: &mut ErrorList, path: &Path<'_>, text: &str) {
    let Some(ip) = parse_ip(text).map(|ip| ip.to_canonical()) else {
        errors.push(FieldError::invalid(path, text, "must be a valid IP address"));
        return;
    };
    if ip.is_unspecified() {
        errors.push(FieldError::invalid(path, text, format!("may not be unspecified ({text})")));
    }
    if ip.is_loopback() {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errors.push(FieldError::invalid(path, text, detail));
    }
    let (link, link_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.segments()[0] & 0xffc0 == 0xfe80, ip.segments()[0] & 0xff0f == 0xff02),
    };
    if link {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.push(FieldError::invalid(path, text, detail));
    }
    if link_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.push(FieldError::invalid(path, text, detail));
    }
}
