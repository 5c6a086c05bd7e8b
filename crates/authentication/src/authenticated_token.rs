//! Result of the verification of a token.

use setpoint_api::{Identity, Time, Value};

/// Reads objects that tokens refer to.
pub trait ObjectReader {
    /// Returns an object; the namespace of cluster-scoped objects is empty.
    fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value>;
}

/// Object on which the validity of a token depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenObject {
    /// Plural name of the resource; its group is the core group.
    pub resource: &'static str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Secret of a legacy token whose label with the date of its last use is out of date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUse {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// UID of the Secret.
    pub uid: String,
    /// Date of the use, `2006-01-02`.
    pub date: String,
}

/// Verified token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticatedToken {
    /// User, without the group of all authenticated users.
    pub identity: Identity,
    /// Requested audiences that the token is for.
    pub audiences: Vec<String>,
    /// Last time at which the token is valid if no object changes; `None` if it does not expire.
    pub valid_until: Option<Time>,
    /// Objects on which its validity depends.
    pub objects: Vec<TokenObject>,
    /// Use of a legacy token that has to be recorded.
    pub unrecorded_use: Option<TokenUse>,
    /// Warning for the client.
    pub warning: Option<&'static str>,
}

impl AuthenticatedToken {
    /// Limits the validity.
    pub fn limit(&mut self, time: Time) {
        self.valid_until = Some(self.valid_until.map_or(time, |until| until.min(time)));
    }
}

/// Audiences that are in both lists, in the order of the first.
#[must_use]
pub fn intersect(ours: &[String], theirs: &[String]) -> Vec<String> {
    ours.iter().filter(|audience| theirs.contains(audience)).cloned().collect()
}
