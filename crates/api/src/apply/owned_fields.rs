//! Field set of one manager with its cached stored form.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;

use super::field_set::{FieldSet, FieldsError};
use crate::value::Value;

/// A field set with its stored form, as long as that is known. Most writes leave most sets unchanged, and
/// these are stored as they were read, without being parsed.
#[derive(Clone, Default)]
pub struct OwnedFields {
    /// The set, once parsed.
    set: OnceCell<FieldSet>,
    /// Stored form of the set, if it came from one.
    json: Option<CompactString>,
}

impl OwnedFields {
    /// Reads the stored form.
    ///
    /// # Errors
    /// If the value is not a field set.
    pub fn from_value(value: &Value) -> Result<OwnedFields, FieldsError> {
        match value {
            // Only raw values, which this crate wrote, are known to be valid and canonical.
            Value::Raw(json) => Ok(OwnedFields { set: OnceCell::new(), json: Some(json.clone()) }),
            _ => FieldSet::from_value(value).map(OwnedFields::from),
        }
    }

    /// `true` if one of these top-level fields, or anything below them, may be in the set. Does not parse the
    /// set.
    pub(super) fn may_have_any(&self, names: &[&str]) -> bool {
        let json = self.json.as_deref().filter(|_| self.set.get().is_none());
        // A name that is escaped in the text, or empty, cannot be searched for.
        let is_plain = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        json.is_none_or(|json| {
            names.iter().any(|name| !is_plain(name) || json.contains(&format!("\"f:{name}\"")))
        })
    }

    /// Stored form.
    #[must_use]
    pub fn to_json(&self) -> CompactString {
        self.json.clone().unwrap_or_else(|| FieldSet::to_json(self))
    }

    /// Modifies the set. `change` returns `true` if it did.
    pub fn change(&mut self, change: impl FnOnce(&mut FieldSet) -> bool) {
        let mut set = self.take();
        if change(&mut set) {
            self.json = None;
        }
        self.set = set.into();
    }

    /// Parses the stored form, which is trusted: this crate wrote it.
    fn read(&self) -> FieldSet {
        let read = self.json.as_deref().map(|json| FieldSet::from_json(json.as_bytes()));
        read.and_then(Result::ok).unwrap_or_default()
    }

    fn take(&mut self) -> FieldSet {
        self.set.take().unwrap_or_else(|| self.read())
    }

    /// Returns the fields.
    #[must_use]
    pub fn into_set(mut self) -> FieldSet {
        self.take()
    }
}

impl From<FieldSet> for OwnedFields {
    fn from(set: FieldSet) -> OwnedFields {
        OwnedFields { set: set.into(), json: None }
    }
}

impl Deref for OwnedFields {
    type Target = FieldSet;

    fn deref(&self) -> &FieldSet {
        self.set.get_or_init(|| self.read())
    }
}

impl PartialEq for OwnedFields {
    fn eq(&self, other: &OwnedFields) -> bool {
        **self == **other
    }
}

impl Eq for OwnedFields {}

impl fmt::Debug for OwnedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::FieldPath;
    use crate::json;

    #[test]
    fn stored_form_is_kept_until_the_set_changes() {
        // The spaces distinguish a kept text from a rewritten one.
        let stored = r#"{"f:a": {}, "f:b":{}}"#;
        let mut fields = OwnedFields::from_value(&Value::Raw(stored.into())).unwrap();
        fields.change(|set| set.subtract(&FieldSet::from_paths(&[FieldPath::from_fields(&["c"])])));
        assert_eq!(fields.to_json(), stored);
        fields.change(|set| set.subtract(&FieldSet::from_paths(&[FieldPath::from_fields(&["a"])])));
        assert_eq!(fields.to_json(), r#"{"f:b":{}}"#);
    }

    #[test]
    fn untouched_sets_stay_unparsed() {
        let stored = r#"{"f:metadata":{"f:labels":{"f:status":{}}},"f:spec":{"f:a":{}}}"#;
        let fields = OwnedFields::from_value(&Value::Raw(stored.into())).unwrap();
        assert!(!fields.may_have_any(&["data", "kind"]));
        assert!(fields.may_have_any(&["data", "spec"]) && fields.may_have_any(&["odd\"name"]));
        assert!(fields.may_have_any(&[""]), "an empty name matches any set");
        assert!(fields.set.get().is_none(), "the set is not parsed");
        assert!(fields.field("spec").is_some());
        assert_eq!(fields.into_set().to_json(), stored);
        let known = OwnedFields::from(FieldSet::from_paths(&[FieldPath::from_fields(&["a"])]));
        assert!(known.may_have_any(&["b"]), "a parsed set may contain any field");
    }

    #[test]
    fn noncanonical_sets_of_clients_are_rewritten() {
        let sent = json::parse(br#"{"f:b":{},"f:a":{}}"#).unwrap();
        assert_eq!(OwnedFields::from_value(&sent).unwrap().to_json(), r#"{"f:a":{},"f:b":{}}"#);
    }
}
