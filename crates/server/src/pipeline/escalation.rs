//! Escalation check: a user may grant only the permissions that it has.
//!
//! A write of a Role or ClusterRole needs all rules of the role, or the verb `escalate` on it. A write of a binding needs
//! all rules of the role that it binds, or the verb `bind` on that role. Changes of nothing but garbage collection's
//! fields are exempt, so that an object can be deleted by those who could not create it. As upstream, the check follows
//! mutating admission and precedes validation.

use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{RequestInfo, Value, metadata};
use setpoint_authorization::rbac::{PolicyRule, RoleRef, SUBRULES_MAX, TooManyRules, describe, uncovered};

use super::{RequestContext, WriteOrigin};
use crate::authorization::is_privileged;

/// Group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";
/// Metadata that an exempt change may touch: that of garbage collection, and what every write changes.
const EXEMPT_METADATA: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "resourceVersion"];

/// A written role or binding.
struct Grant<'a> {
    resource_type: &'a ResourceType,
    new: &'a Value,
    writer: &'a WriteOrigin,
    context: &'a RequestContext<'a>,
}

/// Rejects a write of a role or binding that grants permissions which its user does not have. `old` is the stored object;
/// `None` for a create.
///
/// # Errors
/// 403 with the missing rules.
pub(crate) fn check_escalation(
    resource_type: &ResourceType,
    new: &Value,
    old: Option<&Value>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(), Status> {
    if resource_type.info.group != GROUP || context.authorization.is_none() || is_privileged(&writer.identity)
    {
        return Ok(());
    }
    let grant = Grant { resource_type, new, writer, context };
    if old.is_some_and(|old| without_exempt(new) == without_exempt(old)) {
        return Ok(());
    }
    match &*resource_type.info.kind {
        "Role" | "ClusterRole" => grant.check_role(old),
        "RoleBinding" | "ClusterRoleBinding" => grant.check_binding(),
        _ => Ok(()),
    }
}

/// Returns an object without the fields that an exempt change may touch.
fn without_exempt(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.make_map().get_mut("metadata").and_then(Value::as_map_mut) {
        for field in EXEMPT_METADATA {
            metadata.remove(field);
        }
    }
    object
}

impl Grant<'_> {
    /// Namespace of the write; empty for the cluster scope.
    fn namespace(&self) -> &str {
        if self.resource_type.info.namespaced { metadata::namespace(self.new) } else { "" }
    }

    fn is_authorized(&self, verb: &str, resource: &str, name: &str) -> bool {
        let request = RequestInfo {
            is_resource: true,
            verb,
            path: "",
            group: GROUP,
            version: "*",
            resource,
            subresource: "",
            namespace: self.namespace(),
            name,
        };
        self.context.is_authorized(&self.writer.identity, request)
    }

    fn check_role(&self, old: Option<&Value>) -> Result<(), Status> {
        // The path of a create has no name, so a rule for one name does not allow it.
        let name = old.map_or("", metadata::name);
        if self.is_authorized("escalate", &self.resource_type.info.plural, name) {
            return Ok(());
        }
        self.check_rules(&PolicyRule::list(self.new))?;
        if [Some(self.new), old].into_iter().flatten().any(has_aggregation_rule) {
            let all = || vec!["*".into()];
            let resources =
                PolicyRule { verbs: all(), groups: all(), resources: all(), ..PolicyRule::default() };
            let paths = PolicyRule { verbs: all(), paths: all(), ..PolicyRule::default() };
            if self.check_rules(&[resources, paths]).is_err() {
                return Err(self.forbidden("must have cluster-admin privileges to use the aggregationRule"));
            }
        }
        Ok(())
    }

    fn check_binding(&self) -> Result<(), Status> {
        let reference = RoleRef::read(self.new);
        let group = self.new.str_at(&["roleRef", "apiGroup"]);
        let plural = match &*reference.kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            // Validation rejects it: no binding of another kind is stored, and none grants anything.
            _ => return Ok(()),
        };
        if group == GROUP && self.is_authorized("bind", plural, &reference.name) {
            return Ok(());
        }
        let Some(authorization) = self.context.authorization else { return Ok(()) };
        let policy = authorization.authorization.rbac().policy(self.context.snapshot);
        let rules = policy.role(&reference, self.namespace()).map_err(|_| {
            let singular = plural.strip_suffix('s').unwrap_or(plural);
            Status::not_found(Qualified { group: GROUP, name: singular }, &reference.name)
        })?;
        self.check_rules(rules)
    }

    /// 403 if the user lacks one of the rules.
    fn check_rules(&self, granted: &[PolicyRule]) -> Result<(), Status> {
        let Some(authorization) = self.context.authorization else { return Ok(()) };
        let (rbac, user) = (authorization.authorization.rbac(), &self.writer.identity);
        let (owned, errors) = rbac.bound_rules(user, self.namespace(), self.context.snapshot);
        match uncovered(&owned, granted) {
            Ok(missing) if missing.is_empty() => Ok(()),
            Ok(missing) => Err(self.forbidden(&describe(user, &missing, &errors))),
            Err(TooManyRules) => Err(self.forbidden(&format!(
                "the rules combine to more than {SUBRULES_MAX} verbs on resources: write fewer of them in one role, or \
                 have the verb \"escalate\""
            ))),
        }
    }

    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.resource_type.qualified(), metadata::name(self.new), why)
    }
}

/// `true` if a role selects others for aggregation.
fn has_aggregation_rule(role: &Value) -> bool {
    let selectors = role.at(&["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_list);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}
