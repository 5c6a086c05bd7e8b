//! Storage version migrator: rewrites all objects of a resource in the current storage version.
//!
//! Of several migrations of a resource one runs at a time, oldest first. It records the revision at which it
//! began, and rewrites every older object without a change, which stores it in the current version. Newer
//! objects were written in the current version already.

use std::time::Duration;

use setpoint_api::resources::{self, Verb};
use setpoint_api::{Key, Resource, Revision, Time, Value, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{
    Action, Failure, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write,
};
use setpoint_views::custom_resource_definition::{CustomResourceDefinition, custom_resource};
use setpoint_views::storage_version_migration::{
    GroupResource, StorageVersionMigration, StorageVersionMigrationStatus,
};
use setpoint_views::{Condition, condition};

use crate::conditions;

/// Time for which a resource may be unknown before its migration fails.
const UNKNOWN_RESOURCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of checks while the world has not reached the revision of a migration.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Condition of a CustomResourceDefinition whose objects are being migrated.
const MIGRATING: &str = "StorageMigrating";
const FAILED: &str = "StorageVersionMigrationFailed";
/// Reasons of rejections that may be temporary.
const TRANSIENT_REASONS: [&str; 6] =
    ["InternalError", "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests", "Unknown"];

/// The storage version migrator.
pub struct StorageVersionMigrator;

impl Planner for StorageVersionMigrator {
    type Memo = ();

    fn name(&self) -> &'static str {
        "storage-version-migrator-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::primary(StorageVersionMigration::RESOURCE),
            // The end of a migration enqueues the next one.
            Watch::mapped(StorageVersionMigration::RESOURCE, |object, world, enqueue| {
                let Some(migration) = object.view::<StorageVersionMigration>() else { return };
                for (other, of) in world.views::<StorageVersionMigration>() {
                    if of.spec.resource == migration.spec.resource {
                        enqueue(other.key().clone());
                    }
                }
            }),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|object| !object.meta().is_deleted()) else { return plan };
        let Some(migration) = object.view::<StorageVersionMigration>() else { return plan };
        let mut sync = MigrationSync { object, status: migration.status.clone(), now };
        sync.run_step(migration, world, seen.failure, &mut plan);
        if sync.status != migration.status {
            plan.stage([Write::status(object, value_of(&sync.status)).into()]);
        }
        plan
    }
}

/// Sync context of one migration.
struct MigrationSync<'a> {
    object: &'a Object,
    status: StorageVersionMigrationStatus,
    now: Time,
}

impl MigrationSync<'_> {
    fn run_step(
        &mut self,
        migration: &StorageVersionMigration,
        world: &WorldReader<'_>,
        failure: Option<&Failure>,
        plan: &mut Plan,
    ) {
        let definition = find_definition(&migration.spec.resource, world);
        let mark = |is_success| {
            definition.and_then(|definition| {
                mark_definition(definition, &self.object.meta().name, is_success, self.now)
            })
        };
        if has_ended(&self.status) {
            if has_condition(&self.status, "Running") {
                plan.stage(mark(Some(has_condition(&self.status, "Succeeded"))));
                self.set_condition("Running", "False", "MigrationCompleted", "Migration completed");
            }
        } else if !has_condition(&self.status, "Running") {
            if is_next(self.object, migration, world) {
                plan.stage(mark(None));
                self.set_running("The migration is running");
            }
        } else {
            match resolve_resource(&migration.spec.resource, world) {
                Ok(resource) if self.status.resource_version.is_empty() => {
                    // Revision that is visible here: objects that are not visible yet are newer.
                    let observed = world.revision_of(&resource);
                    self.status.resource_version = observed.max(Revision(1)).to_string();
                }
                Ok(resource) => self.migrate(&resource, world, failure, plan),
                Err(error) => {
                    let end = self.object.meta().created().after(UNKNOWN_RESOURCE_TIMEOUT);
                    if error.is_transient && end > self.now {
                        plan.requeue_at(end);
                    } else {
                        self.set_condition("Failed", "True", FAILED, &error.message);
                    }
                }
            }
        }
    }

    fn migrate(
        &mut self,
        resource: &Resource,
        world: &WorldReader<'_>,
        failure: Option<&Failure>,
        plan: &mut Plan,
    ) {
        let start = Revision(self.status.resource_version.parse().unwrap_or(0));
        if world.revision_of(resource) < start {
            plan.requeue_at(self.now.after(RECHECK_INTERVAL));
            return;
        }
        let old = || world.all(resource.as_str()).filter(|object| object.revision() <= start);
        let (total, left) = (world.count(resource.as_str()), old().count());
        let rejection = failure.filter(|failure| failure.resource == *resource);
        if let Some(rejection) =
            rejection.filter(|rejection| !TRANSIENT_REASONS.contains(&rejection.reason.as_str()))
        {
            self.set_running(&running_message(left, total));
            let message = format!(
                "{left}/{total} not yet migrated. migration encountered unhandled error: {}",
                rejection.message
            );
            self.set_condition("Failed", "True", FAILED, &message);
            return;
        }
        plan.stage(
            old().map(|object| Action::from(Write::merge(object, "", Value::map()))).collect::<Vec<_>>(),
        );
        // Written only after all objects are.
        self.set_running(&running_message(0, total));
        self.set_condition("Succeeded", "True", "StorageVersionMigrationSucceeded", "Migration completed");
    }

    fn set_running(&mut self, message: &str) {
        self.set_condition("Running", "True", "MigrationRunning", message);
    }

    fn set_condition(&mut self, kind: &str, is: &str, reason: &str, message: &str) {
        let mut condition = Condition::new(kind, is, reason, message, self.now);
        condition.observed_generation = (is == "False").then(|| self.object.meta().generation);
        conditions::set_condition(&mut self.status.conditions, condition);
    }
}

/// Message with the progress of a migration.
fn running_message(left: usize, total: usize) -> String {
    match (left, total) {
        (_, 0) => "The migration is running".to_owned(),
        (0, _) => format!("The migration is running, {total} objects verified migrated"),
        _ => format!("The migration is running, {left}/{total} objects not yet migrated"),
    }
}

fn has_condition(status: &StorageVersionMigrationStatus, kind: &str) -> bool {
    condition(&status.conditions, kind).is_some_and(Condition::is_true)
}

fn has_ended(status: &StorageVersionMigrationStatus) -> bool {
    has_condition(status, "Succeeded") || has_condition(status, "Failed")
}

/// `true` if a migration is the next of its resource to run.
fn is_next(object: &Object, migration: &StorageVersionMigration, world: &WorldReader<'_>) -> bool {
    let rank = |object: &Object| (object.meta().created(), object.meta().name.to_string());
    let others = world.views::<StorageVersionMigration>().filter(|(other, view)| {
        other.key() != object.key()
            && view.spec.resource == migration.spec.resource
            && !has_ended(&view.status)
    });
    let mut others = others.filter(|(other, _)| !other.meta().is_deleted());
    others.all(|(other, view)| !has_condition(&view.status, "Running") && rank(object) < rank(other))
}

/// Reason why a resource cannot be migrated.
struct ResourceError {
    message: String,
    /// `true` if the resource may become known later.
    is_transient: bool,
}

/// CustomResourceDefinition of a resource; `None` for a built-in one.
fn find_definition<'w>(group_resource: &GroupResource, world: &WorldReader<'w>) -> Option<&'w Object> {
    let GroupResource { group, resource } = group_resource;
    let name = format!("{resource}.{group}");
    let definition = world.find(CustomResourceDefinition::RESOURCE, "", &name);
    definition.filter(|definition| custom_resource(definition).is_some())
}

/// Write of the condition `StorageMigrating` of a CustomResourceDefinition, when its migration begins (`None`) or ends,
/// successfully or not. After a success the storage version is the only stored version, unless the definition was
/// changed meanwhile. `None` if there is nothing to write.
fn mark_definition(definition: &Object, name: &str, is_success: Option<bool>, now: Time) -> Option<Action> {
    let view = definition.view::<CustomResourceDefinition>()?;
    let generation = definition.meta().generation;
    let current = condition(&view.status.conditions, MIGRATING);
    let is_unchanged = current.and_then(|current| current.observed_generation) == Some(generation);
    let (is, reason, message) = match is_success {
        None => ("True", "MigrationRunning", format!("Migration {name} is running")),
        Some(true) if is_unchanged => (
            "False",
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated".to_owned(),
        ),
        Some(true) => (
            "False",
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
                .to_owned(),
        ),
        Some(false) => ("False", "MigrationFailed", "The migration has failed".to_owned()),
    };
    // The end is written once: the definition may be changed again after it.
    let has_ended = current.is_some_and(|current| current.status == "False");
    let is_written = current.is_some_and(|current| current.status == is && current.reason == reason);
    if is_success.is_some() && (has_ended || current.is_none()) || is_success.is_none() && is_written {
        return None;
    }
    let mut conditions = view.status.conditions.clone();
    let mut new = Condition::new(MIGRATING, is, reason, &message, now);
    new.observed_generation = Some(generation);
    conditions::set_condition(&mut conditions, new);
    let mut status = value!({"conditions": (value_of(&conditions))});
    let storage = view.storage_version().filter(|_| is_success.is_some() && is_unchanged);
    if let Some(storage) = storage {
        status.make_map().insert("storedVersions", vec![Value::from(&*storage.name)]);
    }
    Some(Write::status(definition, status).into())
}

/// Resolves the resource, if its objects can be listed and updated.
fn resolve_resource(
    group_resource: &GroupResource,
    world: &WorldReader<'_>,
) -> Result<Resource, ResourceError> {
    if let Some(definition) = find_definition(group_resource, world)
        && let Some((resource, _)) = custom_resource(definition)
        && world.find_resource(resource.as_str()).is_some()
    {
        return Ok(resource);
    }
    let unknown =
        || ResourceError { message: "resource does not exist in discovery".to_owned(), is_transient: true };
    let mut resources = resources::all().iter();
    let info =
        resources.find(|info| info.group == group_resource.group && info.plural == group_resource.resource);
    let info = info.ok_or_else(unknown)?;
    if ![Verb::Update, Verb::Patch, Verb::List].into_iter().all(|verb| info.verbs.contains(verb)) {
        let message = format!(
            "resource \"{}/{}, Resource={}\" does not support discovery operations: [update patch list]",
            info.group, info.version, info.plural
        );
        return Err(ResourceError { message, is_transient: false });
    }
    let name = if info.group.is_empty() {
        info.plural.to_string()
    } else {
        format!("{}.{}", info.plural, info.group)
    };
    Resource::new(&name).map_err(|_| unknown())
}

#[cfg(test)]
mod tests;
