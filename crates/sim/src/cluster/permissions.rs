//! Permissions of simulated controllers: those that the bootstrap policy grants to their users.
//!
//! A controller that needs more is a bug, so a denied write panics. Controllers of tests, whose users no binding of the
//! policy names, are not checked.

use std::sync::Arc;

use setpoint_api::Identity;
use setpoint_authorization::rbac::SubjectCache;
use setpoint_authorization::{Attributes, bootstrap};
use setpoint_reconcile::WriteRequest;
use setpoint_server::authorization::node::NodeAuthorizer;
use setpoint_server::authorization::{Answer, Authorization, AuthorizationContext, Authorizer, UserRules};
use setpoint_server::loop_writes;
use setpoint_server::pipeline::RequestContext;
use setpoint_store::{Snapshot, Store};

/// Prefix of the users of nodes, whose permissions are not RBAC's.
const NODE_PREFIX: &str = "system:node:";

/// Objects, by planner, that upstream's controllers replace, so that their roles have the verb `update` and no `patch`. The
/// loop sends the difference in place of the whole object. All other patches need the verb `patch`.
const REPLACED_UPSTREAM: &[(&str, &[&str])] = &[
    ("bootstrap-signer-controller", &["configmaps"]),
    ("certificatesigningrequest-approving-controller", &["certificatesigningrequests/approval"]),
    ("certificatesigningrequest-signing-controller", &["certificatesigningrequests/status"]),
    ("cronjob-controller", &["cronjobs/status"]),
    ("daemonset-controller", &["daemonsets/status"]),
    ("deployment-controller", &["deployments", "deployments/status"]),
    ("disruption-controller", &["poddisruptionbudgets/status"]),
    ("endpoint-controller", &["endpoints"]),
    ("endpointslice-controller", &["endpointslices"]),
    ("endpointslicemirroring-controller", &["endpointslices"]),
    ("horizontal-pod-autoscaler", &["horizontalpodautoscalers/status", "replicasets/scale"]),
    ("job-controller", &["jobs/status"]),
    ("kube-apiserver-serving-clustertrustbundle-publisher-controller", &["clustertrustbundles"]),
    ("leader-lease", &["leases"]),
    ("namespace-controller", &["namespaces/finalize", "namespaces/status"]),
    (
        "persistent-volume-binder",
        &[
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "persistentvolumes",
            "persistentvolumes/status",
        ],
    ),
    ("pv-protection-controller", &["persistentvolumes"]),
    ("pvc-protection-controller", &["persistentvolumeclaims", "persistentvolumeclaims/status"]),
    // Mutants of campaigns patch ReplicaSets themselves.
    ("replicaset-controller", &["replicasets", "replicasets/status"]),
    ("replication-controller", &["replicationcontrollers/status"]),
    ("resourcequota-controller", &["resourcequotas/status"]),
    ("root-ca-certificate-publisher-controller", &["configmaps"]),
    ("scheduler-lease", &["leases"]),
    ("serviceaccount-token-controller", &["secrets", "serviceaccounts"]),
    ("statefulset-controller", &["persistentvolumeclaims", "statefulsets/status"]),
    ("volumeattributesclass-protection-controller", &["volumeattributesclasses"]),
];

/// Authorizer by the bootstrap policy as it is before anything is changed. The simulated store has no roles.
struct BootstrapPolicy(SubjectCache);

impl Authorizer for BootstrapPolicy {
    fn name(&self) -> &str {
        "bootstrap policy"
    }

    fn authorize(&self, attributes: &Attributes<'_>, _: &Snapshot) -> Answer {
        Answer::Now(self.0.decide(attributes))
    }

    fn add_rules(&self, _: &Identity, _: &str, _: &Snapshot, _: &mut UserRules) {}
}

/// Permissions of the loop's controllers.
pub(super) struct Permissions {
    authorization: Authorization,
    policy: Arc<BootstrapPolicy>,
}

impl Permissions {
    /// Permissions over the objects of a store.
    pub(super) fn new(store: &Store) -> Permissions {
        let nodes = NodeAuthorizer::new(store.clone());
        let policy = Arc::new(BootstrapPolicy(SubjectCache::new(bootstrap::policy())));
        let authorization = Authorization::default();
        authorization.set_chain(vec![Arc::new(nodes), Arc::clone(&policy) as _]);
        Permissions { authorization, policy }
    }

    /// Authorization of a user's writes; `None` if the policy does not name the user.
    pub(super) fn context(&self, user: &str) -> Option<AuthorizationContext<'_>> {
        let is_checked = user.starts_with(NODE_PREFIX) || self.policy.0.policy().has_user(user);
        is_checked.then_some(AuthorizationContext { authorization: &self.authorization, answers: None })
    }

    /// Panics if a write needs more permissions than its user has, or if a patch needs the verb `update` and is not one of
    /// [`REPLACED_UPSTREAM`].
    pub(super) fn check(&self, request: &WriteRequest, context: &RequestContext<'_>) {
        if let Some(denied) = loop_writes::denied(request, context) {
            panic!(
                "{} needs a permission that upstream does not grant: {}",
                request.reconciler, denied.message
            );
        }
        if let Some(resource) = loop_writes::patched_by_update(request, context) {
            let planner = request.reconciler.split(' ').next().unwrap_or_default();
            let is_listed = |(name, resources): &(&str, &[&str])| {
                *name == planner && resources.contains(&resource.as_str())
            };
            assert!(
                REPLACED_UPSTREAM.iter().any(is_listed),
                "{} patches {resource} without the verb patch: list it if upstream's controller replaces the object",
                request.reconciler
            );
        }
    }
}
