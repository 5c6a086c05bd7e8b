//! Validation of request options.
//!
//! Options come decoded from a query or a body. Errors concern an object of kind `CreateOptions` (and so on)
//! in group `meta.k8s.io`, which the caller adds to the response.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::quote::is_printable;
use crate::value::{Map, Value};

/// Maximum bytes of a field manager.
pub const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// Options of a create or an update.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions<'a> {
    /// `fieldManager`.
    pub field_manager: &'a str,
    /// `dryRun`: `All` or empty.
    pub dry_run: &'a [&'a str],
    /// `fieldValidation`: `Ignore`, `Warn`, `Strict` or empty.
    pub field_validation: &'a str,
}

impl WriteOptions<'_> {
    /// Validates the options of a create or an update.
    pub fn validate(&self, errors: &mut ErrorList) {
        validate_field_manager(errors, &Path::root("fieldManager"), self.field_manager);
        validate_dry_run(errors, self.dry_run);
        let known = ["", "Ignore", "Strict", "Warn"];
        if !known.contains(&self.field_validation) {
            let path = Path::root("fieldValidation");
            errors.push(FieldError::not_supported(&path, self.field_validation, &known));
        }
    }

    /// Validates the options of a patch. `force` is the parameter of the request, if present.
    pub fn validate_patch(&self, errors: &mut ErrorList, is_apply: bool, force: Option<bool>) {
        if is_apply && self.field_manager.is_empty() {
            errors.push(FieldError::required(&Path::root("fieldManager"), "is required for apply patch"));
        }
        if !is_apply && force.is_some() {
            let detail = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden(&Path::root("force"), detail));
        }
        self.validate(errors);
    }
}

/// Validates the name of a field manager.
pub(crate) fn validate_field_manager(errors: &mut ErrorList, path: &Path<'_>, manager: &str) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_BYTES_MAX));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| *c != ' ' && !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(FieldError::invalid(path, manager, detail));
    }
}

fn validate_dry_run(errors: &mut ErrorList, dry_run: &[&str]) {
    if dry_run.iter().any(|value| *value != "All") {
        let value = BadValue::json_strings(dry_run);
        errors.push(FieldError::not_supported(&Path::root("dryRun"), value, &["All"]));
    }
}

/// Options of a delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions<'a> {
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// UID precondition.
    pub uid: Option<&'a str>,
    /// `resourceVersion` precondition.
    pub resource_version: Option<&'a str>,
    /// `orphanDependents`, the deprecated form of `propagationPolicy`.
    pub orphan_dependents: Option<bool>,
    /// `propagationPolicy`: `Orphan`, `Background` or `Foreground`.
    pub propagation_policy: Option<&'a str>,
    /// `dryRun`: `All` or empty.
    pub dry_run: Vec<&'a str>,
    /// `true` if the body has `preconditions`, even empty ones.
    pub has_preconditions: bool,
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`: delete an object that cannot be read.
    pub ignore_store_read_error: bool,
}

impl<'a> DeleteOptions<'a> {
    /// Reads the options from a decoded object.
    #[must_use]
    pub fn from_value(options: &'a Value) -> DeleteOptions<'a> {
        let field = |name: &str| options.get(name).filter(|value| !value.is_null());
        let precondition = |name: &str| options.at(&["preconditions", name]).and_then(Value::as_str);
        DeleteOptions {
            grace_period_seconds: field("gracePeriodSeconds").and_then(Value::as_i64),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            orphan_dependents: field("orphanDependents").and_then(Value::as_bool),
            propagation_policy: field("propagationPolicy").and_then(Value::as_str),
            dry_run: super::texts(field("dryRun")),
            has_preconditions: field("preconditions").is_some(),
            ignore_store_read_error: field("ignoreStoreReadErrorWithClusterBreakingPotential")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        }
    }

    /// Returns the options as an object, without its type.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut options = Map::new();
        let mut preconditions = Map::new();
        for (field, text) in [("uid", self.uid), ("resourceVersion", self.resource_version)] {
            text.into_iter().for_each(|text| drop(preconditions.insert(field, text)));
        }
        if let Some(seconds) = self.grace_period_seconds {
            options.insert("gracePeriodSeconds", seconds);
        }
        if !preconditions.is_empty() {
            options.insert("preconditions", preconditions);
        }
        if let Some(orphan) = self.orphan_dependents {
            options.insert("orphanDependents", orphan);
        }
        if let Some(policy) = self.propagation_policy {
            options.insert("propagationPolicy", policy);
        }
        if !self.dry_run.is_empty() {
            options.insert("dryRun", self.dry_run.iter().copied().map(Value::from).collect::<Vec<_>>());
        }
        Value::Map(options)
    }

    /// Validates the options.
    pub fn validate(&self, errors: &mut ErrorList) {
        let path = Path::root("propagationPolicy");
        if let Some(policy) = self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid(&path, BadValue::json_string(policy), detail));
            }
            if !matches!(policy, "Foreground" | "Background" | "Orphan") {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&path, BadValue::json_string(policy), &known));
            }
        }
        validate_dry_run(errors, &self.dry_run);
        if !self.ignore_store_read_error {
            return;
        }
        let path = Path::root("ignoreStoreReadErrorWithClusterBreakingPotential");
        for (other, is_set) in [
            ("propagationPolicy", self.propagation_policy.is_some()),
            ("orphanDependents", self.orphan_dependents.is_some()),
            ("gracePeriodSeconds", self.grace_period_seconds.is_some()),
            ("preconditions", self.has_preconditions),
        ] {
            if is_set {
                let detail = format!("cannot be set together with .{other}");
                errors.push(FieldError::invalid(&path, true, detail));
            }
        }
    }
}

/// Options of a list or a watch that exclude each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions<'a> {
    /// `true` for a watch.
    pub watch: bool,
    /// `resourceVersion`.
    pub resource_version: &'a str,
    /// `resourceVersionMatch`.
    pub resource_version_match: &'a str,
    /// `continue`.
    pub continue_token: &'a str,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
}

impl ListOptions<'_> {
    /// Validates the options.
    pub fn validate(&self, errors: &mut ErrorList) {
        if self.watch { self.validate_watch(errors) } else { self.validate_list(errors) }
    }

    fn validate_list(&self, errors: &mut ErrorList) {
        let path = Path::root("resourceVersionMatch");
        let mut forbid = |detail: &'static str| errors.push(FieldError::forbidden(&path, detail));
        let wanted = self.resource_version_match;
        if !wanted.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if !matches!(wanted, "Exact" | "NotOlderThan") {
                let value = BadValue::json_string(wanted);
                errors.push(FieldError::not_supported(&path, value, &["Exact", "NotOlderThan", ""]));
            } else if wanted == "Exact" && self.resource_version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
        }
        if self.send_initial_events.is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden(&Path::root("sendInitialEvents"), detail));
        }
    }

    fn validate_watch(&self, errors: &mut ErrorList) {
        let path = Path::root("resourceVersionMatch");
        let wanted = self.resource_version_match;
        if self.send_initial_events.is_some() && wanted != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if wanted.is_empty() {
            return;
        }
        if self.send_initial_events.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if wanted != "NotOlderThan" {
            let value = BadValue::json_string(wanted);
            errors.push(FieldError::not_supported(&path, value, &["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
}
