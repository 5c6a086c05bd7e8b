//! Tests of the authorization of impersonated values.

use http::{HeaderMap, HeaderName, HeaderValue};
use parking::Log;
use proptest::prelude::*;

use super::*;
use crate::user::{AUTHENTICATED, NODE_NAME, NODES, UNAUTHENTICATED};

mod parking {
    use std::cell::RefCell;

    /// Checks that were made.
    #[derive(Default)]
    pub struct Log(pub RefCell<Vec<String>>);
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers
            .append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn requester() -> Identity {
    Identity::new("ann", vec![AUTHENTICATED.into()])
}

/// Impersonates with permissions that begin with one of these texts: `verb group/resource/subresource namespace name`.
fn run(
    pairs: &[(&str, &str)],
    requester: &Identity,
    allowed: &[&str],
) -> (Result<ImpersonatedUser, String>, Vec<String>) {
    let log = Log::default();
    let decide = |attributes: &Attributes<'_>| {
        let RequestInfo { verb, group, resource, subresource, namespace, name, .. } = attributes.request;
        let text = format!("{verb} {group}/{resource}/{subresource} {namespace} {name}");
        let is_allowed = allowed.iter().any(|allowed| text.starts_with(allowed));
        log.0.borrow_mut().push(text);
        if is_allowed { Decision::Allowed(String::new()) } else { Decision::NoOpinion(String::new()) }
    };
    let request = RequestInfo {
        is_resource: true,
        verb: "list",
        path: "/api/v1/namespaces/ns/pods",
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "ns",
        name: "",
    };
    let attributes = Attributes { user: requester, request, field_selector: &[], label_selector: &[] };
    let wanted = wanted_user(&headers(pairs)).unwrap().unwrap();
    let result = impersonate(&wanted, &attributes, &decide).map_err(|status| status.message.into_owned());
    (result, log.0.into_inner())
}

#[test]
fn each_value_is_authorized_in_legacy_mode() {
    let pairs = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "devs"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-acme.com%2fscopes", "read"),
    ];
    let (user, checks) = run(&pairs, &requester(), &["impersonate "]);
    let user = user.unwrap();
    assert_eq!(user.constraint, "");
    assert_eq!(user.identity.groups, ["devs", AUTHENTICATED]);
    assert_eq!(user.identity.extra["acme.com/scopes"], ["read"]);
    assert_eq!(
        checks,
        [
            "impersonate-on:user-info:list /pods/ ns ",
            "impersonate /users/  bob",
            "impersonate authentication.k8s.io/uids/  7",
            "impersonate /groups/  devs",
            "impersonate authentication.k8s.io/userextras/acme.com/scopes  read",
        ]
    );
    for missing in &checks[1..] {
        let allowed: Vec<&str> =
            checks[1..].iter().filter(|check| *check != missing).map(String::as_str).collect();
        assert!(run(&pairs, &requester(), &allowed).0.is_err(), "{missing}");
    }
}

#[test]
fn refusal_has_the_text_of_the_first_mode() {
    let (error, _) = run(&[("impersonate-user", "bob")], &requester(), &[]);
    assert_eq!(
        error.unwrap_err(),
        r#"pods is forbidden: User "ann" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "ns""#
    );
    let (error, _) = run(&[("impersonate-user", "bob")], &requester(), &["impersonate-on:user-info:list"]);
    assert_eq!(
        error.unwrap_err(),
        r#"users.authentication.k8s.io "bob" is forbidden: User "ann" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#
    );
}

#[test]
fn constrained_mode_permits_impersonation_for_some_requests() {
    let allowed =
        ["impersonate-on:user-info:list /pods/", "impersonate:user-info authentication.k8s.io/users/  bob"];
    let (user, _) = run(&[("impersonate-user", "bob")], &requester(), &allowed);
    assert_eq!(user.unwrap().constraint, "impersonate:user-info");
    let masters = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    let (error, _) = run(&masters, &requester(), &["impersonate-on:", "impersonate:user-info"]);
    let error = error.unwrap_err();
    assert!(error.ends_with("impersonating the system:masters group is not allowed"), "{error}");
    let (user, _) = run(&masters, &requester(), &["impersonate-on:", "impersonate"]);
    assert_eq!(user.unwrap().constraint, "", "only the legacy mode permits it");
}

#[test]
fn service_account_can_impersonate_its_own_node() {
    let mut agent = Identity::new("system:serviceaccount:ns:agent", vec![]);
    agent.extra.insert(NODE_NAME.into(), vec!["n1".into()]);
    let allowed = [
        "impersonate-on:associated-node:list",
        "impersonate:associated-node authentication.k8s.io/nodes/  *",
    ];
    let (user, _) = run(&[("impersonate-user", "system:node:n1")], &agent, &allowed);
    let user = user.unwrap();
    assert_eq!(
        (user.constraint, user.identity.user.as_str()),
        ("impersonate:associated-node", "system:node:n1")
    );
    assert_eq!(user.identity.groups, [NODES, AUTHENTICATED]);
    assert!(run(&[("impersonate-user", "system:node:n2")], &agent, &allowed).0.is_err());
    assert!(run(&[("impersonate-user", "system:node:n1")], &requester(), &allowed).0.is_err());
    let allowed =
        ["impersonate-on:arbitrary-node:list", "impersonate:arbitrary-node authentication.k8s.io/nodes/  n2"];
    assert!(run(&[("impersonate-user", "system:node:n2")], &agent, &allowed).0.is_ok());
}

#[test]
fn groups_of_impersonated_users_follow_upstream() {
    let groups =
        |pairs: &[(&str, &str)]| run(pairs, &requester(), &["impersonate "]).0.unwrap().identity.groups;
    let account = "system:serviceaccount:a:b";
    assert_eq!(
        groups(&[("impersonate-user", account)]),
        ["system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED]
    );
    assert_eq!(groups(&[("impersonate-user", account), ("impersonate-group", "g")]), ["g", AUTHENTICATED]);
    assert_eq!(groups(&[("impersonate-user", "system:anonymous")]), [UNAUTHENTICATED]);
    let unauthenticated = [("impersonate-user", "bob"), ("impersonate-group", UNAUTHENTICATED)];
    assert_eq!(groups(&unauthenticated), [UNAUTHENTICATED]);
}

#[test]
fn headers_without_a_user_are_a_bad_request() {
    let error = |pairs: &[(&str, &str)]| wanted_user(&headers(pairs)).unwrap_err().message.into_owned();
    assert_eq!(
        error(&[("impersonate-group", "g"), ("impersonate-extra-scopes", "a")]),
        r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string{"scopes":[]string{"a"}}} without impersonating a user name"#
    );
    assert_eq!(
        error(&[("impersonate-uid", "7")]),
        r#"requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name"#
    );
    assert_eq!(wanted_user(&headers(&[("impersonate-user", "")])).unwrap(), None);
    assert!(!has_headers(&headers(&[("accept", "x")])));
    let mut sent = headers(&[("impersonate-user", "a"), ("impersonate-extra-x", "b"), ("accept", "x")]);
    assert!(has_headers(&sent));
    strip(&mut sent);
    assert_eq!(sent, headers(&[("accept", "x")]));
}

proptest! {
    #[test]
    fn no_impersonation_header_panics(value in proptest::collection::vec(32..=255u8, 0..20), rest in "[a-z0-9%.]{1,12}") {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        let mut sent = HeaderMap::new();
        sent.insert("impersonate-group", value.clone());
        sent.insert(HeaderName::try_from(format!("impersonate-extra-{rest}")).unwrap(), value.clone());
        let _ = wanted_user(&sent);
        sent.insert("impersonate-user", value);
        if let Ok(Some(wanted)) = wanted_user(&sent) {
            let attributes = Attributes { user: &requester(), request: RequestInfo::default(), field_selector: &[], label_selector: &[] };
            let _ = impersonate(&wanted, &attributes, &|_: &Attributes<'_>| Decision::Allowed(String::new()));
        }
    }
}
