//! Authorization checks through an authorizer of the caller.

use std::sync::Arc;

use setpoint_api::names::NameRule;

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{Opaque, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("allowed", allowed, CostRule::Call),
    Function::new("check", check, CostRule::Check),
    Function::new("error", error, CostRule::Call),
    Function::new("errored", errored, CostRule::Call),
    Function::new(
        "fieldSelector",
        |call| with(call, |check, text| check.field_selector = Some(text)),
        CostRule::Selector,
    ),
    Function::new("group", group, CostRule::Call),
    Function::new(
        "labelSelector",
        |call| with(call, |check, text| check.label_selector = Some(text)),
        CostRule::Selector,
    ),
    Function::new("name", |call| with(call, |check, text| check.name = text), CostRule::Call),
    Function::new("namespace", |call| with(call, |check, text| check.namespace = text), CostRule::Call),
    Function::new("path", path, CostRule::Call),
    Function::new("reason", reason, CostRule::Call),
    Function::new("resource", resource, CostRule::Call),
    Function::new("serviceAccount", service_account, CostRule::Call),
    Function::new("subresource", |call| with(call, |check, text| check.subresource = text), CostRule::Call),
];

/// Authorizer of the caller, which decides the checks of an expression.
pub trait Authorizer: std::fmt::Debug + Sync {
    /// Decides a check.
    fn authorize(&self, check: &AuthorizationCheck<'_>) -> AuthorizationDecision;
}

/// Check that an expression makes.
#[derive(Clone, Debug)]
pub struct AuthorizationCheck<'c> {
    /// Namespace and name of the service account; `None` for the user of the request.
    pub service_account: Option<(&'c str, &'c str)>,
    /// Verb.
    pub verb: &'c str,
    /// Resource or path.
    pub target: CheckTarget<'c>,
}

/// Target of a check.
#[derive(Clone, Debug)]
pub enum CheckTarget<'c> {
    /// Path that is no resource.
    Path(&'c str),
    /// Resource.
    Resource(&'c ResourceCheck),
}

/// Resource attributes of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// API group.
    pub group: Box<str>,
    /// Resource.
    pub resource: Box<str>,
    /// Subresource, or empty.
    pub subresource: Box<str>,
    /// Namespace, or empty.
    pub namespace: Box<str>,
    /// Name, or empty.
    pub name: Box<str>,
    /// Field selector that the request has.
    pub field_selector: Option<Box<str>>,
    /// Label selector that the request has.
    pub label_selector: Option<Box<str>>,
}

/// Decision of an authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationDecision {
    /// `true` if the request is allowed.
    pub is_allowed: bool,
    /// Reason of the decision.
    pub reason: String,
    /// Error of the authorizer.
    pub error: Option<String>,
}

/// Authorizer with the service account whose requests it checks.
#[derive(Clone, Debug)]
pub struct AuthorizerRef<'a> {
    authorizer: Option<&'a dyn Authorizer>,
    service_account: Option<Arc<(Box<str>, Box<str>)>>,
}

impl<'a> Value<'a> {
    /// Returns the value of `authorizer`. Checks fail with an error if there is none.
    #[must_use]
    pub fn authorizer(authorizer: Option<&'a dyn Authorizer>) -> Value<'a> {
        Value::opaque(Opaque::Authorizer(AuthorizerRef { authorizer, service_account: None }))
    }

    /// Returns the value of `authorizer.requestResource`.
    #[must_use]
    pub fn resource_check(authorizer: Option<&'a dyn Authorizer>, check: ResourceCheck) -> Value<'a> {
        let authorizer = AuthorizerRef { authorizer, service_account: None };
        Value::opaque(Opaque::ResourceCheck(authorizer, Arc::new(check)))
    }
}

fn receiver<'a>(call: &Call<'_, 'a>) -> Result<AuthorizerRef<'a>, EvalError> {
    match call.opaque(0)? {
        Opaque::Authorizer(authorizer) => Ok(authorizer.clone()),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn service_account<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (namespace, name) = (call.text(1)?, call.text(2)?);
    if !NameRule::Subdomain.check(name).is_empty() {
        return Err(EvalError::constant("Invalid service account name"));
    }
    if !NameRule::Label.check(namespace).is_empty() {
        return Err(EvalError::constant("Invalid service account namespace"));
    }
    let service_account = Some(Arc::new((namespace.into(), name.into())));
    Ok(Value::opaque(Opaque::Authorizer(AuthorizerRef { service_account, ..receiver(call)? })))
}

fn path<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let path = call.text(1)?;
    if path.trim().is_empty() {
        return Err(EvalError::constant("path must not be empty"));
    }
    Ok(Value::opaque(Opaque::PathCheck(receiver(call)?, path.into())))
}

fn group<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::opaque(Opaque::GroupCheck(receiver(call)?, call.text(1)?.into())))
}

fn resource<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let Opaque::GroupCheck(authorizer, group) = call.opaque(0)? else {
        return Err(EvalError::NO_SUCH_OVERLOAD);
    };
    let resource = call.text(1)?;
    if resource.trim().is_empty() {
        return Err(EvalError::constant("resource must not be empty"));
    }
    let check = ResourceCheck { group: group.clone(), resource: resource.into(), ..ResourceCheck::default() };
    Ok(Value::opaque(Opaque::ResourceCheck(authorizer.clone(), Arc::new(check))))
}

/// Returns the check with one attribute changed.
fn with<'a>(call: &mut Call<'_, 'a>, set: fn(&mut ResourceCheck, Box<str>)) -> Returned<'a> {
    let Opaque::ResourceCheck(authorizer, check) = call.opaque(0)? else {
        return Err(EvalError::NO_SUCH_OVERLOAD);
    };
    let text = call.text(1)?;
    call.meter.allocate(text.len() + 256)?;
    let mut check = (**check).clone();
    set(&mut check, text.into());
    Ok(Value::opaque(Opaque::ResourceCheck(authorizer.clone(), Arc::new(check))))
}

fn check<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let verb = call.text(1)?;
    let (authorizer, target) = match call.opaque(0)? {
        Opaque::PathCheck(authorizer, path) => (authorizer, CheckTarget::Path(path)),
        Opaque::ResourceCheck(authorizer, check) => (authorizer, CheckTarget::Resource(check)),
        _ => return Err(EvalError::NO_SUCH_OVERLOAD),
    };
    let account = authorizer.service_account.as_deref();
    let service_account = account.map(|(namespace, name)| (&**namespace, &**name));
    match authorizer.authorizer {
        Some(known) => {
            let decision = known.authorize(&AuthorizationCheck { service_account, verb, target });
            Ok(Value::opaque(Opaque::Decision(decision)))
        }
        None => Err(EvalError::constant("authorizer is not available")),
    }
}

fn decision<'c>(call: &Call<'c, '_>) -> Result<&'c AuthorizationDecision, EvalError> {
    match call.opaque(0)? {
        Opaque::Decision(decision) => Ok(decision),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn allowed<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(decision(call)?.is_allowed))
}

fn reason<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::string(&*decision(call)?.reason))
}

fn errored<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(decision(call)?.error.is_some()))
}

fn error<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::string(decision(call)?.error.as_deref().unwrap_or_default()))
}
