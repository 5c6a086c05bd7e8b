//! RuntimeClass admission: sets overhead and scheduling constraints of a pod.

use setpoint_api::Value;
use setpoint_api::quantity::Quantity;
use setpoint_api::status::Status;
use setpoint_store::Snapshot;

use super::tolerations::list;
use super::{AdmissionInput, Findings, find};

const CLASSES: &str = "runtimeclasses.node.k8s.io";

/// Applies the runtime class of a new pod.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    apply_class(pod, input.snapshot()).map_err(|why| input.forbidden(pod, &why))
}

/// Rejects a new pod with other overhead than its runtime class.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    validate_overhead(pod, input.snapshot()).map_err(|why| input.forbidden(pod, &why))
}

/// Applies the runtime class of a pod. Fails if the class does not exist, or contradicts the pod.
fn apply_class(pod: &mut Value, snapshot: &Snapshot) -> Result<(), String> {
    let Some(class) = class_of(pod, snapshot)? else { return Ok(()) };
    if let Some(overhead) = overhead(&class) {
        let pod_overhead = pod.at(&["spec", "overhead"]);
        if pod_overhead
            .is_some_and(|pod_overhead| !pod_overhead.is_empty() && !same_amounts(pod_overhead, overhead))
        {
            return Err(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
            );
        }
        pod.ensure_map("spec").insert("overhead", overhead.clone());
    }
    if let Some(scheduling) = class.get("scheduling") {
        select_nodes(pod, scheduling)?;
        merge_tolerations(pod, scheduling);
    }
    Ok(())
}

/// Validates that a pod has the overhead of its runtime class.
fn validate_overhead(pod: &Value, snapshot: &Snapshot) -> Result<(), String> {
    let class = class_of(pod, snapshot)?;
    let pod_overhead = pod.at(&["spec", "overhead"]).filter(|value| !value.is_null());
    let why = match (class.as_ref().and_then(overhead), pod_overhead) {
        (Some(overhead), Some(pod_overhead)) if same_amounts(pod_overhead, overhead) => return Ok(()),
        (Some(overhead), None) if overhead.is_empty() => return Ok(()),
        (None, None) => return Ok(()),
        (Some(_), _) => "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        (None, Some(_)) => {
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        }
    };
    Err(why.to_owned())
}

fn class_of(pod: &Value, snapshot: &Snapshot) -> Result<Option<Value>, String> {
    let Some(name) = pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) else { return Ok(None) };
    let missing = || format!("pod rejected: RuntimeClass \"{name}\" not found");
    find(snapshot, CLASSES, name).map(Some).ok_or_else(missing)
}

fn overhead(class: &Value) -> Option<&Value> {
    class.at(&["overhead", "podFixed"]).filter(|value| !value.is_null())
}

fn same_amounts(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_map(), right.as_map()) else { return false };
    let amount = |value: &Value| Quantity::parse(value.as_str()?).ok();
    left.len() == right.len()
        && left
            .iter()
            .all(|(name, value)| right.get(name).is_some_and(|right| amount(value) == amount(right)))
}

fn select_nodes(pod: &mut Value, scheduling: &Value) -> Result<(), String> {
    let Some(required) = scheduling.get("nodeSelector").and_then(Value::as_map) else { return Ok(()) };
    if required.is_empty() {
        return Ok(());
    }
    let selector = pod.ensure_map("spec").ensure_map("nodeSelector");
    for (key, value) in required.iter() {
        let value = value.as_str().unwrap_or_default();
        match selector.get_str(key) {
            Some(current) if current != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {current}"
                ));
            }
            Some(_) => {}
            None => drop(selector.insert(key, value)),
        }
    }
    Ok(())
}

/// Tolerations up to which redundant ones are removed. The search is quadratic, and redundant tolerations only make
/// the list longer.
const COMPARED_MAX: usize = 256;

/// Adds the tolerations of the class, without redundant ones.
fn merge_tolerations(pod: &mut Value, scheduling: &Value) {
    let Some(added) = scheduling.get("tolerations").and_then(Value::as_list) else { return };
    merge_into(list(pod, "tolerations"), added);
}

/// Adds tolerations to a list, without redundant ones.
pub(super) fn merge_into(tolerations: &mut Vec<Value>, added: &[Value]) {
    tolerations.extend(added.iter().cloned());
    if tolerations.len() > COMPARED_MAX {
        return;
    }
    let mut merged: Vec<Value> = Vec::with_capacity(tolerations.len());
    for (i, toleration) in tolerations.iter().enumerate() {
        let covered_before = merged.iter().any(|other| covers(other, toleration));
        let covered_later =
            tolerations[i + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !covered_before && !covered_later {
            merged.push(toleration.clone());
        }
    }
    *tolerations = merged;
}

/// `true` if `wide` tolerates every taint that `narrow` tolerates.
pub(super) fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let (key, effect, exists) =
        (wide.str_at(&["key"]), wide.str_at(&["effect"]), wide.str_at(&["operator"]) == "Exists");
    if narrow.str_at(&["key"]) != key && !(key.is_empty() && exists) {
        return false;
    }
    if narrow.str_at(&["effect"]) != effect && !effect.is_empty() {
        return false;
    }
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    if effect == "NoExecute"
        && let Some(limit) = seconds(wide)
        && seconds(narrow).is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    exists
        || (narrow.str_at(&["operator"]) == "Equal" && narrow.str_at(&["value"]) == wide.str_at(&["value"]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{object, snapshot_with};
    use super::*;

    const CLASS: &str = r#"{"kind":"RuntimeClass","apiVersion":"node.k8s.io/v1","metadata":{"name":"vm"},"handler":"h",
        "overhead":{"podFixed":{"cpu":"250m"}},
        "scheduling":{"nodeSelector":{"vm":"yes"},"tolerations":[{"key":"vm","operator":"Exists"}]}}"#;

    fn admitted(spec: &str) -> Result<Value, String> {
        let mut pod = object(&format!(r#"{{"spec":{spec}}}"#));
        apply_class(&mut pod, &snapshot_with(&[("node.k8s.io", "v1", "runtimeclasses", CLASS)]))?;
        Ok(pod.get("spec").unwrap().clone())
    }

    #[test]
    fn pod_gets_overhead_and_scheduling_of_its_runtime_class() {
        let spec =
            admitted(r#"{"runtimeClassName":"vm","overhead":{"cpu":"0.25"},"tolerations":[{"key":"vm"}]}"#)
                .unwrap();
        assert_eq!(spec.str_at(&["overhead", "cpu"]), "250m");
        assert_eq!(spec.str_at(&["nodeSelector", "vm"]), "yes");
        assert_eq!(spec.get("tolerations"), object(CLASS).at(&["scheduling", "tolerations"]));
    }

    #[test]
    fn pod_that_contradicts_its_class_is_rejected() {
        assert_eq!(
            admitted(r#"{"runtimeClassName":"x"}"#).unwrap_err(),
            "pod rejected: RuntimeClass \"x\" not found"
        );
        assert!(admitted(r#"{"runtimeClassName":"vm","overhead":{"cpu":"1"}}"#).is_err());
        assert_eq!(
            admitted(r#"{"runtimeClassName":"vm","nodeSelector":{"vm":"no"}}"#).unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no"
        );
        let pod = object(r#"{"spec":{"overhead":{"cpu":"1"}}}"#);
        assert!(validate_overhead(&pod, &snapshot_with(&[])).is_err());
    }
}
