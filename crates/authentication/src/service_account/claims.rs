//! Claims of new tokens.

use setpoint_api::{Map, Time, Value, metadata, value};

use crate::user::service_account_user;

/// Requested seconds at which the expiration of a token of a projected volume is extended. Upstream's value, which the
/// admission of service accounts sets.
pub const WARN_ONLY_SECONDS: i64 = 60 * 60 + 7;

/// Grant of a token.
#[derive(Clone, Debug)]
pub struct TokenGrant<'a> {
    /// Issuer.
    pub issuer: &'a str,
    /// Audiences.
    pub audiences: &'a [String],
    /// Current time.
    pub now: Time,
    /// End of the validity.
    pub expires: Time,
    /// Requested end of the validity, if it was extended.
    pub warn_after: Option<Time>,
    /// Id of the token.
    pub id: &'a str,
}

/// Claims of a token for a ServiceAccount. `bound` has the objects that it is bound to, by the names of their claims.
#[must_use]
pub fn bound_claims(account: &Value, bound: &[(&'static str, Value)], grant: &TokenGrant<'_>) -> Value {
    let seconds = |time: Time| time.0.div_euclid(1_000_000);
    let mut private = Map::new();
    private.insert("namespace", metadata::namespace(account));
    for (kind, object) in bound {
        private.insert(*kind, reference(object));
    }
    private.insert("serviceaccount", reference(account));
    if let Some(time) = grant.warn_after {
        private.insert("warnafter", seconds(time));
    }
    value!({
        "aud": (grant.audiences.to_vec()),
        "exp": (seconds(grant.expires)),
        "iat": (seconds(grant.now)),
        "iss": (grant.issuer),
        "jti": (grant.id),
        "kubernetes.io": (private),
        "nbf": (seconds(grant.now)),
        "sub": (service_account_user(metadata::namespace(account), metadata::name(account))),
    })
}

fn reference(object: &Value) -> Value {
    let mut reference = value!({"name": (metadata::name(object))});
    let uid = metadata::text(object, "uid");
    if !uid.is_empty() {
        reference.make_map().insert("uid", uid);
    }
    reference
}
