//! Validation of the claims of bound tokens.

use setpoint_api::{Identity, Time, Value, metadata};

use super::{LEEWAY, ServiceAccountError, deletion_time, look_up};
use crate::authenticated_token::{AuthenticatedToken, ObjectReader};
use crate::jwt::time_claim;
use crate::user::{
    CREDENTIAL_ID, NODE_NAME, NODE_UID, POD_NAME, POD_UID, service_account_groups, service_account_user,
};

/// Checks the validity period, and that the account and the bound object exist with the UIDs of the claims.
pub(super) fn validate(
    claims: &Value,
    reader: &dyn ObjectReader,
    now: Time,
) -> Result<AuthenticatedToken, ServiceAccountError> {
    let mut verified = AuthenticatedToken::default();
    check_times(claims, now, &mut verified)?;
    let private = claims.get("kubernetes.io").cloned().unwrap_or_default();
    let namespace = private.str_at(&["namespace"]);
    check_account(&private, namespace, reader, now, &mut verified)?;
    let is_pod_bound = private.get("pod").is_some_and(|pod| !pod.is_null());
    for (kind, resource, namespace) in
        [("secret", "secrets", namespace), ("pod", "pods", namespace), ("node", "nodes", "")]
    {
        let is_bound = private.get(kind).is_some_and(|reference| !reference.is_null());
        // The node of a pod is informational: the deletion of the pod revokes the token.
        if is_bound && !(kind == "node" && is_pod_bound) {
            let name = private.str_at(&[kind, "name"]);
            let object = look_up(&mut verified, reader, (resource, namespace, name));
            check_bound(kind, object, private.str_at(&[kind, "uid"]), now, &mut verified)?;
        }
    }
    let text = |path: &[&str]| private.str_at(path).to_owned();
    let account = text(&["serviceaccount", "name"]);
    let mut identity =
        Identity::new(service_account_user(namespace, &account), service_account_groups(namespace));
    identity.uid = text(&["serviceaccount", "uid"]);
    let mut add = |key: &str, value: String| {
        identity.extra.insert(key.to_owned(), vec![value]);
    };
    let (pod, pod_uid) = (text(&["pod", "name"]), text(&["pod", "uid"]));
    if !pod.is_empty() && !pod_uid.is_empty() {
        add(POD_NAME, pod);
        add(POD_UID, pod_uid);
    }
    let id = claims.str_at(&["jti"]);
    if !id.is_empty() {
        add(CREDENTIAL_ID, format!("JTI={id}"));
    }
    let (node, node_uid) = (text(&["node", "name"]), text(&["node", "uid"]));
    if !node.is_empty() {
        add(NODE_NAME, node);
        if !node_uid.is_empty() {
            add(NODE_UID, node_uid);
        }
    }
    verified.identity = identity;
    Ok(verified)
}

/// Checks the validity period, with upstream's leeway for clock differences.
pub(super) fn check_times(
    claims: &Value,
    now: Time,
    verified: &mut AuthenticatedToken,
) -> Result<(), ServiceAccountError> {
    let is_later = |claim: &str| time_claim(claims, claim).is_some_and(|begin| now.after(LEEWAY) < begin);
    if is_later("nbf") {
        return Err(ServiceAccountError::NotYetValid);
    }
    if let Some(end) = time_claim(claims, "exp") {
        if now.before(LEEWAY) > end {
            return Err(ServiceAccountError::Expired);
        }
        verified.limit(end.after(LEEWAY));
    }
    if is_later("iat") { Err(ServiceAccountError::IssuedInFuture) } else { Ok(()) }
}

fn check_account(
    private: &Value,
    namespace: &str,
    reader: &dyn ObjectReader,
    now: Time,
    verified: &mut AuthenticatedToken,
) -> Result<(), ServiceAccountError> {
    let revoked = ServiceAccountError::Revoked;
    let (name, claimed) =
        (private.str_at(&["serviceaccount", "name"]), private.str_at(&["serviceaccount", "uid"]));
    let object = look_up(verified, reader, ("serviceaccounts", namespace, name))
        .ok_or_else(|| revoked(format!("serviceaccounts \"{name}\" not found")))?;
    let uid = metadata::text(&object, "uid");
    if uid != claimed {
        return Err(revoked(format!("service account UID ({uid}) does not match claim ({claimed})")));
    }
    if is_gone(&object, now, verified) {
        return Err(revoked(format!("service account {namespace}/{name} has been deleted")));
    }
    Ok(())
}

fn check_bound(
    kind: &str,
    object: Option<Value>,
    claimed: &str,
    now: Time,
    verified: &mut AuthenticatedToken,
) -> Result<(), ServiceAccountError> {
    let invalidated =
        || ServiceAccountError::Revoked("service account token has been invalidated".to_owned());
    let object = object.ok_or_else(invalidated)?;
    let uid = metadata::text(&object, "uid");
    if uid != claimed {
        let why = format!("{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})");
        return Err(ServiceAccountError::Revoked(why));
    }
    if is_gone(&object, now, verified) { Err(invalidated()) } else { Ok(()) }
}

/// `true` if the deletion of an object that finalizers or a grace period hold has been due for longer than the leeway.
fn is_gone(object: &Value, now: Time, verified: &mut AuthenticatedToken) -> bool {
    let Some(at) = deletion_time(object) else { return false };
    verified.limit(at.after(LEEWAY));
    at < now.before(LEEWAY)
}
