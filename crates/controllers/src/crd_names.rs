//! Names of custom resources: accepts the names of CustomResourceDefinitions, and establishes them.
//!
//! A name belongs to one definition of a group at a time: the plural, the singular and the short names share one space,
//! the kind and the list kind another. A key is a group, so that one plan at a time grants names, on a world that shows
//! all names granted before. Of several definitions that request a free name, the oldest gets it. A name that is
//! released is granted by the next plan.
//!
//! Upstream writes the accepted names and `Established` in two steps, because its endpoints start with a delay. Here
//! both are one write: a resource is served as soon as its definition is established.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::kinds::certificates::pem;
use setpoint_api::quote::Quoted;
use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader};
use setpoint_views::condition;
use setpoint_views::custom_resource_definition::{CustomResourceDefinition, CustomResourceDefinitionNames};

use crate::crd::{self, DEFINITIONS, MANAGER, USER, new_condition, update_condition};
use crate::indexes::{DEFINITION_NAMES, PENDING_DEFINITIONS};

/// Space of the plural, the singular and the short names.
const RESOURCES: &str = "resource";
/// Space of the kind and the list kind.
const KINDS: &str = "kind";
/// DER tag of a sequence, with which a certificate begins.
const DER_SEQUENCE: u8 = 0x30;

/// Accepts names, and establishes definitions.
pub struct CrdNames;

impl Planner for CrdNames {
    type Memo = ();

    fn name(&self) -> &'static str {
        "crd-naming-condition-controller"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::mapped(DEFINITIONS, enqueue_group)];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let groups: BTreeSet<&str> = world
            .views::<CustomResourceDefinition>()
            .map(|(_, definition)| &*definition.spec.group)
            .collect();
        groups.into_iter().filter_map(|group| key_of(DEFINITIONS, "", group)).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let group = key.name();
        let mut pending: Vec<(&Object, &CustomResourceDefinition)> = world
            .by_index(PENDING_DEFINITIONS, group)
            .filter_map(|object| Some((object, object.view::<CustomResourceDefinition>()?)))
            .collect();
        pending.sort_by_key(|(object, _)| (object.meta().created(), &object.meta().name));
        let mut names = GroupNames { world, group, granted: BTreeSet::new() };
        let writes: Vec<Action> = pending
            .iter()
            .filter_map(|(object, definition)| sync(object, definition, &mut names, now))
            .collect();
        plan.stage(writes);
        plan
    }
}

fn enqueue_group(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let group = object.view::<CustomResourceDefinition>().map(|definition| &*definition.spec.group);
    if let Some(key) = group.and_then(|group| key_of(DEFINITIONS, "", group)) {
        enqueue(key);
    }
}

/// Index function: accepted names, with their group and their space.
pub(crate) fn index_accepted(object: &Object, emit: &mut dyn FnMut(&str)) {
    let Some(definition) = object.view::<CustomResourceDefinition>() else { return };
    let (group, names) = (&definition.spec.group, &definition.status.accepted_names);
    for (space, name) in spaced_names(names).filter(|(_, name)| !name.is_empty()) {
        emit(&index_value(group, space, name));
    }
}

/// Index function: group of a definition whose names are not accepted, or that is not established.
pub(crate) fn index_pending(object: &Object, emit: &mut dyn FnMut(&str)) {
    let Some(definition) = object.view::<CustomResourceDefinition>() else { return };
    let is_accepted = definition.has_condition("NamesAccepted")
        && definition.spec.names == definition.status.accepted_names;
    if !is_accepted || !definition.is_established() {
        emit(&definition.spec.group);
    }
}

fn index_value(group: &str, space: &str, name: &str) -> String {
    format!("{group}/{space}/{name}")
}

/// Names with their space.
fn spaced_names(names: &CustomResourceDefinitionNames) -> impl Iterator<Item = (&'static str, &str)> {
    let singles = [(RESOURCES, &*names.plural), (RESOURCES, &*names.singular)];
    let kinds = [(KINDS, &*names.kind), (KINDS, &*names.list_kind)];
    let short = names.short_names.iter().map(|name| (RESOURCES, &**name));
    singles.into_iter().chain(short).chain(kinds)
}

/// Names of one group that are in use.
struct GroupNames<'a> {
    world: &'a WorldReader<'a>,
    group: &'a str,
    /// Names that this plan grants.
    granted: BTreeSet<(&'static str, Box<str>)>,
}

impl GroupNames<'_> {
    /// Checks that a name is unchanged or free.
    fn check(&self, space: &'static str, requested: &str, accepted: &str) -> Result<(), String> {
        let is_used = || {
            self.granted.contains(&(space, requested.into()))
                || self
                    .world
                    .by_index(DEFINITION_NAMES, &index_value(self.group, space, requested))
                    .next()
                    .is_some()
        };
        if requested == accepted || !is_used() {
            return Ok(());
        }
        Err(format!("{} is already in use", Quoted(requested)))
    }

    fn check_short_names(&self, requested: &[Box<str>], accepted: &[Box<str>]) -> Result<(), String> {
        let requested = requested.iter().filter(|name| !accepted.contains(name));
        let mut errors: Vec<String> = Vec::new();
        for error in requested.filter_map(|name| self.check(RESOURCES, name, "").err()) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// Computes the accepted names, and the last conflict: its reason and message. Free names are granted even if
    /// others conflict.
    fn accept(
        &mut self,
        requested: &CustomResourceDefinitionNames,
        accepted: &CustomResourceDefinitionNames,
    ) -> (CustomResourceDefinitionNames, Option<(&'static str, String)>) {
        let mut names = accepted.clone();
        let mut conflict = None;
        let mut resolve =
            |checked: Result<(), String>, reason: &'static str, accept: &mut dyn FnMut()| match checked {
                Ok(()) => accept(),
                Err(message) => conflict = Some((reason, message)),
            };
        resolve(self.check(RESOURCES, &requested.plural, &accepted.plural), "PluralConflict", &mut || {
            names.plural.clone_from(&requested.plural);
        });
        resolve(
            self.check(RESOURCES, &requested.singular, &accepted.singular),
            "SingularConflict",
            &mut || names.singular.clone_from(&requested.singular),
        );
        resolve(
            self.check_short_names(&requested.short_names, &accepted.short_names),
            "ShortNamesConflict",
            &mut || names.short_names.clone_from(&requested.short_names),
        );
        resolve(self.check(KINDS, &requested.kind, &accepted.kind), "KindConflict", &mut || {
            names.kind.clone_from(&requested.kind);
        });
        resolve(
            self.check(KINDS, &requested.list_kind, &accepted.list_kind),
            "ListKindConflict",
            &mut || {
                names.list_kind.clone_from(&requested.list_kind);
            },
        );
        names.categories.clone_from(&requested.categories);
        self.granted.extend(spaced_names(&names).map(|(space, name)| (space, name.into())));
        (names, conflict)
    }
}

/// Write that brings the status of a definition up to date; `None` if it is.
fn sync(
    object: &Object,
    definition: &CustomResourceDefinition,
    group: &mut GroupNames<'_>,
    now: Time,
) -> Option<Action> {
    let status = &definition.status;
    let (names, conflict) = group.accept(&definition.spec.names, &status.accepted_names);
    let mut conditions = status.conditions.clone();
    let is_accepted = conflict.is_none();
    let accepted = match &conflict {
        Some((reason, message)) => (*reason, message.as_str()),
        None => ("NoConflicts", "no conflicts found"),
    };
    let mut is_changed =
        update_condition(&mut conditions, new_condition("NamesAccepted", is_accepted, accepted, now));
    // An established definition stays established, whatever its names become.
    if !definition.is_established() {
        let (is_established, reason) = if !is_accepted {
            (false, ("NotAccepted", "not all names are accepted"))
        } else if !has_valid_ca_bundle(definition) {
            (false, ("InvalidCABundle", "The conversion webhook CABundle is invalid"))
        } else {
            (true, ("InitialNamesAccepted", "the initial names have been accepted"))
        };
        // A definition that was refused for another reason keeps that.
        if is_accepted || condition(&conditions, "Established").is_none() {
            is_changed |=
                update_condition(&mut conditions, new_condition("Established", is_established, reason, now));
        }
    }
    if !is_changed && names == status.accepted_names {
        return None;
    }
    let others = value!({"acceptedNames": (value_of(&names))});
    Some(crd::write_status(object, &conditions, others).into())
}

/// `true` if the conversion webhook has no CA bundle, or one with a certificate.
fn has_valid_ca_bundle(definition: &CustomResourceDefinition) -> bool {
    let Some(webhook) = &definition.spec.conversion.webhook else { return true };
    let bundle = &webhook.client_config.ca_bundle;
    if bundle.is_empty() {
        return true;
    }
    let Ok(text) = STANDARD.decode(bundle.as_bytes()) else { return false };
    let mut rest = text.as_slice();
    while let Some((block, after)) = pem::next_block(rest) {
        if block.label == "CERTIFICATE" && block.bytes.first() == Some(&DER_SEQUENCE) {
            return true;
        }
        rest = after;
    }
    false
}

#[cfg(test)]
pub(crate) mod tests;
