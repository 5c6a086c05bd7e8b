//! Scope of an evaluation: the variables of a request, and the composed variables of the policy.
//!
//! A composed variable is evaluated when an expression first reads it; its value is kept for the other expressions of
//! the same scope, and may refer to the scope itself.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use setpoint_api::Value as Json;
use setpoint_cel::{Authorizer, Bindings, EvalError, LazyObject, ResourceCheck, Value};

use super::EXPRESSION_LIMIT;
use super::expression::Expression;

/// A request, as expressions see it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInput<'a> {
    /// `object`; null for a delete.
    pub object: &'a Json,
    /// `oldObject`; null for a create.
    pub old_object: &'a Json,
    /// `request`, an AdmissionRequest without its objects.
    pub request: &'a Json,
    /// `params`; null if the binding has none.
    pub params: &'a Json,
    /// `namespaceObject`; null for a cluster-scoped object.
    pub namespace: &'a Json,
    /// Authorizer of the request's user; checks fail without one.
    pub authorizer: Option<&'a dyn Authorizer>,
    /// Resource of the request, for `authorizer.requestResource`.
    pub resource: &'a ResourceCheck,
}

/// A composed variable of a policy.
#[derive(Debug)]
pub(super) struct Variable {
    pub name: Box<str>,
    pub expression: Expression,
}

/// Result of a composed variable.
struct Slot<'e> {
    value: OnceLock<Result<Value<'e>, EvalError>>,
    is_running: AtomicBool,
}

/// Variables of the expressions that share a cost budget.
pub(super) struct Scope<'e> {
    input: PolicyInput<'e>,
    has_authorizer: bool,
    variables: &'e [Variable],
    slots: Vec<Slot<'e>>,
    /// Cost of composed variables that no expression was charged for yet.
    cost: AtomicU64,
    handle: OnceLock<ScopeRef<'e>>,
}

/// Reference to a scope, which resolves its variables.
#[derive(Clone, Copy)]
pub(super) struct ScopeRef<'e>(&'e Scope<'e>);

impl fmt::Debug for ScopeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.variables.iter().map(|variable| &variable.name)).finish()
    }
}

impl<'e> Scope<'e> {
    pub(super) fn new(input: PolicyInput<'e>, has_authorizer: bool, variables: &'e [Variable]) -> Scope<'e> {
        let slot = |_: &Variable| Slot { value: OnceLock::new(), is_running: AtomicBool::new(false) };
        Scope {
            input,
            has_authorizer,
            variables,
            slots: variables.iter().map(slot).collect(),
            cost: AtomicU64::new(0),
            handle: OnceLock::new(),
        }
    }

    /// Returns the bindings of an evaluation.
    pub(super) fn bindings(&'e self) -> &'e ScopeRef<'e> {
        self.handle.get_or_init(|| ScopeRef(self))
    }

    /// Returns the cost of composed variables since the last call.
    pub(super) fn take_cost(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }

    fn variable(&'e self, name: &str) -> Option<Result<Value<'e>, EvalError>> {
        let index = self.variables.iter().rposition(|variable| *variable.name == *name)?;
        let slot = &self.slots[index];
        if let Some(value) = slot.value.get() {
            return Some(value.clone());
        }
        // The checker declares earlier variables only; two of the same name could still form a cycle.
        if slot.is_running.swap(true, Ordering::Relaxed) {
            return Some(Err(message(format!("composited variable {name:?} refers to itself"))));
        }
        let value = self.evaluate(&self.variables[index]);
        Some(slot.value.get_or_init(|| value).clone())
    }

    fn evaluate(&'e self, variable: &'e Variable) -> Result<Value<'e>, EvalError> {
        let name = &variable.name;
        let program = variable.expression.program.as_ref().map_err(|error| {
            message(format!("composited variable {name:?} fails to compile: {}", error.text()))
        })?;
        let evaluation = program.evaluate(self.bindings(), EXPRESSION_LIMIT);
        self.cost.fetch_add(evaluation.cost, Ordering::Relaxed);
        evaluation
            .result
            .map_err(|error| message(format!("composited variable {name:?} fails to evaluate: {error}")))
    }
}

fn message(text: String) -> EvalError {
    EvalError::Message(text.into())
}

impl<'e> Bindings<'e> for ScopeRef<'e> {
    fn resolve(&self, name: &str) -> Option<Value<'e>> {
        let PolicyInput { object, old_object, request, params, namespace, authorizer, resource } =
            self.0.input;
        let json = |value: &'e Json| Some(Value::from_json(value, None).unwrap_or(Value::Null));
        match name {
            "object" => json(object),
            "oldObject" => json(old_object),
            "request" => json(request),
            "params" => json(params),
            "namespaceObject" => json(namespace),
            "variables" => Some(Value::Lazy(self.0.bindings())),
            "authorizer" if self.0.has_authorizer => Some(Value::authorizer(authorizer)),
            "authorizer.requestResource" if self.0.has_authorizer => {
                Some(Value::resource_check(authorizer, resource.clone()))
            }
            _ => None,
        }
    }
}

impl LazyObject for ScopeRef<'_> {
    fn field(&self, name: &str) -> Option<Result<Value<'_>, EvalError>> {
        self.0.variable(name)
    }
}
