//! Tokens controller: fills Secrets of the type `kubernetes.io/service-account-token` with a token, the CA certificates
//! and the namespace, and deletes them with their ServiceAccount.
//!
//! The token is the answer to the query `service-account-token`; it is written once and never replaced. A deleted Secret
//! is also removed from the `secrets` of its account.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::{Object, Plan, Planner, Query, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::secret::Secret;
use setpoint_views::service_account::ServiceAccount;

use crate::staleness::{RETRY_DELAY, has_observed};

/// Type of Secrets that are tokens.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// Annotation with the name of the account.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// Annotation with the UID of the account.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const ACCOUNTS: &str = "serviceaccounts";
const SECRETS: &str = "secrets";

/// The tokens controller.
pub struct ServiceAccountTokens {
    /// CA certificates of the API server in PEM, in base64; empty to publish none.
    root_ca: String,
}

impl ServiceAccountTokens {
    /// Returns a controller that writes these CA certificates, in PEM.
    #[must_use]
    pub fn new(root_ca: &str) -> ServiceAccountTokens {
        ServiceAccountTokens { root_ca: STANDARD.encode(root_ca) }
    }

    /// Fills in what a Secret of an existing account lacks.
    fn fill(&self, object: &Object, secret: &Secret, account: &Object, seen: &Seen<'_, ()>, plan: &mut Plan) {
        let mut data = Value::map();
        if !self.root_ca.is_empty() && secret.data.get("ca.crt") != Some(self.root_ca.as_str()) {
            data.make_map().insert("ca.crt", self.root_ca.as_str());
        }
        let is_missing = |entry: &str| secret.data.get(entry).unwrap_or_default().is_empty();
        if is_missing("namespace") {
            data.make_map().insert("namespace", STANDARD.encode(&*object.meta().namespace));
        }
        if is_missing("token") {
            let id = format!("token {} {}", object.meta().uid, account.meta().uid);
            match seen.answers.get(&id).map(|answered| &answered.answer) {
                Some(Ok(token)) => {
                    let token = STANDARD.encode(token.as_str().unwrap_or_default());
                    data.make_map().insert("token", token);
                }
                // A failed query is repeated after its backoff.
                None | Some(Err(_)) => {
                    let question = question(account, object);
                    plan.queries.push(Query { target: "service-account-token", id, question });
                    return;
                }
            }
        }
        if data.as_map().is_some_and(|data| !data.is_empty()) {
            let annotations = value!({
                "kubernetes.io/service-account.name": (&*account.meta().name),
                "kubernetes.io/service-account.uid": (&*account.meta().uid),
            });
            let patch = value!({"metadata": {"annotations": (annotations)}, "data": (data)});
            plan.stage([Write::merge(object, "", patch).into()]);
        }
    }
}

impl Planner for ServiceAccountTokens {
    type Memo = ();

    fn name(&self) -> &'static str {
        "serviceaccount-token-controller"
    }

    fn user(&self) -> String {
        // Upstream's controller writes with the credentials of its process, since no account has a token before it runs.
        "system:kube-controller-manager".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::mapped(SECRETS, |object, _, enqueue| {
                if is_token(object) {
                    enqueue(object.key().clone());
                }
            }),
            Watch::mapped(ACCOUNTS, enqueue_tokens).when(|old, new| old.meta().uid != new.meta().uid),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        world.all(SECRETS).filter(|object| is_token(object)).map(|object| object.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else {
            remove_references(key, world, &mut plan);
            return plan;
        };
        let Some(secret) = object.view::<Secret>().filter(|secret| secret.kind == TOKEN_TYPE) else {
            return plan;
        };
        let name = annotation(object, ACCOUNT_NAME);
        if name.is_empty() || object.meta().is_deleted() {
            return plan;
        }
        let uid = annotation(object, ACCOUNT_UID);
        let account = world.find(ACCOUNTS, &object.meta().namespace, name);
        match account.filter(|account| uid.is_empty() || uid == &*account.meta().uid) {
            Some(account) => self.fill(object, secret, account, seen, &mut plan),
            // The account may not be visible yet.
            None if !has_observed(world, ACCOUNTS, object, now) => plan.requeue_at(now.after(RETRY_DELAY)),
            None => plan.stage([Write::delete(object).into()]),
        }
        plan
    }
}

fn is_token(object: &Object) -> bool {
    object.view::<Secret>().is_some_and(|secret| secret.kind == TOKEN_TYPE)
}

fn annotation<'a>(object: &'a Object, name: &str) -> &'a str {
    object.meta().annotations.get(name).unwrap_or_default()
}

/// Question for the token of an account in a Secret.
fn question(account: &Object, secret: &Object) -> Value {
    let meta = account.meta();
    value!({
        "account": {"metadata": {"namespace": (&*meta.namespace), "name": (&*meta.name), "uid": (&*meta.uid)}},
        "secret": (&*secret.meta().name),
    })
}

/// Enqueues the tokens of an account.
fn enqueue_tokens(account: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for secret in world.in_namespace(SECRETS, &account.meta().namespace) {
        if is_token(secret) && annotation(secret, ACCOUNT_NAME) == &*account.meta().name {
            enqueue(secret.key().clone());
        }
    }
}

/// Removes a deleted Secret from the accounts that list it.
fn remove_references(key: &Key, world: &WorldReader<'_>, plan: &mut Plan) {
    for account in world.in_namespace(ACCOUNTS, key.namespace().unwrap_or_default()) {
        let lists = |view: &ServiceAccount| view.secrets.iter().any(|secret| secret.name == key.name());
        if account.meta().is_deleted() || !account.view::<ServiceAccount>().is_some_and(lists) {
            continue;
        }
        let value = account.value();
        let references = value.get("secrets").and_then(Value::as_list).unwrap_or_default();
        let kept = references.iter().filter(|reference| reference.str_at(&["name"]) != key.name());
        let kept: Vec<Value> = kept.cloned().collect();
        plan.push(Write::merge(account, "", value!({"secrets": (kept)})));
    }
}

#[cfg(test)]
mod tests;
