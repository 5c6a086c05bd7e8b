//! Status of ValidatingAdmissionPolicies: the observed generation, and the warnings of the type check.
//!
//! The expressions are checked against the schemas of the kinds that the policy matches by name. The query
//! `policy-types` has the expressions and the kinds; its answer has the warnings. It is repeated when the policy or a
//! definition of one of the kinds changes, unlike upstream, where only a change of the policy repeats the check.

mod matched_kinds;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Query, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::admission_policy::ValidatingAdmissionPolicy;
use setpoint_views::custom_resource_definition::CustomResourceDefinition;

use self::matched_kinds::{MatchedKinds, may_depend_on};

/// Name of the controller and of its field manager.
const NAME: &str = "validatingadmissionpolicy-status-controller";

/// Maintains the status of ValidatingAdmissionPolicies.
pub struct AdmissionPolicyStatusController;

impl Planner for AdmissionPolicyStatusController {
    type Memo = ();

    fn name(&self) -> &'static str {
        NAME
    }

    fn manager(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::primary(ValidatingAdmissionPolicy::RESOURCE),
            Watch::mapped(CustomResourceDefinition::RESOURCE, enqueue_for_definition).when(is_schema_changed),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(policy) = object.view::<ValidatingAdmissionPolicy>() else { return plan };
        let generation = object.meta().generation;
        let is_observed = generation <= policy.status.observed_generation;
        let kinds = MatchedKinds::find(&policy.spec, world);
        let stored = policy.status.type_checking.expression_warnings.as_list().unwrap_or_default();
        // Schemas of built-in kinds do not change, so a policy without warnings is not checked at every start.
        if is_observed && stored.is_empty() && !kinds.has_definitions() {
            return plan;
        }
        let mut warnings: &[Value] = &[];
        if !kinds.is_empty() {
            let id = format!("{} {generation}{}", object.meta().uid, kinds.fingerprint());
            match seen.answers.get(&id).map(|answered| &answered.answer) {
                Some(Ok(answer)) => {
                    let found = answer.get("expressionWarnings").and_then(Value::as_list);
                    warnings = found.unwrap_or_default();
                }
                _ => {
                    let question = kinds.question(&policy.spec);
                    plan.queries.push(Query { target: "policy-types", id, question });
                    return plan;
                }
            }
        }
        if !is_observed || warnings != stored {
            let list = if warnings.is_empty() { Value::Null } else { Value::List(warnings.to_vec()) };
            let status = value!({
                "observedGeneration": (generation),
                "typeChecking": {"expressionWarnings": (list)},
            });
            plan.push(Write::status(object, status));
        }
        plan
    }
}

/// Enqueues the policies whose type check depends on a definition.
fn enqueue_for_definition(definition: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(definition) = definition.view::<CustomResourceDefinition>() else { return };
    for (object, policy) in world.views::<ValidatingAdmissionPolicy>() {
        if may_depend_on(&policy.spec, definition)
            && let Some(key) = key_of(ValidatingAdmissionPolicy::RESOURCE, "", &object.meta().name)
        {
            enqueue(key);
        }
    }
}

/// `true` if a definition was established, or has another spec.
fn is_schema_changed(old: &Object, new: &Object) -> bool {
    let is_established = |object: &Object| {
        object.view::<CustomResourceDefinition>().is_some_and(CustomResourceDefinition::is_established)
    };
    old.meta().generation != new.meta().generation || is_established(old) != is_established(new)
}

#[cfg(test)]
mod tests;
