//! StorageVersionMigration: rewrites all objects of a resource in the storage version.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::check::{self, GoLayout};
use crate::kinds::{ALL_BUT_STATUS, Rules};
use crate::names::dns;
use crate::value::Value;

const SPEC: GoLayout = GoLayout::Struct(&[(
    "Resource",
    "resource",
    GoLayout::Struct(&[("group", "group", GoLayout::Text), ("resource", "resource", GoLayout::Text)]),
)]);

/// Rules of StorageVersionMigration.
pub struct StorageVersionMigration;

impl Rules for StorageVersionMigration {
    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let target = object.at(&["spec", "resource"]).unwrap_or(check::ABSENT);
        let path = Path::root("spec");
        let path = path.child("resource");
        let (group, resource) = (check::text(target, "group"), check::text(target, "resource"));
        let at = path.child("resource");
        if resource.is_empty() {
            errors.push(FieldError::required(&at, "resource is required to be set"));
        } else {
            check_joined(errors, &at, resource, &dns::label_1035(resource));
        }
        if !group.is_empty() {
            check_joined(errors, &path.child("group"), group, &dns::subdomain(group));
        }
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (new, old) = (check::field(new, "spec"), check::field(old, "spec"));
        if !check::is_equivalent(new, old) {
            let value = check::format_go(new, &SPEC);
            errors.push(FieldError::invalid(&Path::root("spec"), value, check::IMMUTABLE));
        }
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (new, old) = (check::field(new, "status"), check::field(old, "status"));
        let path = Path::root("status");
        let version = |status| check::text(status, "resourceVersion");
        let at = path.child("resourceVersion");
        let faulty = revision_fault(version(new));
        if let Some(detail) = faulty {
            errors.push(FieldError::invalid(&at, version(new), detail));
        }
        check::check_conditions(errors, &path, new, "conditions");
        if !version(old).is_empty() && version(old) != version(new) {
            errors.push(FieldError::invalid(&at, version(new), check::IMMUTABLE));
        }
        let at = path.child("conditions");
        let mut reject = |detail: &'static str| {
            errors.push(FieldError::invalid(&at, check::shown(check::field(new, "conditions")), detail));
        };
        if is_true(new, "Succeeded") && is_true(new, "Failed") {
            reject("Both success and failed conditions cannot be true at the same time");
        }
        if is_true(old, "Succeeded") && !is_true(new, "Succeeded") {
            reject("Success condition cannot be set to false once it is true");
        }
        if is_true(old, "Failed") && !is_true(new, "Failed") {
            reject("Failed condition cannot be set to false once it is true");
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn check_joined(errors: &mut ErrorList, path: &Path<'_>, value: &str, faults: &crate::names::Faults) {
    if !faults.is_empty() {
        errors.push(FieldError::invalid(path, value, faults.join(",")));
    }
}

/// Error of a `resourceVersion`: it must be a number without a leading zero.
fn revision_fault(version: &str) -> Option<String> {
    let good =
        version.is_empty() || (!version.starts_with('0') && version.bytes().all(|b| b.is_ascii_digit()));
    (!good).then(|| format!("resource version is not well formed: {version}"))
}

fn is_true(status: &Value, kind: &str) -> bool {
    let found = check::list(status, "conditions").iter().find(|one| check::text(one, "type") == kind);
    found.is_some_and(|one| check::text(one, "status") == "True")
}
