//! PodNodeSelector: the pods of a namespace run on the nodes that an annotation of the namespace selects.
//!
//! Node selectors have the form `key=value,key=value`. The configuration has a default for namespaces without the
//! annotation (`clusterDefaultNodeSelector`), and for a namespace the labels that its pods may select.

use std::collections::BTreeMap;

use setpoint_api::names::key::{label_key, label_value};
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Value, metadata};

use super::{AdmissionInput, Findings};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// Key of the default selector in the configuration.
const DEFAULT: &str = "clusterDefaultNodeSelector";

type Labels = BTreeMap<String, String>;

/// Adds the node selector of the namespace to a new pod.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    let required = namespace_selector(input)?;
    check_conflicts(pod, &required, input)?;
    if !required.is_empty() {
        let selector = pod.ensure_map("spec").ensure_map("nodeSelector");
        for (key, value) in
            required.into_iter().filter(|(key, _)| !selector.contains(key)).collect::<Vec<_>>()
        {
            selector.insert(&*key, value);
        }
    }
    validate(pod, input, &mut Findings::default())
}

/// Rejects a pod whose node selector conflicts with its namespace.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    check_conflicts(pod, &namespace_selector(input)?, input)?;
    let allowed = input.config().node_selectors.get(input.request.namespace);
    let allowed = parse(allowed).map_err(|why| unusable(input, &why))?;
    let is_allowed = |(key, value): (&str, &Value)| allowed.get(key).map(String::as_str) == value.as_str();
    let mut selected = selector(pod);
    if allowed.is_empty() || selected.all(is_allowed) {
        return Ok(());
    }
    Err(input.forbidden(pod, "pod node label selector labels conflict with its namespace whitelist"))
}

fn check_conflicts(pod: &Value, required: &Labels, input: &AdmissionInput<'_>) -> Result<(), Status> {
    let conflicts = |(key, value): (&str, &Value)| {
        required.get(key).is_some_and(|required| Some(required.as_str()) != value.as_str())
    };
    if selector(pod).any(conflicts) {
        let why = "pod node label selector conflicts with its namespace node label selector";
        return Err(input.forbidden(pod, why));
    }
    Ok(())
}

fn selector(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    pod.at(&["spec", "nodeSelector"]).and_then(Value::as_map).into_iter().flat_map(|map| map.iter())
}

/// Node selector that the namespace requires.
fn namespace_selector(input: &AdmissionInput<'_>) -> Result<Labels, Status> {
    let missing = || Status::not_found(Qualified { group: "", name: "namespaces" }, input.request.namespace);
    let namespace = input.namespace().ok_or_else(missing)?;
    let parsed = match metadata::entry(&namespace, "annotations", ANNOTATION) {
        Some(text) => parse(Some(&text.to_owned())),
        None => parse(input.config().node_selectors.get(DEFAULT)),
    };
    parsed.map_err(|why| unusable(input, &why))
}

/// 403 of the namespace, whose selector has to be corrected. Upstream answers 500.
fn unusable(input: &AdmissionInput<'_>, why: &str) -> Status {
    Status::forbidden(Qualified { group: "", name: "namespaces" }, input.request.namespace, why)
}

/// Parses a node selector.
fn parse(text: Option<&String>) -> Result<Labels, String> {
    let mut labels = Labels::new();
    for part in text.filter(|text| !text.is_empty()).into_iter().flat_map(|text| text.split(',')) {
        let sides: Vec<&str> = part.split('=').collect();
        let [key, value] = sides[..] else {
            return Err(format!("invalid selector: [{}]", sides.join(" ")));
        };
        let (key, value) = (key.trim(), value.trim());
        for (given, faults) in [(key, label_key(key)), (value, label_value(value))] {
            if !faults.is_empty() {
                return Err(format!("invalid selector: {given:?} is not a label key or value"));
            }
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::super::{AdmissionConfig, plugins::Plugin};
    use super::*;

    fn admitted(annotations: &str, selectors: &[(&str, &str)], pod: &str) -> Result<Value, Status> {
        let namespace = format!(
            r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"a","annotations":{{{annotations}}}}}}}"#
        );
        let node_selectors = selectors.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let mut config =
            AdmissionConfig { node_selectors: node_selectors.collect(), ..AdmissionConfig::default() };
        config.plugins = config.plugins.with(Plugin::PodNodeSelector);
        let review = Review::create("", "v1", "pods").with_config(config);
        let mut pod =
            object(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"nodeSelector":{{{pod}}}}}}}"#));
        review.over(&[("", "v1", "namespaces", &namespace)]).run(|input| admit(&mut pod, input))?;
        Ok(pod.at(&["spec", "nodeSelector"]).unwrap().clone())
    }

    #[test]
    fn pod_gets_the_node_selector_of_its_namespace_or_the_default() {
        let annotated = r#""scheduler.alpha.kubernetes.io/node-selector":"env=test, zone = z""#;
        let default = [(DEFAULT, "env=prod")];
        let both = object(r#"{"x":"y","env":"test","zone":"z"}"#);
        assert_eq!(admitted(annotated, &default, r#""x":"y""#), Ok(both));
        assert_eq!(admitted("", &default, ""), Ok(object(r#"{"env":"prod"}"#)));
        assert_eq!(admitted("", &[], r#""x":"y""#), Ok(object(r#"{"x":"y"}"#)));
    }

    #[test]
    fn conflicting_selector_is_rejected() {
        let annotated = r#""scheduler.alpha.kubernetes.io/node-selector":"env=test""#;
        let message = |result: Result<Value, Status>| result.unwrap_err().message;
        assert_eq!(
            message(admitted(annotated, &[], r#""env":"prod""#)),
            "pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector"
        );
        assert_eq!(
            message(admitted(annotated, &[("a", "env=test")], r#""x":"y""#)),
            "pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist"
        );
        let bad = r#""scheduler.alpha.kubernetes.io/node-selector":"env""#;
        let error = admitted(bad, &[], "").unwrap_err();
        assert_eq!(
            (error.code, &*error.message),
            (403, "namespaces \"a\" is forbidden: invalid selector: [env]")
        );
    }
}
