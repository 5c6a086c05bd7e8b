//! EndpointSlice: endpoints of a Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::{dns, ip, key, metadata};
use crate::value::{Map, Value};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TOPOLOGY_LABELS_MAX: usize = 16;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const ENDPOINTS_MAX: usize = 1000;
const HINTS_MAX: usize = 8;
const LABEL_HOSTNAME: &str = "kubernetes.io/hostname";

/// Rules of EndpointSlice.
pub struct EndpointSlice;

impl Rules for EndpointSlice {
    fn default(&self, object: &mut Value) {
        for port in check::maps_mut(object, &["ports"]) {
            check::set_default_with(port, "name", || "".into());
            check::set_default_with(port, "protocol", || "TCP".into());
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        drop_deprecated_topology(object, &BTreeSet::new());
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        if check::is_equivalent(check::field(new, "endpoints"), check::field(old, "endpoints")) {
            return;
        }
        let topologies =
            check::list(old, "endpoints").iter().map(|one| check::field(one, "deprecatedTopology"));
        let known = topologies.map(|one| check::text(one, LABEL_HOSTNAME)).filter(|name| !name.is_empty());
        drop_deprecated_topology(new, &known.collect());
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn has_new_generation(&self, new: &Value, old: &Value) -> bool {
        let same = |name| check::is_equivalent(check::field(new, name), check::field(old, name));
        let labels = |object| check::text_entries(check::field(object, "metadata"), "labels");
        !(same("addressType") && same("endpoints") && same("ports") && labels(new) == labels(old))
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_slice(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_slice(new, Some(old), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && check::text(new, "addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let labels = new.at(&["metadata", "labels"]).unwrap_or(check::ABSENT);
        // Slices of the built-in controllers are valid and frequent, so they are not checked for warnings.
        let manager = check::text(labels, "endpointslice.kubernetes.io/managed-by");
        if matches!(manager, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
            return warnings;
        }
        let path = Path::root("endpoints");
        for (i, endpoint) in check::list(new, "endpoints").iter().enumerate() {
            let path = path.index(i);
            let path = path.child("addresses");
            for (i, address) in check::texts(endpoint, "addresses").into_iter().enumerate() {
                warnings.extend(ip::ip_warning(&path.index(i), address));
            }
        }
        warnings
    }
}

/// Drops `deprecatedTopology`, which is read-only in v1. Its host name becomes `nodeName` if `known`, the host names
/// of the stored object, contains it.
fn drop_deprecated_topology(object: &mut Value, known: &BTreeSet<&str>) {
    for endpoint in check::maps_mut(object, &["endpoints"]) {
        let Some(topology) = endpoint.remove("deprecatedTopology") else { continue };
        let node = check::text(&topology, LABEL_HOSTNAME);
        if known.contains(node) && dns::subdomain(node).is_empty() {
            check::set_default_with(endpoint, "nodeName", || node.into());
        }
    }
}

fn check_slice(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    // Errors of declarative validation come last.
    let mut declarative = ErrorList::new();
    let (address_type, path) = (check::text(object, "addressType"), Path::root("addressType"));
    match old.map(|old| check::text(old, "addressType")) {
        None if address_type.is_empty() => declarative.push(FieldError::required(&path, "")),
        Some(old) if old != address_type => {
            if address_type.is_empty() {
                declarative.push(FieldError::required(&path, ""));
            } else {
                check::check_one_of(errors, &path, address_type, &ADDRESS_TYPES);
            }
            declarative.push(FieldError::invalid(&path, BadValue::Null, check::IMMUTABLE));
        }
        _ => check::check_one_of(&mut declarative, &path, address_type, &ADDRESS_TYPES),
    }
    check_ports(errors, check::list(object, "ports"));
    let same = |old| check::is_equivalent(check::field(old, "endpoints"), check::field(object, "endpoints"));
    let kept = old.is_some_and(same);
    if !kept {
        check_endpoints(errors, &mut declarative, check::list(object, "endpoints"), address_type);
    }
    errors.append(declarative);
}

fn check_ports(errors: &mut ErrorList, ports: &[Value]) {
    let path = Path::root("ports");
    if ports.len() > PORTS_MAX {
        return errors.push(FieldError::too_many(&path, Some(ports.len()), PORTS_MAX));
    }
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = check::text(port, "name");
        if !name.is_empty() {
            errors.push_invalid(&path.child("name"), name, dns::label(name));
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), BadValue::json_string(name)));
        }
        match check::field(port, "protocol").as_str() {
            None => errors.push(FieldError::required(&path.child("protocol"), "")),
            Some(protocol) => check::check_one_of(errors, &path.child("protocol"), protocol, &PROTOCOLS),
        }
        if let Some(protocol) = check::field(port, "appProtocol").as_str() {
            check::check_label_key(errors, &path.child("appProtocol"), protocol);
        }
    }
}

fn check_endpoints(
    errors: &mut ErrorList,
    declarative: &mut ErrorList,
    endpoints: &[Value],
    address_type: &str,
) {
    let path = Path::root("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        return errors.push(FieldError::too_many(&path, Some(endpoints.len()), ENDPOINTS_MAX));
    }
    for (i, one) in endpoints.iter().enumerate() {
        check_endpoint(errors, declarative, &path.index(i), one, address_type);
    }
}

fn check_endpoint(
    errors: &mut ErrorList,
    declarative: &mut ErrorList,
    path: &Path<'_>,
    endpoint: &Value,
    address_type: &str,
) {
    let addresses = check::texts(endpoint, "addresses");
    let at = path.child("addresses");
    if addresses.is_empty() {
        declarative.push(FieldError::required(&at, ""));
    } else if addresses.len() > ADDRESSES_MAX {
        declarative.push(FieldError::too_many(&at, Some(addresses.len()), ADDRESSES_MAX));
    }
    for (i, address) in addresses.into_iter().enumerate() {
        check_address(errors, &at, i, address, address_type);
    }
    if let Some(node) = check::field(endpoint, "nodeName").as_str() {
        errors.push_invalid(&path.child("nodeName"), node, dns::subdomain(node));
    }
    let topology = check::field(endpoint, "deprecatedTopology").as_map().map_or(0, Map::len);
    let at = path.child("deprecatedTopology");
    if topology > TOPOLOGY_LABELS_MAX {
        errors.push(FieldError::too_many(&at, Some(topology), TOPOLOGY_LABELS_MAX));
    }
    metadata::labels(errors, &at, check::text_entries(endpoint, "deprecatedTopology"));
    if let Some(name) = check::field(endpoint, "hostname").as_str() {
        errors.push_invalid(&path.child("hostname"), name, dns::label(name));
    }
    let (hints, path) = (check::field(endpoint, "hints"), path.child("hints"));
    if check_hints(errors, &path.child("forZones"), check::list(hints, "forZones"), key::label_value) {
        check_hints(errors, &path.child("forNodes"), check::list(hints, "forNodes"), dns::subdomain);
    }
}

fn check_address(errors: &mut ErrorList, list: &Path<'_>, i: usize, address: &str, address_type: &str) {
    let path = list.index(i);
    let before = errors.len();
    match address_type {
        "IPv4" => ip::ip_legacy(errors, &path, address, true, &[]),
        "IPv6" => ip::ip(errors, &path, address),
        "FQDN" => return dns::fully_qualified_domain_name(errors, &path, address),
        _ => return,
    }
    let Some(parsed) = ip::parse_ip(address).filter(|_| errors.len() == before) else { return };
    if parsed.is_ipv4() != (address_type == "IPv4") {
        errors.push(FieldError::invalid(list, address, format!("must be an {address_type} address")));
    }
    check_endpoint_ip(errors, &path, address, parsed);
}

/// Rejects unspecified, loopback and link-local addresses.
fn check_endpoint_ip(errors: &mut ErrorList, path: &Path<'_>, text: &str, ip: IpAddr) {
    let ip = ip.to_canonical();
    let (link_local, link_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    let mut reject = |detail: String| errors.push(FieldError::invalid(path, text, detail));
    if ip.is_unspecified() {
        reject(format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        reject("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if link_local {
        reject("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_multicast {
        reject("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
}

/// Validates the hints of an endpoint; `true` if their number is within the bound.
fn check_hints(
    errors: &mut ErrorList,
    path: &Path<'_>,
    hints: &[Value],
    rule: impl Fn(&str) -> crate::names::Faults,
) -> bool {
    if hints.len() > HINTS_MAX {
        errors.push(FieldError::too_many(path, Some(hints.len()), HINTS_MAX));
        return false;
    }
    let mut names = BTreeSet::new();
    for (i, hint) in hints.iter().enumerate() {
        let path = path.index(i);
        let (path, name) = (path.child("name"), check::text(hint, "name"));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        errors.push_invalid(&path, name, rule(name));
    }
    true
}
