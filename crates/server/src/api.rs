//! The service behind the sockets: reads a request, has the pipeline decide, performs it.

mod patching;
mod review;
mod subresource;
mod write;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use setpoint_api::field_error::ErrorList;
use setpoint_api::metadata::options::ListOptions;
use setpoint_api::openapi;
use setpoint_api::status::{Generic, Qualified, Status};
use setpoint_store::{Clock, Store};

use crate::exchange::{Answer, Body, Request, Service};
use crate::media::{self, Form, View};
use crate::pipeline::update::Part;
use crate::query::Query;
use crate::route::{Route, Target, route};
use crate::{answers, bootstrap, discovery, list, stored, watch};

pub(crate) use write::commit_status;

/// Chance, from outside.
pub type Entropy = dyn Fn() -> u64 + Send + Sync;

/// What a service needs from outside.
#[derive(Clone)]
pub struct Options {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives random numbers.
    pub entropy: Arc<Entropy>,
    /// The address to tell clients, `host:port`.
    pub address: String,
    /// The address of the server that is behind the `kubernetes` service, if others can reach it.
    pub advertised: Option<SocketAddr>,
}

/// The API over a store.
pub struct Api {
    store: Store,
    options: Options,
}

/// The service over `store`, with what every cluster has from the start.
///
/// # Errors
/// If that cannot be written.
pub fn service(store: Store, options: Options) -> Result<Api, Status> {
    let api = Api { store, options };
    bootstrap::bootstrap(&api.store, &api.options)?;
    Ok(api)
}

impl Service for Api {
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(async move { self.respond(request).await.unwrap_or_else(|status| answers::status(&status)) })
    }
}

impl Api {
    async fn respond(&self, request: Request) -> Result<Answer, Status> {
        match route(&request.path) {
            Route::Objects(target) => {
                let deprecation = target.served.deprecation();
                let answer = self.objects(&request, target).await;
                let Some(deprecation) = deprecation else { return answer };
                let mut answer = answer.unwrap_or_else(|status| answers::status(&status));
                answers::warn(&mut answer, &[deprecation.to_owned()]);
                Ok(answer)
            }
            Route::Document(parts) => self.document(&request, &parts),
            Route::Nothing if request.path.starts_with("/api/v1/") => Err(unknown(&request.method)),
            Route::Nothing => Ok(answers::text(404, "404 page not found\n")),
        }
    }

    async fn objects(&self, request: &Request, target: Target) -> Result<Answer, Status> {
        let query = Query::parse(&request.query);
        subresource::check_verb(request, &target)?;
        if target.served.is_virtual {
            return self.answer_virtual(request, &target, &query).await;
        }
        if Part::of(&target.subresource).is_none() {
            return self.subresource(request, &target, &query).await;
        }
        let collection = target.name.is_empty();
        match (request.method.clone(), collection) {
            (Method::GET | Method::HEAD, true) => self.list_or_watch(request, &target, &query),
            (Method::GET | Method::HEAD, false) if target.watch || query.flag("watch") == Some(true) => {
                self.list_or_watch(request, &target, &query)
            }
            (Method::GET | Method::HEAD, false) => self.get(request, &target, &query),
            (Method::POST, true) => self.create(request, &target, &query).await,
            (Method::PUT, false) => self.update(request, &target, &query).await,
            (Method::PATCH, false) => self.patch(request, &target, &query).await,
            (Method::DELETE, false) => self.delete(request, &target, &query).await,
            (Method::DELETE, true) => self.delete_collection(request, &target, &query).await,
            (method, _) => {
                let action = method.as_str().to_ascii_lowercase();
                Err(Status::method_not_supported(target.served.qualified(), &action))
            }
        }
    }

    fn get(&self, request: &Request, target: &Target, query: &Query) -> Result<Answer, Status> {
        let (form, view) = wanted(request)?;
        let served = target.served;
        let missing = || Status::not_found(served.qualified(), &target.name);
        let key = served.key(&target.namespace, &target.name).map_err(|_| missing())?;
        let snapshot = self.store.snapshot();
        if let Ok(asked) = query.get("resourceVersion").parse::<u64>()
            && asked > snapshot.revision().0
        {
            return Err(Status::too_large_resource_version(asked, snapshot.revision().0, 1));
        }
        let record = snapshot.get(&key).ok_or_else(missing)?;
        if view != View::Whole {
            let now = self.options.clock.now();
            return answers::view_of_object(200, served, &stored::object(record), view, query, now);
        }
        let bytes = stored::served_bytes(served, record.value());
        Ok(answers::object(200, served, bytes, form, query.flag("pretty") == Some(true)))
    }

    fn list_or_watch(&self, request: &Request, target: &Target, query: &Query) -> Result<Answer, Status> {
        let is_watch = target.watch || query.flag("watch") == Some(true);
        let mut errors = ErrorList::new();
        ListOptions {
            watch: is_watch,
            resource_version: query.get("resourceVersion"),
            resource_version_match: query.get("resourceVersionMatch"),
            continue_token: query.get("continue"),
            send_initial_events: query.flag("sendInitialEvents"),
        }
        .validate(&mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid(
                Qualified { group: "meta.k8s.io", name: "ListOptions" },
                "",
                &errors,
            ));
        }
        let (form, view) = wanted(request)?;
        let now = self.options.clock.now();
        if !is_watch {
            let page = list::page(&self.store, target, query, now)?;
            return list::answer(target, &page, (form, view), query, now);
        }
        let watch = watch::start(&self.store, target, query, form, view, now)?;
        let mut answer = answers::json_bytes(200, Vec::new());
        if form == Form::Protobuf {
            let kind = http::HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
            answer.headers.insert(CONTENT_TYPE, kind);
        }
        answer.body = Body::Stream(Box::new(watch));
        Ok(answer)
    }

    fn document(&self, request: &Request, parts: &[String]) -> Result<Answer, Status> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(unknown(&request.method));
        }
        match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => return Ok(answers::document(&discovery::paths())),
            ["openapi", ref rest @ ..] => return self.openapi(request, rest),
            ["healthz" | "livez" | "readyz", ..] => return Ok(answers::text(200, "ok")),
            _ => {}
        }
        let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let aggregated = accept.split(',').any(|clause| {
            clause.contains("g=apidiscovery.k8s.io")
                && clause.contains("v=v2;")
                && clause.contains("application/json")
                || clause.trim().ends_with("v=v2") && clause.contains("g=apidiscovery.k8s.io")
        });
        match discovery::document(parts, &self.options.address, aggregated) {
            Some(value) => {
                let mut answer = answers::document(&value);
                if aggregated {
                    let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                    answer.headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
                }
                Ok(answer)
            }
            None if parts.first().is_some_and(|word| word == "api") => Err(unknown(&request.method)),
            None => Ok(answers::text(404, "404 page not found\n")),
        }
    }
}

impl Api {
    /// Documents about the API, made when somebody asks and kept by nobody.
    fn openapi(&self, request: &Request, rest: &[&str]) -> Result<Answer, Status> {
        let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match rest {
            ["v2"] => {
                let document = openapi::v2::document(discovery::VERSION);
                if !accept.contains("proto-openapi") {
                    return Ok(answers::document(&document));
                }
                let mut answer = answers::json_bytes(200, vec![openapi::gnostic::to_vec(&document).into()]);
                let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                answer.headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
                Ok(answer)
            }
            ["v3"] => Ok(answers::document(&openapi::v3::index(std::iter::empty()))),
            ["v3", name @ ..] => match openapi::v3::document(&name.join("/")) {
                Some(document) => Ok(answers::document(&document)),
                None => Ok(answers::text(404, "404 page not found\n")),
            },
            _ => Ok(answers::text(404, "404 page not found\n")),
        }
    }
}

/// The form and the view that the client wants and can have.
fn wanted(request: &Request) -> Result<(Form, View), Status> {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let can = |form, view| form == Form::Json || (form == Form::Protobuf && view == View::Whole);
    media::wanted(accept, can).ok_or_else(answers::not_acceptable)
}

/// The form that the client wants of an object that has no other view.
fn wanted_whole(request: &Request) -> Result<Form, Status> {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let can = |form, view| view == View::Whole && form != Form::Yaml;
    media::wanted(accept, can).map(|(form, _)| form).ok_or_else(answers::not_acceptable)
}

/// The answer to a path below the API that leads nowhere.
fn unknown(method: &Method) -> Status {
    let about = Generic { method: method.as_str(), ..Generic::default() };
    Status::generic(404, &about)
}
