//! API Priority and Fairness: bootstrap FlowSchemas and PriorityLevelConfigurations, and the status of
//! FlowSchemas.
//!
//! In upstream this is part of the API server, so these controllers run in every server, whichever
//! controllers are enabled: see [`server_controllers`].

use setpoint_api::kinds::flowcontrol::builtin;
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::object::View;
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Controller, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::flow_control::{FlowSchema, PRIORITY_LEVELS};
use setpoint_views::{Condition, condition};

use crate::conditions::is_same;

const DANGLING: &str = "Dangling";
const USER: &str = "system:apiserver";

/// Controllers that are part of the server.
#[must_use]
pub fn server_controllers() -> Vec<Box<dyn Controller>> {
    vec![Box::new(ConfigProducer), Box::new(ConfigConsumer)]
}

/// Maintains the bootstrap objects.
pub struct ConfigProducer;

impl Planner for ConfigProducer {
    type Memo = ();

    fn name(&self) -> &'static str {
        "priority-and-fairness-config-producer"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn manager(&self) -> &'static str {
        "api-priority-and-fairness-config-producer-v1"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::primary(FlowSchema::RESOURCE), Watch::primary(PRIORITY_LEVELS)];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let existing = [FlowSchema::RESOURCE, PRIORITY_LEVELS].into_iter().flat_map(|kind| world.all(kind));
        let levels = builtin::level_names().filter_map(|name| key_of(PRIORITY_LEVELS, "", name));
        let schemas = builtin::schema_names().filter_map(|name| key_of(FlowSchema::RESOURCE, "", name));
        let mut keys: Vec<Key> =
            existing.map(|object| object.key().clone()).chain(levels).chain(schemas).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let resource = key.resource().as_str();
        let (name, is_level) = (key.name(), resource == PRIORITY_LEVELS);
        let desired = if is_level { builtin::level_spec(name) } else { builtin::schema_spec(name) };
        match (world.get(key), desired) {
            (Some(object), _) if object.meta().is_deleted() => {}
            (None, Some(spec)) => {
                let metadata =
                    value!({"name": (name), "annotations": (builtin::auto_update_annotation(true))});
                plan.push(Write::create(resource, "", value!({"metadata": (metadata), "spec": (spec)})));
            }
            (Some(object), Some(spec)) => {
                let patch = bootstrap_patch(object, spec, is_level);
                plan.stage(patch.map(|patch| Write::merge(object, "", patch).strategic().into()));
            }
            // An object with automatic updates that is no bootstrap object any more.
            (Some(object), None) if auto_update(object) == Some(true) => {
                plan.push(Write::delete_unchanged(object))
            }
            _ => {}
        }
        plan
    }
}

/// Value of the annotation for automatic updates; `None` without a valid one.
fn auto_update(object: &Object) -> Option<bool> {
    match object.meta().annotations.get(builtin::AUTO_UPDATE)? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Update of a bootstrap object; `None` if it is up to date.
fn bootstrap_patch(object: &Object, mut desired: Value, is_level: bool) -> Option<Value> {
    let annotated = auto_update(object);
    let is_unmodified = object.meta().generation == 1;
    let is_auto_updated = builtin::is_mandatory(object.key().name()) || annotated.unwrap_or(is_unmodified);
    let mut patch = value!({});
    if annotated != Some(is_auto_updated) {
        patch.ensure_map("metadata").insert("annotations", builtin::auto_update_annotation(is_auto_updated));
    }
    let value = object.value();
    let spec = value.get("spec");
    // Users can tune the exempt priority level.
    let is_tuned = is_level && object.key().name() == "exempt" && value.at(&["spec", "exempt"]).is_some();
    if is_auto_updated && !is_tuned && spec != Some(&desired) {
        desired.make_map().insert("$patch", "replace");
        patch.make_map().insert("spec", desired);
    }
    patch.as_map().is_some_and(|patch| !patch.is_empty()).then_some(patch)
}

/// Sets the condition `Dangling` of FlowSchemas.
pub struct ConfigConsumer;

impl Planner for ConfigConsumer {
    type Memo = ();

    fn name(&self) -> &'static str {
        "priority-and-fairness-config-consumer"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn manager(&self) -> &'static str {
        "api-priority-and-fairness-config-consumer-v1"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::primary(FlowSchema::RESOURCE),
            Watch::mapped(PRIORITY_LEVELS, enqueue_for_priority_level),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(schema) = object.view::<FlowSchema>() else { return plan };
        let level = &*schema.spec.priority_level_configuration.name;
        // Mandatory levels are in force even while their objects are missing.
        let exists = builtin::is_mandatory(level) || world.find(PRIORITY_LEVELS, "", level).is_some();
        let (status, reason, end) = match exists {
            true => ("False", "Found", "and it exists"),
            false => ("True", "NotFound", "but there is no such object"),
        };
        let message =
            format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}");
        let new = Condition::new(DANGLING, status, reason, &message, now);
        let existing = condition(&schema.status.conditions, DANGLING);
        if !existing.is_some_and(|existing| is_same(existing, &new)) {
            let condition = value_of(&new);
            let config = value!({"status": {"conditions": [(condition)]}});
            plan.push(Write::apply(object, "status", config));
        }
        plan
    }
}

/// Enqueues the schemas that refer to a priority level.
fn enqueue_for_priority_level(level: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let refers_to =
        |schema: &FlowSchema| *schema.spec.priority_level_configuration.name == *level.meta().name;
    let schemas = world.views::<FlowSchema>().filter(|(_, schema)| refers_to(schema));
    schemas.for_each(|(object, _)| enqueue(object.key().clone()));
}

#[cfg(test)]
mod tests;
