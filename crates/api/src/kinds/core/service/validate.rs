//! Validation of a Service.

use std::collections::BTreeSet;

use super::{NO_CLUSTER_IP, Spec, int, is_ipv6};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::core::endpoints::check_endpoint_ip;
use crate::metadata::{entry, pairs};
use crate::names::ip::{cidr_legacy, ip_legacy, parse_ip};
use crate::names::{dns, key, metadata};
use crate::value::Value;

const AFFINITY_TIMEOUT_SECONDS_MAX: i64 = 86_400;
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
pub(super) const SPEC: Path<'static> = Path::root("spec");

/// Validates a Service. Legacy forms of addresses that `old` has too are accepted.
pub(super) fn check_service(errors: &mut ErrorList, service: &Value, old: Option<&Value>) {
    let spec = Spec::of(service);
    check_topology(errors, service);
    check_type(errors, spec);
    check_ports(errors, spec);
    let selector = spec.get("selector");
    metadata::labels(errors, &SPEC.child("selector"), pairs(selector));
    check_affinity(errors, spec);
    check_cluster_ips(errors, service, old);
    check_external_ips(errors, spec, old.map(Spec::of));
    check_supported(errors, spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], true);
    check_port_numbers(errors, spec);
    check_source_ranges(errors, service, old);
    check_load_balancer(errors, spec);
    check_external_traffic(errors, spec);
    let is_routed = matches!(spec.kind(), "NodePort" | "LoadBalancer" | "ClusterIP");
    match spec.get("internalTrafficPolicy") {
        None if is_routed => errors.push(FieldError::required(&SPEC.child("internalTrafficPolicy"), "")),
        None => {}
        Some(_) => check_supported(errors, spec, "internalTrafficPolicy", &["Cluster", "Local"], false),
    }
    if spec.get("trafficDistribution").is_some() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !known.contains(&spec.text("trafficDistribution")) {
            let path = SPEC.child("trafficDistribution");
            errors.push(FieldError::not_supported(&path, spec.text("trafficDistribution"), &known));
        }
    }
}

/// Validates an enumeration field.
fn check_supported(errors: &mut ErrorList, spec: Spec<'_>, field: &str, known: &[&str], required: bool) {
    let value = spec.text(field);
    if required && value.is_empty() {
        errors.push(FieldError::required(&SPEC.child(field), ""));
    } else if !known.contains(&value) {
        let value = BadValue::json_string(value);
        errors.push(FieldError::not_supported(&SPEC.child(field), value, known));
    }
}

fn check_topology(errors: &mut ErrorList, service: &Value) {
    let hints = entry(service, "annotations", TOPOLOGY_HINTS);
    let mode = entry(service, "annotations", TOPOLOGY_MODE);
    if let (Some(hints), Some(mode)) = (hints, mode)
        && hints != mode
    {
        let metadata = Path::root("metadata");
        let annotations = metadata.child("annotations");
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(FieldError::invalid(&annotations.key(TOPOLOGY_MODE), mode, detail));
    }
}

fn check_type(errors: &mut ErrorList, spec: Spec<'_>) {
    let is_alias = spec.kind() == "ExternalName";
    if spec.ports().is_empty() && !spec.is_headless() && !is_alias {
        errors.push(FieldError::required(&SPEC.child("ports"), ""));
    }
    if matches!(spec.kind(), "LoadBalancer" | "NodePort") && spec.is_headless() {
        let detail = format!("may not be set to 'None' for {} services", spec.kind());
        let path = SPEC.child("clusterIPs");
        errors.push(FieldError::invalid(&path.index(0), NO_CLUSTER_IP, detail));
    }
    if !is_alias {
        return;
    }
    for (field, is_set) in [
        ("clusterIPs", !spec.cluster_ips().is_empty()),
        ("ipFamilies", !spec.list("ipFamilies").is_empty()),
        ("ipFamilyPolicy", spec.get("ipFamilyPolicy").is_some()),
    ] {
        if is_set {
            errors
                .push(FieldError::forbidden(&SPEC.child(field), "may not be set for ExternalName services"));
        }
    }
    let name = spec.text("externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(FieldError::required(&SPEC.child("externalName"), ""));
    } else {
        errors.push_invalid(&SPEC.child("externalName"), name, dns::subdomain(name));
    }
}

fn check_ports(errors: &mut ErrorList, spec: Spec<'_>) {
    let path = SPEC.child("ports");
    let ports = spec.ports();
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            errors.push_invalid(&path.child("name"), name, dns::label(name));
            if !names.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        } else if ports.len() > 1 {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        check_port_number(errors, &path.child("port"), int(port, "port"));
        let protocol = port.str_at(&["protocol"]);
        if protocol.is_empty() {
            errors.push(FieldError::required(&path.child("protocol"), ""));
        } else if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            let value = BadValue::json_string(protocol);
            let known = ["SCTP", "TCP", "UDP"];
            errors.push(FieldError::not_supported(&path.child("protocol"), value, &known));
        }
        match port.get("targetPort") {
            Some(Value::Str(name)) => {
                errors.push_invalid(&path.child("targetPort"), name, key::port_name(name));
            }
            _ => check_port_number(errors, &path.child("targetPort"), int(port, "targetPort")),
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            errors.push_invalid(&path.child("appProtocol"), protocol, key::label_key(protocol));
        }
    }
}

fn check_port_number(errors: &mut ErrorList, path: &Path<'_>, port: i64) {
    errors.extend(key::port_number(port).into_iter().map(|fault| FieldError::invalid(path, port, fault)));
}

fn check_affinity(errors: &mut ErrorList, spec: Spec<'_>) {
    check_supported(errors, spec, "sessionAffinity", &["ClientIP", "None"], true);
    let path = SPEC.child("sessionAffinityConfig");
    let config = spec.get("sessionAffinityConfig");
    let set = |value: &&Value| !value.is_null();
    match spec.text("sessionAffinity") {
        "ClientIP" => {
            let detail = "when session affinity type is ClientIP";
            let client = config.and_then(|config| config.get("clientIP")).filter(set);
            let timeout = client.and_then(|client| client.get("timeoutSeconds")).and_then(Value::as_i64);
            let client_path = path.child("clientIP");
            let timeout_path = client_path.child("timeoutSeconds");
            if config.is_none() {
                errors.push(FieldError::required(&path, detail));
            } else if client.is_none() {
                errors.push(FieldError::required(&client_path, detail));
            } else if let Some(timeout) = timeout {
                if !(1..=AFFINITY_TIMEOUT_SECONDS_MAX).contains(&timeout) {
                    let detail = "must be greater than 0 and less than 86400";
                    errors.push(FieldError::invalid(&timeout_path, timeout, detail));
                }
            } else {
                errors.push(FieldError::required(&timeout_path, detail));
            }
        }
        "None" if config.is_some() => {
            errors.push(FieldError::forbidden(&path, "must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// Validates addresses and families.
pub(super) fn check_cluster_ips(errors: &mut ErrorList, service: &Value, old: Option<&Value>) {
    let spec = Spec::of(service);
    if !spec.needs_cluster_ip() {
        return;
    }
    let (path, ips) = (SPEC.child("clusterIPs"), spec.cluster_ips());
    let shown = || BadValue::json_strings(&ips);
    match (spec.cluster_ip(), ips.first()) {
        ("", Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(&path, shown(), detail));
        }
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(&path, "")),
        (ip, Some(first)) if ip != *first => {
            errors.push(FieldError::invalid(&path, shown(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    check_families(errors, spec);
    if !check_addresses(errors, &ips, old) {
        return;
    }
    if let [first, second, ..] = ips[..]
        && (ips.len() > 2 || is_ipv6(first) == is_ipv6(second))
        && !is_dual_stack(&ips)
    {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&path, shown(), detail));
    }
    if !spec.is_headless() {
        for (i, (ip, family)) in ips.iter().zip(spec.list("ipFamilies")).enumerate() {
            if matches!((family, is_ipv6(ip)), ("IPv4", true) | ("IPv6", false)) {
                let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
                errors.push(FieldError::invalid(&path.index(i), *ip, detail));
            }
        }
    }
}

fn is_dual_stack(ips: &[&str]) -> bool {
    ips.iter().any(|ip| is_ipv6(ip)) && ips.iter().any(|ip| !is_ipv6(ip))
}

fn check_families(errors: &mut ErrorList, spec: Spec<'_>) {
    let path = SPEC.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (i, family) in spec.list("ipFamilies").into_iter().enumerate() {
        let value = || BadValue::json_string(family);
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(&path.index(i), value(), &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&path.index(i), value()));
        }
    }
    if spec.get("ipFamilyPolicy").is_some() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        check_supported(errors, spec, "ipFamilyPolicy", &known, false);
    }
}

/// Validates each address by itself; `true` if all are valid.
fn check_addresses(errors: &mut ErrorList, ips: &[&str], old: Option<&Value>) -> bool {
    let path = SPEC.child("clusterIPs");
    let kept = old.map(|old| Spec::of(old).cluster_ips()).unwrap_or_default();
    let before = errors.len();
    for (i, ip) in ips.iter().enumerate() {
        if i > 0 || *ip != NO_CLUSTER_IP {
            ip_legacy(errors, &path.index(i), ip, true, &kept);
        } else if ips.len() > 1 {
            let detail = "'None' must be the first and only value";
            errors.push(FieldError::invalid(&path, BadValue::json_strings(ips), detail));
        }
    }
    let all_good = errors.len() == before;
    if ips.len() > 2 {
        let detail = "may only hold up to 2 values";
        errors.push(FieldError::invalid(&path, BadValue::json_strings(ips), detail));
    }
    all_good
}

fn check_external_ips(errors: &mut ErrorList, spec: Spec<'_>, was: Option<Spec<'_>>) {
    let path = SPEC.child("externalIPs");
    let kept = was.map(|was| was.list("externalIPs")).unwrap_or_default();
    for (i, ip) in spec.list("externalIPs").into_iter().enumerate() {
        let before = errors.len();
        ip_legacy(errors, &path.index(i), ip, true, &kept);
        if errors.len() == before {
            check_endpoint_ip(errors, &path.index(i), ip);
        }
    }
}

fn check_port_numbers(errors: &mut ErrorList, spec: Spec<'_>) {
    let path = SPEC.child("ports");
    let ports = spec.ports();
    let (mut node_ports, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    let has_node_port = |port: &Value| int(port, "nodePort") != 0;
    if spec.kind() == "ClusterIP" {
        for (i, _) in ports.iter().enumerate().filter(|(_, port)| has_node_port(port)) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(&path.index(i).child("nodePort"), detail));
        }
    }
    for (i, port) in ports.iter().enumerate().filter(|(_, port)| has_node_port(port)) {
        if !node_ports.insert((port.str_at(&["protocol"]), int(port, "nodePort"))) {
            errors.push(FieldError::duplicate(&path.index(i).child("nodePort"), int(port, "nodePort")));
        }
    }
    for (i, port) in ports.iter().enumerate() {
        if !numbers.insert((port.str_at(&["protocol"]), int(port, "port"))) {
            let shown = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                BadValue::json_string(port.str_at(&["protocol"])),
                int(port, "port")
            );
            errors.push(FieldError::duplicate(&path.index(i), BadValue::Json(shown.into())));
        }
    }
}

fn check_source_ranges(errors: &mut ErrorList, service: &Value, old: Option<&Value>) {
    let spec = Spec::of(service);
    let only = "may only be used when `type` is 'LoadBalancer'";
    let ranges = spec.list("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let path = SPEC.child("LoadBalancerSourceRanges");
        if !spec.is_load_balancer() {
            errors.push(FieldError::forbidden(&path, only));
        }
        let kept = old.map(|old| Spec::of(old).list("loadBalancerSourceRanges")).unwrap_or_default();
        let kept: Vec<&str> = kept.into_iter().map(str::trim).collect();
        for (i, range) in ranges.into_iter().enumerate() {
            cidr_legacy(errors, &path.index(i), range.trim(), true, &kept);
        }
        return;
    }
    let Some(ranges) = entry(service, "annotations", SOURCE_RANGES) else { return };
    let metadata = Path::root("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(SOURCE_RANGES);
    if !spec.is_load_balancer() {
        errors.push(FieldError::forbidden(&path, only));
    }
    let unchanged = old.is_some_and(|old| entry(old, "annotations", SOURCE_RANGES) == Some(ranges));
    if !unchanged && !ranges.trim().is_empty() {
        for range in ranges.split(',') {
            cidr_legacy(errors, &path, range.trim(), true, &[]);
        }
    }
}

fn check_load_balancer(errors: &mut ErrorList, spec: Spec<'_>) {
    let only = "may only be used when `type` is 'LoadBalancer'";
    let allocates = spec.get("allocateLoadBalancerNodePorts").is_some();
    if allocates && !spec.is_load_balancer() {
        errors.push(FieldError::forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), only));
    }
    if !allocates && spec.is_load_balancer() {
        errors.push(FieldError::required(&Path::root("allocateLoadBalancerNodePorts"), ""));
    }
    check_class(errors, spec);
}

pub(super) fn check_class(errors: &mut ErrorList, spec: Spec<'_>) {
    let path = SPEC.child("loadBalancerClass");
    match spec.get("loadBalancerClass").and_then(Value::as_str) {
        Some(class) if spec.is_load_balancer() => errors.push_invalid(&path, class, key::label_key(class)),
        Some(_) => {
            errors.push(FieldError::forbidden(&path, "may only be used when `type` is 'LoadBalancer'"));
        }
        None => {}
    }
}

fn check_external_traffic(errors: &mut ErrorList, spec: Spec<'_>) {
    let path = SPEC.child("externalTrafficPolicy");
    let policy = spec.text("externalTrafficPolicy");
    if spec.is_external() {
        check_supported(errors, spec, "externalTrafficPolicy", &["Cluster", "Local"], true);
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(&path, BadValue::json_string(policy), detail));
    }
    let path = SPEC.child("healthCheckNodePort");
    match (spec.needs_health_check(), spec.int("healthCheckNodePort")) {
        (true, 0) => errors.push(FieldError::required(&path, "")),
        (true, port) => check_port_number(errors, &path, port),
        (false, 0) => {}
        (false, port) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(&path, port, detail));
        }
    }
}

/// Validates the status of a Service.
pub(super) fn check_status(errors: &mut ErrorList, new: &Value, old: &Value) {
    let status = Path::root("status");
    let balancer = status.child("loadBalancer");
    let path = balancer.child("ingress");
    let (is, was) = (ingress(new), ingress(old));
    if !Spec::of(new).is_load_balancer() && !is.is_empty() {
        errors.push(FieldError::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    let kept: Vec<&str> = was.iter().map(|point| point.str_at(&["ip"])).filter(|ip| !ip.is_empty()).collect();
    for (i, point) in is.iter().enumerate() {
        check_ingress(errors, &path.index(i), point, &kept);
    }
}

fn ingress(service: &Value) -> &[Value] {
    service.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_list).unwrap_or_default()
}

fn check_ingress(errors: &mut ErrorList, path: &Path<'_>, point: &Value, kept: &[&str]) {
    let ip = point.str_at(&["ip"]);
    if !ip.is_empty() {
        ip_legacy(errors, &path.child("ip"), ip, true, kept);
    }
    let mode_path = path.child("ipMode");
    match point.get("ipMode").and_then(Value::as_str) {
        None if !ip.is_empty() => {
            errors.push(FieldError::required(&mode_path, "must be specified when `ip` is set"));
        }
        None => {}
        Some(_) if ip.is_empty() => {
            errors.push(FieldError::forbidden(&mode_path, "may not be specified when `ip` is not set"));
        }
        Some("VIP" | "Proxy") => {}
        Some(other) => {
            let value = BadValue::json_string(other);
            errors.push(FieldError::not_supported(&mode_path, value, &["Proxy", "VIP"]));
        }
    }
    let host = point.str_at(&["hostname"]);
    if !host.is_empty() {
        errors.push_invalid(&path.child("hostname"), host, dns::subdomain(host));
        if parse_ip(host).is_some() {
            let detail = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(&path.child("hostname"), host, detail));
        }
    }
}
