//! Requests without credentials.

use setpoint_api::Identity;

use crate::user::{ANONYMOUS, UNAUTHENTICATED};

/// Paths that requests without credentials may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousAccess {
    /// `true` if requests without credentials are authenticated as [`ANONYMOUS`].
    pub is_enabled: bool,
    /// Paths of such requests; empty for all paths.
    pub paths: Vec<String>,
}

impl AnonymousAccess {
    /// Returns the identity of a request without credentials; `None` if its path requires some.
    #[must_use]
    pub fn identity(&self, path: &str) -> Option<Identity> {
        let is_allowed = self.paths.is_empty() || self.paths.iter().any(|allowed| allowed == path);
        (self.is_enabled && is_allowed).then(|| Identity::new(ANONYMOUS, vec![UNAUTHENTICATED.to_owned()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_requests_are_limited_to_the_configured_paths() {
        assert_eq!(AnonymousAccess::default().identity("/livez"), None);
        let everywhere = AnonymousAccess { is_enabled: true, paths: Vec::new() };
        assert_eq!(everywhere.identity("/api").unwrap().groups, [UNAUTHENTICATED]);
        let health = AnonymousAccess { is_enabled: true, paths: vec!["/livez".into()] };
        assert_eq!(health.identity("/livez").unwrap().user, ANONYMOUS);
        assert_eq!(health.identity("/livez/ping"), None);
    }
}
