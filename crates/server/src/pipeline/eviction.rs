//! Eviction: deletes a pod if its disruption budget allows it. The budget is charged in the same commit.

use std::sync::Arc;

use setpoint_api::field_error::ErrorList;
use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::kinds::policy::eviction;
use setpoint_api::kinds::workload::{expressions, match_labels};
use setpoint_api::labels::Selector;
use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::schema::builtin;
use setpoint_api::status::{Qualified, Status, StatusCause};
use setpoint_api::{Map, Value, metadata};
use setpoint_store::{Precondition, Proposal, Record};

use super::admission::{self, AdmissionInput};
use super::delete::delete_object;
use super::update::Subresource;
use super::{PipelineResult, RequestContext, WriteOrigin, encoding_error, ownership};
use crate::codec;
use crate::webhooks::{AdmissionRequest, ForeignKind, Operation, dispatch};

/// Evictions that a budget can hold before the controller has observed them.
const DISRUPTED_PODS_MAX: usize = 2000;
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Validates an eviction of the pod `name`.
///
/// # Errors
/// If it is invalid.
pub(crate) fn check_eviction(eviction: &Value, name: &str) -> Result<(), Status> {
    if metadata::name(eviction) != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut errors = ErrorList::new();
    eviction::validate(eviction, &mut errors);
    if !errors.is_empty() {
        let kind = Qualified { group: "policy", name: "Eviction" };
        return Err(Status::invalid(kind, name, &errors));
    }
    Ok(())
}

/// Evicts the pod of `record`, after the admission of the eviction.
///
/// # Errors
/// 429 if its budget does not allow it; other errors of a delete.
pub fn evict(
    pods: &ResourceType,
    record: &Record,
    eviction: &Value,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    let schema = builtin().kind("policy", "v1", "Eviction").map(SchemaRef::BuiltIn);
    let at = (record.namespace().unwrap_or_default(), record.name());
    let request = AdmissionRequest {
        foreign_kind: schema.map(|schema| ForeignKind {
            group: "policy",
            version: "v1",
            kind: "Eviction",
            schema,
        }),
        ..AdmissionRequest::new(Operation::Create, pods, at, writer)
    }
    .for_subresource("eviction");
    let options = |eviction: &Value| eviction.get("deleteOptions").cloned().unwrap_or_default();
    if !dispatch::is_intercepted(&request, context) {
        let input = AdmissionInput { request: &request, old: None, context };
        admission::admit(&mut eviction.clone(), &input)?;
        admission::validate(eviction, &input)?;
        let options = options(eviction);
        return evict_admitted(pods, record, &DeleteOptions::from_value(&options), writer, context);
    }
    let mut admitted = eviction.clone();
    match dispatch::admit_unstored(&request, &mut admitted, None, context) {
        Ok(()) => {
            check_eviction(&admitted, record.name())?;
            let options = options(&admitted);
            evict_admitted(pods, record, &DeleteOptions::from_value(&options), writer, context)
        }
        Err(interruption) => interruption.into_result(),
    }
}

fn evict_admitted(
    pods: &ResourceType,
    record: &Record,
    options: &DeleteOptions<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    let mut pod = codec::object(record);
    let charge = match budget_of(&pod, record, context)? {
        Some((budgets, budget)) => charge(budgets, &budget, &pod, writer, context)?,
        None => None,
    };
    set_disruption_target(&mut pod, context);
    let step = delete_object(pods, record, pod, options, writer, context)?;
    Ok(match (step, charge) {
        (PipelineResult::Commit(proposal), Some(charge)) => {
            PipelineResult::Commit(Box::new(charge.add_to(*proposal)))
        }
        (PipelineResult::Remove(proposal, pod), Some(charge)) => {
            PipelineResult::Remove(Box::new(charge.add_to(*proposal)), pod)
        }
        (step, _) => step,
    })
}

/// Disruption budget of a pod. Finished, pending and terminating pods have none.
fn budget_of(
    pod: &Value,
    record: &Record,
    context: &RequestContext<'_>,
) -> Result<Option<(&'static Arc<ResourceType>, Record)>, Status> {
    let phase = pod.str_at(&["status", "phase"]);
    if matches!(phase, "Succeeded" | "Failed" | "Pending") || metadata::deletion_timestamp(pod).is_some() {
        return Ok(None);
    }
    let Some(budgets) = resource_types::find("policy", "v1", "poddisruptionbudgets") else { return Ok(None) };
    let Some(table) = context.snapshot.table(&budgets.resource) else { return Ok(None) };
    let prefix = format!("{}/", metadata::namespace(pod));
    let attributes = record.attributes();
    let mut found = table.range(&prefix, None).filter(|budget| {
        let budget = codec::object(budget);
        let selector = budget.at(&["spec", "selector"]).filter(|selector| !selector.is_null());
        let selector =
            selector.map(|selector| Selector::from_parts(match_labels(selector), expressions(selector)));
        selector.is_some_and(|selector| {
            selector.is_ok_and(|selector| selector.matches(|key| attributes.label(key)))
        })
    });
    let first = found.next().cloned();
    if found.next().is_some() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::unclassified(500, message));
    }
    Ok(first.map(|budget| (budgets, budget)))
}

/// Status update of a budget that is charged with an eviction.
struct BudgetCharge {
    key: setpoint_api::Key,
    expect: Precondition,
    draft: setpoint_store::Draft,
}

impl BudgetCharge {
    fn add_to(self, proposal: Proposal) -> Proposal {
        proposal.put(self.key, self.expect, self.draft)
    }
}

/// Charges a budget; `None` if the pod does not count, because it is not ready.
fn charge(
    budgets: &ResourceType,
    record: &Record,
    pod: &Value,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Option<BudgetCharge>, Status> {
    let old = codec::object(record);
    let number = |field: &str| old.at(&["status", field]).and_then(Value::as_i64).unwrap_or(0);
    if !is_ready(pod) {
        let always = old.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        let desired = number("desiredHealthy");
        if always || (desired > 0 && number("currentHealthy") >= desired) {
            return Ok(None);
        }
    }
    check_budget(&old)?;
    let mut new = old.clone();
    let left = number("disruptionsAllowed") - 1;
    let now = Seconds(context.now).to_string();
    let status = new.ensure_map("status");
    status.insert("disruptionsAllowed", left);
    status.ensure_map("disruptedPods").insert(metadata::name(pod), now.as_str());
    if left == 0 {
        set_disruptions_exhausted(&mut new, &now);
    }
    let writer = WriteOrigin { manager: "kube-apiserver".into(), ..writer.clone() };
    ownership::record_owners(budgets, Subresource::Status, &writer, context, Some(&old), &mut new);
    let name = metadata::name(&old).to_owned();
    let key = budgets
        .key(metadata::namespace(&old), &name)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let draft = codec::draft(budgets, new, context.now).ok_or_else(encoding_error)?;
    Ok(Some(BudgetCharge { key, expect: Precondition::Revision(record.revision()), draft }))
}

/// 429 if a budget allows no disruption.
fn check_budget(budget: &Value) -> Result<(), Status> {
    let name = metadata::name(budget);
    let number = |field: &str| budget.at(&["status", field]).and_then(Value::as_i64).unwrap_or(0);
    let forbidden = |reason: &str, cause: String| {
        let resource = Qualified { group: "policy", name: "poddisruptionbudget" };
        with_budget_cause(Status::forbidden(resource, name, reason), cause)
    };
    let denied = format!("The disruption budget {name} does not allow evicting pods currently");
    if number("observedGeneration") < metadata::generation(budget) {
        let reason = format!("The disruption budget {name} is still being processed by the server.");
        return Err(with_budget_cause(Status::too_many_requests(VIOLATION, 10), reason));
    }
    if number("disruptionsAllowed") < 0 {
        let reason = "pdb disruptions allowed is negative";
        return Err(forbidden(reason, format!("{denied}: {reason}")));
    }
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_map).map_or(0, Map::len);
    if disrupted > DISRUPTED_PODS_MAX {
        let reason = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        let cause = "too many pending evictions not confirmed by PDB controller";
        return Err(forbidden(reason, format!("{denied}: {cause}")));
    }
    if number("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let (desired, current) = (number("desiredHealthy"), number("currentHealthy"));
    let condition = condition(budget, "DisruptionAllowed");
    let text = |field: &str| condition.map_or("", |condition| condition.str_at(&[field]));
    let is_denied = text("status") == "False" && !text("message").is_empty();
    let cause = if is_denied && text("reason") == "SyncFailed" {
        format!("{denied} because it failed sync: {}", text("message"))
    } else if current <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
    } else if is_denied {
        format!("{denied} ({}): {}", text("reason"), text("message"))
    } else {
        denied
    };
    Err(with_budget_cause(Status::too_many_requests(VIOLATION, 0), cause))
}

fn with_budget_cause(mut status: Status, message: String) -> Status {
    let cause =
        StatusCause { reason: "DisruptionBudget".into(), message: message.into(), field: Box::default() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    conditions.iter().find(|condition| condition.str_at(&["type"]) == kind)
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.str_at(&["status"]) == "True")
}

/// Sets a condition in place of the one of its type. With an unchanged status it keeps its transition time.
fn set_condition(object: &mut Value, mut fields: Vec<(&'static str, Value)>, now: &str) {
    let mut new: Value = fields.drain(..).collect::<Map>().into();
    let kind = new.str_at(&["type"]).to_owned();
    let before = condition(object, &kind).filter(|old| old.str_at(&["status"]) == new.str_at(&["status"]));
    let since = before.map_or("", |old| old.str_at(&["lastTransitionTime"])).to_owned();
    let since = if since.is_empty() { now.to_owned() } else { since };
    new.make_map().insert("lastTransitionTime", since);
    let conditions = object.ensure_map("status").ensure("conditions", || Value::List(Vec::new()));
    if conditions.is_null() {
        *conditions = Value::List(Vec::new());
    }
    let Some(list) = conditions.as_list_mut() else { return };
    match list.iter_mut().find(|condition| condition.str_at(&["type"]) == kind) {
        Some(old) => *old = new,
        None => list.push(new),
    }
}

/// Sets the condition of a budget that allows no more disruptions.
fn set_disruptions_exhausted(budget: &mut Value, now: &str) {
    let generation = budget.at(&["status", "observedGeneration"]).cloned().unwrap_or_default();
    let fields = vec![
        ("type", "DisruptionAllowed".into()),
        ("status", "False".into()),
        ("reason", "InsufficientPods".into()),
        ("message", "".into()),
        ("observedGeneration", generation),
    ];
    set_condition(budget, fields, now);
}

/// Sets the DisruptionTarget condition of a pod.
fn set_disruption_target(pod: &mut Value, context: &RequestContext<'_>) {
    let fields = vec![
        ("type", "DisruptionTarget".into()),
        ("status", "True".into()),
        ("lastProbeTime", Value::Null),
        ("reason", "EvictionByEvictionAPI".into()),
        ("message", "Eviction API: evicting".into()),
    ];
    set_condition(pod, fields, &Seconds(context.now).to_string());
}
