//! Access check of policies: the author of a policy or binding needs permission to read its parameters, because its
//! expressions can reveal them.

use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::Status;
use setpoint_api::{Identity, RequestInfo, Value, resource_types};

use super::compiled::ParamKind;
use super::{GROUP, params};
use crate::authorization::is_privileged;
use crate::codec;
use crate::pipeline::{RequestContext, WriteOrigin, check};

/// Any group, version, resource, name or namespace of parameters.
const ANY: &str = "*";

/// Requirement that an author can read parameters.
struct ParamAccess<'a> {
    kind: Option<ParamKind>,
    user: &'a Identity,
    context: &'a RequestContext<'a>,
}

/// Rejects a policy or binding whose author may not read its parameters. `new` is otherwise valid.
///
/// # Errors
/// 422, as upstream.
pub(crate) fn check_param_access(
    resource_type: &ResourceType,
    new: &Value,
    old: Option<&Value>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(), Status> {
    let user = &writer.identity;
    if resource_type.info.group != GROUP || context.authorization.is_none() || is_privileged(user) {
        return Ok(());
    }
    let field =
        |object: &'_ Value, name: &str| object.at(&["spec", name]).filter(|it| !it.is_null()).cloned();
    let is_same = |name: &str| old.is_some_and(|old| field(old, name) == field(new, name));
    let root = Path::root("spec");
    let (path, refused) = match &*resource_type.info.kind {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            if field(new, "paramKind").is_none() || is_same("paramKind") {
                return Ok(());
            }
            let access = ParamAccess { kind: param_kind(new), user, context };
            (root.child("paramKind"), access.of_policy(new))
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            let Some(reference) =
                field(new, "paramRef").filter(|_| !(is_same("paramRef") && is_same("policyName")))
            else {
                return Ok(());
            };
            let policy = find_policy(resource_type, new.str_at(&["spec", "policyName"]), context);
            let access = ParamAccess { kind: policy.as_ref().and_then(param_kind), user, context };
            (root.child("paramRef"), access.of_binding(&reference, new, policy.is_some()))
        }
        _ => return Ok(()),
    };
    let mut errors = ErrorList::new();
    if let Some(why) = refused {
        errors.push(FieldError::forbidden(&path, why));
    }
    check(resource_type, new, &errors)
}

/// Kind of the parameters of a policy.
fn param_kind(policy: &Value) -> Option<ParamKind> {
    let kind = policy.at(&["spec", "paramKind"]).filter(|kind| !kind.is_null())?;
    let api_version = kind.str_at(&["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some(ParamKind { group: group.into(), version: version.into(), kind: kind.str_at(&["kind"]).into() })
}

/// Policy of a binding.
fn find_policy(binding: &ResourceType, name: &str, context: &RequestContext<'_>) -> Option<Value> {
    let plural = match &*binding.info.kind {
        "MutatingAdmissionPolicyBinding" => "mutatingadmissionpolicies",
        _ => "validatingadmissionpolicies",
    };
    let key = resource_types::find(GROUP, &binding.info.version, plural)?.key("", name).ok()?;
    context.snapshot.get(&key).map(codec::object)
}

impl ParamAccess<'_> {
    fn is_allowed(&self, verb: &str, namespace: &str, name: &str) -> bool {
        let resolved = self.kind.as_ref().and_then(|kind| params::find_kind(kind, self.context).ok());
        let request = RequestInfo {
            is_resource: true,
            verb,
            path: "",
            group: self.kind.as_ref().map_or(ANY, |kind| &kind.group),
            version: self.kind.as_ref().map_or(ANY, |kind| &kind.version),
            resource: resolved.as_ref().map_or(ANY, |resource_type| &resource_type.info.plural),
            subresource: "",
            namespace,
            name,
        };
        self.context.is_authorized(self.user, request)
    }

    /// Returns the message if the author of a policy may not read all objects of its parameters' kind.
    fn of_policy(&self, policy: &Value) -> Option<String> {
        let kind = policy.at(&["spec", "paramKind"]).unwrap_or(&Value::Null);
        let (kind, api_version) = (kind.str_at(&["kind"]), kind.str_at(&["apiVersion"]));
        let user = format_user(self.user);
        (!self.is_allowed("get", ANY, ANY)).then(|| {
            format!(
                "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={kind}, \
                 apiVersion={api_version})"
            )
        })
    }

    /// Returns the message if the author of a binding may not read the parameters that it refers to.
    fn of_binding(&self, reference: &Value, binding: &Value, has_policy: bool) -> Option<String> {
        let name = reference.str_at(&["name"]);
        let verb = if name.is_empty() { "list" } else { "get" };
        if self.is_allowed(verb, reference.str_at(&["namespace"]), name) {
            return None;
        }
        let user = format_user(self.user);
        let everywhere =
            format!("user {user} does not have \"{verb}\" permission for all groups, versions and resources");
        let purpose = "to determine minimum required permissions and";
        Some(match &self.kind {
            _ if !has_policy => {
                format!(
                    "unable to get policy {} {purpose} {everywhere}",
                    binding.str_at(&["spec", "policyName"])
                )
            }
            Some(kind) if params::find_kind(kind, self.context).is_err() => {
                let api_version = match &*kind.group {
                    "" => kind.version.to_string(),
                    group => format!("{group}/{}", kind.version),
                };
                format!("unable to resolve paramKind &{{{api_version} {}}} {purpose} {everywhere}", kind.kind)
            }
            _ => format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            ),
        })
    }
}

/// Prints a user as upstream's message does: the fields of a Go struct.
fn format_user(user: &Identity) -> String {
    let extra = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" ")));
    let extra = extra.collect::<Vec<_>>().join(" ");
    format!("&{{{} {} [{}] map[{extra}]}}", user.user, user.uid, user.groups.join(" "))
}
