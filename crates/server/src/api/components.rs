//! ComponentStatus: health of the control plane's components, for clients of the deprecated API.
//!
//! Conditions come from the server's own health checks; a component without a check is reported as unknown.

use http::Method;
use setpoint_api::printing::table::ListMeta;
use setpoint_api::schema::builtin;
use setpoint_api::status::{Generic, Status};
use setpoint_api::{Map, Value};

use super::{Api, accepted_form_and_view};
use crate::body::Expected;
use crate::exchange::{Request, Response};
use crate::media::Representation;
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;

/// Component names, each with the name of its health check.
const COMPONENTS: [(&str, &str); 3] =
    [("controller-manager", "controller-manager"), ("etcd-0", "etcd"), ("scheduler", "scheduler")];

impl Api {
    /// Lists all components, or returns one.
    pub(super) async fn components(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let is_watch = target.watch || query.flag("watch") == Some(true);
        if is_watch || !matches!(request.method, Method::GET | Method::HEAD) {
            let method = request.method.as_str();
            return Err(Status::generic(405, &Generic { method, ..Generic::default() }));
        }
        let (form, view) = accepted_form_and_view(request)?;
        let pretty = query.flag("pretty") == Some(true);
        let (resource_type, now) = (&target.resource_type, self.options.clock.now());
        if !target.name.is_empty() {
            let mut known = COMPONENTS.iter().filter(|(name, _)| *name == target.name);
            let (name, check) =
                known.next().ok_or_else(|| Status::not_found(resource_type.qualified(), &target.name))?;
            let mut object = component(name, self.health.of(check, &self.store).await);
            object.make_map().insert("kind", &*resource_type.info.kind);
            object.make_map().insert("apiVersion", resource_type.api_version());
            if view != Representation::Whole {
                return responses::view_of_object(200, resource_type, &object, view, query, now);
            }
            let expected = Expected {
                api_version: "v1",
                kind: &resource_type.info.kind,
                schema: resource_type.schema.view(),
            };
            return Ok(responses::value(200, expected, object, form, pretty));
        }
        let mut items = Vec::with_capacity(COMPONENTS.len());
        for (name, check) in COMPONENTS {
            items.push(component(name, self.health.of(check, &self.store).await));
        }
        if view != Representation::Whole {
            let meta = ListMeta { resource_version: "", continue_token: "", remaining_item_count: None };
            return responses::view_of_list(resource_type, &items, meta, view, query, now);
        }
        let kind = "ComponentStatusList";
        let schema = builtin()
            .kind("", "v1", kind)
            .ok_or_else(|| Status::internal_error(format!("there is no definition of {kind}")))?;
        let mut list = Map::with_capacity(4);
        list.insert("kind", kind);
        list.insert("apiVersion", "v1");
        list.insert("metadata", Value::map());
        list.insert("items", items);
        Ok(responses::value(
            200,
            Expected {
                api_version: "v1",
                kind,
                schema: setpoint_api::kind_schema::SchemaRef::BuiltIn(schema),
            },
            list.into(),
            form,
            pretty,
        ))
    }
}

fn component(name: &str, state: Option<Result<(), String>>) -> Value {
    let (status, message, error) = match state {
        Some(Ok(())) => ("True", "ok".to_owned(), ""),
        Some(Err(why)) => ("False", why, ""),
        None => ("Unknown", String::new(), "this server does not know of one"),
    };
    let mut condition = Map::with_capacity(4);
    condition.insert("type", "Healthy");
    condition.insert("status", status);
    for (field, text) in [("message", message.as_str()), ("error", error)] {
        if !text.is_empty() {
            condition.insert(field, text);
        }
    }
    let mut object = Value::map();
    object.ensure_map("metadata").insert("name", name);
    object.make_map().insert("conditions", vec![Value::from(condition)]);
    object
}
