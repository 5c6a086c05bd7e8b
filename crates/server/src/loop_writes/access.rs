//! Authorization of the loop's writes: each controller has the permissions of its own user, as in upstream.
//!
//! A patch or apply of the loop needs the verb `patch` or `update`. Planners write a change where upstream's controllers
//! replace the object that they have read, and their roles have the verb for that.

use setpoint_api::RequestInfo;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::Status;
use setpoint_authorization::{Attributes, Decision};
use setpoint_reconcile::Write;

use crate::authorization::{PRIVILEGED_GROUP, forbidden};
use crate::exchange::Identity;
use crate::pipeline::RequestContext;

/// User of the server itself.
const SERVER: &str = "system:apiserver";
/// Prefix of the users of service accounts: namespace and name follow.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Prefix of the users of nodes.
const NODE_PREFIX: &str = "system:node:";

/// Returns a user of the loop with its groups.
pub(super) fn identity(user: &str) -> Identity {
    let mut groups = vec!["system:authenticated".to_owned()];
    if let Some((namespace, _)) =
        user.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'))
    {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    if user.starts_with(NODE_PREFIX) {
        groups.push("system:nodes".to_owned());
    }
    if user == SERVER {
        groups.push(PRIVILEGED_GROUP.to_owned());
    }
    Identity::new(user, groups)
}

/// Returns the 403 of a write that the user may not make.
pub(super) fn denied(
    write: &Write,
    resource_type: &ResourceType,
    user: &Identity,
    context: &RequestContext<'_>,
) -> Option<Status> {
    denied_with(write, resource_type, user, &["patch", "update"], context)
}

/// Returns the 403 of a write that the user may not make. `patch_verbs` are the verbs that suffice for a patch or apply.
pub(super) fn denied_with(
    write: &Write,
    resource_type: &ResourceType,
    user: &Identity,
    patch_verbs: &[&'static str],
    context: &RequestContext<'_>,
) -> Option<Status> {
    context.authorization?;
    let (verbs, subresource): (&[&'static str], &str) = match write {
        Write::Create { .. } | Write::CreateEvent(_) => (&["create"], ""),
        Write::Patch { subresource, .. } | Write::Apply { subresource, .. } => (patch_verbs, subresource),
        Write::Delete { .. } => (&["delete"], ""),
        Write::Post { subresource, .. } => (&["create"], subresource),
    };
    let key = write.key().filter(|_| !matches!(write, Write::Create { .. } | Write::CreateEvent(_)));
    let name = key.map_or("", |key| key.name());
    let info = &resource_type.info;
    let namespace = match write {
        // A namespace is also in itself.
        _ if info.group.is_empty() && info.plural == "namespaces" => name,
        Write::Create { namespace, .. } => namespace,
        Write::CreateEvent(event) => event.namespace(),
        _ => key.and_then(|key| key.namespace()).unwrap_or_default(),
    };
    let request = RequestInfo {
        is_resource: true,
        verb: verbs[0],
        path: "",
        group: &info.group,
        version: &info.version,
        resource: &info.plural,
        subresource,
        namespace,
        name,
    };
    let attributes = Attributes { user, request, field_selector: &[], label_selector: &[] };
    let mut reason = String::new();
    for verb in verbs {
        match context.authorize(&Attributes { request: RequestInfo { verb, ..request }, ..attributes }) {
            Decision::Allowed(_) => return None,
            Decision::Denied(why) | Decision::NoOpinion(why) => reason = why,
        }
    }
    Some(forbidden(&attributes, &reason))
}
