//! Kinds of the group `rbac.authorization.k8s.io`. Privilege escalation is not checked here.

pub mod binding;
pub mod role;

use super::Rules;

/// Name of the group.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Role" => &role::Role { namespaced: true },
        "ClusterRole" => &role::Role { namespaced: false },
        "RoleBinding" => &binding::RoleBinding { namespaced: true },
        "ClusterRoleBinding" => &binding::RoleBinding { namespaced: false },
        _ => return None,
    })
}
