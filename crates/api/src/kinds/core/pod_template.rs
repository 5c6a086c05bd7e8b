//! PodTemplate: a stored pod template.

use super::pod_spec;
use crate::field_error::{ErrorList, Path};
use crate::kinds::Rules;
use crate::kinds::read::present;
use crate::value::Value;

/// Rules of PodTemplate.
pub struct PodTemplate;

impl Rules for PodTemplate {
    fn default(&self, object: &mut Value) {
        pod_spec::default_template(object.make_map().ensure("template", Value::map));
    }

    fn prepare_create(&self, object: &mut Value) {
        if let Some(template) = object.get_mut("template") {
            pod_spec::drop_disabled_template(template);
        }
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value) {
        self.prepare_create(new);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn has_new_generation(&self, new: &Value, old: &Value) -> bool {
        new.get("template") != old.get("template")
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let none = Value::map();
        let template = present(object, "template").unwrap_or(&none);
        pod_spec::validate_template(template, &Path::root("template"), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none_or(|old| self.has_new_generation(new, old))
            && let Some(template) = present(new, "template")
        {
            let before = old.and_then(|old| present(old, "template"));
            pod_spec::template_warnings(template, before, &Path::root("template"), &mut warnings);
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
