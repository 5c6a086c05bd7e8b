//! Printers of the group `rbac.authorization.k8s.io`. Roles have no printer of their own.

use super::cell::{age, list, name};
use super::{AGE, Cell, Column, Doc, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "ClusterRoleBinding" => &CLUSTER_ROLE_BINDING,
        "RoleBinding" => &ROLE_BINDING,
        _ => return None,
    })
}

const USERS: Column = Column::wide("Users", Doc::Own("Users among the subjects."));
const GROUPS: Column = Column::wide("Groups", Doc::Own("Groups among the subjects."));
const SERVICE_ACCOUNTS: Column =
    Column::wide("ServiceAccounts", Doc::Own("Service accounts among the subjects."));

static CLUSTER_ROLE_BINDING: Printer = Printer::new(
    &[
        NAME,
        Column::text("Role", field!("rbac.v1.ClusterRoleBinding", "roleRef")),
        AGE,
        USERS,
        GROUPS,
        SERVICE_ACCOUNTS,
    ],
    binding,
);

static ROLE_BINDING: Printer = Printer::new(
    &[
        NAME,
        Column::text("Role", field!("rbac.v1.RoleBinding", "roleRef")),
        AGE,
        USERS,
        GROUPS,
        SERVICE_ACCOUNTS,
    ],
    binding,
);

fn binding(object: &Value, now: Time) -> Vec<Cell> {
    let role = object.get("roleRef").unwrap_or(&Value::Null);
    let subjects = |kind: &str| -> Vec<&Value> {
        list(object, &["subjects"]).iter().filter(|one| one.str_at(&["kind"]) == kind).collect()
    };
    let names = |kind| subjects(kind).iter().map(|one| one.str_at(&["name"])).collect::<Vec<_>>().join(", ");
    let accounts: Vec<String> = subjects("ServiceAccount")
        .iter()
        .map(|one| format!("{}/{}", one.str_at(&["namespace"]), one.str_at(&["name"])))
        .collect();
    cells![
        name(object),
        format!("{}/{}", role.str_at(&["kind"]), role.str_at(&["name"])),
        age(object, now),
        names("User"),
        names("Group"),
        accounts.join(", "),
    ]
}
