//! Rules of requests that do not depend on the node.

use setpoint_api::RequestInfo;

/// Verbs, groups and resources that every node may use, as far as no relationship restricts them: upstream's rules of
/// the role `system:node`.
const RULES: [(&[&str], &[&str], &[&str]); 9] = [
    (&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
    (&["create"], &["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"]),
    (READ, &[""], &["services"]),
    (&["create", "update", "patch"], &["", "events.k8s.io"], &["events"]),
    (&["get"], &[""], &["endpoints"]),
    (&["create", "get", "list", "watch"], &["certificates.k8s.io"], &["certificatesigningrequests"]),
    (READ, &["storage.k8s.io"], &["csidrivers"]),
    (READ, &["node.k8s.io"], &["runtimeclasses"]),
    (READ, &["certificates.k8s.io"], &["clustertrustbundles"]),
];
/// Verbs of reads.
const READ: &[&str] = &["get", "list", "watch"];

/// `true` if every node may send the request.
pub(super) fn allow(request: &RequestInfo<'_>) -> bool {
    request.subresource.is_empty()
        && RULES.iter().any(|(verbs, groups, resources)| {
            verbs.contains(&request.verb)
                && groups.contains(&request.group)
                && resources.contains(&request.resource)
        })
}
