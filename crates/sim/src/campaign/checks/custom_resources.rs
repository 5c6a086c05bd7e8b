//! Custom resources: objects exist only while their definition is established, are created only while it is not in
//! deletion, and have the defaults of the schema by which they are stored.

use setpoint_api::Value;
use setpoint_api::resource_types;
use setpoint_reconcile::{Object, OwnerReference, WorldReader};
use setpoint_views::custom_resource_definition::CustomResourceDefinition;

use super::{Check, CommitContext};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Resource of the definitions.
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Check of instances.
pub struct CustomResources;

/// `true` if an owner is of a custom kind that is not served: nothing is known about it.
pub fn is_unserved(world: &WorldReader<'_>, owner: &OwnerReference) -> bool {
    let Some((group, version)) = owner.api_version.split_once('/') else { return false };
    let serves = |definition: &CustomResourceDefinition| {
        *definition.spec.group == *group
            && definition.serves(version)
            && definition.is_established()
            && *definition.status.accepted_names.kind == *owner.kind
    };
    group.contains(".example.") && !world.views::<CustomResourceDefinition>().any(|(_, view)| serves(view))
}

fn is_custom(change: &CommitChange) -> bool {
    resource_types::storage_type(change.key.resource()).is_none()
}

impl Check for CustomResources {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        if !is_custom(change) {
            return Ok(());
        }
        record_marks(change, marks);
        let Some(after) = &change.after else { return Ok(()) };
        let (key, resource) = (&change.key, change.key.resource().as_str());
        let found = context.world.find(DEFINITIONS, "", resource);
        let Some((object, definition)) = found.and_then(|found| Some((found, found.view()?))) else {
            return Err(format!("{key} was stored without a definition"));
        };
        let definition: &CustomResourceDefinition = definition;
        if !definition.is_established() {
            return Err(format!("{key} was stored although its definition is not established"));
        }
        if change.is_creation() && object.meta().is_deleted() {
            return Err(format!("{key} was created although its definition is in deletion"));
        }
        check_stored_form(after, definition, object)
    }

    fn check_final(&self, world: &WorldReader<'_>) -> Result<(), String> {
        for resource in world.resources().filter(|name| resource_types::storage_type(name).is_none()) {
            let definition = world.find(DEFINITIONS, "", resource.as_str());
            if let Some(orphan) = world.all(resource.as_str()).next().filter(|_| definition.is_none()) {
                return Err(format!("{} has outlived its definition", orphan.key()));
            }
        }
        Ok(())
    }
}

fn record_marks(change: &CommitChange, marks: &mut CoverageMarks) {
    if change.is_creation() {
        marks.record("instance was created");
    }
    if change.is_deletion() {
        match &*change.by {
            "generic-garbage-collector" => marks.record("instance was collected"),
            "namespace-controller" => marks.record("instance was deleted with its namespace"),
            "crd-finalizer" => marks.record("instance was deleted with its definition"),
            _ => {}
        }
    }
}

/// Checks the version of a stored instance, and its defaults.
fn check_stored_form(
    instance: &Object,
    view: &CustomResourceDefinition,
    definition: &Object,
) -> Result<(), String> {
    let (key, value, definition) = (instance.key(), instance.value(), definition.value());
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    let storage = versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let storage = storage.cloned().unwrap_or_default();
    let (group, name) = (&view.spec.group, storage.str_at(&["name"]));
    let api_version = value.str_at(&["apiVersion"]);
    if api_version != format!("{group}/{name}") {
        return Err(format!("{key} was stored as {api_version}, and the storage version is {name}"));
    }
    if !view.status.stored_versions.iter().any(|stored| **stored == *name) {
        return Err(format!("{key} was stored as {name}, which is not a stored version"));
    }
    let fields = storage.at(&["schema", "openAPIV3Schema", "properties", "spec", "properties"]);
    let fields = fields.and_then(Value::as_map).into_iter().flat_map(|fields| fields.iter());
    for (field, _) in fields.filter(|(_, schema)| schema.get("default").is_some()) {
        if value.at(&["spec", field]).is_none() {
            return Err(format!("{key} was stored without the default of spec.{field}"));
        }
    }
    Ok(())
}
