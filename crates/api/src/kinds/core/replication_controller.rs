//! ReplicationController: a fixed number of pods of one template, the predecessor of ReplicaSet.

use super::pod_spec;
use crate::field_error::{ErrorKind, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::read::{
    check_nonnegative, check_supported, number, optional_number, present, push_forbidden, push_invalid,
    push_required, shown, text, text_entries,
};
use crate::kinds::{Rules, SelectableFields, keep};
use crate::names::dns;
use crate::value::Value;

/// Rules of ReplicationController.
pub struct ReplicationController;

const LABELS: FieldLabels<'static> = FieldLabels {
    known: &[
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("status.replicas", "status.replicas"),
    ],
    unsupported: UnsupportedLabel::Plain,
};
/// Prefix of annotations for fields that this version of the API cannot represent.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";

impl Rules for ReplicationController {
    fn default(&self, object: &mut Value) {
        let labels =
            object.at(&["spec", "template", "metadata", "labels"]).filter(|labels| !labels.is_empty());
        if let Some(labels) = labels.cloned() {
            if object.at(&["metadata", "labels"]).is_none_or(Value::is_empty) {
                object.ensure_map("metadata").insert("labels", labels.clone());
            }
            let spec = object.ensure_map("spec");
            if spec.get("selector").is_none_or(Value::is_empty) {
                spec.insert("selector", labels);
            }
        }
        let spec = object.ensure_map("spec");
        if spec.get("replicas").is_none_or(Value::is_null) {
            spec.insert("replicas", 1);
        }
        if let Some(template) = spec.get_mut("template").filter(|template| !template.is_null()) {
            pod_spec::default_template(template);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        let mut status = crate::value::Map::new();
        status.insert("replicas", 0);
        object.make_map().insert("status", status);
        drop_disabled(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        drop_disabled(new);
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let none = Value::map();
        let spec = present(object, "spec").unwrap_or(&none);
        let path = Path::root("spec");
        check_nonnegative(errors, &path.child("minReadySeconds"), number(spec, "minReadySeconds"));
        if text_entries(spec, "selector").next().is_none() {
            push_required(errors, &path.child("selector"), "");
        }
        match optional_number(spec, "replicas") {
            None => push_required(errors, &path.child("replicas"), ""),
            Some(replicas) => check_nonnegative(errors, &path.child("replicas"), replicas),
        }
        validate_template(errors, &path.child("template"), spec);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let none = Value::map();
        for (key, value) in text_entries(present(old, "metadata").unwrap_or(&none), "annotations") {
            let field = match key.split_once('/') {
                Some((_, field)) if key.starts_with(NON_CONVERTIBLE) && !field.contains('/') => field,
                _ => continue,
            };
            if !field.contains("selector") {
                errors.push(FieldError {
                    kind: ErrorKind::NotFound,
                    field: field.to_owned(),
                    bad_value: value.into(),
                    detail: "unknown non-convertible field".into(),
                });
            } else if !errors.is_full() && new.at(&["spec", "selector"]) != old.at(&["spec", "selector"]) {
                let path = Path::root("spec");
                let detail = "cannot update non-convertible selector";
                push_invalid(errors, &path.child("selector"), shown(new.at(&["spec", "selector"])), detail);
            }
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let none = Value::map();
        let status = present(new, "status").unwrap_or(&none);
        let path = Path::root("status");
        let replicas = number(status, "replicas");
        let fields =
            ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
        for field in fields {
            check_nonnegative(errors, &path.child(field), number(status, field));
        }
        for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
            let count = number(status, field);
            if count > replicas {
                push_invalid(errors, &path.child(field), count, "cannot be greater than status.replicas");
            }
        }
        let available = number(status, "availableReplicas");
        if available > number(status, "readyReplicas") {
            push_invalid(
                errors,
                &path.child("availableReplicas"),
                available,
                "cannot be greater than readyReplicas",
            );
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let path = Path::root("spec");
        let path = path.child("template");
        let template_of =
            |object: Option<&Value>| object.and_then(|object| object.at(&["spec", "template"])).cloned();
        let about = match old {
            None => {
                let faults = dns::label(new.str_at(&["metadata", "name"]));
                if !faults.is_empty() {
                    warnings.push(format!(
                        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
                        faults.join(" ")
                    ));
                }
                template_of(Some(new))
            }
            // As upstream, warnings concern the old template, not the new one.
            Some(old) if self.has_new_generation(new, old) => template_of(Some(old)),
            Some(_) => None,
        };
        if let Some(template) = about {
            pod_spec::template_warnings(&template, None, &path, &mut warnings);
        }
        warnings
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &LABELS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let replicas = present(object, "status").map_or(0, |status| number(status, "replicas"));
        vec![("status.replicas", replicas.to_string().into())]
    }
}

fn drop_disabled(object: &mut Value) {
    if let Some(template) = object.at_mut(&["spec", "template"]) {
        pod_spec::drop_disabled_template(template);
    }
}

/// Validates the template of long-running pods.
fn validate_template(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(template) = present(spec, "template") else { return push_required(errors, path, "") };
    let label = |key: &str| template.at(&["metadata", "labels", key]).and_then(Value::as_str);
    if !text_entries(spec, "selector").all(|(key, value)| label(key) == Some(value)) {
        let meta_path = path.child("metadata");
        let labels = template.at(&["metadata", "labels"]);
        let detail = "`selector` does not match template `labels`";
        push_invalid(errors, &meta_path.child("labels"), shown(labels), detail);
    }
    pod_spec::validate_template(template, path, errors);
    let Some(pod) = present(template, "spec") else { return };
    let path = path.child("spec");
    check_supported(errors, &path.child("restartPolicy"), text(pod, "restartPolicy"), &["Always"]);
    if present(pod, "activeDeadlineSeconds").is_some() {
        let detail = "activeDeadlineSeconds in ReplicationController is not Supported";
        push_forbidden(errors, &path.child("activeDeadlineSeconds"), detail);
    }
}

#[cfg(test)]
mod tests;
