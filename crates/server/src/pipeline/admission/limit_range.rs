//! LimitRanger: default requests and limits of a namespace, and their bounds.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::quantity::Quantity;
use setpoint_api::status::Status;
use setpoint_api::{Resource, Value, metadata};
use setpoint_store::commit::COMMIT_BYTES_MAX;
use setpoint_store::{CommitError, RejectReason, Snapshot, Table};

use super::{AdmissionInput, Findings};
use crate::api::commit_status;
use crate::codec;

/// Annotation that lists the defaults that were set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Largest quantity that can be counted in thousandths.
const MILLI_MAX: i64 = i64::MAX / 1000;

pub(super) type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Sets the missing requests and limits of the containers of a new or resized pod. Other updates cannot change them.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if has_new_resources(input) { set_defaults(pod, input.snapshot()) } else { Ok(()) }
}

fn has_new_resources(input: &AdmissionInput<'_>) -> bool {
    input.is("pods", "resize") || input.is("pods", "") && input.is_create()
}

/// Rejects a new pod, a resized pod or a claim that is out of bounds.
pub(super) fn validate(object: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    // Objects that are being deleted may be out of bounds.
    if input.old.is_some_and(|old| metadata::deletion_timestamp(old).is_some()) {
        return Ok(());
    }
    let checked = if has_new_resources(input) {
        validate_pod(object, input.snapshot())
    } else if input.is("persistentvolumeclaims", "") {
        validate_claim(object, input.snapshot())
    } else {
        return Ok(());
    };
    checked.map_err(|why| input.forbidden(object, &why))
}

/// Sets the missing requests and limits. Fails if the pod becomes larger than can be stored: every container gets every
/// default of the namespace.
fn set_defaults(pod: &mut Value, snapshot: &Snapshot) -> Result<(), Status> {
    let mut bytes = 0;
    for range in ranges(metadata::namespace(pod), snapshot) {
        let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
        for item in items(&range).filter(|item| item.str_at(&["type"]) == "Container") {
            requests.extend(
                item.get("defaultRequest").and_then(Value::as_map).into_iter().flat_map(|map| map.iter()),
            );
            limits.extend(item.get("default").and_then(Value::as_map).into_iter().flat_map(|map| map.iter()));
        }
        let mut defaults_set = Vec::new();
        for (field, limit_type) in [("containers", "container"), ("initContainers", "init container")] {
            let Some(Value::List(containers)) = pod.at_mut(&["spec", field]) else { continue };
            for container in containers {
                let name = container.str_at(&["name"]).to_owned();
                for (field, what, amounts) in
                    [("requests", "request", &requests), ("limits", "limit", &limits)]
                {
                    let set = fill(container, field, amounts, &mut bytes)?;
                    if !set.is_empty() {
                        defaults_set.push(format!("{} {what} for {limit_type} {name}", set.join(", ")));
                    }
                }
            }
        }
        if !defaults_set.is_empty() {
            let text = format!("LimitRanger plugin set: {}", defaults_set.join("; "));
            pod.ensure_map("metadata").ensure_map("annotations").insert(ANNOTATION, text);
        }
    }
    Ok(())
}

/// Sets the missing quantities of a container, and returns their names. `bytes` counts what was added to the pod.
fn fill<'a>(
    container: &mut Value,
    field: &str,
    amounts: &BTreeMap<&'a str, &Value>,
    bytes: &mut usize,
) -> Result<Vec<&'a str>, Status> {
    if amounts.is_empty() {
        return Ok(Vec::new());
    }
    let stated = container.ensure_map("resources").ensure_map(field);
    let missing: Vec<(&str, &Value)> = amounts
        .iter()
        .filter(|(name, _)| !stated.contains(name))
        .map(|(name, amount)| (*name, *amount))
        .collect();
    // The name is added to the container and to the annotation.
    let added = |(name, amount): &(&str, &Value)| 2 * name.len() + amount.as_str().map_or(0, str::len);
    *bytes += missing.iter().map(added).sum::<usize>();
    if *bytes > COMMIT_BYTES_MAX {
        return Err(commit_status(&CommitError::Rejected(RejectReason::TooLarge { bytes: *bytes })));
    }
    let entries = std::mem::take(stated).into_iter();
    let added = missing.iter().map(|(name, amount)| ((*name).into(), (*amount).clone()));
    *stated = entries.chain(added).collect();
    Ok(missing.into_iter().map(|(name, _)| name).collect())
}

/// Validates requests and limits of a pod.
fn validate_pod(pod: &Value, snapshot: &Snapshot) -> Result<(), String> {
    for range in ranges(metadata::namespace(pod), snapshot) {
        let mut violations = Vec::new();
        for item in items(&range) {
            match item.str_at(&["type"]) {
                "Container" => {
                    let mut bounds = Bounds::of(item);
                    for container in containers(pod, "containers").chain(containers(pod, "initContainers")) {
                        let of = |field| amounts(container.at(&["resources", field]));
                        bounds.check(&of("requests"), &of("limits"), &mut violations);
                    }
                }
                "Pod" => {
                    Bounds::of(item).check(&total(pod, "requests"), &total(pod, "limits"), &mut violations)
                }
                _ => {}
            }
        }
        join_errors(violations)?;
    }
    Ok(())
}

/// Validates the request of a claim.
fn validate_claim(claim: &Value, snapshot: &Snapshot) -> Result<(), String> {
    for range in ranges(metadata::namespace(claim), snapshot) {
        let mut violations = Vec::new();
        for item in items(&range).filter(|item| item.str_at(&["type"]) == "PersistentVolumeClaim") {
            let requests = amounts(claim.at(&["spec", "resources", "requests"]));
            let none = Amounts::new();
            for (name, bound) in amounts(item.get("min")) {
                violations.extend(min_violation("PersistentVolumeClaim", name, bound, &requests, &none));
            }
            for (name, bound) in amounts(item.get("max")) {
                let head = format!("maximum {name} usage per PersistentVolumeClaim is {bound}");
                match requests.get(name) {
                    None => violations.push(format!("{head}.  No request is specified")),
                    Some(request) if *request > bound => {
                        violations.push(format!("{head}, but request is {request}"));
                    }
                    Some(_) => {}
                }
            }
        }
        join_errors(violations)?;
    }
    Ok(())
}

fn ranges(namespace: &str, snapshot: &Snapshot) -> Vec<Value> {
    let table: Option<&Table> = Resource::new("limitranges").ok().and_then(|name| snapshot.table(&name));
    let Some(table) = table.filter(|table| !table.is_empty()) else { return Vec::new() };
    table.range(&format!("{namespace}/"), None).map(codec::object).collect()
}

fn items(range: &Value) -> impl Iterator<Item = &Value> {
    range.at(&["spec", "limits"]).and_then(Value::as_list).unwrap_or_default().iter()
}

fn containers<'a>(pod: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    pod.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default().iter()
}

fn amounts(value: Option<&Value>) -> Amounts<'_> {
    let entries = value.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    entries.filter_map(|(name, value)| Some((name, Quantity::parse(value.as_str()?).ok()?))).collect()
}

/// Resources of a pod: the sum of its containers, or the maximum of its init containers if that is larger.
pub(super) fn total<'a>(pod: &'a Value, field: &str) -> Amounts<'a> {
    let mut sum = Amounts::new();
    for container in containers(pod, "containers") {
        add(&mut sum, &amounts(container.at(&["resources", field])));
    }
    let (mut beside, mut first) = (Amounts::new(), Amounts::new());
    for container in containers(pod, "initContainers") {
        let mut needs = amounts(container.at(&["resources", field]));
        let is_sidecar = container.str_at(&["restartPolicy"]) == "Always";
        if is_sidecar {
            add(&mut sum, &needs);
        }
        // Resources that the container does not name were raised when the last sidecar named them: quantities are not
        // negative.
        for (name, amount) in &mut needs {
            if let Some(others) = beside.get(name) {
                *amount += *others;
            }
        }
        raise_to_max(&mut first, &needs);
        if is_sidecar {
            beside.extend(needs);
        }
    }
    raise_to_max(&mut sum, &first);
    let own = amounts(pod.at(&["spec", "resources", field]));
    sum.extend(own.into_iter().filter(|(name, _)| matches!(*name, "cpu" | "memory")));
    sum
}

fn add<'a>(sum: &mut Amounts<'a>, more: &Amounts<'a>) {
    for (name, amount) in more {
        sum.entry(name).and_modify(|sum| *sum += *amount).or_insert(*amount);
    }
}

fn raise_to_max<'a>(sum: &mut Amounts<'a>, to: &Amounts<'a>) {
    for (name, amount) in to {
        let max = sum.entry(name).or_insert(*amount);
        *max = (*max).max(*amount);
    }
}

type Rule = fn(&str, &str, Quantity, &Amounts<'_>, &Amounts<'_>) -> Option<String>;

/// Bounds of one kind for all containers of a pod, or for the pod.
struct Bounds<'a> {
    limit_type: &'a str,
    /// Rules, their bounds, and the resources whose absence is not reported yet. A missing quantity gives the same error
    /// for every container, so it is reported for the first container only; the others are checked against the bounds of
    /// the resources that they name.
    rules: [(Rule, Amounts<'a>, BTreeSet<&'a str>); 3],
}

impl<'a> Bounds<'a> {
    fn of(item: &'a Value) -> Bounds<'a> {
        let rules: [(Rule, &str); 3] =
            [(min_violation, "min"), (max_violation, "max"), (ratio_violation, "maxLimitRequestRatio")];
        let rules = rules.map(|(rule, field)| {
            let bounds = amounts(item.get(field));
            let unreported = bounds.keys().copied().collect();
            (rule, bounds, unreported)
        });
        Bounds { limit_type: item.str_at(&["type"]), rules }
    }

    fn check(&mut self, requests: &Amounts<'_>, limits: &Amounts<'_>, violations: &mut Vec<String>) {
        for (rule, bounds, unreported) in &mut self.rules {
            let is_stated = |name: &str| requests.contains_key(name) || limits.contains_key(name);
            let stated = requests.keys().chain(limits.keys()).filter_map(|name| bounds.get_key_value(name));
            let mut names: BTreeSet<&str> = stated.map(|(name, _)| *name).collect();
            names.extend(unreported.iter().copied());
            unreported.retain(|name| is_stated(name));
            for name in names {
                violations.extend(rule(self.limit_type, name, bounds[name], requests, limits));
            }
        }
    }
}

fn min_violation(
    limit_type: &str,
    name: &str,
    bound: Quantity,
    requests: &Amounts<'_>,
    limits: &Amounts<'_>,
) -> Option<String> {
    let head = format!("minimum {name} usage per {limit_type} is {bound}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(request), _) if *request < bound => Some(format!("{head}, but request is {request}")),
        (_, Some(limit)) if *limit < bound => Some(format!("{head}, but limit is {limit}")),
        _ => None,
    }
}

fn max_violation(
    limit_type: &str,
    name: &str,
    bound: Quantity,
    requests: &Amounts<'_>,
    limits: &Amounts<'_>,
) -> Option<String> {
    let head = format!("maximum {name} usage per {limit_type} is {bound}");
    match (limits.get(name), requests.get(name)) {
        (None, _) => Some(format!("{head}.  No limit is specified")),
        (Some(limit), _) if *limit > bound => Some(format!("{head}, but limit is {limit}")),
        (_, Some(request)) if *request > bound => Some(format!("{head}, but request is {request}")),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio is shown with six digits")]
fn ratio_violation(
    limit_type: &str,
    name: &str,
    bound: Quantity,
    requests: &Amounts<'_>,
    limits: &Amounts<'_>,
) -> Option<String> {
    let head = format!("{name} max limit to request ratio per {limit_type} is {bound}");
    let Some(request) = requests.get(name).filter(|request| !request.is_zero()) else {
        return Some(format!("{head}, but no request is specified or request is 0"));
    };
    let Some(limit) = limits.get(name).filter(|limit| !limit.is_zero()) else {
        return Some(format!("{head}, but no limit is specified or limit is 0"));
    };
    let countable = [*request, *limit, bound].iter().all(|amount| amount.value() <= MILLI_MAX);
    let count = |amount: Quantity| if countable { amount.milli_value() } else { amount.value() } as f64;
    let ratio = count(*limit) / count(*request);
    (ratio > bound.to_f64()).then(|| format!("{head}, but provided ratio is {ratio:.6}"))
}

/// Joins distinct errors into one message.
fn join_errors(mut violations: Vec<String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    violations.retain(|violation| seen.insert(violation.clone()));
    match violations.len() {
        0 => Ok(()),
        1 => Err(violations.remove(0)),
        _ => Err(format!("[{}]", violations.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object, snapshot_with};
    use super::*;

    fn range(item: &str) -> Snapshot {
        let text = format!(
            r#"{{"kind":"LimitRange","apiVersion":"v1","metadata":{{"name":"r","namespace":"a"}},"spec":{{"limits":[{item}]}}}}"#
        );
        snapshot_with(&[("", "v1", "limitranges", &text)])
    }

    fn pod(resources: &str) -> Value {
        object(&format!(
            r#"{{"metadata":{{"namespace":"a"}},"spec":{{"containers":[{{"name":"c","resources":{resources}}}]}}}}"#
        ))
    }

    #[test]
    fn container_gets_default_requests_and_limits() {
        let snapshot = range(
            r#"{"type":"Container","default":{"cpu":"2","memory":"1Gi"},"defaultRequest":{"cpu":"1","memory":"1Gi"}}"#,
        );
        let mut changed = pod(r#"{"limits":{"cpu":"3"}}"#);
        set_defaults(&mut changed, &snapshot).unwrap();
        let container = &changed.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0];
        assert_eq!(
            container.get("resources"),
            Some(&object(r#"{"limits":{"cpu":"3","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}"#))
        );
        assert_eq!(
            metadata::entry(&changed, "annotations", ANNOTATION),
            Some("LimitRanger plugin set: cpu, memory request for container c; memory limit for container c")
        );
        let mut elsewhere = object(r#"{"metadata":{"namespace":"b"},"spec":{"containers":[{"name":"c"}]}}"#);
        let before = elsewhere.clone();
        set_defaults(&mut elsewhere, &snapshot).unwrap();
        assert_eq!(elsewhere, before);
    }

    #[test]
    fn update_of_a_pod_gets_no_defaults_but_a_resize_does() {
        let range = r#"{"kind":"LimitRange","apiVersion":"v1","metadata":{"name":"r","namespace":"a"},"spec":{"limits":[{"type":"Container","default":{"cpu":"2"}}]}}"#;
        let old = object(r#"{"metadata":{"name":"p","namespace":"a"},"spec":{"containers":[{"name":"c"}]}}"#);
        for (subresource, expected) in [("", None), ("resize", Some("2"))] {
            let review = Review::update("", "v1", "pods", &old).subresource(subresource);
            let mut pod = old.clone();
            let review = review.over(&[("", "v1", "limitranges", range)]);
            review.run(|input| admit(&mut pod, input)).unwrap();
            let container = &pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0];
            let limit = container.at(&["resources", "limits", "cpu"]).and_then(Value::as_str);
            assert_eq!(limit, expected, "{subresource}");
        }
    }

    #[test]
    fn pod_that_is_too_large_with_its_defaults_is_rejected() {
        let amounts: Vec<String> = (0..10_000).map(|at| format!(r#""example.com/r{at:06}":"1""#)).collect();
        let snapshot = range(&format!(r#"{{"type":"Container","default":{{{}}}}}"#, amounts.join(",")));
        let containers: Vec<String> = (0..1_000).map(|at| format!(r#"{{"name":"c{at:06}"}}"#)).collect();
        let text = format!(
            r#"{{"metadata":{{"namespace":"a"}},"spec":{{"containers":[{}]}}}}"#,
            containers.join(",")
        );
        let status = set_defaults(&mut object(&text), &snapshot).unwrap_err();
        assert_eq!(status.code, 413);
        assert!(status.message.contains("at most 4194304 are allowed"), "{}", status.message);
    }

    #[test]
    fn equal_errors_of_containers_are_reported_once() {
        let amounts: Vec<String> = (0..999).map(|at| format!(r#""example.com/r{at:06}":"2""#)).collect();
        let snapshot = range(&format!(r#"{{"type":"Container","min":{{{}}}}}"#, amounts.join(",")));
        let containers: Vec<String> = (0..10_000)
            .map(|at| format!(r#"{{"resources":{{"requests":{{"example.com/r{:06}":"1"}}}}}}"#, at % 999))
            .collect();
        let text = format!(
            r#"{{"metadata":{{"namespace":"a"}},"spec":{{"containers":[{}]}}}}"#,
            containers.join(",")
        );
        let violation = validate_pod(&object(&text), &snapshot).unwrap_err();
        assert_eq!(violation.matches("No request is specified").count(), 999);
        assert_eq!(violation.matches("but request is 1").count(), 999);
        assert!(violation.starts_with("[minimum example.com/r000000 usage per Container is 2, but request is 1, minimum example.com/r000001 usage per Container is 2.  No"), "{}", &violation[..200]);
    }

    #[test]
    fn pod_outside_of_limit_range_is_rejected() {
        let snapshot = range(
            r#"{"type":"Container","min":{"cpu":"100m"},"max":{"cpu":"1"},"maxLimitRequestRatio":{"cpu":"2"}}"#,
        );
        let validate = |resources| validate_pod(&pod(resources), &snapshot);
        assert_eq!(validate(r#"{"requests":{"cpu":"500m"},"limits":{"cpu":"1"}}"#), Ok(()));
        assert_eq!(
            validate(r#"{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}"#).unwrap_err(),
            "maximum cpu usage per Container is 1, but limit is 2"
        );
        assert_eq!(
            validate(r#"{"requests":{"cpu":"200m"},"limits":{"cpu":"1"}}"#).unwrap_err(),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000"
        );
        assert_eq!(
            validate("{}").unwrap_err(),
            "[minimum cpu usage per Container is 100m.  No request is specified, \
             maximum cpu usage per Container is 1.  No limit is specified, \
             cpu max limit to request ratio per Container is 2, but no request is specified or request is 0]"
        );
    }

    #[test]
    fn pod_limit_applies_to_the_sum_of_containers() {
        let snapshot = range(r#"{"type":"Pod","max":{"cpu":"1"}}"#);
        let pod = object(
            r#"{"metadata":{"namespace":"a"},"spec":{"containers":[{"resources":{"limits":{"cpu":"600m"}}},
            {"resources":{"limits":{"cpu":"600m"}}}],"initContainers":[{"resources":{"limits":{"cpu":"1"}}}]}}"#,
        );
        assert_eq!(
            validate_pod(&pod, &snapshot).unwrap_err(),
            "maximum cpu usage per Pod is 1, but limit is 1200m"
        );
    }

    #[test]
    fn claim_outside_of_limit_range_is_rejected() {
        let snapshot =
            range(r#"{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}"#);
        let claim = |storage: &str| {
            object(&format!(
                r#"{{"metadata":{{"namespace":"a"}},"spec":{{"resources":{{"requests":{{"storage":"{storage}"}}}}}}}}"#
            ))
        };
        assert_eq!(validate_claim(&claim("1Gi"), &snapshot), Ok(()));
        assert_eq!(
            validate_claim(&claim("3Gi"), &snapshot).unwrap_err(),
            "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
        );
        assert_eq!(
            validate_claim(&claim("1Mi"), &snapshot).unwrap_err(),
            "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
        );
    }
}
