//! Permissions of the planners: users that upstream's policy binds, which may list and watch what the planners watch.

use std::collections::BTreeSet;

use setpoint_api::{Identity, RequestInfo, value};
use setpoint_authorization::rbac::{Binding, Policy, SubjectCache};
use setpoint_authorization::{Attributes, Decision, bootstrap};
use setpoint_controllers::api_service_availability::RemoteAvailability;
use setpoint_controllers::authentication_trust::AuthenticationTrust;
use setpoint_controllers::certificate_expiry::CertificateExpiry;
use setpoint_controllers::lease_holder::LeaseHolder;
use setpoint_controllers::legacy_token_tracking::LegacyTokenTracking;
use setpoint_reconcile::Controller;
use setpoint_reconcile::planner::{ALL_RESOURCES, SERVED_LATER};

use super::planners::planners;

/// Field manager of the planners that act as the node of a key.
const KUBELET: &str = "kubelet";
/// User of a node.
const NODE: &str = "system:node:n";
/// User of upstream's API server, with all permissions.
const SERVER: &str = "system:apiserver";
/// User of the shared informers of upstream's kube-controller-manager, which may list and watch everything.
const INFORMERS: &str = "system:kube-controller-manager";

/// Upstream's controller reads through the shared informers of its process, whose user may list and watch everything.
const INFORMER: &str = "read through a shared informer";
/// The permission is that of a namespace, to which the keys of the planner belong.
const NAMESPACED: &str = "the role is bound in the namespaces of the keys";
/// Upstream reads the subresource `scale`, which its role allows in all groups; the world has whole objects.
const SCALE: &str = "upstream reads the scale";
/// Upstream has no such watch: it checks a policy again only when the policy changes.
const SCHEMAS: &str = "upstream reads the schemas of definitions from the OpenAPI documents";
/// Enqueues keys only; upstream has another trigger.
const TRIGGER: &str = "only a trigger: upstream repeats failed writes after a pause, or at an interval";

/// Resources that a planner watches although the role of its user has no `list` and `watch` for them, with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("bootstrap-signer-controller", "configmaps", NAMESPACED),
    ("bootstrap-signer-controller", "secrets", NAMESPACED),
    ("disruption-controller", "pods", INFORMER),
    ("disruption-controller", SERVED_LATER, SCALE),
    ("horizontal-pod-autoscaler", "deployments.apps", SCALE),
    ("horizontal-pod-autoscaler", "replicasets.apps", SCALE),
    ("horizontal-pod-autoscaler", "replicationcontrollers", SCALE),
    ("horizontal-pod-autoscaler", "statefulsets.apps", SCALE),
    ("horizontal-pod-autoscaler", SERVED_LATER, SCALE),
    ("kube-apiserver-serving-clustertrustbundle-publisher-controller", "namespaces", TRIGGER),
    ("legacy-serviceaccount-token-cleaner-controller", "secrets", INFORMER),
    ("node-control-plane", "namespaces", TRIGGER),
    ("replicaset-controller", "resourcequotas", TRIGGER),
    ("replication-controller", "resourcequotas", TRIGGER),
    ("resource-claim-controller", "resourceclaimtemplates.resource.k8s.io", INFORMER),
    ("root-ca-certificate-publisher-controller", "configmaps", INFORMER),
    ("root-ca-certificate-publisher-controller", "namespaces", INFORMER),
    ("scheduler-lease", "leases.coordination.k8s.io", NAMESPACED),
    ("serviceaccount-controller", "namespaces", INFORMER),
    ("serviceaccount-controller", "serviceaccounts", INFORMER),
    ("storage-version-migrator-controller", "storageversionmigrations.storagemigration.k8s.io", INFORMER),
    ("token-cleaner-controller", "secrets", NAMESPACED),
    (
        "validatingadmissionpolicy-status-controller",
        "customresourcedefinitions.apiextensions.k8s.io",
        SCHEMAS,
    ),
];

fn all_planners() -> Vec<Box<dyn Controller>> {
    let mut all = planners();
    all.push(Box::new(LeaseHolder { lease: "kube-scheduler", identity: "me".to_owned() }));
    all.push(Box::new(RemoteAvailability));
    all.push(Box::new(AuthenticationTrust));
    all.push(Box::new(CertificateExpiry));
    all.push(Box::new(LegacyTokenTracking));
    all
}

/// `true` if a decision allows to list and to watch a resource.
fn may_read(watched: &str, is_allowed: impl Fn(&RequestInfo<'_>) -> bool) -> bool {
    let (resource, group) = match watched {
        ALL_RESOURCES | SERVED_LATER => ("examples", "example.com"),
        other => other.split_once('.').unwrap_or((other, "")),
    };
    let request = RequestInfo {
        is_resource: true,
        verb: "list",
        path: "",
        group,
        version: "v1",
        resource,
        subresource: "",
        namespace: "",
        name: "",
    };
    is_allowed(&request) && is_allowed(&RequestInfo { verb: "watch", ..request })
}

/// `true` if upstream's policy lets the user of a controller list and watch a resource.
fn may_user_read(policy: &SubjectCache, user: &str, watched: &str) -> bool {
    let groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:kube-system"];
    let identity = Identity::new(user, groups.map(str::to_owned).to_vec());
    may_read(watched, |request| {
        let attributes =
            Attributes { user: &identity, request: *request, field_selector: &[], label_selector: &[] };
        matches!(policy.decide(&attributes), Decision::Allowed(_))
    })
}

/// Policy with the permissions that some node has by the node authorizer.
fn node_policy() -> SubjectCache {
    let mut policy = Policy::default();
    policy.set_role("", "node", bootstrap::node_rules().to_vec());
    policy.set_binding(Binding::read(&value!({
        "metadata": {"name": "node"},
        "roleRef": {"kind": "ClusterRole", "name": "node"},
        "subjects": [{"kind": "User", "name": (NODE)}],
    })));
    SubjectCache::new(policy)
}

#[test]
fn every_planner_acts_as_a_user_that_upstreams_policy_binds() {
    let policy = bootstrap::policy();
    for planner in all_planners() {
        let user = planner.user();
        let is_bound = user == SERVER || planner.manager() == KUBELET || policy.has_user(&user);
        assert!(is_bound, "{} acts as {user}, to which upstream binds no role", planner.name());
    }
}

#[test]
fn every_planner_may_list_and_watch_what_it_watches() {
    let policy = SubjectCache::new(bootstrap::policy());
    let nodes = node_policy();
    let mut missing = BTreeSet::new();
    for planner in all_planners().iter().filter(|planner| planner.user() != SERVER) {
        for watch in planner.watches() {
            let is_allowed = match planner.manager() {
                KUBELET => may_user_read(&nodes, NODE, watch.resource),
                _ => may_user_read(&policy, &planner.user(), watch.resource),
            };
            if !is_allowed {
                missing.insert((planner.name(), watch.resource));
            }
        }
    }
    let known: BTreeSet<_> = EXCEPTIONS.iter().map(|(planner, resource, _)| (*planner, *resource)).collect();
    assert_eq!(missing, known, "resources that planners watch beyond the roles of their users");
    let through_informers = EXCEPTIONS.iter().filter(|(_, _, why)| *why == INFORMER);
    for (planner, resource, _) in through_informers {
        assert!(may_user_read(&policy, INFORMERS, resource), "{planner} {resource}");
    }
}
