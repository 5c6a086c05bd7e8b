//! CustomResourceDefinitions: a name belongs to one definition of a group at a time and stays its own, a definition
//! stays established, and is removed after its instances.

use std::collections::BTreeMap;

use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::custom_resource_definition::{CustomResourceDefinition, CustomResourceDefinitionNames};
use setpoint_views::{Condition, condition};

use super::custom_resources::DEFINITIONS;
use super::{Check, CommitContext};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

const API_SERVICES: &str = "apiservices.apiregistration.k8s.io";

/// Check of definitions.
pub struct CustomDefinitions;

fn view(object: Option<&Object>) -> Option<&CustomResourceDefinition> {
    object?.view()
}

/// Names with their space: those of resources, and those of kinds.
fn spaced(names: &CustomResourceDefinitionNames) -> impl Iterator<Item = (&'static str, &str)> {
    let resources = [&*names.plural, &*names.singular].into_iter();
    let resources = resources.chain(names.short_names.iter().map(|name| &**name));
    let kinds = [&*names.kind, &*names.list_kind];
    let all = resources.map(|name| ("resource", name)).chain(kinds.map(|name| ("kind", name)));
    all.filter(|(_, name)| !name.is_empty())
}

impl Check for CustomDefinitions {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        if !change.is_of(DEFINITIONS) {
            return Ok(());
        }
        let key = &change.key;
        let instances = context.world.count(key.name());
        let (before, after) = (view(change.before.as_ref()), view(change.after.as_ref()));
        let (Some(after), Some(object)) = (after, &change.after) else {
            let is_established = before.is_some_and(CustomResourceDefinition::is_established);
            if instances > 0 {
                return Err(format!("{key} was removed with {instances} instances left"));
            }
            marks.record(if is_established {
                "established definition was removed"
            } else {
                "definition was removed"
            });
            return Ok(());
        };
        check_names(object, after, context.world)?;
        let Some(before) = before else { return Ok(()) };
        record_marks(before, after, marks);
        check_changes(change, before, after)
    }

    fn check_final(&self, world: &WorldReader<'_>) -> Result<(), String> {
        world.views::<CustomResourceDefinition>().try_for_each(|(object, definition)| {
            check_conditions(object, definition, world)?;
            check_registration(object, definition, world)
        })?;
        let is_custom = |object: &&Object| object.key().name().contains(".example.");
        let mut services = world.all(API_SERVICES).filter(is_custom);
        let is_orphan = |service: &Object| {
            let (version, group) = service.key().name().split_once('.').unwrap_or_default();
            let serves = |definition: &CustomResourceDefinition| {
                *definition.spec.group == *group && definition.serves(version)
            };
            !world.views::<CustomResourceDefinition>().any(|(_, definition)| serves(definition))
        };
        match services.find(|service| is_orphan(service)) {
            Some(service) => Err(format!("{} is of no definition", service.key())),
            None => Ok(()),
        }
    }
}

/// Checks that no other definition of the group has an accepted name.
fn check_names(
    object: &Object,
    definition: &CustomResourceDefinition,
    world: &WorldReader<'_>,
) -> Result<(), String> {
    let mut owned = BTreeMap::new();
    for (other, view) in world.views::<CustomResourceDefinition>() {
        if view.spec.group == definition.spec.group && other.key() != object.key() {
            owned.extend(spaced(&view.status.accepted_names).map(|name| (name, other.key())));
        }
    }
    match spaced(&definition.status.accepted_names).find_map(|name| Some((name, owned.get(&name)?))) {
        Some(((space, name), other)) => {
            Err(format!("{} has the {space} name {name}, which {other} has", object.key()))
        }
        None => Ok(()),
    }
}

fn record_marks(
    before: &CustomResourceDefinition,
    after: &CustomResourceDefinition,
    marks: &mut CoverageMarks,
) {
    let status = |definition: &CustomResourceDefinition| {
        let accepted = condition(&definition.status.conditions, "NamesAccepted");
        accepted.map(Condition::is_true)
    };
    match (status(before), status(after)) {
        (None, Some(false)) => marks.record("names of a definition clashed"),
        (Some(false), Some(true)) => marks.record("released names were granted"),
        _ => {}
    }
    if !before.is_established() && after.is_established() {
        marks.record("definition was established");
    }
}

fn check_changes(
    change: &CommitChange,
    before: &CustomResourceDefinition,
    after: &CustomResourceDefinition,
) -> Result<(), String> {
    let key = &change.key;
    if before.is_established() && !after.is_established() {
        return Err(format!("{key} is no longer established"));
    }
    let names = |definition: &CustomResourceDefinition| -> Vec<(&'static str, String)> {
        let accepted = spaced(&definition.status.accepted_names);
        accepted.map(|(space, name)| (space, name.to_owned())).collect()
    };
    let kept = names(after);
    let requested: Vec<(&str, &str)> = spaced(&after.spec.names).collect();
    let is_lost = |(space, name): &&(&'static str, String)| {
        requested.contains(&(*space, name.as_str())) && !kept.contains(&(*space, name.clone()))
    };
    match names(before).iter().find(is_lost) {
        Some((space, name)) => Err(format!("{key} requests the {space} name {name}, had it and lost it")),
        None => Ok(()),
    }
}

/// Checks the conditions of the converged state.
fn check_conditions(
    object: &Object,
    definition: &CustomResourceDefinition,
    world: &WorldReader<'_>,
) -> Result<(), String> {
    let (key, status) = (object.key(), &definition.status);
    let has_names = definition.spec.names == status.accepted_names;
    let Some(accepted) = condition(&status.conditions, "NamesAccepted") else {
        return Err(format!("{key} has no condition NamesAccepted"));
    };
    if accepted.is_true() != has_names {
        return Err(format!("{key} has all names: {has_names}, and the condition is {accepted:?}"));
    }
    if has_names && !definition.is_established() {
        return Err(format!("{key} has its names and is not established"));
    }
    let is_taken = |name: &(&'static str, &str)| {
        world.views::<CustomResourceDefinition>().any(|(other, view)| {
            other.key() != key
                && view.spec.group == definition.spec.group
                && spaced(&view.status.accepted_names).any(|taken| taken == *name)
        })
    };
    if !has_names && !spaced(&definition.spec.names).any(|name| is_taken(&name)) {
        return Err(format!("{key} does not get names that nothing has"));
    }
    Ok(())
}

/// Checks that every served version has an APIService.
fn check_registration(
    object: &Object,
    definition: &CustomResourceDefinition,
    world: &WorldReader<'_>,
) -> Result<(), String> {
    for version in definition.spec.versions.iter().filter(|version| version.served) {
        let name = format!("{}.{}", version.name, definition.spec.group);
        if world.find(API_SERVICES, "", &name).is_none() {
            return Err(format!("{} has no APIService {name}", object.key()));
        }
    }
    Ok(())
}
