//! ResourceClaimTemplate: the template from which the ResourceClaims of a pod are created.

use super::{Report, claim_spec};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::core::pod_spec::internal;
use crate::kinds::{Rules, check};
use crate::names::metadata;
use crate::value::Value;

/// Rules of ResourceClaimTemplate.
pub struct ResourceClaimTemplate;

impl Rules for ResourceClaimTemplate {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.at_mut(&["spec", "spec"]) {
            claim_spec::default(spec);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        if let Some(spec) = object.at_mut(&["spec", "spec"]) {
            claim_spec::drop_disabled(spec);
        }
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value) {
        self.prepare_create(new);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (template, path) = (check::field(object, "spec"), Path::root("spec"));
        let at = path.child("metadata");
        let meta = check::field(template, "metadata");
        metadata::annotations(errors, &at.child("annotations"), check::text_entries(meta, "annotations"));
        metadata::labels(errors, &at.child("labels"), check::text_entries(meta, "labels"));
        let mut report = Report::default();
        claim_spec::validate(&mut report, &path.child("spec"), check::field(template, "spec"));
        report.append_to(errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_transition(new, old, errors);
        self.validate(new, errors);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (new, old) = (check::field(new, "spec"), check::field(old, "spec"));
        if !check::is_equivalent(new, old) {
            let shown = internal::shown(new, "ResourceClaimTemplateSpec");
            errors.push(FieldError::invalid(&Path::root("spec"), shown, check::IMMUTABLE));
        }
    }
}
