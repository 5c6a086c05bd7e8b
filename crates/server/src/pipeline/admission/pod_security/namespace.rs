//! Policies of namespaces: valid labels, and warnings about pods that violate a new policy.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::policy::{Level, LevelVersion, Policy};
use super::{AdmissionInput, Findings, checks, violations};
use crate::codec;
use crate::pipeline::admission::table;

/// Number of pods that are checked against a new policy.
const PODS_MAX: usize = 3000;
/// Number of pods among which one of each controller is searched. Upstream looks at all of them, for at most a second.
const DECODED_MAX: usize = 2 * PODS_MAX;

/// Rejects invalid labels of a policy unless they are unchanged, and warns about existing pods.
pub(super) fn validate(
    namespace: &Value,
    input: &AdmissionInput<'_>,
    findings: &mut Findings,
) -> Result<(), Status> {
    let config = &input.config().pod_security;
    let (new, errors) = Policy::of(namespace, config.defaults);
    let old = input.old.map(|old| Policy::of(old, config.defaults));
    let is_unchanged = |(_, old): &(Policy, _)| *old == errors;
    if !errors.is_empty() && !old.as_ref().is_some_and(is_unchanged) {
        let kind = input.request.resource_type.qualified_kind();
        return Err(Status::invalid(kind, input.request.name, &errors));
    }
    if let Some((old, _)) = &old {
        let is_relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
        if new.enforce == old.enforce || new.enforce.level == Level::Privileged || is_relaxed {
            return Ok(());
        }
    }
    let name = input.request.namespace;
    if config.exempt_namespaces.contains(name) {
        if !new.is_privileged() && !new.is_equivalent(&config.defaults) {
            let modes = new.labeled_modes(namespace);
            findings.warnings.push(format!(
                "namespace {name:?} is exempt from Pod Security, and the policy ({modes}) will be ignored"
            ));
        }
    } else if old.is_some() {
        findings.warnings.extend(pod_warnings(name, new.enforce, input));
    }
    Ok(())
}

/// Pods with the same violations.
struct SimilarPods {
    /// First of them by name.
    first: String,
    count: usize,
}

/// Warnings about the pods of a namespace that violate a new policy.
fn pod_warnings(namespace: &str, policy: LevelVersion, input: &AdmissionInput<'_>) -> Vec<String> {
    let pods = table(input.snapshot(), "pods");
    let prefix = format!("{namespace}/");
    let pods = pods.into_iter().flat_map(|table| table.range(&prefix, None));
    let exempt = &input.config().pod_security.exempt_runtime_classes;
    // One pod of each controller is checked first: the others are probably equal.
    let (mut prioritized, mut others) = (Vec::new(), Vec::new());
    let mut controllers = BTreeSet::new();
    let (mut pods_total, mut decoded) = (0, 0);
    for record in pods {
        pods_total += 1;
        if decoded == DECODED_MAX {
            continue;
        }
        decoded += 1;
        let pod = codec::object(record);
        if exempt.contains(pod.str_at(&["spec", "runtimeClassName"])) {
            pods_total -= 1;
            continue;
        }
        match controller(&pod) {
            Some(uid) if !controllers.insert(uid.to_owned()) => others.push(pod),
            _ => prioritized.push(pod),
        }
    }
    prioritized.extend(others);
    prioritized.truncate(PODS_MAX);
    let checked = prioritized.len();
    let mut violating: BTreeMap<String, SimilarPods> = BTreeMap::new();
    for pod in &prioritized {
        let found = violations(policy, pod);
        if found.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = found.iter().map(|violation| checks::reason(violation)).collect();
        let name = pod.str_at(&["metadata", "name"]);
        let similar = violating
            .entry(reasons.join(", "))
            .or_insert_with(|| SimilarPods { first: name.to_owned(), count: 0 });
        similar.count += 1;
        if *name < *similar.first {
            similar.first = name.to_owned();
        }
    }
    let mut warnings = Vec::new();
    if checked < pods_total {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {pods_total} existing pods"
        ));
    }
    if !violating.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{policy}\""
        ));
    }
    let mut described: Vec<String> = violating.iter().map(|(why, pods)| pods.describe(why)).collect();
    described.sort();
    warnings.extend(described);
    warnings
}

impl SimilarPods {
    fn describe(&self, why: &str) -> String {
        let first = &self.first;
        match self.count {
            1 => format!("{first}: {why}"),
            2 => format!("{first} (and 1 other pod): {why}"),
            count => format!("{first} (and {} other pods): {why}", count - 1),
        }
    }
}

/// UID of the controller of a pod.
fn controller(pod: &Value) -> Option<&str> {
    let owners = pod.at(&["metadata", "ownerReferences"])?.as_list()?;
    let controller =
        owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    Some(controller.str_at(&["uid"]))
}
