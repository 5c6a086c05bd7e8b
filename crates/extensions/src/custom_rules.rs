//! Rules of a custom kind: validation by its schema, and the fields that a write may change.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use setpoint_api::custom::{CustomDefinition, CustomVersion, ScalePaths};
use setpoint_api::custom_kind::CustomSchema;
use setpoint_api::field_error::{BadValue, ErrorKind, ErrorList, FieldError, Path};
use setpoint_api::fields::{FieldLabels, FieldSelector, FieldSelectorError, UnsupportedLabel};
use setpoint_api::json_path::JsonPath;
use setpoint_api::kinds::{Rules, SelectableFields};
use setpoint_api::quote::Quoted;
use setpoint_api::{Value, metadata, structural};

use crate::SMALL_COST_MAX;
use crate::cel_rules::{self, OBJECT_COST_MAX, RuleTree};
use crate::scale_rules;

/// Fields that a status update cannot own.
const STATUS_RESET_FIELDS: &[&str] = &["metadata", "spec"];

/// Error of an object whose rules are not evaluated, because they could fail for the same reasons.
const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// `true` for errors after which validation rules are not evaluated.
fn is_blocking(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TooLong
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid
    )
}

/// Finalizers of Kubernetes itself, which have no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Rules of one version of a custom kind. Objects are in that version.
pub struct CustomRules {
    schema: Arc<CustomSchema>,
    /// Compiled validation rules, if the schema has any; compiled when an object is first validated.
    rules: OnceLock<Option<RuleTree>>,
    has_status: bool,
    /// The scale subresource.
    scale: Option<ScalePaths>,
    is_namespaced: bool,
    /// Label and path of the selectable fields of this version, then of those that only the storage version has.
    selectable: Vec<(String, JsonPath)>,
    /// Number of the selectable fields of this version.
    own_selectable: usize,
}

/// Adds fields, with their label and parsed path, that are not in the list.
fn add_selectable(selectable: &mut Vec<(String, JsonPath)>, paths: &[impl AsRef<str>]) {
    for path in paths {
        let path = path.as_ref();
        let label = path.trim_start_matches('.');
        if let Ok(parsed) = JsonPath::parse(path)
            && selectable.iter().all(|(other, _)| other != label)
        {
            selectable.push((label.to_owned(), parsed));
        }
    }
}

impl CustomRules {
    /// Returns the rules of a version.
    #[must_use]
    pub fn new(
        definition: &CustomDefinition,
        version: &CustomVersion,
        schema: Arc<CustomSchema>,
    ) -> CustomRules {
        let mut selectable: Vec<(String, JsonPath)> = Vec::new();
        add_selectable(&mut selectable, &version.selectable_fields);
        let own_selectable = selectable.len();
        // Fields of the storage version are stored with each object, whichever version it is written in.
        if let Some(storage) = definition.storage_version() {
            add_selectable(&mut selectable, &storage.selectable_fields);
        }
        CustomRules {
            schema,
            rules: OnceLock::new(),
            has_status: version.has_status,
            scale: version.scale.clone(),
            is_namespaced: definition.namespaced,
            selectable,
            own_selectable,
        }
    }

    fn validate_scale(&self, object: &Value, is_status: bool, errors: &mut ErrorList) {
        let Some(scale) = &self.scale else { return };
        if !is_status {
            scale_rules::validate_spec(object, scale, errors);
        }
        scale_rules::validate_status(object, scale, errors);
    }

    fn validate_all(&self, new: &Value, old: Option<&Value>, is_status: bool, errors: &mut ErrorList) {
        let schema = self.schema.schema();
        match old {
            Some(old) => {
                structural::validate_update(new, old, schema, &Path::NONE, errors);
                self.validate_scale(new, is_status, errors);
                structural::validate_embedded(new, schema, &Path::NONE, errors);
                structural::validate_lists_update(new, old, schema, &Path::NONE, errors);
            }
            None => {
                structural::validate(new, schema, &Path::NONE, errors);
                self.validate_scale(new, is_status, errors);
                structural::validate_embedded(new, schema, &Path::NONE, errors);
                structural::validate_lists(new, schema, &Path::NONE, errors);
            }
        }
        let rules = self.rules.get_or_init(|| RuleTree::compile(schema, true));
        let Some(rules) = rules else { return };
        if errors.iter().any(|error| is_blocking(error.kind)) {
            return errors.push(FieldError::invalid(&Path::NONE, BadValue::Null, NOT_CHECKED));
        }
        let limit = (&Path::NONE, OBJECT_COST_MAX);
        cel_rules::validate((rules, schema), new, old, true, limit, errors);
    }
}

impl Rules for CustomRules {
    fn is_costly(&self) -> bool {
        let is_small = |tree: &RuleTree| tree.cost_max() <= SMALL_COST_MAX;
        !self.rules.get().is_some_and(|rules| rules.as_ref().is_none_or(is_small))
    }

    fn has_status(&self) -> bool {
        self.has_status
    }

    fn status_reset_fields(&self) -> &[&'static str] {
        STATUS_RESET_FIELDS
    }

    /// Resets the status to its default.
    fn prepare_create(&self, object: &mut Value) {
        let Some(map) = object.as_map_mut().filter(|_| self.has_status) else { return };
        map.remove("status");
        let schema = self.schema.schema();
        if let Some(status) = schema.property("status")
            && let Some(default) = &status.default
        {
            let mut default = Value::clone(default);
            structural::default(&mut default, status);
            map.insert("status", default);
        }
    }

    /// Keeps everything but the status.
    fn prepare_status(&self, new: &mut Value, old: &Value) {
        let (Some(new), Some(old)) = (new.as_map_mut(), old.as_map()) else { return };
        let is_own = |key: &str| matches!(key, "status" | "metadata");
        new.retain(|key, _| is_own(key) || old.get(key).is_some());
        for (key, value) in old.iter().filter(|(key, _)| !is_own(key)) {
            new.insert(key, value.clone());
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn has_new_generation(&self, new: &Value, old: &Value) -> bool {
        let is_compared = |key: &str| key != "metadata" && !(self.has_status && key == "status");
        let (Some(new), Some(old)) = (new.as_map(), old.as_map()) else { return true };
        let differs = |(key, value): (&str, &Value)| is_compared(key) && old.get(key) != Some(value);
        new.iter().any(differs) || old.keys().any(|key| is_compared(key) && new.get(key).is_none())
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.validate_all(object, None, false, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_all(new, Some(old), false, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_all(new, Some(old), true, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let before = old.map(metadata::finalizers).unwrap_or_default();
        let mut added = metadata::finalizers(new);
        added.retain(|finalizer| {
            !before.contains(finalizer)
                && !finalizer.contains('/')
                && !STANDARD_FINALIZERS.contains(finalizer)
        });
        added.sort_unstable();
        added.dedup();
        let warning = |finalizer: &str| {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            let quoted = Quoted(finalizer);
            format!(
                "metadata.finalizers: {quoted}: prefer a domain-qualified finalizer name{path} to avoid accidental \
                 conflicts with other finalizer writers"
            )
        };
        added.into_iter().map(warning).collect()
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn translate_fields(&self, selector: FieldSelector) -> Result<FieldSelector, FieldSelectorError> {
        let mut known = vec![("metadata.name", "metadata.name")];
        if self.is_namespaced {
            known.push(("metadata.namespace", "metadata.namespace"));
        }
        let own = &self.selectable[..self.own_selectable];
        known.extend(own.iter().map(|(label, _)| (label.as_str(), label.as_str())));
        selector.translate(&FieldLabels { known: &known, unsupported: UnsupportedLabel::Plain })
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let value = |path: &JsonPath| match path.first(object).as_deref() {
            Some(Value::Str(text)) => Cow::Owned(text.to_string()),
            Some(Value::Bool(truth)) => Cow::Owned(truth.to_string()),
            Some(Value::Int(number)) => Cow::Owned(number.to_string()),
            _ => Cow::Borrowed(""),
        };
        self.selectable.iter().map(|(label, path)| (label.as_str(), value(path))).collect()
    }
}
