//! Chain of a configuration.

use std::path::Path;
use std::sync::Arc;

use setpoint_api::Identity;
use setpoint_authorization::config::{AuthorizationConfiguration, AuthorizerConfiguration, AuthorizerType};
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::{Snapshot, Store};

use super::node::NodeAuthorizer;
use super::webhook::{AuthorizationMetrics, WebhookAuthorizer, WebhookParts};
use super::{Answer, Authorizer, PathRule, RbacAuthorizer, ResourceRule, UserRules};
use crate::webhooks::kubeconfig::{EndpointFileError, read_endpoint};

/// Any verb, group, resource or path.
const ALL: &str = "*";

/// Returns the authorizers of a configuration, in order.
///
/// # Errors
/// If the kubeconfig of a webhook is unusable.
pub fn chain(
    config: AuthorizationConfiguration,
    store: &Store,
    rbac: &Arc<RbacAuthorizer>,
    parts: &WebhookParts,
) -> Result<Vec<Arc<dyn Authorizer>>, EndpointFileError> {
    let authorizers = config.authorizers.into_iter().map(|AuthorizerConfiguration { name, authorizer }| {
        let type_name = authorizer.name();
        let inner: Arc<dyn Authorizer> = match authorizer {
            AuthorizerType::AlwaysAllow => Arc::new(AlwaysAllow),
            AuthorizerType::AlwaysDeny => Arc::new(AlwaysDeny),
            AuthorizerType::Node => Arc::new(NodeAuthorizer::new(store.clone())),
            AuthorizerType::Rbac => Arc::clone(rbac) as _,
            AuthorizerType::Webhook(webhook) => {
                let endpoint = read_endpoint(Path::new(&*webhook.kubeconfig))?;
                Arc::new(WebhookAuthorizer::new(&name, *webhook, endpoint, parts.clone()))
            }
        };
        let metrics = Arc::clone(&parts.metrics);
        Ok(Arc::new(CountedAuthorizer { inner, type_name, name, metrics }) as Arc<dyn Authorizer>)
    });
    authorizers.collect()
}

/// Authorizer that allows every request.
struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn name(&self) -> &str {
        "alwaysallow"
    }

    fn authorize(&self, _: &Attributes<'_>, _: &Snapshot) -> Answer {
        Answer::Now(Decision::Allowed(String::new()))
    }

    fn add_rules(&self, _: &Identity, _: &str, _: &Snapshot, rules: &mut UserRules) {
        let all = || vec![ALL.to_owned()];
        rules.resources.push(ResourceRule {
            verbs: all(),
            groups: all(),
            resources: all(),
            names: Vec::new(),
        });
        rules.paths.push(PathRule { verbs: all(), paths: all() });
    }
}

/// Authorizer that allows nothing. As upstream, it leaves the decision to the authorizers after it.
struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn name(&self) -> &str {
        "alwaysdeny"
    }

    fn authorize(&self, _: &Attributes<'_>, _: &Snapshot) -> Answer {
        Answer::Now(Decision::NoOpinion("Everything is forbidden.".to_owned()))
    }

    fn add_rules(&self, _: &Identity, _: &str, _: &Snapshot, _: &mut UserRules) {}
}

/// Authorizer whose decisions are counted.
struct CountedAuthorizer {
    inner: Arc<dyn Authorizer>,
    type_name: &'static str,
    name: Box<str>,
    metrics: Arc<AuthorizationMetrics>,
}

impl Authorizer for CountedAuthorizer {
    fn name(&self) -> &str {
        &self.name
    }

    fn authorize(&self, attributes: &Attributes<'_>, snapshot: &Snapshot) -> Answer {
        match self.inner.authorize(attributes, snapshot) {
            Answer::Now(decision) => {
                self.metrics.count_decision(self.type_name, &self.name, &decision);
                Answer::Now(decision)
            }
            Answer::Later(pending) => {
                let (type_name, name) = (self.type_name, self.name.clone());
                let metrics = Arc::clone(&self.metrics);
                Answer::Later(Box::pin(async move {
                    let decision = pending.await;
                    metrics.count_decision(type_name, &name, &decision);
                    decision
                }))
            }
        }
    }

    fn add_rules(&self, user: &Identity, namespace: &str, snapshot: &Snapshot, rules: &mut UserRules) {
        self.inner.add_rules(user, namespace, snapshot, rules);
    }
}
