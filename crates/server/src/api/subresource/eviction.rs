//! `pods/eviction`: deletes a pod if its disruption budget allows it, as `kubectl drain` requests it.

use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::status::Status;

use super::{done, expected, object};
use crate::api::Api;
use crate::api::write::{header, writer};
use crate::body::{self, Expected};
use crate::exchange::{Request, Response};
use crate::pipeline::eviction::{check_eviction, evict};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;

impl Api {
    pub(super) async fn evict(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        // `policy/v1beta1` evictions have the same fields.
        let is_older = body::read(&request.body, header(request))
            .is_ok_and(|(eviction, _)| eviction.str_at(&["apiVersion"]) == "policy/v1beta1");
        let api_version = if is_older { "policy/v1beta1" } else { "policy/v1" };
        let expected = Expected { api_version, ..expected("policy/v1", "Eviction")? };
        let (eviction, mut warnings) = object(request, target, query, expected)?;
        check_eviction(&eviction, &target.name)?;
        let options = eviction.get("deleteOptions").cloned().unwrap_or_default();
        let options = DeleteOptions::from_value(&options);
        let mut writer = writer(request, query, None)?;
        writer.dry_run |= !options.dry_run.is_empty();
        let evicted = self
            .perform(request, &mut warnings, |context| {
                let record = self.find(target, context.snapshot)?;
                evict(&target.resource_type, &record, &eviction, &writer, context)
            })
            .await;
        responses::with_warnings(evicted.map(|_| done()), &warnings)
    }
}
