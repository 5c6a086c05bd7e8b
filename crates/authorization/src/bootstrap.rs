//! Bootstrap policy: the roles and bindings that every cluster starts with, those of upstream.
//!
//! They are tables: [`objects`] makes API objects of them, and [`reconcile()`] brings a stored object up to date at each
//! start. It adds what is missing and removes nothing, so an administrator's additions stay; an object with the
//! annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` is not changed at all.
//!
//! `bootstrap_policy_is_that_of_the_reference` compares the tables with recorded facts, rule by rule.

mod bindings;
mod component_roles;
mod controller_roles;
mod facts;
mod reconcile;
mod user_roles;

use std::sync::LazyLock;

use setpoint_api::Value;

use self::bindings::{CLUSTER_BINDINGS, NAMESPACES};
use self::component_roles::COMPONENT_ROLES;
use self::controller_roles::{CONTROLLER_ROLES, PREFIX};
use self::facts::{BindingFacts, SubjectFacts, binding_value};
use self::user_roles::USER_ROLES;
use crate::rbac::{Binding, Policy, PolicyRule};

pub use self::reconcile::{Reconciled, reconcile};

/// Object of the bootstrap policy.
#[derive(Clone, Debug)]
pub struct BootstrapObject {
    /// Plural name of its resource.
    pub resource: &'static str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'static str,
    /// The object, without kind and version.
    pub object: Value,
}

/// Returns all objects: roles before the bindings that refer to them.
pub fn objects() -> impl Iterator<Item = BootstrapObject> {
    let object = |resource, namespace, object| BootstrapObject { resource, namespace, object };
    let roles = USER_ROLES.iter().chain(COMPONENT_ROLES).map(|role| (role, ""));
    let roles = roles.chain(CONTROLLER_ROLES.iter().map(|role| (role, PREFIX)));
    let roles = roles.map(move |(role, prefix)| object("clusterroles", "", role.to_value("", prefix)));
    let bindings = CLUSTER_BINDINGS.iter().map(|binding: &BindingFacts| binding.to_value(""));
    let of_controllers = CONTROLLER_ROLES.iter().map(|role| {
        let name = format!("{PREFIX}{}", role.name);
        binding_value("", &name, &name, &[SubjectFacts::Account(role.name)])
    });
    let bindings =
        bindings.chain(of_controllers).map(move |binding| object("clusterrolebindings", "", binding));
    let namespaced = NAMESPACES.iter().flat_map(move |facts| {
        let roles = facts.roles.iter().map(|role| ("roles", role.to_value(facts.namespace, "")));
        let bindings = facts.bindings.iter().map(|one| ("rolebindings", one.to_value(facts.namespace)));
        roles.chain(bindings).map(move |(resource, value)| object(resource, facts.namespace, value))
    });
    roles.chain(bindings).chain(namespaced)
}

/// Returns the bootstrap policy as it is before anything is changed, without aggregated roles.
#[must_use]
pub fn policy() -> Policy {
    let mut policy = Policy::default();
    for BootstrapObject { resource, namespace, object } in objects() {
        match resource {
            "roles" | "clusterroles" => {
                policy.set_role(namespace, setpoint_api::metadata::name(&object), PolicyRule::list(&object));
            }
            _ => policy.set_binding(Binding::read(&object)),
        }
    }
    policy
}

/// Returns the rules of the role `system:node`: what the node authorizer allows to some node.
#[must_use]
pub fn node_rules() -> &'static [PolicyRule] {
    static RULES: LazyLock<Vec<PolicyRule>> = LazyLock::new(|| {
        let role = COMPONENT_ROLES.iter().find(|role| role.name == "system:node");
        role.map_or_else(Vec::new, |role| role.rules.iter().map(|rule| rule.to_rule()).collect())
    });
    &RULES
}
