//! Kinds that are stored but have no effect yet.

use setpoint_api::ResourceType;

/// Kinds without effect by group, and the behavior of the server without them.
const UNENFORCED: [(&str, &[&str], &str); 1] =
    [("networking.k8s.io", &["NetworkPolicy"], "traffic is not filtered")];

/// Returns the warning for clients that write objects of a kind without effect.
#[must_use]
pub(crate) fn warning(resource_type: &ResourceType) -> Option<String> {
    let (group, kind) = (&*resource_type.info.group, &*resource_type.info.kind);
    let (_, _, instead) = UNENFORCED.iter().find(|(of, kinds, _)| *of == group && kinds.contains(&kind))?;
    Some(format!("{kind} is stored but not enforced by this server yet: {instead}"))
}
