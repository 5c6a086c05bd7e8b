//! DeviceClass: a category of devices.

use super::{Report, claim_spec};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::key;
use crate::value::Value;

const CONFIG_MAX: usize = 32;

/// Rules of DeviceClass.
pub struct DeviceClass;

impl Rules for DeviceClass {
    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        let mut report = Report::default();
        claim_spec::check_selectors(&mut report, &path.child("selectors"), check::list(spec, "selectors"));
        let config = check::list(spec, "config");
        report.check_items(&path.child("config"), config, CONFIG_MAX, claim_spec::check_configuration);
        if let Some(name) = check::field(spec, "extendedResourceName").as_str() {
            check_extended_resource(&mut report.declarative, &path.child("extendedResourceName"), name);
        }
        report.append_to(errors);
    }
}

/// Validates the extended resource name of the class.
fn check_extended_resource(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    let mut reject = |detail: String| errors.push(FieldError::invalid(path, name, detail));
    if !name.contains('/') {
        reject("a name must be a domain-prefixed path, such as 'example.com/my-prop'".to_owned());
    } else if name.contains("kubernetes.io/") {
        reject("must not have \"kubernetes.io/\" domain".to_owned());
    }
    if name.starts_with("requests.") {
        reject("must not have \"requests.\" prefix".to_owned());
    }
    key::label_key(&format!("requests.{name}")).into_iter().for_each(|fault| reject(fault.into_owned()));
}
