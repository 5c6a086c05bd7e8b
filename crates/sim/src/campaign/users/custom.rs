//! Scenario with custom resources: definitions that change, clash and are deleted, and instances with owners,
//! dependents and finalizers.

use setpoint_api::{Revision, Value, value};

use super::definitions::{CUSTOM, DEFINITIONS, GADGETS, GIZMOS, Revisable, ZONES, definition};
use super::{EditResult, UserSession, path};
use crate::cluster::UserWrite;

/// Finalizer of some instances, which a user removes.
const HOLD: &str = "shop.example.com/hold";
/// Namespace with instances, which is deleted at times.
const NAMESPACE: &str = "shop";

pub fn begin(session: &mut UserSession<'_>) {
    session.create("namespaces", "", value!({"metadata": {"name": (NAMESPACE)}}));
    session.create("configmaps", "default", value!({"metadata": {"name": "tool"}}));
    let _ = create_missing_definitions(session);
}

fn create_missing_definitions(session: &mut UserSession<'_>) -> EditResult {
    let gadgets = definition(GADGETS, "Gadget", "gd");
    let done = session.try_create(DEFINITIONS, "", gadgets);
    done.or(session.try_create(DEFINITIONS, "", definition(ZONES, "Zone", "zn")))
}

/// Makes some edits at once: instances exist only after other steps, and a seed has few edits.
pub fn edit(session: &mut UserSession<'_>) -> EditResult {
    let first = edit_once(session);
    let second = edit_once(session);
    first.or(second)
}

fn edit_once(session: &mut UserSession<'_>) -> EditResult {
    match session.chance(24) {
        0..7 => create_instances(session),
        7 => update_instance(session),
        8 | 9 => delete_instance(session),
        10 | 11 => create_dependent(session),
        12 => change_default(session),
        13 => switch_storage(session),
        14 | 15 => delete_definition(session),
        16 => create_missing_definitions(session),
        17 | 18 => edit_rival(session),
        19 => edit_namespace(session),
        20 | 21 => race_with_schema(session),
        22 => edit_owner(session),
        _ => release_one(session),
    }
}

/// Draws a custom resource.
fn draw(session: &mut UserSession<'_>) -> &'static str {
    if session.chance(4) == 0 { ZONES } else { GADGETS }
}

/// Reference to an object as the owner of an instance; `None` if there is no such object.
fn owner(session: &mut UserSession<'_>, namespace: &str) -> Option<Value> {
    let (resource, api_version, kind) = match session.chance(3) {
        0 => ("configmaps", "v1", "ConfigMap"),
        1 => (GADGETS, "shop.example.com/v1", "Gadget"),
        _ => (ZONES, "geo.example.net/v1", "Zone"),
    };
    let is_eligible = |object: &&Value| {
        let place = object.str_at(&["metadata", "namespace"]);
        (place == namespace || place.is_empty()) && !object.str_at(&["metadata", "name"]).starts_with("part")
    };
    let objects = session.cluster.list(resource);
    let object = session.cluster.rng.choice(objects.iter().filter(is_eligible).collect::<Vec<_>>())?;
    let part = |field| object.str_at(&["metadata", field]);
    Some(value!({
        "apiVersion": (api_version), "kind": (kind), "name": (part("name")), "uid": (part("uid")),
        "blockOwnerDeletion": true,
    }))
}

fn new_instance(session: &mut UserSession<'_>, resource: &str, namespace: &str) -> Value {
    let name = format!("item-{}", session.chance(5));
    let mut metadata = value!({"name": (name)});
    if session.chance(3) == 0 && resource != ZONES {
        let owners: Vec<Value> = owner(session, namespace).into_iter().collect();
        metadata.make_map().insert("ownerReferences", owners);
    }
    if session.chance(3) == 0 {
        metadata.make_map().insert("finalizers", vec![Value::from(HOLD)]);
    }
    let spec = if session.chance(2) == 0 { value!({"size": 7}) } else { value!({"color": "red"}) };
    value!({"metadata": (metadata), "spec": (spec)})
}

fn namespace_of(session: &mut UserSession<'_>, resource: &str) -> &'static str {
    match resource {
        ZONES => "",
        _ if session.chance(3) == 0 => NAMESPACE,
        _ => "default",
    }
}

fn create_instances(session: &mut UserSession<'_>) -> EditResult {
    let mut done = Ok(Revision::ZERO);
    for _ in 0..3 {
        let resource = draw(session);
        let namespace = namespace_of(session, resource);
        let instance = new_instance(session, resource, namespace);
        done = session.try_create(resource, namespace, instance);
    }
    done
}

fn update_instance(session: &mut UserSession<'_>) -> EditResult {
    let resource = draw(session);
    let path = session.pick_path(resource);
    let color = ["blue", "green"][usize::from(session.chance(2))];
    session.merge(resource, &path, value!({"spec": {"color": (color)}}))
}

fn delete_instance(session: &mut UserSession<'_>) -> EditResult {
    let resource = draw(session);
    let path = session.pick_path(resource);
    session.delete(resource, &path)
}

/// Creates a ConfigMap that an instance owns.
fn create_dependent(session: &mut UserSession<'_>) -> EditResult {
    let number = session.chance(4);
    let owners: Vec<Value> = owner(session, "default").into_iter().collect();
    let metadata = value!({"name": (format!("part-{number}")), "ownerReferences": (owners)});
    session.try_create("configmaps", "default", value!({"metadata": (metadata)}))
}

/// Patch of a definition with another schema or storage version; `None` if there is no definition.
fn revision(session: &UserSession<'_>, resource: &str, revise: impl Fn(&mut Revisable)) -> Option<Value> {
    let stored = session.cluster.get(DEFINITIONS, resource)?;
    let mut revisable = Revisable::of(&stored);
    revise(&mut revisable);
    Some(value!({"spec": {"versions": (revisable.versions())}}))
}

fn revise(session: &mut UserSession<'_>, mark: &'static str, change: impl Fn(&mut Revisable)) -> EditResult {
    let resource = draw(session);
    let Some(patch) = revision(session, resource, change) else { return Ok(Revision::ZERO) };
    let done = session.merge(DEFINITIONS, resource, patch);
    if done.is_ok() && !session.cluster.list(resource).is_empty() {
        session.marks.record(mark);
    }
    done
}

fn change_default(session: &mut UserSession<'_>) -> EditResult {
    let level = session.cluster.rng.i64(1..9);
    revise(session, "schema was changed with instances", |revisable| revisable.level = Some(level))
}

fn switch_storage(session: &mut UserSession<'_>) -> EditResult {
    revise(session, "storage version was switched with instances", |revisable| {
        revisable.has_second = true;
        revisable.storage = 3 - revisable.storage;
    })
}

/// Changes a schema while another user writes an instance: both writes are decided on one state.
fn race_with_schema(session: &mut UserSession<'_>) -> EditResult {
    let level = session.cluster.rng.i64(1..9);
    let Some(patch) = revision(session, GADGETS, |revisable| revisable.level = Some(level)) else {
        return Ok(Revision::ZERO);
    };
    let found = session.pick(GADGETS);
    let instance = match found.map(|found| path(&found)) {
        Some(path) => match session.chance(3) {
            0 => UserWrite::create(GADGETS, "default", new_instance(session, GADGETS, "default")),
            1 => UserWrite::patch(GADGETS, &path, "", value!({"spec": {"color": "gray"}})),
            _ => UserWrite::delete(GADGETS, &path, &Value::map()),
        },
        None => UserWrite::create(GADGETS, "default", new_instance(session, GADGETS, "default")),
    };
    let schema = UserWrite::patch(DEFINITIONS, GADGETS, "", patch);
    let (done, conflicts) = session.cluster.write_at_once(vec![schema, instance]);
    if conflicts > 0 {
        session.marks.record("write of an instance raced with its schema");
    }
    done
}

fn delete_definition(session: &mut UserSession<'_>) -> EditResult {
    let resource = draw(session);
    let is_held = session.cluster.list(resource).iter().any(is_held);
    let done = session.delete(DEFINITIONS, resource);
    if done.is_ok() && is_held {
        session.marks.record("definition was deleted under finalizers");
    }
    done
}

/// Creates or deletes a definition that requests names of another one.
fn edit_rival(session: &mut UserSession<'_>) -> EditResult {
    if session.cluster.get(DEFINITIONS, GIZMOS).is_some() {
        return session.delete(DEFINITIONS, GIZMOS);
    }
    let (kind, short_name) =
        [("Gadget", "gz"), ("Gizmo", "gd"), ("Gizmo", "gadgets")][usize::from(session.chance(3))];
    session.try_create(DEFINITIONS, "", definition(GIZMOS, kind, short_name))
}

fn edit_namespace(session: &mut UserSession<'_>) -> EditResult {
    match session.cluster.get("namespaces", NAMESPACE) {
        Some(_) => session.cluster.delete("namespaces", NAMESPACE, &Value::map()),
        None => session.try_create("namespaces", "", value!({"metadata": {"name": (NAMESPACE)}})),
    }
}

/// Creates or deletes the ConfigMap that owns instances.
fn edit_owner(session: &mut UserSession<'_>) -> EditResult {
    match session.cluster.get("configmaps", "default/tool") {
        Some(_) => session.delete("configmaps", "default/tool"),
        None => session.try_create("configmaps", "default", value!({"metadata": {"name": "tool"}})),
    }
}

/// `true` if an instance has the finalizer.
fn is_held(instance: &Value) -> bool {
    let finalizers = instance.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    finalizers.iter().any(|finalizer| finalizer.as_str() == Some(HOLD))
}

/// Removes the finalizer of an instance.
fn release(session: &mut UserSession<'_>, resource: &str, instance: &Value) -> EditResult {
    let finalizers = instance.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    let others: Vec<Value> =
        finalizers.iter().filter(|finalizer| finalizer.as_str() != Some(HOLD)).cloned().collect();
    session.merge(resource, &path(instance), value!({"metadata": {"finalizers": (others)}}))
}

/// Instances in deletion that wait for the finalizer.
fn held_instances(session: &UserSession<'_>) -> Vec<(&'static str, Value)> {
    let all = CUSTOM.into_iter().flat_map(|resource| {
        session.cluster.list(resource).into_iter().map(move |instance| (resource, instance))
    });
    let is_waiting = |instance: &Value| {
        is_held(instance) && !instance.str_at(&["metadata", "deletionTimestamp"]).is_empty()
    };
    all.filter(|(_, instance)| is_waiting(instance)).collect()
}

fn release_one(session: &mut UserSession<'_>) -> EditResult {
    let held = held_instances(session);
    match session.cluster.rng.choice(held) {
        Some((resource, instance)) => release(session, resource, &instance),
        None => Ok(Revision::ZERO),
    }
}

/// Removes the finalizer of all instances in deletion.
pub fn release_instances(session: &mut UserSession<'_>) {
    for (resource, instance) in held_instances(session) {
        let _ = release(session, resource, &instance);
    }
}

/// Deletes the definition that requests names of another one, in half of the seeds.
pub fn end_edits(session: &mut UserSession<'_>) {
    if session.cluster.get(DEFINITIONS, GIZMOS).is_some() && session.chance(2) == 0 {
        let _ = session.cluster.delete(DEFINITIONS, GIZMOS, &Value::map());
    }
}
