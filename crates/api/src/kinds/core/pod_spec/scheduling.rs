//! Validation of tolerations, topology spread, gates, and DNS settings.

use std::collections::{BTreeMap, BTreeSet};

use super::affinity;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::read::{
    boolean, check_optional_selector, check_positive, check_supported, list, number, optional_number,
    optional_text, present, push_forbidden, push_invalid, push_invalid_enum, push_required, text, texts,
};
use crate::names::{dns, ip, key};
use crate::value::Value;

/// Maximum number of name servers.
const NAME_SERVERS_MAX: usize = 3;
/// Maximum number of search domains.
const SEARCHES_MAX: usize = 32;
/// Maximum bytes of the search list, including separators.
const SEARCHES_BYTES_MAX: usize = 2048;
/// Maximum bytes of a host name override.
const HOSTNAME_BYTES_MAX: usize = 64;

/// Validates tolerations.
pub(crate) fn check_tolerations(errors: &mut ErrorList, path: &Path<'_>, tolerations: &[Value]) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = path.index(i);
        let (label, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        let operator_path = path.child("operator");
        if !label.is_empty() {
            errors.push_invalid(&path.child("key"), label, key::label_key(label));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            push_invalid_enum(errors, &operator_path, operator, detail);
        }
        if optional_number(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            push_invalid_enum(errors, &path.child("effect"), effect, detail);
        }
        match operator {
            "Equal" | "" => {
                let faults = key::label_value(value);
                if !faults.is_empty() {
                    push_invalid(errors, &operator_path, value, faults.join(";"));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                push_invalid(
                    errors,
                    &operator_path,
                    value,
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Lt" | "Gt" => {
                // Known operators that are not enabled.
                let words = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(
                    &operator_path,
                    BadValue::json_string(operator),
                    &words,
                ));
            }
            other => check_supported(errors, &operator_path, other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            check_supported(
                errors,
                &path.child("effect"),
                effect,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
    }
}

/// Validates topology spread constraints.
pub(crate) fn check_spread_constraints(errors: &mut ErrorList, path: &Path<'_>, constraints: &[Value]) {
    let pair = |one| (text(one, "topologyKey"), text(one, "whenUnsatisfiable"));
    let last: BTreeMap<(&str, &str), usize> =
        constraints.iter().enumerate().map(|(i, one)| (pair(one), i)).collect();
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        check_positive(errors, &path.child("maxSkew"), number(constraint, "maxSkew"));
        let (topology, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if topology.is_empty() {
            push_required(errors, &path.child("topologyKey"), "can not be empty");
        }
        check_supported(
            errors,
            &path.child("whenUnsatisfiable"),
            action,
            &["DoNotSchedule", "ScheduleAnyway"],
        );
        // As upstream, the last of equal constraints is not reported.
        if last.get(&(topology, action)) != Some(&i) {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&path, format!("{{{topology}, {action}}}")));
        }
        if let Some(domains) = optional_number(constraint, "minDomains") {
            let path = path.child("minDomains");
            check_positive(errors, &path, domains);
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                push_invalid(errors, &path, domains, detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = optional_text(constraint, field) {
                check_supported(errors, &path.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        let selector = present(constraint, "labelSelector");
        affinity::check_label_keys(errors, &path, &texts(constraint, "matchLabelKeys"), &[], selector);
        check_optional_selector(errors, &path.child("labelSelector"), selector);
    }
}

/// Validates readiness gates and scheduling gates.
pub(crate) fn check_gates(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let ready_path = path.child("readinessGates");
    for (i, gate) in list(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        let path = ready_path.index(i);
        errors.push_invalid(&path.child("conditionType"), condition, key::label_key(condition));
    }
    let path = path.child("schedulingGates");
    let mut seen = BTreeSet::new();
    for (i, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        errors.push_invalid(&path.index(i), name, key::label_key(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.index(i), name));
        }
    }
}

/// Validates the DNS configuration.
pub(crate) fn check_dns_config(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let config = present(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            return push_required(errors, path, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if list(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return push_required(errors, &path.child("nameservers"), detail);
        }
    }
    let Some(config) = config else { return };
    let (servers_path, searches_path) = (path.child("nameservers"), path.child("searches"));
    let (servers, searches) = (texts(config, "nameservers"), texts(config, "searches"));
    if servers.len() > NAME_SERVERS_MAX {
        let detail = format!("must not have more than {NAME_SERVERS_MAX} nameservers");
        push_invalid(errors, &servers_path, BadValue::json_strings(&servers), detail);
    }
    for (i, server) in servers.iter().enumerate() {
        ip::ip_legacy(errors, &servers_path.index(i), server, true, &[]);
    }
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        push_invalid(errors, &searches_path, BadValue::json_strings(&searches), detail);
    }
    let bytes = searches.iter().map(|search| search.len()).sum::<usize>() + searches.len().saturating_sub(1);
    if bytes > SEARCHES_BYTES_MAX {
        let detail = format!(
            "must not have more than {SEARCHES_BYTES_MAX} characters (including spaces) in the search list"
        );
        push_invalid(errors, &searches_path, BadValue::json_strings(&searches), detail);
    }
    for (i, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.push_invalid(&searches_path.index(i), search, dns::subdomain_with_underscore(search));
    }
    let options_path = path.child("options");
    for (i, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            push_required(errors, &options_path.index(i), "must not be empty");
        }
    }
}

/// Validates the host name override.
pub(crate) fn check_hostname_override(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(name) = optional_text(spec, "hostnameOverride") else { return };
    let path = path.child("hostnameOverride");
    if boolean(spec, "setHostnameAsFQDN") {
        push_forbidden(errors, &path, "may not be specified when setHostnameAsFQDN is true");
    }
    if boolean(spec, "hostNetwork") {
        push_forbidden(errors, &path, "may not be specified when hostNetwork is true");
    }
    if name.len() > HOSTNAME_BYTES_MAX {
        errors.push(FieldError::too_long(&path, HOSTNAME_BYTES_MAX));
    }
    errors.push_invalid(&path, name, dns::subdomain(name));
}

/// Validates host aliases.
pub(crate) fn check_host_aliases(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let path = path.child("hostAliases");
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = path.index(i);
        ip::ip_legacy(errors, &path.child("ip"), text(alias, "ip"), true, &[]);
        let names_path = path.child("hostnames");
        for (j, name) in texts(alias, "hostnames").into_iter().enumerate() {
            errors.push_invalid(&names_path.index(j), name, dns::subdomain(name));
        }
    }
}
