//! ReplicaSet: a fixed number of pods of one template.

use super::deployment::check_selected_template;
use crate::field_error::{ErrorList, Path};
use crate::kinds::Rules;
use crate::kinds::core::pod_spec;
use crate::kinds::read::set_default;
use crate::kinds::workload::check_nonnegative;
use crate::value::Value;

/// Rules of ReplicaSet.
pub struct ReplicaSet;

impl ReplicaSet {
    fn check(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let Some(spec) = new.get("spec") else { return };
        let path = Path::root("spec");
        check_nonnegative(errors, spec, &path, &["replicas", "minReadySeconds"]);
        check_selected_template(errors, spec, old.and_then(|old| old.get("spec")), &path);
    }
}

impl Rules for ReplicaSet {
    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        set_default(spec, "replicas", 1);
        pod_spec::default_template(spec.ensure("template", Value::map));
    }

    fn default_status(&self, _object: &mut Value) {}

    fn raw_spec_fields(&self) -> &'static [&'static str] {
        &["template"]
    }

    fn prepare_create(&self, object: &mut Value) {
        super::prepare_create(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        super::prepare_update(new, old);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.check(object, None, errors);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        super::check_same_selector(new, old, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.check(new, Some(old), errors);
        self.validate_transition(new, old, errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let Some(status) = new.get("status") else { return };
        let path = Path::root("status");
        let counters = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ];
        check_nonnegative(errors, status, &path, &counters);
        let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        super::check_parts(errors, status, &path, &parts, "cannot be greater than readyReplicas");
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        super::warnings(self, new, old)
    }
}
