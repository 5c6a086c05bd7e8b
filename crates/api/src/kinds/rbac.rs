//! The kinds of rbac.authorization.k8s.io: who may do what. Whether a writer may grant it is not checked here.

pub mod binding;
pub mod role;

use super::Rules;

/// The group's name.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Role" => &role::Role { namespaced: true },
        "ClusterRole" => &role::Role { namespaced: false },
        "RoleBinding" => &binding::Binding { namespaced: true },
        "ClusterRoleBinding" => &binding::Binding { namespaced: false },
        _ => return None,
    })
}
