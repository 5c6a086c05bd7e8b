//! `scale` subresource: replicas of a workload, read and written alone.

use http::Method;
use setpoint_api::Value;
use setpoint_api::apply::scale::{SCALE_VERSION, to_parent, to_scale};
use setpoint_api::apply::{self, FieldPath, FieldSet, Managers, OneVersion};
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::autoscaling::scale::{self, ScaleFields};
use setpoint_api::status::{Qualified, Status};

use super::{expected, object};
use crate::api::patching::{self, ParsedPatch};
use crate::api::write::{WriteResult, configuration, writer};
use crate::api::{Api, accepted_form};
use crate::body::Expected;
use crate::codec;
use crate::exchange::{Request, Response};
use crate::pipeline::ownership::Owners;
use crate::pipeline::strict_ownership::StrictOwnership;
use crate::pipeline::update::{Subresource, update};
use crate::pipeline::{
    DesiredObject, RequestContext, WriteOrigin, check_uid, ownership, set_namespace_and_check_name,
};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;
use crate::webhooks::{AdmissionRequest, ForeignKind, Interruption, Operation, dispatch};

/// A change of the scale.
enum ScaleChange {
    /// PUT: the new scale.
    Whole(Value),
    /// PATCH: a patch of the scale.
    Patch(ParsedPatch),
    /// Apply: the configuration, and `true` if it is forced.
    Apply(Value, bool),
}

impl Api {
    pub(super) async fn scale(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let form = accepted_form(request)?;
        let expected = expected(SCALE_VERSION, "Scale")?;
        let pretty = query.flag("pretty") == Some(true);
        if matches!(request.method, Method::GET | Method::HEAD) {
            let record = self.find(target, &self.store.snapshot())?;
            let record = self.converted(&target.resource_type, record).await?;
            return Ok(responses::value(
                200,
                expected,
                view(target, &codec::live(&target.resource_type, &record))?,
                form,
                pretty,
            ));
        }
        let (change, early_warnings) = parse_change(request, target, query, expected)?;
        let mut warnings = early_warnings.clone();
        let is_patch = (request.method == Method::PATCH).then_some(matches!(change, ScaleChange::Apply(..)));
        let writer = writer(request, query, is_patch)?;
        let mut called = Vec::new();
        let done = self
            .perform(request, &mut called, |context| {
                let record = self.find(target, context.snapshot)?;
                let workload = context.live(&target.resource_type, &record);
                if let ScaleChange::Whole(scale) = &change {
                    check_uid(&target.resource_type, scale, &record)?;
                }
                let scaled = apply_scale(target, workload, &change, expected, &writer, context);
                let (object, owners, more) = match scaled {
                    Ok(scaled) => scaled,
                    Err(interruption) => return interruption.into_result(),
                };
                warnings = [&early_warnings[..], &more].concat();
                let desired = DesiredObject { object, has_omitted_empty: false, owners: Some(owners) };
                // Policies and webhooks have seen the scale.
                let catalog = context.catalog.without_policies();
                let context = RequestContext { webhooks: None, catalog: &catalog, ..*context };
                let decided =
                    update(&target.resource_type, Subresource::None, desired, &record, &writer, &context)?;
                warnings.extend(decided.warnings);
                Ok(decided.step)
            })
            .await;
        warnings.extend(called);
        let workload = match done {
            Ok(WriteResult::Stored(record)) => {
                let record = self.converted(&target.resource_type, record).await;
                record.map(|record| codec::live(&target.resource_type, &record))
            }
            Ok(WriteResult::DryRun(object) | WriteResult::Removed(object)) => Ok(object),
            Err(status) => Err(status),
        };
        let response = workload
            .and_then(|workload| Ok(responses::value(200, expected, view(target, &workload)?, form, pretty)));
        responses::with_warnings(response, &warnings)
    }
}

/// Fields of the kind that its scale shows.
fn scale_fields(target: &Target) -> ScaleFields<'_> {
    let custom = target.resource_type.custom.as_ref().and_then(|custom| custom.version().scale.as_ref());
    custom.map_or_else(ScaleFields::workload, ScaleFields::custom)
}

fn view(target: &Target, workload: &Value) -> Result<Value, Status> {
    scale::view(workload, &scale_fields(target)).map_err(|error| Status::bad_request(error.to_string()))
}

fn parse_change(
    request: &Request,
    target: &Target,
    query: &QueryParams,
    expected: Expected<'_>,
) -> Result<(ScaleChange, Vec<String>), Status> {
    if request.method == Method::PUT {
        let (mut scale, warnings) = object(request, target, query, expected)?;
        set_namespace_and_check_name(&mut scale, &target.namespace, &target.name)?;
        return Ok((ScaleChange::Whole(scale), warnings));
    }
    if let Some(patch_type) = patching::patch_type(request)? {
        return Ok((ScaleChange::Patch(ParsedPatch::parse(patch_type, request, query)?), Vec::new()));
    }
    let (config, _) = configuration(&request.body)?;
    Ok((ScaleChange::Apply(config, query.flag("force") == Some(true)), Vec::new()))
}

/// Has webhooks admit a scale.
fn admit_scale(
    target: &Target,
    new: &mut Value,
    live: &Value,
    expected: Expected<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    let (group, version) = expected.api_version.split_once('/').unwrap_or(("", expected.api_version));
    let kind = ForeignKind { group, version, kind: expected.kind, schema: expected.schema };
    let at = (target.namespace.as_str(), target.name.as_str());
    let request = AdmissionRequest {
        foreign_kind: Some(kind),
        ..AdmissionRequest::new(Operation::Update, &target.resource_type, at, writer)
    }
    .for_subresource("scale");
    dispatch::admit_unstored(&request, new, Some(live), context)
}

fn scale_replicas(scale: &Value) -> i64 {
    scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns a workload with its new scale, the field owners if it was applied, and warnings.
fn apply_scale(
    target: &Target,
    mut workload: Value,
    change: &ScaleChange,
    expected: Expected<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(Value, Owners, Vec<String>), Interruption> {
    let api_version = target.resource_type.api_version();
    let fields = scale_fields(target);
    let replicas = FieldPath::from_fields(fields.replicas_path());
    let changed = FieldSet::from_paths([&replicas]);
    let paths = [(api_version.as_str(), Some(replicas))];
    let managed = workload.at(&["metadata", "managedFields"]).unwrap_or(&Value::Null);
    let owners = Managers::from_value(managed).unwrap_or_default();
    let mut live = view(target, &workload)?;
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
            let mut patched = patch.apply(live.clone(), expected)?;
            set_namespace_and_check_name(&mut patched.object, &target.namespace, &target.name)?;
            let managed = update(&patched.object);
            (patched.object, managed, patched.warnings)
        }
        ScaleChange::Apply(config, force) => {
            let applied =
                apply::apply(&writes, Some(&live), config, *force).map_err(|error| error.to_status())?;
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
    let strict = StrictOwnership::of(&target.resource_type, &workload, writer, context);
    if let Some(strict) = strict.filter(|_| is_checked) {
        strict.check_fields(&changed)?;
    }
    let mut errors = ErrorList::new();
    scale::validate(&new, &fields, &mut errors);
    if !errors.is_empty() {
        let kind = Qualified { group: "autoscaling", name: "Scale" };
        return Err(Status::invalid(kind, &target.name, &errors).into());
    }
    scale::apply(&new, &mut workload, &fields)
        .map_err(|error| Status::conflict(target.resource_type.qualified(), &target.name, error))?;
    let of_scale = Managers::from_value(&managed).unwrap_or_default();
    let managed = to_parent(&owners, &of_scale, &api_version, &paths).to_value();
    Ok((workload, Owners { managed, changed }, warnings))
}
