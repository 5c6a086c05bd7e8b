//! PodSecurity: Pod Security Standards by the labels of a namespace.
//!
//! A pod that violates the `enforce` level is rejected; a pod or pod template that violates the `warn` or `audit` level
//! causes a warning or an audit annotation. Policies are evaluated with the rules of their version. A namespace whose
//! enforced policy becomes stricter causes warnings about the pods in it that violate it.

mod checks;
mod metrics;
mod namespace;
mod policy;

use setpoint_api::status::Status;
use setpoint_api::{Key, Resource, Value};
use setpoint_store::Snapshot;

use self::metrics::EvaluationMode;
pub use self::metrics::PodSecurityMetrics;
use self::policy::PREFIX;
pub use self::policy::{Level, LevelVersion, PodSecurityConfig, Policy, PolicyVersion};
use super::{AdmissionInput, Findings, contains_text};
use crate::codec;

/// Rejects a pod that violates the policy of its namespace, and an invalid policy. Warns about other violations.
pub(super) fn validate(
    object: &Value,
    input: &AdmissionInput<'_>,
    findings: &mut Findings,
) -> Result<(), Status> {
    let request = input.request;
    let resource = (&*request.resource_type.info.group, &*request.resource_type.info.plural);
    let template: &[&str] = match (resource, request.subresource) {
        (("", "namespaces"), "") => return namespace::validate(object, input, findings),
        (("", "pods"), "" | "ephemeralcontainers" | "resize") => &[],
        (("", "podtemplates"), "") => &["template"],
        (
            ("", "replicationcontrollers")
            | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
            | ("batch", "jobs"),
            "",
        ) => &["spec", "template"],
        (("batch", "cronjobs"), "") => &["spec", "jobTemplate", "spec", "template"],
        _ => return Ok(()),
    };
    if let Some(exemption) = exemption(input) {
        count(input, |metrics| metrics.count_exemption(input));
        findings.annotate("exempt", exemption.to_owned());
        return Ok(());
    }
    let is_pod = template.is_empty();
    let namespace = namespace_of(request.namespace, input.snapshot());
    let defaults = input.config().pod_security.defaults;
    let (policy, errors) = Policy::of(&namespace.unwrap_or_default(), defaults);
    let is_free = [policy.audit, policy.warn].iter().all(|mode| mode.level == Level::Privileged)
        && !(is_pod && policy.enforce.level != Level::Privileged);
    if errors.is_empty() && is_free {
        if is_pod {
            count(input, |metrics| {
                metrics.count_evaluation(true, policy.enforce, EvaluationMode::Enforce, input)
            });
            findings.annotate("enforce-policy", LevelVersion::default().to_string());
        }
        return Ok(());
    }
    if is_pod && input.old.is_some_and(|old| !has_new_images(object, old)) {
        return Ok(());
    }
    let Some(template) = object.at(template) else { return Ok(()) };
    let runtime_class = template.str_at(&["spec", "runtimeClassName"]);
    if input.config().pod_security.exempt_runtime_classes.contains(runtime_class) {
        count(input, |metrics| metrics.count_exemption(input));
        findings.annotate("exempt", "runtimeClass".to_owned());
        return Ok(());
    }
    if !errors.is_empty() {
        count(input, |metrics| metrics.count_error(input));
        findings.annotate("error", format!("Failed to parse policy: {errors}"));
    }
    evaluate(object, template, is_pod, &policy, input, findings)
}

/// Evaluates all modes of a policy.
fn evaluate(
    object: &Value,
    template: &Value,
    is_pod: bool,
    policy: &Policy,
    input: &AdmissionInput<'_>,
    findings: &mut Findings,
) -> Result<(), Status> {
    let violation = |mode: LevelVersion| {
        let found = violations(mode, template);
        (!found.is_empty()).then(|| format!("violate PodSecurity \"{mode}\": {}", found.join(", ")))
    };
    let count_evaluation = |is_allowed, policy, mode| {
        count(input, |metrics| metrics.count_evaluation(is_allowed, policy, mode, input));
    };
    let mut rejection = None;
    if is_pod {
        findings.annotate("enforce-policy", policy.enforce.to_string());
        rejection = violation(policy.enforce);
        count_evaluation(rejection.is_none(), policy.enforce, EvaluationMode::Enforce);
    }
    if let Some(violation) = violation(policy.audit) {
        count_evaluation(false, policy.audit, EvaluationMode::Audit);
        findings.annotate("audit-violations", format!("would {violation}"));
    }
    match rejection {
        Some(violation) => {
            return Err(input.forbidden(object, &violation.replacen("violate ", "violates ", 1)));
        }
        None => {
            let warned = violation(policy.warn).map(|violation| format!("would {violation}"));
            if warned.is_some() {
                count_evaluation(false, policy.warn, EvaluationMode::Warn);
            }
            findings.warnings.extend(warned);
        }
    }
    Ok(())
}

/// Counts a write, unless an earlier decision about it has done so, which waited for validating webhooks.
fn count(input: &AdmissionInput<'_>, count: impl FnOnce(&PodSecurityMetrics)) {
    let context = input.context;
    let is_repeated = context.webhooks.is_some_and(|webhooks| webhooks.answers.has_validating());
    if let Some(metrics) = context.admission.pod_security.filter(|_| !is_repeated) {
        count(metrics);
    }
}

/// Violations of a policy by a pod or a pod template.
fn violations(policy: LevelVersion, pod: &Value) -> Vec<String> {
    let nothing = Value::Null;
    let part = |field| pod.get(field).unwrap_or(&nothing);
    checks::violations(policy, part("metadata"), part("spec"))
}

/// Kind of the exemption that applies to a write.
fn exemption(input: &AdmissionInput<'_>) -> Option<&'static str> {
    let config = &input.config().pod_security;
    if config.exempt_namespaces.contains(input.request.namespace) {
        Some("namespace")
    } else if config.exempt_users.contains(&input.request.writer.identity.user) {
        Some("user")
    } else {
        None
    }
}

/// A namespace, if it has labels of a policy.
fn namespace_of(name: &str, snapshot: &Snapshot) -> Option<Value> {
    let key = Key::cluster(&Resource::new("namespaces").ok()?, name).ok()?;
    snapshot.get(&key).filter(|record| contains_text(record, PREFIX)).map(codec::object)
}

/// `true` if an update changes images, so that the pod is evaluated again.
fn has_new_images(pod: &Value, old: &Value) -> bool {
    let containers = |pod: &Value, field: &str| -> Vec<(String, String)> {
        let list = pod.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default();
        let part = |container: &Value, field| container.str_at(&[field]).to_owned();
        list.iter().map(|container| (part(container, "name"), part(container, "image"))).collect()
    };
    let images = |pod: &Value, field: &str| -> Vec<String> {
        containers(pod, field).into_iter().map(|(_, image)| image).collect()
    };
    let known = containers(old, "ephemeralContainers");
    ["containers", "initContainers"].iter().any(|field| images(pod, field) != images(old, field))
        || containers(pod, "ephemeralContainers").iter().any(|container| !known.contains(container))
}

impl Findings {
    /// Adds an audit annotation of the plugin.
    fn annotate(&mut self, key: &str, value: String) {
        self.annotations.insert(format!("{PREFIX}{key}"), value);
    }
}

#[cfg(test)]
mod tests;
