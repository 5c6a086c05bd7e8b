//! Requests with impersonation headers.

use crate::harness::TestServer;

#[test]
fn impersonation_is_forbidden() {
    let server = TestServer::new();
    for header in ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-scopes"] {
        for path in ["/api/v1/namespaces/default/configmaps", "/version", "/api", "/nothing"] {
            let reply = server.send("GET", path, "", &[(header, "bob")]);
            assert_eq!(reply.code, 403, "{header} {path}");
            let error = reply.value();
            assert_eq!(error.str_at(&["reason"]), "Forbidden");
            let message = error.str_at(&["message"]);
            assert!(
                message.contains("does not support impersonation yet") && message.contains(header),
                "{message}"
            );
        }
    }
}
