//! `pods/binding` and `bindings`: assigns a pod to a node, as schedulers request it.

use setpoint_api::metadata;
use setpoint_api::status::Status;

use super::{done, expected, object};
use crate::api::Api;
use crate::api::write::writer;
use crate::exchange::{Request, Response};
use crate::pipeline::RequestContext;
use crate::pipeline::binding::{bind, check};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;

impl Api {
    /// Binds the pod named in the path, or in the binding if the path has no name.
    pub(in crate::api) async fn bind(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
        name: &str,
    ) -> Result<Response, Status> {
        let (binding, mut warnings) = object(request, target, query, expected("v1", "Binding")?)?;
        if !name.is_empty() && name != metadata::name(&binding) {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        check(&binding)?;
        let writer = writer(request, query, None)?;
        let decide = |context: &RequestContext<'_>| bind(&binding, &target.namespace, &writer, context);
        let bound = self.perform(request, &mut warnings, decide).await;
        responses::with_warnings(bound.map(|_| done()), &warnings)
    }
}
