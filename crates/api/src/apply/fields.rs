//! What one manager owns: a set of fields that remembers the text in which it is stored.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;

use super::field_set::{FieldSet, FieldsError};
use crate::value::Value;

/// A set of fields with its stored form, so long as that is known. Most writes leave most sets as they were, and these
/// are then stored as they came, unread if nobody asked what is in them.
#[derive(Clone, Default)]
pub struct Fields {
    /// The set, once it was read.
    set: OnceCell<FieldSet>,
    /// The stored form of the set, if it was read from one.
    json: Option<CompactString>,
}

impl Fields {
    /// Reads the stored form.
    ///
    /// # Errors
    /// If the value is no such form.
    pub fn from_value(value: &Value) -> Result<Fields, FieldsError> {
        match value {
            // Only what was written here is known to be a set, and as it would be written again.
            Value::Raw(json) => Ok(Fields { set: OnceCell::new(), json: Some(json.clone()) }),
            _ => FieldSet::from_value(value).map(Fields::from),
        }
    }

    /// Whether one of these fields of an object, or anything below them, may be in the set. It need not be read for that.
    pub(super) fn may_have_any(&self, names: &[&str]) -> bool {
        let json = self.json.as_deref().filter(|_| self.set.get().is_none());
        // A name that would be escaped in the text, or is none, cannot be looked for in it.
        let is_plain = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        json.is_none_or(|json| {
            names.iter().any(|name| !is_plain(name) || json.contains(&format!("\"f:{name}\"")))
        })
    }

    /// The text of the stored form.
    #[must_use]
    pub fn to_json(&self) -> CompactString {
        self.json.clone().unwrap_or_else(|| FieldSet::to_json(self))
    }

    /// Changes the set. `change` says whether it did.
    pub fn change(&mut self, change: impl FnOnce(&mut FieldSet) -> bool) {
        let mut set = self.take();
        if change(&mut set) {
            self.json = None;
        }
        self.set = set.into();
    }

    /// The set that the stored form says; that it says one is taken on trust, for it was written here.
    fn read(&self) -> FieldSet {
        let read = self.json.as_deref().map(|json| FieldSet::from_json(json.as_bytes()));
        read.and_then(Result::ok).unwrap_or_default()
    }

    fn take(&mut self) -> FieldSet {
        self.set.take().unwrap_or_else(|| self.read())
    }

    /// The set alone.
    #[must_use]
    pub fn into_set(mut self) -> FieldSet {
        self.take()
    }
}

impl From<FieldSet> for Fields {
    fn from(set: FieldSet) -> Fields {
        Fields { set: set.into(), json: None }
    }
}

impl Deref for Fields {
    type Target = FieldSet;

    fn deref(&self) -> &FieldSet {
        self.set.get_or_init(|| self.read())
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        **self == **other
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::Path;
    use crate::json;

    #[test]
    fn the_stored_form_is_kept_until_the_set_changes() {
        // Spaces tell a text that was kept from one that was written.
        let stored = r#"{"f:a": {}, "f:b":{}}"#;
        let mut fields = Fields::from_value(&Value::Raw(stored.into())).unwrap();
        fields.change(|set| set.subtract(&FieldSet::from_paths(&[Path::of_fields(&["c"])])));
        assert_eq!(fields.to_json(), stored);
        fields.change(|set| set.subtract(&FieldSet::from_paths(&[Path::of_fields(&["a"])])));
        assert_eq!(fields.to_json(), r#"{"f:b":{}}"#);
    }

    #[test]
    fn a_set_is_read_only_by_who_may_change_it() {
        let stored = r#"{"f:metadata":{"f:labels":{"f:status":{}}},"f:spec":{"f:a":{}}}"#;
        let fields = Fields::from_value(&Value::Raw(stored.into())).unwrap();
        assert!(!fields.may_have_any(&["data", "kind"]));
        assert!(fields.may_have_any(&["data", "spec"]) && fields.may_have_any(&["odd\"name"]));
        assert!(fields.may_have_any(&[""]), "what has no name may be anywhere");
        assert!(fields.set.get().is_none(), "nobody has read it");
        assert!(fields.field("spec").is_some());
        assert_eq!(fields.into_set().to_json(), stored);
        let known = Fields::from(FieldSet::from_paths(&[Path::of_fields(&["a"])]));
        assert!(known.may_have_any(&["b"]), "what was read is looked into");
    }

    #[test]
    fn what_a_client_made_is_written_anew() {
        let sent = json::parse(br#"{"f:b":{},"f:a":{}}"#).unwrap();
        assert_eq!(Fields::from_value(&sent).unwrap().to_json(), r#"{"f:a":{},"f:b":{}}"#);
    }
}
