//! Scale of a workload: a change of its replicas alone, by a request or by the loop.

use setpoint_api::apply::scale::{SCALE_VERSION, to_parent, to_scale};
use setpoint_api::apply::{self, FieldPath, FieldSet, Managers, OneVersion};
use setpoint_api::field_error::ErrorList;
use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::kinds::autoscaling::scale::{self, ScaleFields};
use setpoint_api::schema::builtin;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{ResourceType, Value};
use setpoint_store::Record;

use super::ownership::Owners;
use super::strict_ownership::StrictOwnership;
use super::update::{Subresource, update};
use super::{Decision, DesiredObject, RequestContext, WriteOrigin, ownership};
use crate::body::Expected;
use crate::webhooks::{AdmissionRequest, ForeignKind, Interruption, Operation, dispatch};

/// Scaled object.
#[derive(Clone, Copy)]
pub(crate) struct ScaleTarget<'a> {
    /// Resource type.
    pub resource_type: &'a ResourceType,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

/// Computes a patched scale from the current one, with warnings.
pub(crate) type ScalePatch<'a> = dyn Fn(Value) -> Result<(Value, Vec<String>), Status> + Send + Sync + 'a;

/// A change of the scale.
#[derive(Clone, Copy)]
pub(crate) enum ScaleChange<'a> {
    /// The new scale.
    Whole(&'a Value),
    /// A patch of the scale.
    Patch(&'a ScalePatch<'a>),
    /// A configuration that is applied, and `true` if conflicts are forced.
    Apply(&'a Value, bool),
}

/// Type of a scale.
///
/// # Errors
/// Never: the kind is built in.
pub(crate) fn scale_type() -> Result<Expected<'static>, Status> {
    let (group, version) = SCALE_VERSION.split_once('/').unwrap_or(("", SCALE_VERSION));
    let schema = builtin().kind(group, version, "Scale");
    let schema = schema.ok_or_else(|| Status::internal_error("there is no definition of Scale"))?;
    Ok(Expected { api_version: SCALE_VERSION, kind: "Scale", schema: SchemaRef::BuiltIn(schema) })
}

/// Returns the scale of a workload.
///
/// # Errors
/// If the workload has no replicas.
pub(crate) fn scale_of(resource_type: &ResourceType, workload: &Value) -> Result<Value, Status> {
    scale::view(workload, &scale_fields(resource_type))
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// Changes the scale of a stored workload.
///
/// # Errors
/// If the new scale is invalid, admission rejects it, or its fields belong to other managers.
pub(crate) fn rescale(
    target: ScaleTarget<'_>,
    record: &Record,
    change: ScaleChange<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Decision, Status> {
    let workload = context.live(target.resource_type, record);
    let (object, owners, warnings) = match changed_workload(target, workload, change, writer, context) {
        Ok(changed) => changed,
        Err(interruption) => return interruption.into_decision(),
    };
    let desired = DesiredObject { object, has_omitted_empty: false, owners: Some(owners) };
    // Policies and webhooks have seen the scale.
    let catalog = context.catalog.without_policies();
    let context = RequestContext { webhooks: None, catalog: &catalog, ..*context };
    let mut decided = update(target.resource_type, Subresource::None, desired, record, writer, &context)?;
    decided.warnings.splice(0..0, warnings);
    Ok(decided)
}

/// Fields of the kind that its scale shows. A version without a scale has that of another version.
fn scale_fields(resource_type: &ResourceType) -> ScaleFields<'_> {
    let custom = resource_type.custom.as_ref().and_then(|custom| {
        let versions = custom.kind.definition.versions.iter();
        custom
            .version()
            .scale
            .as_ref()
            .or_else(|| versions.filter_map(|version| version.scale.as_ref()).next())
    });
    custom.map_or_else(ScaleFields::workload, ScaleFields::custom)
}

/// Has webhooks admit a scale.
fn admit_scale(
    target: ScaleTarget<'_>,
    new: &mut Value,
    live: &Value,
    expected: Expected<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    let (group, version) = expected.api_version.split_once('/').unwrap_or(("", expected.api_version));
    let kind = ForeignKind { group, version, kind: expected.kind, schema: expected.schema };
    let at = (target.namespace, target.name);
    let request = AdmissionRequest {
        foreign_kind: Some(kind),
        ..AdmissionRequest::new(Operation::Update, target.resource_type, at, writer)
    }
    .for_subresource("scale");
    dispatch::admit_unstored(&request, new, Some(live), context)
}

fn scale_replicas(scale: &Value) -> i64 {
    scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns a workload with its new scale, the field owners if it was applied, and warnings.
fn changed_workload(
    target: ScaleTarget<'_>,
    mut workload: Value,
    change: ScaleChange<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(Value, Owners, Vec<String>), Interruption> {
    let api_version = target.resource_type.api_version();
    let expected = scale_type()?;
    let fields = scale_fields(target.resource_type);
    let replicas = FieldPath::from_fields(fields.replicas_path());
    let changed = FieldSet::from_paths([&replicas]);
    let paths = [(api_version.as_str(), Some(replicas))];
    let managed = workload.at(&["metadata", "managedFields"]).unwrap_or(&Value::Null);
    let owners = Managers::from_value(managed).unwrap_or_default();
    let mut live = scale_of(target.resource_type, &workload)?;
    ownership::set(&mut live, to_scale(&owners, &paths).to_value());
    let of = expected.schema.built_in().ok_or_else(|| Status::internal_error("Scale is a built-in kind"))?;
    let versions = OneVersion { api_version: SCALE_VERSION, of: of.into(), filter: None };
    let writes = apply::ApplyContext {
        versions: &versions,
        api_version: SCALE_VERSION,
        of: of.into(),
        subresource: "scale",
        manager: &writer.manager,
        now: context.now,
    };
    let update = |new: &Value| apply::update(&writes, Some(&live), new).managed;
    let (mut new, managed, warnings) = match change {
        ScaleChange::Whole(scale) => (scale.clone(), update(scale), Vec::new()),
        ScaleChange::Patch(patch) => {
            let (patched, warnings) = patch(live.clone())?;
            let managed = update(&patched);
            (patched, managed, warnings)
        }
        ScaleChange::Apply(config, force) => {
            let applied =
                apply::apply(&writes, Some(&live), config, force).map_err(|error| error.to_status())?;
            let decoded = expected
                .schema
                .decode(applied.object, &[])
                .map_err(|error| Status::bad_request(error.to_string()))?;
            (decoded.value, applied.managed, Vec::new())
        }
    };
    let (requested, before) = (scale_replicas(&new), scale_replicas(&live));
    admit_scale(target, &mut new, &live, expected, writer, context)?;
    let is_checked = match change {
        ScaleChange::Apply(_, is_forced) => !is_forced && scale_replicas(&new) != requested,
        ScaleChange::Whole(_) | ScaleChange::Patch(_) => scale_replicas(&new) != before,
    };
    let strict = StrictOwnership::of(target.resource_type, &workload, writer, context);
    if let Some(strict) = strict.filter(|_| is_checked) {
        strict.check_fields(&changed)?;
    }
    let mut errors = ErrorList::new();
    scale::validate(&new, &fields, &mut errors);
    if !errors.is_empty() {
        let kind = Qualified { group: "autoscaling", name: "Scale" };
        return Err(Status::invalid(kind, target.name, &errors).into());
    }
    scale::apply(&new, &mut workload, &fields)
        .map_err(|error| Status::conflict(target.resource_type.qualified(), target.name, error))?;
    let of_scale = Managers::from_value(&managed).unwrap_or_default();
    let managed = to_parent(&owners, &of_scale, &api_version, &paths).to_value();
    Ok((workload, Owners { managed, changed }, warnings))
}
