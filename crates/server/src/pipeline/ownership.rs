//! Field ownership: `metadata.managedFields` after a write.

use std::sync::Arc;

use setpoint_api::Value;
use setpoint_api::apply::{self, Applied, Comparison, FieldSet, Filter, MergeType, Updated, Versions};
use setpoint_api::custom_kind::CustomKind;
use setpoint_api::kind_schema::KindSchema;
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::status::Status;

use super::update::Subresource;
use super::{RequestContext, WriteOrigin};

/// Field owners after an apply.
#[derive(Clone, Debug)]
pub struct Owners {
    /// The new `metadata.managedFields`; null if there are none.
    pub managed: Value,
    /// Fields that the apply changed.
    pub changed: FieldSet,
}

/// Records the owners of fields in `new` after any write but an apply. Returns the changed fields; none for a create,
/// which changes everything.
pub fn record_owners(
    resource_type: &ResourceType,
    subresource: Subresource,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
    live: Option<&Value>,
    new: &mut Value,
) -> FieldSet {
    let Updated { managed, changed } = with_writer(resource_type, subresource, writer, context, |writer| {
        if resource_type.custom.is_some() || !resource_type.is_converted() {
            return apply::update(writer, live, new);
        }
        let (live, new) =
            (live.map(|live| resource_type.to_served(live.clone())), resource_type.to_served(new.clone()));
        apply::update(writer, live.as_ref(), &new)
    });
    set(new, managed);
    changed.map(Comparison::changed).unwrap_or_default()
}

/// Merges an applied configuration into an object, and records the owners. `live` is as stored; the result is in the
/// served version, like the configuration.
///
/// # Errors
/// If it does not match the schema, or changes fields of other managers.
pub fn merge(
    resource_type: &ResourceType,
    subresource: Subresource,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<(Value, Owners), Status> {
    let served = live
        .filter(|_| resource_type.custom.is_none() && resource_type.is_converted())
        .map(|live| resource_type.to_served(live.clone()));
    let live = served.as_ref().or(live);
    let applied = with_writer(resource_type, subresource, writer, context, |writer| {
        apply::apply(writer, live, config, force)
    });
    let Applied { object, managed, changed } = applied.map_err(|error| error.to_status())?;
    Ok((object, Owners { managed, changed: changed.changed() }))
}

/// Sets the managed fields of an object.
pub fn set(object: &mut Value, managed: Value) {
    let metadata = object.ensure_map("metadata");
    if managed.is_null() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields", managed);
    }
}

fn with_writer<T>(
    resource_type: &ResourceType,
    subresource: Subresource,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
    run: impl FnOnce(&apply::ApplyContext<'_>) -> T,
) -> T {
    let api_version = resource_type.api_version();
    let (forms, filter) = (Forms::of(resource_type), filter(resource_type, subresource));
    let versions = ServedVersions { forms, filter, context };
    run(&apply::ApplyContext {
        versions: &versions,
        api_version: &api_version,
        of: resource_type.schema.merge_type(),
        subresource: subresource.name(),
        manager: &writer.manager,
        now: context.now,
    })
}

/// Fields that a write of the subresource can own.
fn filter(resource_type: &ResourceType, subresource: Subresource) -> Option<Filter> {
    Some(match subresource {
        Subresource::None if resource_type.rules.reset_fields().is_empty() => return None,
        Subresource::None => Filter::exclude(resource_type.rules.reset_fields()),
        Subresource::Status => Filter::exclude(resource_type.rules.status_reset_fields()),
        Subresource::Finalize => Filter::exclude(&["status"]),
        Subresource::Approval => Filter::exclude(&["spec", "status.certificate"]),
        // These writes own everything they contain, including fields that they cannot change.
        Subresource::EphemeralContainers | Subresource::Resize => return None,
    })
}

/// All versions of a resource.
struct ServedVersions<'a> {
    forms: Forms<'a>,
    filter: Option<Filter>,
    context: &'a RequestContext<'a>,
}

enum Forms<'a> {
    BuiltIn(Vec<&'static Arc<ResourceType>>),
    Custom(&'a Arc<CustomKind>),
}

impl<'a> Forms<'a> {
    fn of(resource_type: &'a ResourceType) -> Forms<'a> {
        match &resource_type.custom {
            Some(custom) => Forms::Custom(&custom.kind),
            None => Forms::BuiltIn(resource_types::forms(&resource_type.resource).collect()),
        }
    }

    fn schema(&self, api_version: &str) -> Option<&KindSchema> {
        match self {
            Forms::BuiltIn(_) => self.built_in(api_version).map(|form| &form.schema),
            Forms::Custom(kind) => kind.schema(api_version),
        }
    }

    fn built_in(&self, api_version: &str) -> Option<&'static Arc<ResourceType>> {
        let Forms::BuiltIn(forms) = self else { return None };
        forms.iter().copied().find(|form| form.has_api_version(api_version))
    }
}

impl Versions for ServedVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<MergeType<'_>> {
        self.forms.schema(api_version).map(KindSchema::merge_type)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let own = object.str_at(&["apiVersion"]);
        if own == api_version {
            return Some(object.clone());
        }
        match &self.forms {
            Forms::BuiltIn(_) => {
                let (from, to) = (self.forms.built_in(own)?, self.forms.built_in(api_version)?);
                Some(to.to_served(from.to_stored(object.clone())))
            }
            Forms::Custom(kind) => {
                let schema = kind.schema(api_version)?;
                if kind.definition.conversion.is_some() {
                    return self.context.convert(kind, object, api_version);
                }
                let mut object = object.clone();
                object.make_map().insert("apiVersion", api_version);
                schema.decode(object, &[]).ok().map(|decoded| decoded.value)
            }
        }
    }

    fn filter(&self, api_version: &str) -> Option<&Filter> {
        self.filter.as_ref().filter(|_| self.forms.schema(api_version).is_some())
    }
}
