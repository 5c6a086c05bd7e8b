//! Priority: resolves the priority class of a pod.

use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};
use setpoint_store::Snapshot;

use super::{AdmissionInput, Findings, all, contains_text, find};
use crate::codec;

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
const PREEMPTS: &str = "PreemptLowerPriority";

/// Sets the priority of a new pod, and keeps that of an updated one.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    match input.old {
        Some(old) => keep_priority(pod, old),
        None => set_priority(pod, input.snapshot()).map_err(|why| input.forbidden(pod, &why))?,
    }
    Ok(())
}

/// Rejects a second default class.
pub(super) fn validate(class: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if !input.is("priorityclasses.scheduling.k8s.io", "") {
        return Ok(());
    }
    validate_class(class, input.old, input.snapshot()).map_err(|why| input.forbidden(class, &why))
}

/// Sets the priority of a new pod. Fails if its class does not exist, or the pod has another value or preemption policy
/// than its class.
fn set_priority(pod: &mut Value, snapshot: &Snapshot) -> Result<(), String> {
    let named = pod.str_at(&["spec", "priorityClassName"]).to_owned();
    let class = if named.is_empty() {
        default_class(snapshot)
    } else {
        let missing = || format!("no PriorityClass with name {named} was found");
        Some(find(snapshot, CLASSES, &named).ok_or_else(missing)?)
    };
    let priority = class.as_ref().map_or(0, value);
    let policy = class.as_ref().map_or(PREEMPTS, |class| class.str_at(&["preemptionPolicy"]));
    let spec = pod.ensure_map("spec");
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != priority
    {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
             controller computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(given) = spec.get_str("preemptionPolicy")
        && !policy.is_empty()
        && given != policy
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority \
             admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec.insert("priority", priority);
    if !policy.is_empty() {
        spec.insert("preemptionPolicy", policy);
    }
    if let Some(class) = class.as_ref().filter(|_| named.is_empty()) {
        spec.insert("priorityClassName", metadata::name(class));
    }
    Ok(())
}

/// Keeps the priority of a pod if an update omits it.
fn keep_priority(new: &mut Value, old: &Value) {
    let spec = new.ensure_map("spec");
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = old.at(&["spec", field])
            && spec.get(field).is_none_or(Value::is_null)
        {
            spec.insert(field, value.clone());
        }
    }
}

/// Fails if there is another default class.
fn validate_class(class: &Value, old: Option<&Value>, snapshot: &Snapshot) -> Result<(), String> {
    if class.get("globalDefault").and_then(Value::as_bool) != Some(true) {
        return Ok(());
    }
    match default_class(snapshot) {
        Some(other) if old.is_none() || metadata::name(&other) != metadata::name(class) => {
            let name = metadata::name(&other);
            Err(format!("PriorityClass {name} is already marked as default. Only one default can exist"))
        }
        _ => Ok(()),
    }
}

/// Class of pods without one: of several defaults that with the lowest value.
fn default_class(snapshot: &Snapshot) -> Option<Value> {
    all(snapshot, CLASSES)
        .filter(|record| contains_text(record, "\"globalDefault\":true"))
        .map(codec::object)
        .filter(|class| class.get("globalDefault").and_then(Value::as_bool) == Some(true))
        .min_by_key(value)
}

fn value(class: &Value) -> i64 {
    class.get("value").and_then(Value::as_i64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{object, snapshot_with};
    use super::*;

    const HIGH: &str = r#"{"kind":"PriorityClass","apiVersion":"scheduling.k8s.io/v1","metadata":{"name":"high"},
        "value":7,"preemptionPolicy":"Never"}"#;
    const USUAL: &str = r#"{"kind":"PriorityClass","apiVersion":"scheduling.k8s.io/v1","metadata":{"name":"usual"},
        "value":3,"globalDefault":true,"preemptionPolicy":"PreemptLowerPriority"}"#;

    fn classes(texts: &[&'static str]) -> Snapshot {
        let objects: Vec<_> =
            texts.iter().map(|text| ("scheduling.k8s.io", "v1", "priorityclasses", *text)).collect();
        snapshot_with(&objects)
    }

    fn admitted(pod: &str, texts: &[&'static str]) -> Result<Value, String> {
        let mut pod = object(pod);
        set_priority(&mut pod, &classes(texts))?;
        Ok(pod.get("spec").unwrap().clone())
    }

    #[test]
    fn pod_gets_the_priority_of_its_class_or_the_default() {
        let none = admitted(r#"{"spec":{}}"#, &[]).unwrap();
        assert_eq!(none, object(r#"{"priority":0,"preemptionPolicy":"PreemptLowerPriority"}"#));
        let named = admitted(r#"{"spec":{"priorityClassName":"high"}}"#, &[HIGH, USUAL]).unwrap();
        assert_eq!(named, object(r#"{"priorityClassName":"high","priority":7,"preemptionPolicy":"Never"}"#));
        let usual = admitted(r#"{"spec":{}}"#, &[HIGH, USUAL]).unwrap();
        assert_eq!(usual.str_at(&["priorityClassName"]), "usual");
        assert_eq!(usual.get("priority").and_then(Value::as_i64), Some(3));
    }

    #[test]
    fn pod_that_contradicts_its_class_is_rejected() {
        let missing = admitted(r#"{"spec":{"priorityClassName":"x"}}"#, &[]).unwrap_err();
        assert_eq!(missing, "no PriorityClass with name x was found");
        let other = admitted(r#"{"spec":{"priority":5}}"#, &[]).unwrap_err();
        assert!(other.starts_with("the integer value of priority (5) must not be provided"), "{other}");
        let policy = r#"{"spec":{"priorityClassName":"high","preemptionPolicy":"PreemptLowerPriority"}}"#;
        assert!(admitted(policy, &[HIGH]).is_err());
    }

    #[test]
    fn second_default_priority_class_is_rejected() {
        let second = object(&USUAL.replace("usual", "second"));
        let refused = validate_class(&second, None, &classes(&[USUAL])).unwrap_err();
        assert_eq!(refused, "PriorityClass usual is already marked as default. Only one default can exist");
        assert!(validate_class(&object(USUAL), Some(&object(USUAL)), &classes(&[USUAL])).is_ok());
        assert!(validate_class(&object(HIGH), None, &classes(&[USUAL])).is_ok());
    }

    #[test]
    fn update_without_priority_keeps_it() {
        let mut new = object(r#"{"spec":{}}"#);
        keep_priority(&mut new, &object(r#"{"spec":{"priority":4,"preemptionPolicy":"Never"}}"#));
        assert_eq!(new, object(r#"{"spec":{"priority":4,"preemptionPolicy":"Never"}}"#));
    }
}
