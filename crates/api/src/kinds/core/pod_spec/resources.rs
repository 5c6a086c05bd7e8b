//! Resource requirements of containers and pods, and the QoS class of a pod.

use std::collections::{BTreeMap, BTreeSet};

use super::internal;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::core::resource_list::{
    HUGE_PAGES, allows_overcommit, check_container_name, check_name, is_counted, is_huge_pages,
};
use crate::kinds::read::{
    check_required_enum, check_supported, entries, is_whole, list, optional_text, present, push_forbidden,
    push_invalid, push_invalid_enum, push_required, quantity, text,
};
use crate::names::dns;
use crate::quantity::Quantity;
use crate::value::Value;

/// Resources that determine the QoS class.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Amounts by resource name.
pub(crate) type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Level of resource requirements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A container, or the overhead of a pod.
    Container,
    /// The pod level.
    Pod,
}

/// `true` if a resource is supported at the pod level.
fn is_pod_level(name: &str) -> bool {
    COMPUTE.contains(&name) || is_huge_pages(name)
}

/// Validates an amount of a resource.
pub(crate) fn check_amount(errors: &mut ErrorList, path: &Path<'_>, name: &str, value: &Value) {
    let amount = quantity(value);
    if amount.sign() < 0 {
        push_invalid(errors, path, amount.to_string(), "must be greater than or equal to 0");
    }
    if is_counted(name) && !is_whole(amount) {
        push_invalid(errors, path, BadValue::json_string(&amount.to_string()), "must be an integer");
    }
}

fn check_scoped_name(errors: &mut ErrorList, path: &Path<'_>, name: &str, scope: Scope) {
    match scope {
        Scope::Container => check_container_name(errors, path, name),
        Scope::Pod => {
            if check_name(errors, path, name) && !is_pod_level(name) {
                check_supported(errors, path, name, &["cpu", HUGE_PAGES, "memory"]);
            }
        }
    }
}

/// Validates an amount of huge pages: it must be a multiple of the page size.
fn check_huge_pages(errors: &mut ErrorList, path: &Path<'_>, name: &str, value: &Value) {
    let amount = quantity(value);
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    let divides =
        size.is_some_and(|size| size.sign() > 0 && is_whole(size) && amount.value() % size.value() == 0);
    if !divides {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        push_invalid(errors, path, amount.to_string(), detail);
    }
}

/// Validates requests or limits. Returns whether they include CPU or memory, and huge pages.
fn check_amounts<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    named: impl Iterator<Item = (&'a str, &'a Value)>,
    scope: Scope,
    mut beside: impl FnMut(&mut ErrorList, &str, &Value),
) -> (bool, bool) {
    let (mut has_compute, mut has_huge_pages) = (false, false);
    for (name, value) in named {
        let path = path.key(name);
        check_scoped_name(errors, &path, name, scope);
        check_amount(errors, &path, name, value);
        beside(errors, name, value);
        if is_huge_pages(name) {
            has_huge_pages = true;
            check_huge_pages(errors, &path, name, value);
        }
        has_compute |= COMPUTE.contains(&name);
    }
    (has_compute, has_huge_pages)
}

/// Validates requests and limits.
pub(crate) fn check_requirements(
    errors: &mut ErrorList,
    path: &Path<'_>,
    resources: &Value,
    claim_names: &BTreeSet<&str>,
    scope: Scope,
) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let limits = check_amounts(errors, &limits_path, entries(resources, "limits"), scope, |_, _, _| {});
    let compare = |errors: &mut ErrorList, name: &str, value: &Value| {
        let wanted = quantity(value);
        let limit = present(resources, "limits").and_then(|limits| limits.get(name)).map(quantity);
        match limit {
            Some(limit) if wanted != limit && !allows_overcommit(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                push_invalid(errors, &requests_path, wanted.to_string(), detail);
            }
            Some(limit) if wanted > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                push_invalid(errors, &requests_path, wanted.to_string(), detail);
            }
            None if !allows_overcommit(name) => {
                push_required(errors, &limits_path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    };
    let requests = check_amounts(errors, &requests_path, entries(resources, "requests"), scope, compare);
    if !limits.0 && !requests.0 && (limits.1 || requests.1) {
        push_forbidden(errors, path, "HugePages require cpu or memory");
    }
    check_claims(errors, &path.child("claims"), list(resources, "claims"), claim_names);
}

/// Validates the overhead of a pod.
pub(crate) fn check_overhead(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let limits_path = path.child("limits");
    let named = entries(spec, "overhead");
    let (has_compute, has_huge_pages) =
        check_amounts(errors, &limits_path, named, Scope::Container, |_, _, _| {});
    if !has_compute && has_huge_pages {
        push_forbidden(errors, path, "HugePages require cpu or memory");
    }
}

/// Validates the resource claims of a container.
fn check_claims(errors: &mut ErrorList, path: &Path<'_>, claims: &[Value], known: &BTreeSet<&str>) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    // Number of requests seen of each claim.
    let mut requests: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, claim) in claims.iter().enumerate() {
        // The error for an unknown claim lists all known ones.
        if errors.is_full() {
            return;
        }
        let path = path.index(i);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            push_required(errors, &path, "");
            continue;
        }
        if seen.contains(name) {
            errors.push(FieldError::duplicate(&path, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors.push_invalid(&path.child("request"), request, dns::label(request));
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(&path, key.as_str()));
            } else if request.is_empty() {
                for _ in 0..requests.get(name).copied().unwrap_or(0) {
                    errors.push(FieldError::duplicate(&path, name));
                }
            }
            let of = name.split_once('/').map(|(claim, _)| claim).or((!request.is_empty()).then_some(name));
            if seen.insert(key)
                && let Some(of) = of
            {
                *requests.entry(of).or_default() += 1;
            }
        }
        if !known.contains(name) {
            let names: Vec<&str> = known.iter().copied().collect();
            let end = if names.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", names.join(", "))
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{end}");
            errors.push(FieldError::not_found_in(&path, name, detail));
        }
    }
}

/// Validates pod-level resources, and those of the containers against them.
pub(crate) fn check_pod_level(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &Value,
    claim_names: &BTreeSet<&str>,
) {
    let Some(resources) = present(spec, "resources") else { return };
    let path = path.child("resources");
    if spec.str_at(&["os", "name"]) == "windows" {
        return push_forbidden(errors, &path, "may not be set for a windows pod");
    }
    if present(resources, "claims").is_some() {
        push_forbidden(errors, &path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    check_requirements(errors, &path, resources, claim_names, Scope::Pod);
    let requests_path = path.child("requests");
    for (name, total) in total(spec, "requests") {
        if let Some(of_pod) = named(resources, "requests", name)
            && total > of_pod
        {
            let detail = format!("must be greater than or equal to aggregate container requests of {total}");
            push_invalid(errors, &requests_path.key(name), of_pod.to_string(), detail);
        }
    }
    let limits_path = path.child("limits");
    for (name, total) in total(spec, "limits").into_iter().filter(|(name, _)| is_huge_pages(name)) {
        if let Some(of_pod) = named(resources, "limits", name)
            && total > of_pod
        {
            let detail = format!("must be greater than or equal to aggregate container limits of {total}");
            push_invalid(errors, &limits_path.key(name), of_pod.to_string(), detail);
        }
    }
    let containers_path = path.child("containers");
    for (i, container) in list(spec, "containers").iter().enumerate() {
        let Some(of_container) = present(container, "resources") else { continue };
        for (name, limit) in entries(of_container, "limits") {
            let limit = quantity(limit);
            if let Some(of_pod) = named(resources, "limits", name)
                && limit > of_pod
            {
                let path = containers_path.index(i);
                let path = path.key(name);
                let detail = format!("must be less than or equal to pod limits of {of_pod}");
                push_invalid(errors, &path.child("limits"), limit.to_string(), detail);
            }
        }
    }
}

/// One amount, if present.
fn named(resources: &Value, sort: &str, name: &str) -> Option<Quantity> {
    resources.get(sort)?.get(name).map(quantity)
}

/// `true` for a sidecar: an init container that runs until the pod ends.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    optional_text(container, "restartPolicy") == Some("Always")
}

/// Total of all containers: the sum of those that run concurrently, or the maximum of one init container with
/// the sidecars before it, whichever is higher.
pub(crate) fn total<'a>(spec: &'a Value, sort: &str) -> Amounts<'a> {
    let mut sum: Amounts<'a> = BTreeMap::new();
    for container in list(spec, "containers") {
        add(&mut sum, container, sort);
    }
    let (mut sidecars, mut starting): (Amounts<'a>, Amounts<'a>) = (BTreeMap::new(), BTreeMap::new());
    for container in list(spec, "initContainers") {
        // Resources that the container does not have were raised with the last sidecar that has them: amounts
        // are not negative.
        let mut now: Amounts<'a> = BTreeMap::new();
        add(&mut now, container, sort);
        for (name, amount) in &mut now {
            if let Some(beside) = sidecars.get(name) {
                *amount += *beside;
            }
        }
        if is_sidecar(container) {
            add(&mut sum, container, sort);
            sidecars.extend(now.iter().map(|(name, amount)| (*name, *amount)));
        }
        raise(&mut starting, now);
    }
    raise(&mut sum, starting);
    sum
}

fn add<'a>(sum: &mut Amounts<'a>, container: &'a Value, sort: &str) {
    let Some(resources) = present(container, "resources") else { return };
    for (name, amount) in entries(resources, sort) {
        let amount = quantity(amount);
        sum.entry(name).and_modify(|sum| *sum += amount).or_insert(amount);
    }
}

fn raise<'a>(most: &mut Amounts<'a>, other: Amounts<'a>) {
    for (name, amount) in other {
        let most = most.entry(name).or_insert(amount);
        *most = (*most).max(amount);
    }
}

/// QoS class of a pod, by its spec.
#[must_use]
pub fn qos_class(spec: &Value) -> &'static str {
    if let Some(resources) = present(spec, "resources")
        && ["requests", "limits"]
            .iter()
            .any(|sort| entries(resources, sort).any(|(name, _)| is_pod_level(name)))
    {
        return requirements_qos(resources);
    }
    let mut class = None;
    for container in list(spec, "initContainers").iter().chain(list(spec, "containers")) {
        let of_container = present(container, "resources").map_or("BestEffort", requirements_qos);
        match class {
            _ if of_container == "Burstable" => return of_container,
            None => class = Some(of_container),
            Some(class) if class != of_container => return "Burstable",
            Some(_) => {}
        }
    }
    class.unwrap_or("BestEffort")
}

fn requirements_qos(resources: &Value) -> &'static str {
    let none = Quantity::from(0);
    let [cpu, memory] = COMPUTE.map(|name| {
        let request = named(resources, "requests", name).unwrap_or(none);
        let limit = named(resources, "limits", name).unwrap_or(none);
        match request == limit {
            false => "Burstable",
            true if request.is_zero() => "BestEffort",
            true => "Guaranteed",
        }
    });
    if cpu == memory { cpu } else { "Burstable" }
}

/// Sets the defaults of pod-level resources from those of the containers: limits of huge pages, then
/// requests, then limits if every container has one.
pub(crate) fn default_pod_level(spec: &mut Value) {
    let Some(resources) = present(spec, "resources") else { return };
    let counts = |sort| entries(resources, sort).count();
    if counts("requests") + counts("limits") == 0 {
        return;
    }
    let mut requests: BTreeMap<String, Quantity> = owned(resources, "requests");
    let mut limits: BTreeMap<String, Quantity> = owned(resources, "limits");
    let (total_requests, total_limits) = (total(spec, "requests"), total(spec, "limits"));
    for (name, amount) in total_limits.iter().filter(|(name, _)| is_huge_pages(name)) {
        if !requests.contains_key(*name) {
            limits.entry((*name).to_owned()).or_insert(*amount);
        }
    }
    for (name, amount) in &total_requests {
        if is_pod_level(name) && allows_overcommit(name) {
            requests.entry((*name).to_owned()).or_insert(*amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| is_pod_level(name)) {
        requests.entry(name.clone()).or_insert(*amount);
    }
    for (name, request) in requests.iter().filter(|(name, _)| is_pod_level(name)) {
        if !limits.contains_key(name)
            && has_limit_in_every_container(spec, name)
            && let Some(total) = total_limits.get(name.as_str())
        {
            limits.insert(name.clone(), (*total).max(*request));
        }
    }
    let resources = spec.ensure_map("resources");
    for (sort, amounts) in [("limits", limits), ("requests", requests)] {
        if amounts.is_empty() {
            continue;
        }
        let kept = resources.ensure_map(sort);
        for (name, amount) in amounts {
            if !kept.contains(&name) {
                kept.insert(name, amount.to_string());
            }
        }
        kept.sort();
    }
}

fn owned(resources: &Value, sort: &str) -> BTreeMap<String, Quantity> {
    entries(resources, sort).map(|(name, amount)| (name.to_owned(), quantity(amount))).collect()
}

fn has_limit_in_every_container(spec: &Value, name: &str) -> bool {
    ["initContainers", "containers", "ephemeralContainers"].iter().all(|field| {
        list(spec, field).iter().all(|container| {
            present(container, "resources").is_some_and(|own| named(own, "limits", name).is_some())
        })
    })
}

/// Validates the resize policies of a container.
pub(crate) fn check_resize_policy(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    pod_restarts: &str,
) {
    let mut seen = BTreeSet::new();
    for (i, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(&path.index(i), BadValue::json_string(resource)));
        }
        check_required_enum(errors, path, resource, &COMPUTE);
        check_required_enum(errors, path, restart, &["NotRequired", "RestartContainer"]);
        if pod_restarts == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            push_invalid_enum(errors, path, restart, detail);
        }
    }
}

/// Validates the resource claims of a pod.
pub(crate) fn check_pod_claims(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, is_mirror: bool) {
    let mut seen = BTreeSet::new();
    for (i, claim) in list(spec, "resourceClaims").iter().enumerate() {
        if is_mirror {
            push_forbidden(errors, &Path::root(""), "static pods do not support resource claims");
            continue;
        }
        let path = path.index(i);
        let name_path = path.child("name");
        let name = text(claim, "name");
        if name.is_empty() {
            push_required(errors, &name_path, "");
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(&name_path, name));
        } else {
            errors.push_invalid(&name_path, name, dns::label(name));
            seen.insert(name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"]
            .map(|field| (field, optional_text(claim, field)));
        let fault = match sources {
            [(_, Some(_)), (_, Some(_))] => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            [(_, None), (_, None)] => {
                Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            push_invalid(errors, &path, internal::shown(claim, "PodResourceClaim"), fault);
        }
        for (field, name) in sources {
            if let Some(name) = name {
                errors.push_invalid(&path.child(field), name, dns::subdomain(name));
            }
        }
    }
}
