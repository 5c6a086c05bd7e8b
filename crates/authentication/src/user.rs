//! Users and groups with a fixed meaning, and the form of users in API objects.

use setpoint_api::names::dns;
use setpoint_api::{Identity, Map, Value};

/// Group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// User of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// Group with full access.
pub const MASTERS: &str = "system:masters";
/// Group of all nodes.
pub const NODES: &str = "system:nodes";
/// Prefix of the users of nodes.
pub const NODE_PREFIX: &str = "system:node:";
/// Prefix of the users of service accounts.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Group of all service accounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Extra field with the id of the credential.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Extra field with the name of the pod that a token is bound to.
pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// Extra field with the UID of the pod that a token is bound to.
pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// Extra field with the name of the node of a token.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// Extra field with the UID of the node of a token.
pub const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// Returns the user of a service account.
#[must_use]
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Returns the groups of the service accounts of a namespace, without [`AUTHENTICATED`].
#[must_use]
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name of the service account that a user is; `None` for other users.
#[must_use]
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let is_valid = dns::label(namespace).is_empty() && dns::subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// Name of the node that a user is; `None` for other users.
#[must_use]
pub fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| dns::subdomain(name).is_empty())
}

/// Adds [`AUTHENTICATED`], unless the user is anonymous or its groups decide that already.
#[must_use]
pub fn with_authenticated_group(mut identity: Identity) -> Identity {
    let is_decided = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
    if identity.user != ANONYMOUS && !identity.groups.iter().any(is_decided) {
        identity.groups.push(AUTHENTICATED.to_owned());
    }
    identity
}

/// Returns a user as `UserInfo` of API objects.
#[must_use]
pub fn user_info(identity: &Identity) -> Value {
    let mut info = Map::new();
    for (field, text) in [("username", &identity.user), ("uid", &identity.uid)] {
        if !text.is_empty() {
            info.insert(field, text.as_str());
        }
    }
    if !identity.groups.is_empty() {
        info.insert("groups", identity.groups.clone());
    }
    if !identity.extra.is_empty() {
        let extra: Map =
            identity.extra.iter().map(|(key, values)| (key.as_str(), Value::from(values.clone()))).collect();
        info.insert("extra", extra);
    }
    info.into()
}

/// Reads `UserInfo` of an API object.
#[must_use]
pub fn from_user_info(info: &Value) -> Identity {
    let extra = info.get("extra").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    Identity {
        user: info.str_at(&["username"]).to_owned(),
        uid: info.str_at(&["uid"]).to_owned(),
        groups: texts(info.get("groups")),
        extra: extra.map(|(key, values)| (key.to_owned(), texts(Some(values)))).collect(),
    }
}

/// Strings of a list.
pub(crate) fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use setpoint_api::json;

    use super::*;

    #[test]
    fn service_account_user_is_split_only_if_its_names_are_valid() {
        assert_eq!(split_service_account("system:serviceaccount:a:b.c"), Some(("a", "b.c")));
        for other in
            ["system:serviceaccount:a", "system:serviceaccount:A:b", "system:serviceaccount:a:b:c", "bob"]
        {
            assert_eq!(split_service_account(other), None, "{other}");
        }
        assert_eq!(node_name("system:node:n-1"), Some("n-1"));
        assert_eq!(node_name("system:node:"), None);
    }

    #[test]
    fn authenticated_group_is_added_once() {
        let groups = |user: &str, groups: &[&str]| {
            let groups = groups.iter().map(|&group| group.to_owned()).collect();
            with_authenticated_group(Identity::new(user, groups)).groups
        };
        assert_eq!(groups("a", &["g"]), ["g", AUTHENTICATED]);
        assert_eq!(groups("a", &[AUTHENTICATED, "g"]), [AUTHENTICATED, "g"]);
        assert_eq!(groups("a", &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
        assert_eq!(groups(ANONYMOUS, &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
    }

    #[test]
    fn user_info_keeps_uid_and_extra() {
        let mut identity = Identity::new("ann", vec!["g".into()]);
        assert_eq!(json::to_text(&user_info(&identity)), r#"{"username":"ann","groups":["g"]}"#);
        identity.uid = "7".into();
        identity.extra.insert("k".into(), vec!["v".into()]);
        let info = user_info(&identity);
        assert_eq!(
            json::to_text(&info),
            r#"{"username":"ann","uid":"7","groups":["g"],"extra":{"k":["v"]}}"#
        );
        assert_eq!(from_user_info(&info), identity);
    }
}
