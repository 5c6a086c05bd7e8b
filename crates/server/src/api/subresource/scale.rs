//! `scale` subresource: replicas of a workload, read and written alone.

use http::Method;
use setpoint_api::Value;
use setpoint_api::status::Status;

use super::object;
use crate::api::patching::{self, ParsedPatch};
use crate::api::write::{WriteResult, configuration, writer};
use crate::api::{Api, accepted_form};
use crate::body::Expected;
use crate::codec;
use crate::exchange::{Request, Response};
use crate::pipeline::scale::{ScaleChange, ScaleTarget, rescale, scale_of, scale_type};
use crate::pipeline::{check_uid, set_namespace_and_check_name};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;

/// A change of the scale, as sent.
enum SentChange {
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
        let expected = scale_type()?;
        let pretty = query.flag("pretty") == Some(true);
        if matches!(request.method, Method::GET | Method::HEAD) {
            let record = self.find(target, &self.store.snapshot())?;
            let record = self.converted(&target.resource_type, record).await?;
            return Ok(responses::value(
                200,
                expected,
                scale_of(&target.resource_type, &codec::live(&target.resource_type, &record))?,
                form,
                pretty,
            ));
        }
        let (change, early_warnings) = parse_change(request, target, query, expected)?;
        let mut warnings = early_warnings.clone();
        let is_patch = (request.method == Method::PATCH).then_some(matches!(change, SentChange::Apply(..)));
        let writer = writer(request, query, is_patch)?;
        let mut called = Vec::new();
        let done = self
            .perform(request, &mut called, |context| {
                let record = self.find(target, context.snapshot)?;
                if let SentChange::Whole(scale) = &change {
                    check_uid(&target.resource_type, scale, &record)?;
                }
                let patch = |live: Value| match &change {
                    SentChange::Patch(patch) => {
                        let mut patched = patch.apply(live, expected)?;
                        set_namespace_and_check_name(&mut patched.object, &target.namespace, &target.name)?;
                        Ok((patched.object, patched.warnings))
                    }
                    _ => Ok((live, Vec::new())),
                };
                let change = match &change {
                    SentChange::Whole(scale) => ScaleChange::Whole(scale),
                    SentChange::Patch(_) => ScaleChange::Patch(&patch),
                    SentChange::Apply(config, force) => ScaleChange::Apply(config, *force),
                };
                let (resource_type, namespace, name) =
                    (&target.resource_type, &target.namespace, &target.name);
                let scaled = ScaleTarget { resource_type, namespace, name };
                let decided = rescale(scaled, &record, change, &writer, context)?;
                warnings = [&early_warnings[..], &decided.warnings].concat();
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
        let response = workload.and_then(|workload| {
            Ok(responses::value(200, expected, scale_of(&target.resource_type, &workload)?, form, pretty))
        });
        responses::with_warnings(response, &warnings)
    }
}

fn parse_change(
    request: &Request,
    target: &Target,
    query: &QueryParams,
    expected: Expected<'_>,
) -> Result<(SentChange, Vec<String>), Status> {
    if request.method == Method::PUT {
        let (mut scale, warnings) = object(request, target, query, expected)?;
        set_namespace_and_check_name(&mut scale, &target.namespace, &target.name)?;
        return Ok((SentChange::Whole(scale), warnings));
    }
    if let Some(patch_type) = patching::patch_type(request)? {
        return Ok((SentChange::Patch(ParsedPatch::parse(patch_type, request, query)?), Vec::new()));
    }
    let (config, _) = configuration(&request.body)?;
    Ok((SentChange::Apply(config, query.flag("force") == Some(true)), Vec::new()))
}
