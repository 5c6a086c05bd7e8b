//! What one manager owns: a set of fields that remembers the text in which it is stored.

use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;

use super::field_set::{FieldSet, FieldsError};
use crate::value::Value;

/// A set of fields with its stored form, so long as that is known. Most writes leave most sets as they were, and these
/// are then stored as they came.
#[derive(Clone, Default)]
pub struct Fields {
    set: FieldSet,
    /// The stored form of the set, if it was read from one.
    json: Option<CompactString>,
}

impl Fields {
    /// Reads the stored form.
    ///
    /// # Errors
    /// If the value is no such form.
    pub fn from_value(value: &Value) -> Result<Fields, FieldsError> {
        let set = FieldSet::from_value(value)?;
        // Only what was written here is known to be as it would be written again.
        let json = match value {
            Value::Raw(json) => Some(json.clone()),
            _ => None,
        };
        Ok(Fields { set, json })
    }

    /// The text of the stored form.
    #[must_use]
    pub fn to_json(&self) -> CompactString {
        self.json.clone().unwrap_or_else(|| self.set.to_json())
    }

    /// Changes the set. `change` says whether it did.
    pub fn change(&mut self, change: impl FnOnce(&mut FieldSet) -> bool) {
        if change(&mut self.set) {
            self.json = None;
        }
    }

    /// The set alone.
    #[must_use]
    pub fn into_set(self) -> FieldSet {
        self.set
    }
}

impl From<FieldSet> for Fields {
    fn from(set: FieldSet) -> Fields {
        Fields { set, json: None }
    }
}

impl Deref for Fields {
    type Target = FieldSet;

    fn deref(&self) -> &FieldSet {
        &self.set
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.set == other.set
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.set.fmt(f)
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
    fn what_a_client_made_is_written_anew() {
        let sent = json::parse(br#"{"f:b":{},"f:a":{}}"#).unwrap();
        assert_eq!(Fields::from_value(&sent).unwrap().to_json(), r#"{"f:a":{},"f:b":{}}"#);
    }
}
