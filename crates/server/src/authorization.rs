//! Authorization: a chain of authorizers decides every request, access review and write of the loop.
//!
//! [`Authorization::authorize`] allows members of `system:masters`, then asks the [`Authorizer`]s in order. The first
//! that allows or denies decides; a request on which none has an opinion is forbidden. A server's chain is that of its
//! configuration ([`configured`]): by default the [`node`] authorizer and [`RbacAuthorizer`]. [`webhook`] asks a remote
//! service.
//!
//! To add an authorizer, implement [`Authorizer`] and install the whole chain with [`Authorization::set_chain`].
//! An authorizer that needs another process returns [`Answer::Later`]. Requests await it. Decisions of the pipeline are
//! synchronous: they look the answer up in [`RequestAuthorizations`], a missing one is started there and makes the
//! decision void, and the write is decided again once it is there.

pub mod configured;
mod context;
pub mod node;
mod rbac;
mod review;
pub mod webhook;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::RwLock;
use setpoint_api::quote::Quoted;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Identity, RequestInfo};
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::{Snapshot, Store};

pub use self::context::{AuthorizationContext, RequestAuthorizations};
pub use self::rbac::RbacAuthorizer;
pub use self::review::ReviewedRequest;

/// Group whose members may do everything.
pub const PRIVILEGED_GROUP: &str = "system:masters";

/// Decision that another process makes.
pub type PendingDecision = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Answer of an authorizer.
pub enum Answer {
    /// Decision that was made in process.
    Now(Decision),
    /// Decision of another process.
    Later(PendingDecision),
}

/// Rule of an access review: what a user may do with resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceRule {
    /// Verbs; `*` for all.
    pub verbs: Vec<String>,
    /// API groups; `*` for all.
    pub groups: Vec<String>,
    /// Resources and subresources; `*` for all.
    pub resources: Vec<String>,
    /// Names; empty for all.
    pub names: Vec<String>,
}

/// Rule of an access review: what a user may do with other paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathRule {
    /// Verbs; `*` for all.
    pub verbs: Vec<String>,
    /// Paths; a trailing `*` matches any rest.
    pub paths: Vec<String>,
}

/// Rules of a user in a namespace, for SelfSubjectRulesReview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRules {
    /// Rules about resources.
    pub resources: Vec<ResourceRule>,
    /// Rules about other paths.
    pub paths: Vec<PathRule>,
    /// `true` if the user may have further rules.
    pub is_incomplete: bool,
    /// Errors, one per authorizer that has any.
    pub errors: Vec<String>,
}

/// An authorizer of the chain.
pub trait Authorizer: Send + Sync {
    /// Name of the authorizer, for metrics and logs.
    fn name(&self) -> &str;

    /// Decides on a request. Must not block: see [`Answer::Later`].
    fn authorize(&self, attributes: &Attributes<'_>, snapshot: &Snapshot) -> Answer;

    /// Adds the rules of a user in a namespace.
    fn add_rules(&self, user: &Identity, namespace: &str, snapshot: &Snapshot, rules: &mut UserRules);
}

/// Authorizers of a server.
pub struct Authorization {
    chain: RwLock<Arc<[Arc<dyn Authorizer>]>>,
    rbac: Arc<RbacAuthorizer>,
}

impl Default for Authorization {
    /// RBAC alone, without a store to follow.
    fn default() -> Authorization {
        Authorization::of(RbacAuthorizer::default())
    }
}

impl Authorization {
    /// RBAC alone, over the roles and bindings of a store. All snapshots must be those of the store.
    #[must_use]
    pub fn following(store: Store) -> Authorization {
        Authorization::of(RbacAuthorizer::following(store))
    }

    fn of(rbac: RbacAuthorizer) -> Authorization {
        let rbac = Arc::new(rbac);
        let chain: Arc<[Arc<dyn Authorizer>]> = Arc::new([Arc::clone(&rbac) as _]);
        Authorization { chain: RwLock::new(chain), rbac }
    }

    /// Replaces the authorizers that follow `system:masters`, in the order in which they are asked.
    pub fn set_chain(&self, chain: Vec<Arc<dyn Authorizer>>) {
        *self.chain.write() = chain.into();
    }

    /// The RBAC authorizer, to be a part of another chain. It also checks escalation, whatever the chain is.
    #[must_use]
    pub fn rbac(&self) -> &Arc<RbacAuthorizer> {
        &self.rbac
    }

    /// The authorizers that follow `system:masters`.
    fn chain(&self) -> Arc<[Arc<dyn Authorizer>]> {
        Arc::clone(&self.chain.read())
    }

    /// Decides on a request.
    pub async fn authorize(&self, attributes: &Attributes<'_>, snapshot: &Snapshot) -> Decision {
        if is_privileged(attributes.user) {
            return Decision::Allowed(String::new());
        }
        let mut reasons = Vec::new();
        for authorizer in self.chain().iter() {
            let decision = match authorizer.authorize(attributes, snapshot) {
                Answer::Now(decision) => decision,
                Answer::Later(pending) => pending.await,
            };
            match decision {
                Decision::NoOpinion(reason) => {
                    reasons.extend(Some(reason).filter(|reason| !reason.is_empty()))
                }
                decision => return decision,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }

    /// Decides on a request of the pipeline. Answers of other processes are in `answers`; a missing one is started
    /// there. Without `answers` such an authorizer has no opinion.
    #[must_use]
    pub fn authorize_now(
        &self,
        attributes: &Attributes<'_>,
        snapshot: &Snapshot,
        answers: Option<&RequestAuthorizations>,
    ) -> Decision {
        if is_privileged(attributes.user) {
            return Decision::Allowed(String::new());
        }
        let mut reasons = Vec::new();
        for (at, authorizer) in self.chain().iter().enumerate() {
            let decision = match answers.and_then(|answers| answers.find(at, attributes)) {
                Some(decision) => decision,
                None => match (authorizer.authorize(attributes, snapshot), answers) {
                    (Answer::Now(decision), _) => decision,
                    (Answer::Later(pending), Some(answers)) => {
                        answers.add_missing(at, attributes, pending);
                        return Decision::NoOpinion(String::new());
                    }
                    (Answer::Later(_), None) => Decision::NoOpinion(String::new()),
                },
            };
            match decision {
                Decision::NoOpinion(reason) => {
                    reasons.extend(Some(reason).filter(|reason| !reason.is_empty()))
                }
                decision => return decision,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }

    /// Returns the rules of a user in a namespace. The chain has no rules for `system:masters`, as upstream: RBAC binds
    /// the group to `cluster-admin`.
    #[must_use]
    pub fn rules(&self, user: &Identity, namespace: &str, snapshot: &Snapshot) -> UserRules {
        let mut rules = UserRules::default();
        for authorizer in self.chain().iter() {
            authorizer.add_rules(user, namespace, snapshot, &mut rules);
        }
        rules
    }
}

/// `true` if the user is a member of `system:masters`.
#[must_use]
pub fn is_privileged(user: &Identity) -> bool {
    user.groups.iter().any(|group| group == PRIVILEGED_GROUP)
}

/// 403 for a request that is not allowed, with the reason of the authorizers.
#[must_use]
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let request = &attributes.request;
    let why = escape_html(&forbidden_message(attributes.user, request));
    let why = if reason.is_empty() { why } else { format!("{why}: {reason}") };
    Status::forbidden(Qualified { group: request.group, name: request.resource }, request.name, why)
}

/// Message of a 403.
fn forbidden_message(Identity { user, .. }: &Identity, request: &RequestInfo<'_>) -> String {
    let RequestInfo { verb, group, namespace, path, .. } = *request;
    if !request.is_resource {
        return format!("User {} cannot {verb} path {}", Quoted(user), Quoted(path));
    }
    let resource = match request.subresource {
        "" => request.resource.to_owned(),
        subresource => format!("{}/{subresource}", request.resource),
    };
    let place = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", Quoted(namespace)),
    };
    let (user, resource, group) = (Quoted(user), Quoted(&resource), Quoted(group));
    format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
}

/// Replaces characters that a browser would read as markup, as upstream does.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
