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

    /// Panics if a write needs more permissions than its user has.
    pub(super) fn check(&self, request: &WriteRequest, context: &RequestContext<'_>) {
        if let Some(denied) = loop_writes::denied(request, context) {
            panic!(
                "{} needs a permission that upstream does not grant: {}",
                request.reconciler, denied.message
            );
        }
    }
}
