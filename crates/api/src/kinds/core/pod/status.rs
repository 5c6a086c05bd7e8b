//! Validation of the pod status; among others, a container that has terminated for good must not run again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use crate::field_error::{ErrorList, FieldError, Path};
use crate::json;
use crate::kinds::core::pod_spec::{annotations, internal};
use crate::kinds::read::{
    check_supported, list, list_mut, number, optional_text, present, push_forbidden, push_invalid,
    push_invalid_enum, push_number_faults, push_required, quantity, text,
};
use crate::names::{dns, ip, key};
use crate::value::Value;

/// Maximum bytes of a device health message.
const HEALTH_MESSAGE_BYTES_MAX: usize = 1024;
/// Conditions without a domain prefix.
const OWN_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];
const STATUSES: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// Keeps fields that older clients omit.
pub(super) fn prepare(new: &mut Value, old: &Value) {
    let none = Value::map();
    let old = present(old, "status").unwrap_or(&none);
    let status = new.make_map().ensure("status", Value::map);
    for field in ["qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus", "observedGeneration"] {
        let new_value = present(status, field);
        // An empty list is a value; an empty string counts as omitted.
        if new_value.is_none_or(|new_value| new_value.is_empty() && new_value.as_list().is_none())
            && let Some(value) = present(old, field)
        {
            status.make_map().insert(field, value.clone());
        }
    }
    // Each of several conditions of one type takes one generation, in order.
    let mut generations: BTreeMap<&str, VecDeque<i64>> = BTreeMap::new();
    for condition in list(old, "conditions") {
        let generation = number(condition, "observedGeneration");
        generations.entry(text(condition, "type")).or_default().push_back(generation);
    }
    for condition in list_mut(status, "conditions") {
        let known = generations.get_mut(text(condition, "type"));
        let generation = known.and_then(VecDeque::pop_front).unwrap_or(0);
        if number(condition, "observedGeneration") == 0 && generation != 0 {
            condition.make_map().insert("observedGeneration", generation);
        }
    }
}

/// Validates a status update.
pub(super) fn validate(errors: &mut ErrorList, new: &Value, old: &Value) {
    let meta_path = Path::root("metadata");
    annotations::validate_update(errors, &meta_path.child("annotations"), new, old);
    let none = Value::map();
    let (spec, old_spec) = (present(new, "spec").unwrap_or(&none), present(old, "spec").unwrap_or(&none));
    let (status, old_status) =
        (present(new, "status").unwrap_or(&none), present(old, "status").unwrap_or(&none));
    let path = Path::root("status");
    check_conditions(errors, &path.child("conditions"), list(status, "conditions"));
    if text(spec, "nodeName") != text(old_spec, "nodeName") {
        push_forbidden(errors, &path.child("nodeName"), "may not be changed directly");
    }
    check_nomination(errors, &path.child("nominatedNodeName"), status, old_status, old_spec);
    if number(status, "observedGeneration") < 0 {
        let generation = number(status, "observedGeneration");
        push_invalid(errors, &path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    if text(status, "qosClass") != text(old_status, "qosClass") {
        push_invalid_enum(errors, &path.child("qosClass"), text(status, "qosClass"), "field is immutable");
    }
    for (field, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        let (new, old) = (list(status, field), list(old_status, field));
        check_terminated_stay_terminated(errors, &path.child(field), new, old, old_spec, containers);
    }
    check_claim_statuses(errors, &path.child("resourceClaimStatuses"), status, spec);
    if let Some(claim) = present(status, "extendedResourceClaimStatus") {
        check_extended_claim(errors, &path.child("extendedResourceClaimStatus"), claim, spec);
    }
    check_pod_addresses(errors, &path.child("podIPs"), status, old_status);
    check_host_addresses(errors, &path.child("hostIPs"), status, old_status);
    let is_windows = spec.str_at(&["os", "name"]) == "windows";
    for field in STATUSES {
        check_users(errors, &path.child(field), list(status, field), is_windows);
    }
    for (field, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        check_allocated(errors, &path.child(field), list(status, field), (spec, containers), status);
    }
    let ephemeral_path = path.child("ephemeralContainerStatuses");
    for (i, one) in list(status, "ephemeralContainerStatuses").iter().enumerate() {
        if !list(one, "allocatedResourcesStatus").is_empty() {
            let path = ephemeral_path.index(i);
            let detail = "must not be specified in container status";
            push_forbidden(errors, &path.child("allocatedResourcesStatus"), detail);
        }
    }
}

fn check_conditions(errors: &mut ErrorList, path: &Path<'_>, conditions: &[Value]) {
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let generation = number(condition, "observedGeneration");
        if generation < 0 {
            push_invalid(
                errors,
                &path.child("observedGeneration"),
                generation,
                "must be a non-negative integer",
            );
        }
        let ty = text(condition, "type");
        if !OWN_CONDITIONS.contains(&ty) {
            errors.push_invalid(&path.child("Type"), ty, key::label_key(ty));
        }
    }
}

fn check_nomination(errors: &mut ErrorList, path: &Path<'_>, status: &Value, old: &Value, old_spec: &Value) {
    let node = text(status, "nominatedNodeName");
    if node.is_empty() || node == text(old, "nominatedNodeName") {
        return;
    }
    errors.push_invalid(path, node, dns::subdomain(node));
    if !text(old_spec, "nodeName").is_empty() {
        push_forbidden(errors, path, "may not be set on pods that are already bound to a node");
    }
}

/// A terminated container that is not restarted may not run again. Ephemeral containers are never restarted.
fn check_terminated_stay_terminated(
    errors: &mut ErrorList,
    path: &Path<'_>,
    new: &[Value],
    old: &[Value],
    spec: &Value,
    containers: Option<&str>,
) {
    let ended =
        |status: &Value| status.at(&["state", "terminated"]).filter(|state| !state.is_null()).cloned();
    // Fast path: usually none has terminated, and the containers need not be parsed.
    if !old.iter().any(|before| ended(before).is_some()) || containers.is_some() && has_restart_all(spec) {
        return;
    }
    // Number of restarted containers by name.
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    for now in new.iter().filter(|now| ended(now).is_none()) {
        *running.entry(text(now, "name")).or_default() += 1;
    }
    let all = containers.map(|field| containers_of(spec, field)).unwrap_or_default();
    let by_name = by_name(items(&all).iter().rev());
    for (i, before) in old.iter().enumerate() {
        let Some(end) = ended(before) else { continue };
        let name = text(before, "name");
        let again = running.get(name).copied().unwrap_or(0);
        if containers.is_none() {
            let path = path.index(i);
            let path = path.child("state");
            let detail = "may not be transitioned to non-terminated state";
            errors.extend((0..again).map(|_| FieldError::forbidden(&path, detail)));
            continue;
        }
        let container = by_name.get(name);
        let may = container.is_some_and(|container| is_restarted(container, spec, number(&end, "exitCode")));
        if !may && again > 0 {
            push_forbidden(
                errors,
                &path.index(i).child("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

/// `true` if the exit of some container may restart all of them.
fn has_restart_all(spec: &Value) -> bool {
    ["initContainers", "containers"].into_iter().any(|field| {
        items(&containers_of(spec, field))
            .iter()
            .flat_map(|container| list(container, "restartPolicyRules"))
            .any(|rule| text(rule, "action") == "RestartAllContainers")
    })
}

/// Containers of a spec, parsed if they are raw.
fn containers_of<'s>(spec: &'s Value, field: &str) -> Cow<'s, Value> {
    spec.get(field).map_or(Cow::Owned(Value::Null), json::parse_raw)
}

/// Containers by name; the last of equal names wins.
fn by_name<'a>(containers: impl Iterator<Item = &'a Value>) -> BTreeMap<&'a str, &'a Value> {
    containers.map(|container| (text(container, "name"), container)).collect()
}

fn items(list: &Value) -> &[Value] {
    list.as_list().unwrap_or_default()
}

/// `true` if a container with this exit code is restarted.
fn is_restarted(container: &Value, spec: &Value, exit_code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Never" => Some(false),
        "OnFailure" => Some(exit_code != 0),
        "Always" => Some(true),
        _ => None,
    };
    if let Some(policy) = optional_text(container, "restartPolicy") {
        let matching = list(container, "restartPolicyRules").iter().find(|rule| {
            present(rule, "exitCodes").is_some_and(|codes| {
                let named = list(codes, "values").iter().any(|code| code.as_i64() == Some(exit_code));
                match text(codes, "operator") {
                    "In" => named,
                    "NotIn" => !named,
                    _ => false,
                }
            })
        });
        if matching.is_some_and(|rule| matches!(text(rule, "action"), "Restart" | "RestartAllContainers")) {
            return true;
        }
        if let Some(restarts) = by_policy(policy) {
            return restarts;
        }
    }
    by_policy(text(spec, "restartPolicy")).unwrap_or(true)
}

fn check_claim_statuses(errors: &mut ErrorList, path: &Path<'_>, status: &Value, spec: &Value) {
    let mut seen = BTreeSet::new();
    let known: BTreeSet<&str> =
        list(spec, "resourceClaims").iter().map(|claim| text(claim, "name")).collect();
    for (i, claim) in list(status, "resourceClaimStatuses").iter().enumerate() {
        let path = path.index(i);
        let name = text(claim, "name");
        if !known.contains(name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            push_invalid(errors, &path.child("name"), name, detail);
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        if let Some(made) = optional_text(claim, "resourceClaimName") {
            errors.push_invalid(&path.child("resourceClaimName"), made, dns::subdomain(made));
        }
    }
}

fn check_extended_claim(errors: &mut ErrorList, path: &Path<'_>, claim: &Value, spec: &Value) {
    let [regular, first] = ["containers", "initContainers"].map(|field| containers_of(spec, field));
    let containers = by_name(items(first.as_ref()).iter().rev().chain(items(&regular).iter().rev()));
    let mappings = list(claim, "requestMappings");
    let mappings_path = path.child("requestMappings");
    if mappings.is_empty() {
        push_required(errors, &mappings_path, "at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for (i, mapping) in mappings.iter().enumerate() {
        let path_here = mappings_path.index(i);
        let of = ["containerName", "resourceName", "requestName"].map(|field| text(mapping, field));
        let [container, resource, request] = of;
        match containers.get(container) {
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                push_invalid(errors, &path_here.child("containerName"), container, detail);
            }
            Some(one) if one.at(&["resources", "requests", resource]).is_none() => {
                let detail = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                push_invalid(errors, &path_here.child("resourceName"), resource, detail);
            }
            Some(_) => {}
        }
        errors.push_invalid(&path.child("requestName"), request, dns::label(request));
        if !seen.insert(of) {
            for (field, value) in ["containerName", "resourceName", "requestName"].into_iter().zip(of) {
                errors.push(FieldError::duplicate(&path_here.child(field), value));
            }
        }
    }
    let name_path = path.child("resourceClaimName");
    match text(claim, "resourceClaimName") {
        "" => push_required(errors, &name_path, ""),
        name => errors.push_invalid(&name_path, name, dns::subdomain(name)),
    }
}

/// Validates a list of addresses; existing ones are not validated again.
fn check_addresses(errors: &mut ErrorList, path: &Path<'_>, new: &[Value], old: &[Value], ty: &str) {
    let kept: Vec<&str> = old.iter().map(|address| text(address, "ip")).collect();
    for (i, address) in new.iter().enumerate() {
        ip::ip_legacy(errors, &path.index(i), text(address, "ip"), true, &kept);
    }
    if new.len() < 2 {
        return;
    }
    let mut families = (false, false);
    for (i, address) in new.iter().enumerate() {
        match ip::parse_ip(text(address, "ip")) {
            Some(IpAddr::V4(_)) => families.0 = true,
            Some(IpAddr::V6(_)) => families.1 = true,
            None => {
                let detail = format!(
                    "failed to check for dual stack with error:invalid IP[{i}]: {:?}",
                    text(address, "ip")
                );
                errors.push(FieldError::internal(path, detail));
                families = (false, false);
                break;
            }
        }
    }
    if families != (true, true) || new.len() > 2 {
        let detail = "may specify no more than one IP for each IP family";
        push_invalid(errors, path, internal::shown_list(new, ty), detail);
    }
}

fn check_pod_addresses(errors: &mut ErrorList, path: &Path<'_>, status: &Value, old: &Value) {
    let (one, all) = (text(status, "podIP"), list(status, "podIPs"));
    check_addresses(errors, path, all, list(old, "podIPs"), "PodIP");
    if one.is_empty() != all.is_empty() {
        let detail = "podIP and podIPs must either both be set or both be unset";
        push_invalid(errors, path, internal::shown_list(all, "PodIP"), detail);
    } else if let Some(first) = all.first().map(|first| text(first, "ip")).filter(|first| *first != one) {
        push_invalid(errors, &path.index(0).child("ip"), first, "must be equal to `podIP`");
    }
}

fn check_host_addresses(errors: &mut ErrorList, path: &Path<'_>, status: &Value, old: &Value) {
    let all = list(status, "hostIPs");
    let Some(first) = all.first().map(|first| text(first, "ip")) else { return };
    if first != text(status, "hostIP") {
        push_invalid(errors, &path.index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    check_addresses(errors, path, all, list(old, "hostIPs"), "HostIP");
}

fn check_users(errors: &mut ErrorList, path: &Path<'_>, statuses: &[Value], is_windows: bool) {
    for (i, status) in statuses.iter().enumerate() {
        let Some(user) = status.at(&["user", "linux"]).filter(|user| !user.is_null()) else { continue };
        let path = path.index(i);
        let path = path.child("user");
        let path = path.child("linux");
        if is_windows {
            push_forbidden(errors, &path, "cannot be set for a windows pod");
            continue;
        }
        // The node reports what it found, so any ID that the kernel supports is valid.
        let uid = number(user, "uid");
        push_number_faults(errors, &path.child("uid"), uid, key::in_range(uid, 0, i64::from(u32::MAX)));
        let gid = number(user, "gid");
        push_number_faults(errors, &path.child("gid"), gid, key::unix_id(gid));
        let groups_path = path.child("supplementalGroups");
        for (j, group) in list(user, "supplementalGroups").iter().enumerate() {
            let group = group.as_i64().unwrap_or_default();
            push_number_faults(errors, &groups_path.index(j), group, key::unix_id(group));
        }
    }
}

/// Validates the health of devices allocated to containers.
fn check_allocated(
    errors: &mut ErrorList,
    path: &Path<'_>,
    statuses: &[Value],
    (spec, field): (&Value, &str),
    status: &Value,
) {
    if statuses.iter().all(|one| list(one, "allocatedResourcesStatus").is_empty()) {
        return;
    }
    let containers = containers_of(spec, field);
    let containers = by_name(items(&containers).iter().rev());
    let extended = extended_requests(&containers, status);
    for (i, one) in statuses.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("allocatedResourcesStatus");
        let named = containers.get(text(one, "name")).map(|container| Claimable::of(container, &extended));
        for (j, resource) in list(one, "allocatedResourcesStatus").iter().enumerate() {
            let path = path.index(j);
            if let Some(claimable) = &named {
                claimable.check(errors, &path.child("name"), text(resource, "name"));
            }
            let resources_path = path.child("resources");
            let mut seen = BTreeSet::new();
            for (k, device) in list(resource, "resources").iter().enumerate() {
                let path = resources_path.index(k);
                check_supported(
                    errors,
                    &path.child("health"),
                    text(device, "health"),
                    &["Healthy", "Unhealthy", "Unknown"],
                );
                match optional_text(device, "message") {
                    Some("") => {
                        push_required(errors, &path.child("message"), "must be non-empty if specified")
                    }
                    Some(message) if message.len() > HEALTH_MESSAGE_BYTES_MAX => {
                        errors.push(FieldError::too_long(&path.child("message"), HEALTH_MESSAGE_BYTES_MAX));
                    }
                    _ => {}
                }
                let id = text(device, "resourceID");
                if !seen.insert(id) {
                    let shown = crate::field_error::BadValue::json_string(id);
                    errors.push(FieldError::duplicate(&path.child("resourceID"), shown));
                }
            }
        }
    }
}

/// Claims and requests of extended resources by container: claim, container, request.
type ExtendedRequests<'a> = BTreeSet<[&'a str; 3]>;

fn extended_requests<'a>(containers: &BTreeMap<&str, &Value>, status: &'a Value) -> ExtendedRequests<'a> {
    let Some(extended) = present(status, "extendedResourceClaimStatus") else { return BTreeSet::new() };
    let claim = text(extended, "resourceClaimName");
    let is_used = |mapping: &&Value| {
        let container = containers.get(text(mapping, "containerName"));
        let amount = container
            .and_then(|container| container.at(&["resources", "requests", text(mapping, "resourceName")]));
        amount.is_some_and(|amount| !quantity(amount).is_zero())
    };
    let mappings = list(extended, "requestMappings").iter().filter(is_used);
    mappings.map(|mapping| [claim, text(mapping, "containerName"), text(mapping, "requestName")]).collect()
}

/// Resources whose devices a container can have.
struct Claimable<'a> {
    container: &'a Value,
    /// Names and requests of its claims.
    claims: BTreeSet<(&'a str, &'a str)>,
    extended: &'a ExtendedRequests<'a>,
}

impl<'a> Claimable<'a> {
    fn of(container: &'a Value, extended: &'a ExtendedRequests<'a>) -> Claimable<'a> {
        let claims = container.at(&["resources", "claims"]).and_then(Value::as_list).unwrap_or_default();
        let claims = claims.iter().map(|claim| (text(claim, "name"), text(claim, "request"))).collect();
        Claimable { container, claims, extended }
    }

    fn check(&self, errors: &mut ErrorList, path: &Path<'_>, name: &str) {
        let Some(claimed) = name.strip_prefix("claim:") else {
            if self.container.at(&["resources", "requests", name]).is_none() {
                push_invalid_enum(errors, path, name, "must match one of the container's resource requests");
            }
            return;
        };
        let is_request = |(claim, request): (&str, &str)| {
            let is_extended = || self.extended.contains(&[claim, text(self.container, "name"), request]);
            !request.is_empty()
                && (self.claims.contains(&(claim, request)) || !claim.is_empty() && is_extended())
        };
        if !self.claims.contains(&(claimed, "")) && !claimed.split_once('/').is_some_and(is_request) {
            let detail = "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty";
            push_invalid_enum(errors, path, name, detail);
        }
    }
}
