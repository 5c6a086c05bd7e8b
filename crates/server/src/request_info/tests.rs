//! Tests of the attributes of requests.

use proptest::prelude::*;

use super::*;
use crate::catalog::Catalog;
use crate::route::{Route, route};

fn describe(method: &str, path: &str, query: &str) -> String {
    let attributes = RequestAttributes::parse(&method.parse().unwrap(), path, query);
    let info = attributes.info();
    if !info.is_resource {
        return format!("{} path {}", info.verb, info.path);
    }
    let RequestInfo { verb, group, version, resource, subresource, namespace, name, .. } = info;
    format!("{verb} {group}/{version} {resource}/{subresource} ns={namespace} name={name}")
}

#[test]
fn requests_have_upstreams_attributes() {
    for (method, path, expected) in [
        ("GET", "/api/v1/pods", "list /v1 pods/ ns= name="),
        ("GET", "/api/v1/pods?watch=1", "watch /v1 pods/ ns= name="),
        ("GET", "/api/v1/pods?watch=false", "list /v1 pods/ ns= name="),
        ("GET", "/api/v1/namespaces/a/pods/p/log", "get /v1 pods/log ns=a name=p"),
        ("HEAD", "/api/v1/namespaces/a/pods/p", "get /v1 pods/ ns=a name=p"),
        ("GET", "/api/v1/namespaces", "list /v1 namespaces/ ns= name="),
        ("GET", "/api/v1/namespaces/a", "get /v1 namespaces/ ns=a name=a"),
        ("PUT", "/api/v1/namespaces/a/finalize", "update /v1 namespaces/finalize ns=a name=a"),
        ("POST", "/api/v1/namespaces/a/pods/p/proxy/x/y", "create /v1 pods/proxy ns=a name=p"),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments",
            "deletecollection apps/v1 deployments/ ns=a name=",
        ),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments/d", "delete apps/v1 deployments/ ns=a name=d"),
        ("PATCH", "/apis/none.example/v2/things/t/scale", "patch none.example/v2 things/scale ns= name=t"),
        ("GET", "/api/v1/watch/namespaces/a/pods/p", "watch /v1 pods/ ns=a name=p"),
        ("GET", "/api/v1/watch/pods?fieldSelector=metadata.name%3Dx", "watch /v1 pods/ ns= name="),
        ("GET", "/api/v1/proxy/nodes/n/logs", "proxy /v1 nodes/ ns= name=n"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list /v1 pods/ ns= name=x"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da%2Fb", "list /v1 pods/ ns= name="),
        ("DELETE", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "deletecollection /v1 pods/ ns= name="),
        ("GET", "/api/v1/namespaces/a/pods/x%2Flog", "get /v1 pods/log ns=a name=x"),
        ("OPTIONS", "/api/v1/pods", " /v1 pods/ ns= name="),
        ("GET", "/api/v1", "get path /api/v1"),
        ("GET", "/apis/apps/v1", "get path /apis/apps/v1"),
        ("GET", "/apis/apps/v1/", "get path /apis/apps/v1/"),
        ("POST", "/healthz", "post path /healthz"),
        ("GET", "/%zz", "get path /%zz"),
        ("GET", "/", "get path /"),
    ] {
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        assert_eq!(describe(method, bare, query), expected, "{method} {path}");
    }
}

#[test]
fn selectors_become_requirements() {
    let query =
        "fieldSelector=spec.nodeName%3Dn,status.phase!%3DFailed&labelSelector=app+in+(a,b),!x,y,n%3E5";
    let attributes = RequestAttributes::parse(&Method::GET, "/api/v1/pods", query);
    let user = Identity::default();
    let attributes = attributes.for_user(&user);
    let text = |list: &[SelectorRequirement]| {
        let text = |one: &SelectorRequirement| format!("{} {} {:?}", one.key, one.operator, one.values);
        list.iter().map(text).collect::<Vec<_>>()
    };
    let fields = [r#"spec.nodeName In ["n"]"#, r#"status.phase NotIn ["Failed"]"#];
    assert_eq!(text(attributes.field_selector), fields);
    let labels = [r#"app In ["a", "b"]"#, "x DoesNotExist []", "y Exists []"];
    assert_eq!(text(attributes.label_selector), labels);
    let broken = RequestAttributes::parse(&Method::GET, "/api/v1/pods", "fieldSelector=x&labelSelector=(((");
    assert!(broken.field_selector.is_empty() && broken.label_selector.is_empty());
    let get = RequestAttributes::parse(&Method::GET, "/api/v1/namespaces/a/pods/p", query);
    assert!(get.field_selector.is_empty(), "a get has no selectors");
}

proptest! {
    /// A request must be authorized for the object that it reaches.
    #[test]
    fn routed_requests_have_the_attributes_of_their_target(
        segments in prop::collection::vec(
            prop::sample::select(vec![
                "api", "apis", "v1", "apps", "namespaces", "watch", "proxy", "pods", "deployments", "nodes", "a",
                "status", "finalize", "log", "x%2Fy", "%6eamespaces", "", "..", "scale",
            ]),
            0..9,
        ),
        prefix in prop::sample::select(vec!["/api/v1/", "/apis/apps/v1/", "/", "//api/v1/"]),
        suffix in prop::sample::select(vec!["", "/", "//"]),
    ) {
        let path = format!("{prefix}{}{suffix}", segments.join("/"));
        let attributes = RequestAttributes::parse(&Method::PUT, &path, "");
        let info = attributes.info();
        match route(&path, Catalog::built_in()) {
            Route::Objects(target) => {
                let expected = &target.resource_type.info;
                prop_assert!(info.is_resource);
                prop_assert_eq!(info.group, &*expected.group);
                prop_assert_eq!(info.version, &*expected.version);
                prop_assert_eq!(info.resource, &*expected.plural);
                prop_assert_eq!(info.subresource, &target.subresource);
                prop_assert_eq!(info.name, &target.name);
                // A namespace is also in itself.
                let own = if info.resource == "namespaces" { &target.name } else { &target.namespace };
                prop_assert_eq!(info.namespace, own);
            }
            Route::Document(_) => prop_assert!(!info.is_resource),
            Route::Usage(_) | Route::NotFound => {}
        }
    }
}
