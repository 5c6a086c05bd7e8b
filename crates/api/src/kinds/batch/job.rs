//! Job: pods that run to completion.
//!
//! Unless the client sets `manualSelector`, the server generates the selector and the labels of the pods from
//! the UID and name of the Job on create.

use super::{job_spec, job_status};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::read::{list, optional_number, present, set_default, shown, text};
use crate::kinds::workload::{
    check_selector, check_template_labels, check_unchanged, has_invalid_values, selects, warn_about_name,
};
use crate::kinds::{Rules, SelectableFields, check_immutable};
use crate::names::dns;
use crate::value::Value;

/// Pod label with the UID of the Job.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// Pod label with the name of the Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const CONTROLLER_UID_LEGACY: &str = "controller-uid";
const JOB_NAME_LEGACY: &str = "job-name";

/// Rules of Job.
pub struct Job;

impl Rules for Job {
    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        if spec.get("parallelism").is_none() {
            if spec.get("completions").is_none() {
                spec.insert("completions", 1);
            }
            spec.insert("parallelism", 1);
        }
        let per_index = spec.contains("backoffLimitPerIndex");
        set_default(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
        set_default(spec, "completionMode", "NonIndexed");
        set_default(spec, "suspend", false);
        let replacement = if spec.contains("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        set_default(spec, "podReplacementPolicy", replacement);
        set_default(spec, "manualSelector", false);
        if let Some(spec) = object.get_mut("spec") {
            job_spec::default_nested(spec);
        }
        // Labels of a new Job are defaulted after the server has added labels to its pod template.
        if is_true(object, "manualSelector") || object.at(&["spec", "selector"]).is_some() {
            default_labels(object);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        if let Some(map) = object.as_map_mut() {
            map.remove("status");
        }
        if !is_true(object, "manualSelector") {
            generate_selector(object);
        }
        job_spec::drop_disabled(object.get_mut("spec"));
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        crate::kinds::keep(new, old, "status");
        job_spec::drop_disabled(new.get_mut("spec"));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_generated(object, errors);
        check_spec(object, None, errors);
        check_host_names(object, errors);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let empty = Value::map();
        let (spec, old_spec) = (new.get("spec").unwrap_or(&empty), old.get("spec").unwrap_or(&empty));
        let path = Path::root("spec");
        let keep = |errors: &mut ErrorList, field: &str| {
            check_immutable(errors, &path.child(field), spec.get(field), old_spec.get(field));
        };
        check_completions(errors, spec, old_spec, &path.child("completions"));
        keep(errors, "selector");
        check_template_update(errors, new, old, &path);
        keep(errors, "completionMode");
        let keep_policy = |errors: &mut ErrorList, field: &str, ty: &str| {
            check_unchanged(errors, &path.child(field), spec.get(field), old_spec.get(field), ty);
        };
        keep_policy(errors, "podFailurePolicy", "*PodFailurePolicy");
        keep(errors, "backoffLimitPerIndex");
        keep(errors, "managedBy");
        keep_policy(errors, "successPolicy", "*SuccessPolicy");
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_spec(new, Some(old), errors);
        self.validate_transition(new, old, errors);
        check_host_names(new, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        job_status::check(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warn_about_name(new, &mut warnings);
        }
        if let Some(spec) = new.get("spec")
            && old.is_none_or(|old| self.has_new_generation(new, old))
        {
            let old = old.and_then(|old| old.get("spec"));
            job_spec::warn(spec, old, &Path::root("spec"), &mut warnings);
        }
        warnings
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &FieldLabels {
            known: &[
                ("metadata.name", "metadata.name"),
                ("metadata.namespace", "metadata.namespace"),
                ("status.successful", "status.successful"),
            ],
            unsupported: UnsupportedLabel::ForKind("Job"),
        }
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let succeeded = object.at(&["status", "succeeded"]).and_then(Value::as_i64).unwrap_or(0);
        vec![("status.successful", succeeded.to_string().into())]
    }
}

fn is_true(object: &Value, field: &str) -> bool {
    object.at(&["spec", field]).and_then(Value::as_bool) == Some(true)
}

/// A Job without labels takes those of its pod template.
fn default_labels(object: &mut Value) {
    if object.at(&["metadata", "labels"]).is_some_and(|labels| !labels.is_empty()) {
        return;
    }
    let labels = object.at(&["spec", "template", "metadata", "labels"]);
    if let Some(labels) = labels.filter(|labels| !labels.is_empty()).cloned() {
        object.ensure_map("metadata").insert("labels", labels);
    }
}

/// Adds the generated labels to the pod template and the selector. An existing label stays; validation
/// rejects it if it has another value.
fn generate_selector(object: &mut Value) {
    let uid = object.str_at(&["metadata", "uid"]).to_owned();
    let name = object.str_at(&["metadata", "name"]).to_owned();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) else { return };
    let labels = spec.ensure_map("template").ensure_map("metadata").ensure_map("labels");
    for (label, value) in
        [(JOB_NAME_LEGACY, &name), (JOB_NAME, &name), (CONTROLLER_UID_LEGACY, &uid), (CONTROLLER_UID, &uid)]
    {
        set_default(labels, label, value.as_str());
    }
    labels.sort();
    let wanted = spec.ensure_map("selector").ensure_map("matchLabels");
    set_default(wanted, CONTROLLER_UID, uid);
    wanted.sort();
    default_labels(object);
}

/// Checks that the generated labels and selector have their generated values.
fn check_generated(object: &Value, errors: &mut ErrorList) {
    let Some(selector) = object.at(&["spec", "selector"]) else { return };
    if is_true(object, "manualSelector") {
        return;
    }
    let uid = object.str_at(&["metadata", "uid"]);
    let name = object.str_at(&["metadata", "name"]);
    if uid.is_empty() {
        let metadata = Path::root("metadata");
        errors.push(FieldError::required(&metadata.child("uid"), ""));
    }
    let labels = object.at(&["spec", "template", "metadata", "labels"]);
    let spec = Path::root("spec");
    let template = spec.child("template");
    let metadata = template.child("metadata");
    let path = metadata.child("labels");
    let mut expected = Value::map();
    for (label, value) in
        [(CONTROLLER_UID_LEGACY, uid), (JOB_NAME_LEGACY, name), (CONTROLLER_UID, uid), (JOB_NAME, name)]
    {
        let detail = || format!("must be '{value}'");
        match labels.and_then(|labels| labels.get(label)).and_then(Value::as_str) {
            None => errors.push(FieldError::required(&path.key(label), detail())),
            Some(found) if found != value => {
                errors.push(FieldError::invalid(&path.key(label), shown(labels), detail()));
            }
            Some(_) => {}
        }
        expected.make_map().insert(label, value);
    }
    let mut faults = ErrorList::new();
    if check_selector(&mut faults, &spec, selector, false) && !selects(Some(selector), Some(&expected)) {
        let detail = "`selector` not auto-generated";
        errors.push(FieldError::invalid(&spec.child("selector"), shown(Some(selector)), detail));
    }
}

fn check_spec(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let Some(spec) = new.get("spec") else { return };
    let old = old.and_then(|old| old.get("spec"));
    let path = Path::root("spec");
    job_spec::check(errors, spec, old, &path);
    let selector = present(spec, "selector");
    let selector_path = path.child("selector");
    let valid = match selector {
        None => {
            errors.push(FieldError::required(&selector_path, ""));
            true
        }
        Some(selector) => {
            let lenient = has_invalid_values(old.and_then(|old| present(old, "selector")));
            check_selector(errors, &selector_path, selector, lenient)
        }
    };
    if valid {
        let template = spec.get("template").unwrap_or(&Value::Null);
        check_template_labels(errors, selector, template, &path.child("template"));
    }
}

/// The last pod of an indexed Job has the longest host name, which must be valid.
fn check_host_names(object: &Value, errors: &mut ErrorList) {
    let Some(spec) = object.get("spec").filter(|spec| job_spec::is_indexed(spec)) else { return };
    let Some(completions) = optional_number(spec, "completions").filter(|completions| *completions > 0)
    else {
        return;
    };
    let name = object.str_at(&["metadata", "name"]);
    let host = format!("{name}-{}", completions - 1);
    if !dns::label(&host).is_empty() {
        let metadata = Path::root("metadata");
        let detail = format!("will not able to create pod with invalid DNS label: {host}");
        errors.push(FieldError::invalid(&metadata.child("name"), name, detail));
    }
}

/// The completions of an indexed Job may change together with its parallelism.
fn check_completions(errors: &mut ErrorList, spec: &Value, old: &Value, path: &Path<'_>) {
    let (new, old) = (spec.get("completions"), old.get("completions"));
    if !job_spec::is_indexed(spec) {
        check_immutable(errors, path, new, old);
    } else if new.is_some() && new != old && new != spec.get("parallelism") {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid(path, shown(new), detail));
    }
}

/// Allows changes of scheduling fields in the template of a suspended Job without pods.
fn check_template_update(errors: &mut ErrorList, new: &Value, old: &Value, path: &Path<'_>) {
    let at = ["spec", "template"];
    let (template, old_template) = (new.at(&at), old.at(&at));
    if template == old_template {
        return;
    }
    let template_path = path.child("template");
    if !may_change_template(old) {
        return check_unchanged(errors, &template_path, template, old_template, "PodTemplateSpec");
    }
    let empty = Value::map();
    let mut allowed = old_template.and_then(|old| old.get("spec")).cloned().unwrap_or_default();
    let pod = template.and_then(|template| template.get("spec")).unwrap_or(&empty);
    allow_scheduling(&mut allowed, pod);
    allow_resources(&mut allowed, pod, "containers");
    allow_resources(&mut allowed, pod, "initContainers");
    check_unchanged(errors, &template_path.child("spec"), Some(pod), Some(&allowed), "PodSpec");
}

fn may_change_template(job: &Value) -> bool {
    let status = job.get("status").unwrap_or(&Value::Null);
    let is_at_rest =
        status.get("startTime").is_none() || job_status::has_condition(status, "Suspended", "True");
    is_true(job, "suspend") && is_at_rest && optional_number(status, "active").unwrap_or(0) == 0
}

fn allow_scheduling(old: &mut Value, new: &Value) {
    let old = old.make_map();
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        match new.get(field) {
            Some(value) => drop(old.insert(field, value.clone())),
            None => drop(old.remove(field)),
        }
    }
    let new_affinity = new.get("affinity");
    let wanted = new_affinity.and_then(|affinity| affinity.get("nodeAffinity")).cloned();
    if let Some(affinity) = old.get_mut("affinity").and_then(Value::as_map_mut) {
        affinity.remove("nodeAffinity");
        if let Some(wanted) = wanted {
            affinity.insert("nodeAffinity", wanted);
        }
        if new_affinity.is_none() && affinity.is_empty() {
            old.remove("affinity");
        }
    } else if new_affinity.is_some() {
        let mut affinity = Value::map();
        if let Some(wanted) = wanted {
            affinity.make_map().insert("nodeAffinity", wanted);
        }
        old.insert("affinity", affinity);
    }
}

fn allow_resources(old: &mut Value, new: &Value, field: &str) {
    let new = list(new, field);
    let Some(old) = old.get_mut(field).and_then(Value::as_list_mut) else { return };
    if old.len() != new.len() {
        return;
    }
    for (old, new) in old.iter_mut().zip(new) {
        if text(old, "name") == text(new, "name")
            && let Some(old) = old.as_map_mut()
        {
            match new.get("resources") {
                Some(resources) => drop(old.insert("resources", resources.clone())),
                None => drop(old.remove("resources")),
            }
        }
    }
}
