//! Authenticated users, as authorization, admission, fairness and audit read them.

use std::collections::BTreeMap;

/// Authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// UID of the user; empty if the authenticator knows none.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Extra fields of the authenticator, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Returns a user without UID and extra fields.
    #[must_use]
    pub fn new(user: impl Into<String>, groups: Vec<String>) -> Identity {
        Identity { user: user.into(), groups, ..Identity::default() }
    }
}
