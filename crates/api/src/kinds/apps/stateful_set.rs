//! StatefulSet: pods with stable names and volumes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::core::pod_spec::{self, internal};
use crate::kinds::read::{
    list, map_entries, optional_number, present, set_default, set_default_if_empty, shown, text,
};
use crate::kinds::workload::{
    check_at_most_100_percent, check_collision_count, check_int_or_percent, check_long_running,
    check_nonnegative, check_selector, check_template, check_template_labels, check_unchanged,
    int_or_percent, is_empty_selector,
};
use crate::kinds::{Rules, check_immutable};
use crate::names::{NameRule, dns, metadata};
use crate::quantity::Quantity;
use crate::value::Value;

/// Rules of StatefulSet.
pub struct StatefulSet;

impl Rules for StatefulSet {
    /// Pods are named after it, and their names are host names.
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        set_default_if_empty(spec, "podManagementPolicy", "OrderedReady");
        let strategy = spec.ensure_map("updateStrategy");
        if strategy.get_str("type").is_none_or(str::is_empty) {
            strategy.insert("type", "RollingUpdate");
            strategy.ensure_map("rollingUpdate");
        }
        if strategy.get_str("type") == Some("RollingUpdate")
            && let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_map_mut)
        {
            set_default(rolling, "partition", 0);
            set_default(rolling, "maxUnavailable", 1);
        }
        let retention = spec.ensure_map("persistentVolumeClaimRetentionPolicy");
        set_default_if_empty(retention, "whenDeleted", "Retain");
        set_default_if_empty(retention, "whenScaled", "Retain");
        set_default(spec, "replicas", 1);
        set_default(spec, "revisionHistoryLimit", 10);
        pod_spec::default_template(spec.ensure("template", Value::map));
        for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_list_mut).into_iter().flatten() {
            default_claim(claim);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        super::prepare_create(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        super::prepare_update(new, old);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(object, None, false, errors);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let spec = Path::root("spec");
        let keep = |errors: &mut ErrorList, field: &str| {
            let at = ["spec", field];
            check_immutable(errors, &spec.child(field), new.at(&at), old.at(&at));
        };
        super::check_same_selector(new, old, errors);
        let claims = ["spec", "volumeClaimTemplates"];
        let path = spec.child("volumeClaimTemplates");
        check_unchanged(errors, &path, new.at(&claims), old.at(&claims), "[]PersistentVolumeClaim");
        keep(errors, "serviceName");
        keep(errors, "podManagementPolicy");
    }

    /// Ratcheting: if the old object was invalid already, the template is not validated. The old object is
    /// validated only if the new one has errors.
    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        check_spec(new, Some(old), false, &mut found);
        if !found.is_empty() {
            let mut found_in_old = ErrorList::new();
            check_spec(old, Some(old), false, &mut found_in_old);
            if !found_in_old.is_empty() {
                found = ErrorList::new();
                check_spec(new, Some(old), true, &mut found);
            }
        }
        errors.append(found);
        self.validate_transition(new, old, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if let Some(status) = new.get("status") {
            let path = Path::root("status");
            let counters = [
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ];
            check_nonnegative(errors, status, &path, &counters);
            let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
            super::check_parts(errors, status, &path, &parts, "cannot be greater than status.readyReplicas");
        }
        check_collision_count(errors, new, old);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none_or(|old| self.has_new_generation(new, old)) {
            super::warn_about_template(new, old, &mut warnings);
        }
        let Some(spec) = new.get("spec") else { return warnings };
        for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            // Upstream's path of an update has one more segment.
            let inner = if old.is_some() { ".Spec" } else { "" };
            warn_about_claim(claim, &format!("spec.volumeClaimTemplates[{index}]{inner}"), &mut warnings);
        }
        if optional_number(spec, "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; \
                 a value >= 0 is recommended"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// A claim template is a whole object, with kind and version.
fn default_claim(claim: &mut Value) {
    let claim = claim.make_map();
    claim.insert("kind", "PersistentVolumeClaim");
    claim.insert("apiVersion", "v1");
    pod_spec::default_claim_spec(claim.ensure("spec", Value::map));
    set_default_if_empty(claim.ensure_map("status"), "phase", "Pending");
}

fn warn_about_claim(claim: &Value, path: &str, warnings: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        let amount = claim.str_at(&["spec", "resources", list, "storage"]);
        if let Ok(quantity) = Quantity::parse(amount)
            && quantity.milli_value() % 1000 != 0
        {
            warnings.push(format!(
                "{path}.resources.{list}[storage]: fractional byte value \"{quantity}\" is invalid, \
                 must be an integer"
            ));
        }
    }
}

fn check_spec(new: &Value, old: Option<&Value>, skip_template: bool, errors: &mut ErrorList) {
    let Some(spec) = new.get("spec") else { return };
    let path = Path::root("spec");
    check_pod_management(errors, spec, &path.child("podManagementPolicy"));
    check_update_strategy(errors, spec, &path.child("updateStrategy"));
    check_retention(errors, spec, &path.child("persistentVolumeClaimRetentionPolicy"));
    if old.is_none() {
        check_claims(errors, spec, &path.child("volumeClaimTemplates"));
    }
    check_nonnegative(errors, spec, &path, &["replicas", "minReadySeconds"]);
    if let Some(ordinals) = spec.get("ordinals") {
        check_nonnegative(errors, ordinals, &path.child("ordinals"), &["start"]);
    }
    let service = text(spec, "serviceName");
    if old.is_none() && !service.is_empty() {
        errors.push_invalid(&path.child("serviceName"), service, dns::label(service));
    }
    let template_path = path.child("template");
    if check_stateful_selector(errors, spec, &path.child("selector")) {
        let template = pod_template(spec);
        let old = old.and_then(|old| old.at(&["spec", "template"]));
        check_stateful_template(errors, spec, &template, (old, skip_template), &template_path);
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    check_long_running(errors, template, &template_path, "StatefulSet");
}

fn check_pod_management(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    match text(spec, "podManagementPolicy") {
        "" => errors.push(FieldError::required(path, "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid(path, BadValue::json_string(other), detail));
        }
    }
}

fn check_update_strategy(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    let empty = Value::map();
    let strategy = spec.get("updateStrategy").unwrap_or(&empty);
    let rolling = strategy.get("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("", _) => errors.push(FieldError::required(path, "")),
        ("OnDelete", Some(rolling)) => {
            let value = internal::shown(rolling, "RollingUpdateStatefulSetStrategy");
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid(&rolling_path, value, detail));
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        ("RollingUpdate", Some(rolling)) => {
            check_nonnegative(errors, rolling, &rolling_path, &["partition"]);
            if let Some(amount) = rolling.get("maxUnavailable") {
                let path = rolling_path.child("maxUnavailable");
                check_int_or_percent(errors, amount, &path);
                if int_or_percent(Some(amount)) == 0 {
                    errors.push(FieldError::invalid(&path, shown(Some(amount)), "cannot be 0"));
                }
                check_at_most_100_percent(errors, amount, &path);
            }
        }
        _ => {
            let value = internal::shown(strategy, "StatefulSetUpdateStrategy");
            errors.push(FieldError::invalid(path, value, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn check_retention(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    let Some(retention) = spec.get("persistentVolumeClaimRetentionPolicy") else { return };
    for field in ["whenDeleted", "whenScaled"] {
        let policy = text(retention, field);
        if !matches!(policy, "Retain" | "Delete") {
            let value = BadValue::json_string(policy);
            errors.push(FieldError::not_supported(&path.child(field), value, &["Retain", "Delete"]));
        }
    }
}

/// Validates the claim templates. They are immutable, so this runs on create only.
fn check_claims(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        let path = path.index(index);
        pod_spec::check_claim_spec(errors, &path.child("spec"), claim.get("spec").unwrap_or(&Value::Null));
    }
}

/// Validates the selector; `true` if it selects anything.
fn check_stateful_selector(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) -> bool {
    let Some(selector) = present(spec, "selector") else {
        errors.push(FieldError::required(path, ""));
        return true;
    };
    let valid = check_selector(errors, path, selector, false);
    if is_empty_selector(selector) {
        let detail = "empty selector is invalid for statefulset";
        errors.push(FieldError::invalid(path, shown(Some(selector)), detail));
    }
    if !valid {
        errors.push(FieldError::invalid(path, shown(Some(selector)), ""));
    }
    valid
}

/// The template as its pods get it, with host names and the volumes of the claims.
fn pod_template(spec: &Value) -> Cow<'_, Value> {
    let empty = Value::Null;
    let template = spec.get("template").unwrap_or(&empty);
    let claims = list(spec, "volumeClaimTemplates");
    let names_host = !template.str_at(&["spec", "subdomain"]).is_empty()
        || !template.str_at(&["spec", "hostname"]).is_empty();
    if claims.is_empty() && !names_host {
        return spec.get("template").map_or(Cow::Owned(Value::Null), Cow::Borrowed);
    }
    let mut template = template.clone();
    let pod = template.ensure_map("spec");
    pod.remove("subdomain");
    pod.remove("hostname");
    if !claims.is_empty() {
        let name = |claim: &Value| claim.str_at(&["metadata", "name"]).to_owned();
        let names: Vec<String> = claims.iter().map(name).collect();
        let of_template = pod.remove("volumes");
        let mut volumes: Vec<Value> = names.iter().map(|name| claim_volume(name)).collect();
        if let Some(Value::List(list)) = of_template {
            let claimed: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            volumes.extend(list.into_iter().filter(|volume| !claimed.contains(text(volume, "name"))));
        }
        pod.insert("volumes", Value::List(volumes));
    }
    Cow::Owned(template)
}

fn claim_volume(name: &str) -> Value {
    let mut volume = Value::map();
    volume.make_map().insert("name", name);
    volume.ensure_map("persistentVolumeClaim").insert("claimName", name);
    volume
}

fn check_stateful_template(
    errors: &mut ErrorList,
    spec: &Value,
    template: &Value,
    (old, skip): (Option<&Value>, bool),
    path: &Path<'_>,
) {
    if present(spec, "selector").is_none_or(|selector| !is_empty_selector(selector)) {
        check_template_labels(errors, present(spec, "selector"), template, path);
    }
    if !skip {
        check_template(errors, template, old, path);
    }
    // Upstream checks these twice.
    metadata::labels(errors, &path.child("labels"), map_entries(template.at(&["metadata", "labels"])));
    let annotations_path = path.child("annotations");
    let annotations = map_entries(template.at(&["metadata", "annotations"]));
    metadata::annotations(errors, &annotations_path, annotations);
    let empty = Value::map();
    let part = |field| template.get(field).unwrap_or(&empty);
    pod_spec::annotations::validate(errors, &annotations_path, part("metadata"), part("spec"));
}
