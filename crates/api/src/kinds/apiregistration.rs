//! Kinds of the group `apiregistration.k8s.io`: APIService.

use super::{ALL_BUT_STATUS, Rules, check};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::{NameRule, dns, key};
use crate::quote::Quoted;
use crate::value::Value;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "APIService" => Some(&ApiService),
        _ => None,
    }
}

/// Rules of APIService. The pipeline sets the `Available` condition of a local one, because it depends on the clock.
struct ApiService;

impl Rules for ApiService {
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn default(&self, object: &mut Value) {
        if let Some(service) = object.at_mut(&["spec", "service"]).and_then(Value::as_map_mut) {
            check::set_default_with(service, "port", || 443.into());
        }
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        let (group, version) = (check::text(spec, "group"), check::text(spec, "version"));
        check_name(errors, object.str_at(&["metadata", "name"]), &format!("{version}.{group}"));
        if group.is_empty() && version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.push(FieldError::required(&path.child("group"), detail));
        }
        if !group.is_empty() {
            errors.push_invalid(&path.child("group"), group, dns::subdomain(group));
        }
        errors.push_invalid(&path.child("version"), version, dns::label_1035(version));
        for (name, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
            let priority = check::number(spec, name);
            if !(1..=max).contains(&priority) {
                let detail = format!("must be positive and less than {max}");
                errors.push(FieldError::invalid(&path.child(name), priority, detail));
            }
        }
        check_service(errors, &path, spec);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let path = Path::root("status");
        let path = path.child("conditions");
        for (i, one) in check::list(check::field(new, "status"), "conditions").iter().enumerate() {
            let path = path.index(i);
            let status = check::text(one, "status");
            check::check_one_of(errors, &path.child("status"), status, &["True", "False", "Unknown"]);
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn check_name(errors: &mut ErrorList, name: &str, required: &str) {
    if key::path_segment(name).is_empty() && name != required {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", Quoted(required));
        errors.push(FieldError::invalid(&Path::root("metadata").child("name"), name, detail));
    }
}

fn check_service(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (bundle, skip) = (check::text(spec, "caBundle"), check::boolean(spec, "insecureSkipTLSVerify"));
    let skip_path = path.child("insecureSkipTLSVerify");
    let service = check::field(spec, "service");
    if service.is_null() {
        if !bundle.is_empty() {
            let padding = bundle.bytes().rev().take_while(|byte| *byte == b'=').count();
            let value = BadValue::from(format!("{} bytes", (bundle.len() / 4 * 3).saturating_sub(padding)));
            let detail = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(&path.child("caBundle"), value, detail));
        }
        if skip {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(&skip_path, skip, detail));
        }
        return;
    }
    let path = path.child("service");
    for name in ["namespace", "name"] {
        if check::text(service, name).is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    let port = check::number(service, "port");
    let faults = key::port_number(port);
    if !faults.is_empty() {
        let detail = format!("port is not valid: {}", faults.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    if skip && !bundle.is_empty() {
        errors.push(FieldError::invalid(&skip_path, skip, "may not be true if caBundle is present"));
    }
}
