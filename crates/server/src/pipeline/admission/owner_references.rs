//! OwnerReferencesPermissionEnforcement: owners are changed only by users who may delete the object.
//!
//! An owner reference with `blockOwnerDeletion` delays the deletion of the owner, so it needs the permission to set
//! finalizers of the owner too.

use setpoint_api::request_info::RequestInfo;
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};
use setpoint_authorization::Decision;

use super::{AdmissionInput, Findings};

/// Rejects changed owner references without the permission.
pub(super) fn validate(object: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    // The rules of the kind keep the owners in updates of the status of a pod.
    if input.is("pods", "status") || references(Some(object)) == references(input.old) {
        return Ok(());
    }
    if !input.is_create()
        && let Err(reason) = allowed(input.authorize(delete(object, input)))
    {
        let why = format!("cannot set an ownerRef on a resource you can't delete: {reason}, <nil>");
        return Err(input.forbidden(object, &why));
    }
    let blocking = new_blocking_references(object, input.old);
    if blocking.is_empty() || allowed(input.authorize(finalize("*", "*", "*", "*"))).is_ok() {
        return Ok(());
    }
    for reference in blocking {
        check_owner(reference, input).map_err(|why| input.forbidden(object, &why))?;
    }
    Ok(())
}

fn references(object: Option<&Value>) -> &[Value] {
    let list = object.and_then(|object| object.at(&["metadata", "ownerReferences"])).and_then(Value::as_list);
    list.unwrap_or_default()
}

/// The reason, unless the request is allowed.
fn allowed(decision: Decision) -> Result<(), String> {
    match decision {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => Err(reason),
    }
}

/// Request that deletes the object.
fn delete<'a>(object: &'a Value, input: &AdmissionInput<'a>) -> RequestInfo<'a> {
    let info = &input.request.resource_type.info;
    RequestInfo {
        is_resource: true,
        verb: "delete",
        path: "",
        group: &info.group,
        version: &info.version,
        resource: &info.plural,
        subresource: input.request.subresource,
        namespace: input.request.namespace,
        name: metadata::name(object),
    }
}

/// Request that updates finalizers, in all namespaces.
fn finalize<'a>(group: &'a str, version: &'a str, resource: &'a str, name: &'a str) -> RequestInfo<'a> {
    RequestInfo {
        is_resource: true,
        verb: "update",
        group,
        version,
        resource,
        subresource: "finalizers",
        name,
        ..RequestInfo::default()
    }
}

/// References that block the deletion of their owner and did not before.
fn new_blocking_references<'a>(object: &'a Value, old: Option<&Value>) -> Vec<&'a Value> {
    let is_blocking =
        |reference: &Value| reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true);
    let was_blocking = |reference: &Value| {
        let uid = reference.str_at(&["uid"]);
        references(old).iter().rfind(|old| old.str_at(&["uid"]) == uid).is_some_and(is_blocking)
    };
    let new = references(Some(object)).iter();
    new.filter(|reference| is_blocking(reference) && !was_blocking(reference)).collect()
}

/// Checks that the author may set finalizers of an owner.
fn check_owner(reference: &Value, input: &AdmissionInput<'_>) -> Result<(), String> {
    let (api_version, kind) = (reference.str_at(&["apiVersion"]), reference.str_at(&["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_owner = |owner: &&ResourceType| {
        let info = &owner.info;
        (&*info.group, &*info.version, &*info.kind) == (group, version, kind)
    };
    let built_in = resource_types::all().iter().map(|built_in| &**built_in);
    let custom = input.context.catalog.custom().map(|custom| &**custom);
    let owners: Vec<&ResourceType> = built_in.chain(custom).filter(is_owner).collect();
    if owners.is_empty() {
        return Err(format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind \
             {kind}: no matches for kind {kind:?} in version {api_version:?}"
        ));
    }
    for owner in owners {
        let info = &owner.info;
        let namespace = if info.namespaced { input.request.namespace } else { "" };
        let request = finalize(&info.group, &info.version, &info.plural, reference.str_at(&["name"]));
        allowed(input.authorize(RequestInfo { namespace, ..request })).map_err(|reason| {
            format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: \
                 {reason}, <nil>"
            )
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    fn owned(kind: &str, blocks: bool) -> Value {
        object(&format!(
            r#"{{"metadata":{{"name":"m","ownerReferences":[{{"apiVersion":"apps/v1","kind":"{kind}","name":"o","uid":"u",
            "blockOwnerDeletion":{blocks}}}]}}}}"#
        ))
    }

    fn check(review: &Review<'_>, object: &Value) -> Result<(), String> {
        let checked = review.run(|input| validate(object, input, &mut Findings::default()));
        checked.map_err(|status| status.message.into_owned())
    }

    #[test]
    fn owner_is_changed_only_with_the_permission_to_delete() {
        let old = object(r#"{"metadata":{"name":"m"}}"#);
        let review = |verb: &'static str| {
            Review::update("", "v1", "configmaps", &old).allowing(move |request| {
                (request.verb, request.resource, request.name) == (verb, "configmaps", "m")
            })
        };
        assert_eq!(check(&review("delete"), &owned("Deployment", false)), Ok(()));
        assert_eq!(check(&review("update"), &old), Ok(()));
        assert_eq!(
            check(&review("update"), &owned("Deployment", false)).unwrap_err(),
            "configmaps \"m\" is forbidden: cannot set an ownerRef on a resource you can't delete: no rule, <nil>"
        );
        let create = Review::create("", "v1", "configmaps").allowing(|_| false);
        assert_eq!(
            check(&create, &owned("Deployment", false)),
            Ok(()),
            "a create needs no permission to delete"
        );
    }

    #[test]
    fn blocking_owner_needs_the_permission_to_finalize_it() {
        let create = |group: &'static str| {
            Review::create("", "v1", "configmaps").allowing(move |request| {
                (request.verb, request.group, request.subresource) == ("update", group, "finalizers")
            })
        };
        assert_eq!(check(&create("*"), &owned("Unknown", true)), Ok(()), "may finalize everything");
        assert_eq!(check(&create("apps"), &owned("Deployment", true)), Ok(()));
        assert_eq!(
            check(&create("none"), &owned("Deployment", true)).unwrap_err(),
            "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
             can't set finalizers on: no rule, <nil>"
        );
        assert_eq!(
            check(&create("apps"), &owned("Unknown", true)).unwrap_err(),
            "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
             APIVersion apps/v1 Kind Unknown: no matches for kind \"Unknown\" in version \"apps/v1\""
        );
        let old = owned("Deployment", true);
        let update =
            Review::update("", "v1", "configmaps", &old).allowing(|request| request.verb == "delete");
        assert_eq!(check(&update, &old), Ok(()), "it blocked before");
    }
}
