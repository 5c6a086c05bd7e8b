//! API service: routes a request, has the pipeline decide, and executes the decision.
//!
//! [`Api`] implements [`Service`], so it runs without sockets. Start at [`service`].

mod access;
mod components;
mod cost;
mod document;
mod forward;
mod patching;
mod quota_locks;
mod review;
mod subresource;
mod usage;
mod write;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use setpoint_api::field_error::ErrorList;
use setpoint_api::metadata::options::ListOptions;
use setpoint_api::names::ip::Cidr;
use setpoint_api::status::{Generic, Qualified, Status};
use setpoint_api::{Clock, Entropy, ResourceType};
use setpoint_authorization::config::AuthorizationConfiguration;
use setpoint_reconcile::Engine;
use setpoint_runtime::queries::usage::UsageSource;
use setpoint_store::{Record, Store};

use self::quota_locks::QuotaLocks;
use crate::aggregation::{Aggregation, ForwardedBody, UpgradeRequest};
use crate::audit::Auditor;
use crate::authentication::{Authentication, AuthenticationError, AuthenticationOptions, Authenticator};
use crate::authorization::node::NodeAuthorizer;
use crate::authorization::webhook::WebhookParts;
use crate::authorization::{Authorization, configured};
use crate::catalog::Catalogs;
use crate::conversion::{ConversionWebhooks, needs_webhook, webhook_kind};
use crate::exchange::{Admission, Credentials, Payload, Request, RequestPermit, Response, Service};
use crate::fairness::{Fairness, Refusal, SEATS_DEFAULT, Seating, Seats};
use crate::health::{Check, Endpoint, Health};
use crate::inflight::Inflight;
use crate::list::{ListCache, Page};
use crate::loop_report;
use crate::media::{self, Form, Representation};
use crate::metrics::{CountedWatch, Metrics, SeriesKey};
use crate::nodes::LogSource;
use crate::pipeline::admission::tolerations::Tolerations;
use crate::pipeline::admission::{AdmissionConfig, AdmissionControl};
use crate::pipeline::update::Subresource;
use crate::query::QueryParams;
use crate::route::{Route, Target, route};
use crate::watch::WatchCoalescer;
use crate::webhooks::AdmissionWebhooks;
use crate::webhooks::kubeconfig::EndpointFileError;
use crate::{bootstrap, codec, list, responses, unenforced, watch};

pub(crate) use write::commit_status;

/// Configuration of an API service.
#[derive(Clone)]
pub struct Options {
    /// Wall clock and uptime.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub entropy: Arc<Entropy>,
    /// Address for clients, `host:port`.
    pub address: String,
    /// Endpoint of the `kubernetes` Service, if other machines can reach this one.
    pub advertised: Option<SocketAddr>,
    /// Service CIDRs, the primary family first. If empty, the stored ones stay.
    pub service_ranges: Vec<Cidr>,
    /// Default toleration seconds of pods.
    pub tolerations: Tolerations,
    /// Admission plugins and their configurations.
    pub admission: AdmissionConfig,
}

/// The API over a store.
pub struct Api {
    store: Store,
    options: Options,
    health: Health,
    metrics: Arc<Metrics>,
    inflight: Inflight,
    engine: OnceLock<Arc<Mutex<Engine>>>,
    authenticator: Arc<Authenticator>,
    coalescer: Arc<WatchCoalescer>,
    lists: Arc<ListCache>,
    log_source: OnceLock<Arc<dyn LogSource>>,
    usage: OnceLock<Arc<dyn UsageSource>>,
    quota_locks: QuotaLocks,
    catalogs: Catalogs,
    aggregation: Arc<Aggregation>,
    webhooks: Arc<AdmissionWebhooks>,
    conversions: Arc<ConversionWebhooks>,
    admission: AdmissionControl,
    authorization: Arc<Authorization>,
    authorizer_parts: WebhookParts,
    /// `None` if priority and fairness is disabled.
    fairness: Option<Arc<Fairness>>,
    /// `None` if requests are not audited.
    auditor: Option<Arc<Auditor>>,
}

/// Attempts to route a write whose definition changes meanwhile.
const ROUTES_MAX: usize = 5;

/// Series of a request, and the uptime at its start.
type Counting = (SeriesKey, Duration);

/// Creates the service over `store`, and bootstraps the cluster.
///
/// # Errors
/// If a bootstrap object cannot be written.
pub fn service(store: Store, options: Options) -> Result<Api, Status> {
    let webhooks = Arc::new(AdmissionWebhooks::new(Arc::clone(&options.clock)));
    let conversions = ConversionWebhooks::new(
        store.clone(),
        Arc::clone(&webhooks),
        Arc::clone(&options.clock),
        Arc::clone(&options.entropy),
    );
    let authenticator =
        Authenticator::new(AuthenticationOptions::default(), Arc::clone(&options.clock), &*options.entropy);
    let authenticator = authenticator.map_err(Status::internal_error)?;
    let admission = AdmissionControl::new(options.admission.clone());
    let authorizer_parts =
        WebhookParts { client: Arc::default(), metrics: Arc::default(), clock: Arc::clone(&options.clock) };
    let fairness = Fairness::new(SEATS_DEFAULT, Arc::clone(&options.clock), (options.entropy)());
    let authorization = Arc::new(Authorization::following(store.clone()));
    let api = Api {
        store,
        options,
        admission,
        health: Health::default(),
        metrics: Arc::default(),
        inflight: Inflight::default(),
        engine: OnceLock::new(),
        authenticator: Arc::new(authenticator),
        coalescer: Arc::default(),
        lists: Arc::default(),
        log_source: OnceLock::new(),
        usage: OnceLock::new(),
        quota_locks: QuotaLocks::default(),
        catalogs: Catalogs::default(),
        aggregation: Arc::default(),
        webhooks,
        conversions: Arc::new(conversions),
        authorization,
        authorizer_parts,
        fairness: Some(Arc::new(fairness)),
        auditor: None,
    };
    let authentication_metrics = Arc::clone(api.authenticator.metrics());
    api.metrics.register(move |text| authentication_metrics.write(text));
    let authorizer_metrics = Arc::clone(&api.authorizer_parts.metrics);
    api.metrics.register(move |text| authorizer_metrics.write(text));
    let node = Arc::new(NodeAuthorizer::new(api.store.clone()));
    api.authorization.set_chain(vec![node, Arc::clone(api.authorization.rbac()) as _]);
    let admission = api.admission.clone();
    api.metrics.register(move |text| admission.write_metrics(text));
    let webhook_metrics = Arc::clone(api.webhooks.metrics());
    api.metrics.register(move |text| webhook_metrics.write(text));
    let conversion_metrics = Arc::clone(api.conversions.metrics());
    api.metrics.register(move |text| conversion_metrics.write(text));
    bootstrap::bootstrap(&api.store, &api.options)?;
    Ok(api)
}

impl Api {
    /// Adds a health check.
    #[must_use]
    pub fn with_check(mut self, check: Check) -> Api {
        self.health.add(check);
        self
    }

    /// Replaces the options of authentication. By default only certificates and service account tokens authenticate,
    /// and the key that signs tokens is in memory.
    ///
    /// # Errors
    /// If a file of the options cannot be read, or is malformed.
    pub fn with_authentication(mut self, options: AuthenticationOptions) -> Result<Api, AuthenticationError> {
        let (clock, entropy) = (Arc::clone(&self.options.clock), Arc::clone(&self.options.entropy));
        let authenticator = Authenticator::new(options, clock, &*entropy)?;
        self.authenticator = Arc::new(authenticator.with_metrics(Arc::clone(self.authenticator.metrics())));
        Ok(self)
    }

    /// The authenticators, whose files can be read again.
    #[must_use]
    pub fn authenticator(&self) -> &Arc<Authenticator> {
        &self.authenticator
    }

    /// Replaces the bounds on requests in flight.
    #[must_use]
    pub fn with_bounds(mut self, inflight: Inflight) -> Api {
        self.inflight = inflight;
        self
    }

    /// Sets the seats that priority levels share; `None` disables priority and fairness.
    #[must_use]
    pub fn with_fairness(mut self, seats: Option<u32>) -> Api {
        let (clock, entropy) = (&self.options.clock, &self.options.entropy);
        self.fairness = seats.map(|seats| Arc::new(Fairness::new(seats, Arc::clone(clock), entropy())));
        self
    }

    /// Audits the requests of the HTTP server.
    #[must_use]
    pub fn with_audit(mut self, auditor: Arc<Auditor>) -> Api {
        let metrics = Arc::clone(auditor.metrics());
        self.metrics.register(move |text| metrics.write(text));
        self.auditor = Some(auditor);
        self
    }

    /// Reports the state of a loop in the metrics and under `/setpoint/loop`.
    pub fn show(&self, engine: &Arc<Mutex<Engine>>) {
        let reported = Arc::clone(engine);
        if self.engine.set(Arc::clone(engine)).is_ok() {
            self.metrics.register(move |text| loop_report::write_metrics(&reported.lock(), text));
        }
    }

    /// Sets the source of container logs.
    pub fn set_log_source(&self, nodes: Arc<dyn LogSource>) {
        // The first source stays; only one is ever set.
        let _ = self.log_source.set(nodes);
    }

    /// The metrics, so that other components can register theirs.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Admission plugins of requests.
    #[must_use]
    pub fn admission(&self) -> &AdmissionControl {
        &self.admission
    }

    /// The admission webhooks, so that the loop calls them too.
    #[must_use]
    pub fn webhooks(&self) -> &Arc<AdmissionWebhooks> {
        &self.webhooks
    }

    /// Replaces the authorizers by those of a configuration.
    ///
    /// # Errors
    /// If the kubeconfig of a webhook is unusable.
    pub fn set_authorizers(&self, config: AuthorizationConfiguration) -> Result<(), EndpointFileError> {
        let rbac = self.authorization.rbac();
        let chain = configured::chain(config, &self.store, rbac, &self.authorizer_parts)?;
        self.authorization.set_chain(chain);
        Ok(())
    }

    /// The authorizers, so that the loop asks them too.
    #[must_use]
    pub fn authorization(&self) -> &Arc<Authorization> {
        &self.authorization
    }

    /// The conversion webhooks, so that the loop calls them too.
    #[must_use]
    pub fn conversions(&self) -> &Arc<ConversionWebhooks> {
        &self.conversions
    }

    /// Makes `/readyz` fail, so that load balancers stop sending requests.
    pub fn begin_shutdown(&self) {
        self.health.begin_shutdown();
    }
}

impl Service for Api {
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send + '_>> {
        Box::pin(self.count(request))
    }

    fn is_forwarded(&self, head: &Request) -> bool {
        self.forward_target(&head.path).is_some()
    }

    fn forward(
        &self,
        request: Request,
        body: ForwardedBody,
        upgrade: Option<UpgradeRequest>,
    ) -> Pin<Box<dyn Future<Output = Response> + Send + '_>> {
        match self.forward_target(&request.path) {
            Some(service) => Box::pin(self.forward_to(service, request, body, upgrade)),
            // The APIService was deleted in the meantime.
            None => self.answer(request),
        }
    }

    fn auditor(&self) -> Option<&Arc<Auditor>> {
        self.auditor.as_ref()
    }

    fn authenticate<'a>(&'a self, credentials: &Credentials<'_>) -> Authentication<'a> {
        self.authenticate_request(credentials)
    }

    fn strip_credentials(&self, headers: &mut HeaderMap) {
        self.authenticator.strip_credentials(headers);
    }

    fn impersonate<'a>(
        &'a self,
        head: &'a mut Request,
    ) -> Pin<Box<dyn Future<Output = Result<(), Box<Response>>> + Send + 'a>> {
        Box::pin(async move {
            let checked = self.impersonate_user(head).await;
            checked.map_err(|status| self.refused(head, &self.route(&head.path), &status))
        })
    }

    fn take_seats<'a>(&'a self, head: &'a Request) -> Result<Admission<'a>, Box<Response>> {
        let Some(fairness) = &self.fairness else { return Ok(Admission::Seated(Seats::default())) };
        let snapshot = self.store.snapshot();
        match fairness.take_seats(head, (&snapshot, &self.catalogs)) {
            Seating::Taken(seats) => Ok(Admission::Seated(seats)),
            Seating::Waiting(waiting) => Ok(Admission::Queued(Box::pin(async move {
                waiting.await.map_err(|refusal| self.rejected(head, &refusal))
            }))),
            Seating::Refused(refusal) => Err(self.rejected(head, &refusal)),
        }
    }

    fn admit(&self, head: &Request) -> Result<RequestPermit, Box<Response>> {
        let route = self.route(&head.path);
        let permit = self.inflight.enter(&head.identity.user, &head.method, &head.path, &head.query);
        let admitted = permit.map(|permit| {
            let snapshot = self.store.snapshot();
            let catalog = self.catalogs.of(&snapshot);
            let state =
                cost::State { snapshot: &snapshot, catalog: &catalog, webhooks: &self.webhooks.registry };
            RequestPermit { permit, cost: cost::estimate(head, &route, &state) }
        });
        admitted.map_err(|status| self.refused(head, &route, &status))
    }

    fn authorize<'a>(
        &'a self,
        head: &'a Request,
    ) -> Pin<Box<dyn Future<Output = Result<(), Box<Response>>> + Send + 'a>> {
        Box::pin(async move {
            let checked = self.check(head).await;
            checked.map_err(|status| self.refused(head, &self.route(&head.path), &status))
        })
    }
}

impl Api {
    /// 429 for a request that gets no seats.
    fn rejected(&self, head: &Request, refusal: &Refusal) -> Box<Response> {
        let mut response = self.refused(head, &self.route(&head.path), &refusal.status());
        refusal.add_headers(&mut response.headers);
        response
    }

    /// Counts a request that is refused by its head, and returns its response.
    fn refused(&self, head: &Request, route: &Route, status: &Status) -> Box<Response> {
        self.metrics.count_refused(self.metrics.key(route, head), status.http_code());
        let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        Box::new(responses::error(status, negotiated(accept.filter(|_| has_forms(route)))))
    }
}

/// Warnings that depend on the resource alone: it is deprecated, which is audited too, or writes of it have no effect.
fn warnings(request: &Request, target: &Target) -> Vec<String> {
    let is_write = matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
    let unenforced =
        unenforced::warning(&target.resource_type).filter(|_| is_write && target.subresource.is_empty());
    if target.resource_type.deprecation().is_some() {
        request.annotations.extend([("k8s.io/deprecated".to_owned(), "true".to_owned())]);
    }
    target.resource_type.deprecation().map(str::to_owned).into_iter().chain(unenforced).collect()
}

impl Api {
    /// Handles a request, and counts it.
    async fn count(&self, mut request: Request) -> Response {
        // Requests of the HTTP server have no such headers any more.
        if let Err(status) = self.impersonate_user(&mut request).await {
            return *self.refused(&request, &self.route(&request.path), &status);
        }
        if let Some(service) = self.forward_target(&request.path) {
            let body = ForwardedBody::Whole(request.body.clone());
            return self.forward_to(service, request, body, None).await;
        }
        let begun = self.options.clock.uptime();
        let route = self.route(&request.path);
        if let Route::Objects(target) = &route
            && target.resource_type.custom.is_some()
        {
            media::decline_protobuf(&mut request.headers);
        }
        let key = self.metrics.key(&route, &request);
        let accept = request.headers.get(ACCEPT).cloned().filter(|_| has_forms(&route));
        let accept = accept.as_ref().and_then(|accept| accept.to_str().ok());
        let response = match self.respond_routed(&request, route, (key, begun)).await {
            // Everything but objects is encoded as JSON, and converted to YAML here.
            Ok(response) if accept.is_some_and(|text| text.contains("yaml")) => match negotiated(accept) {
                Form::Yaml => responses::to_yaml(response),
                _ => response,
            },
            Ok(response) => response,
            Err(status) => responses::error(&status, negotiated(accept)),
        };
        let took = self.options.clock.uptime().saturating_sub(begun);
        self.metrics.count_answer(key, &response, took);
        response
    }

    /// Parses a path by the resource types that are served now.
    fn route(&self, path: &str) -> Route {
        route(path, &self.catalogs.of(&self.store.snapshot()))
    }

    /// Responds to a request. A write whose definition changed before its commit is routed again.
    async fn respond_routed(
        &self,
        request: &Request,
        mut route: Route,
        counted: Counting,
    ) -> Result<Response, Status> {
        for _ in 1..ROUTES_MAX {
            match self.respond(request, route, counted).await {
                Err(status) if write::is_stale_definition(&status) => route = self.route(&request.path),
                response => return response,
            }
        }
        self.respond(request, route, counted).await
    }

    async fn respond(&self, request: &Request, route: Route, counted: Counting) -> Result<Response, Status> {
        self.check(request).await?;
        match route {
            Route::Objects(target) => {
                subresource::check_verb(request, &target)?;
                // Logs and proxied responses have a form of their own.
                if !matches!(target.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy")
                {
                    check_accept(request, offered(request, &target))?;
                }
                let warnings = warnings(request, &target);
                let response = self.objects(request, target, counted).await;
                let is_stale = response.as_ref().is_err_and(write::is_stale_definition);
                if warnings.is_empty() || is_stale {
                    return response;
                }
                let mut response = response.unwrap_or_else(|status| responses::status(&status));
                responses::warn(&mut response, &warnings);
                Ok(response)
            }
            Route::Usage(about) => self.respond_usage(request, &about).await,
            Route::Document(parts) => match Endpoint::find(&parts) {
                Some((endpoint, check)) => {
                    Ok(self.health.answer(endpoint, &check, &request.query, &self.store).await)
                }
                None if parts == ["metrics"] => Ok(self.respond_metrics().await),
                None => self.document(request, &parts),
            },
            Route::NotFound => document::missing(request),
        }
    }

    async fn objects(
        &self,
        request: &Request,
        target: Target,
        counted: Counting,
    ) -> Result<Response, Status> {
        let query = QueryParams::parse(&request.query);
        if target.resource_type.is_virtual {
            return self.answer_virtual(request, &target, &query).await;
        }
        if Subresource::from_name(&target.subresource).is_none() {
            return self.subresource(request, &target, &query).await;
        }
        let collection = target.name.is_empty();
        match (request.method.clone(), collection) {
            (Method::GET, true) => self.list_or_watch(request, &target, &query, counted).await,
            (Method::GET, false) if target.watch => {
                self.list_or_watch(request, &target, &query, counted).await
            }
            (Method::GET, false) => self.get(request, &target, &query).await,
            (Method::POST, true) => self.create(request, &target, &query).await,
            (Method::PUT, false) => self.update(request, &target, &query).await,
            (Method::PATCH, false) => self.patch(request, &target, &query).await,
            (Method::DELETE, false) => self.delete(request, &target, &query).await,
            (Method::DELETE, true) => self.delete_collection(request, &target, &query).await,
            (method, _) => Err(not_allowed(&method)),
        }
    }

    async fn get(&self, request: &Request, target: &Target, query: &QueryParams) -> Result<Response, Status> {
        let (form, view) = accepted_form_and_view(request)?;
        let resource_type = &target.resource_type;
        let missing = || Status::not_found(resource_type.qualified(), &target.name);
        let key = resource_type.key(&target.namespace, &target.name).map_err(|_| missing())?;
        let snapshot = self.store.snapshot();
        let requested = list::revision(query)?.0;
        if requested > snapshot.revision().0 {
            return Err(Status::too_large_resource_version(requested, snapshot.revision().0, 1));
        }
        let record = snapshot.get(&key).cloned().ok_or_else(missing)?;
        let record = &self.converted(resource_type, record).await?;
        if view != Representation::Whole {
            let now = self.options.clock.now();
            return responses::view_of_object(200, resource_type, &codec::object(record), view, query, now);
        }
        Ok(responses::record(200, resource_type, record, form, query.flag("pretty") == Some(true)))
    }

    /// Converts a record to the version of a resource type, if only a webhook can.
    async fn converted(&self, resource_type: &ResourceType, record: Record) -> Result<Record, Status> {
        if !needs_webhook(resource_type, &record) {
            return Ok(record);
        }
        let converted = self.conversions.records(resource_type, vec![record]).await?;
        converted.into_iter().next().ok_or_else(|| Status::internal_error("no converted object"))
    }

    /// Converts the objects of a page, if only a webhook can.
    async fn converted_page(&self, resource_type: &ResourceType, mut page: Page) -> Result<Page, Status> {
        page.records = self.conversions.records(resource_type, page.records).await?;
        Ok(page)
    }

    async fn list_or_watch(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
        counted: Counting,
    ) -> Result<Response, Status> {
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
        let (form, view) = accepted_form_and_view(request)?;
        let now = self.options.clock.now();
        if !is_watch {
            let (store, cache) = (&self.store, &self.lists);
            if webhook_kind(&target.resource_type).is_some() {
                let page = list::selected_page(store, &self.conversions, target, query, now).await?;
                let page = self.converted_page(&target.resource_type, page).await?;
                return list::answer(target, page, (form, view), query, now);
            }
            return list::respond((store, cache), target, query, (form, view), now);
        }
        if form == Form::Yaml {
            return Err(Status::not_acceptable(&media::STREAMED));
        }
        let conversions = webhook_kind(&target.resource_type).map(|_| &self.conversions);
        let watch =
            watch::start(&self.store, &self.coalescer, target, query, (form, view), &self.options.clock)?
                .with_conversions(conversions)
                .with_definition(watch::DefinitionWatch::new(
                    &self.store,
                    &self.catalogs,
                    &target.resource_type,
                ));
        let mut response = responses::json_bytes(200, Vec::new());
        if form == Form::Protobuf {
            let kind = http::HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
            response.headers.insert(CONTENT_TYPE, kind);
        }
        let watch =
            CountedWatch::new(watch, Arc::clone(&self.metrics), counted, Arc::clone(&self.options.clock));
        response.body = Payload::Stream(Box::new(watch));
        Ok(response)
    }
}

/// `true` if the route offers several media types.
fn has_forms(route: &Route) -> bool {
    match route {
        Route::Document(parts) => parts.first().is_some_and(|first| first == "api" || first == "apis"),
        Route::Objects(_) | Route::Usage(_) | Route::NotFound => true,
    }
}

/// Form of the response that the client accepts; JSON if there is none.
fn negotiated(accept: Option<&str>) -> Form {
    media::negotiate(accept, |_, _| true).map_or(Form::Json, |(form, _)| form)
}

/// Form and view that the client accepts.
fn accepted_form_and_view(request: &Request) -> Result<(Form, Representation), Status> {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let can = |form, view| form != Form::Protobuf || view == Representation::Whole;
    media::negotiate(accept, can).ok_or_else(|| Status::not_acceptable(&media::ACCEPTED))
}

/// View that the client accepts of a text-only resource.
fn accepted_view(request: &Request) -> Result<Representation, Status> {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let view = media::negotiate(accept, |form, _| form != Form::Protobuf).map(|(_, view)| view);
    view.ok_or_else(|| Status::not_acceptable(&media::ACCEPTED[..2]))
}

/// Form that the client accepts of an object without other views.
fn accepted_form(request: &Request) -> Result<Form, Status> {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let can = |_, view| view == Representation::Whole;
    media::negotiate(accept, can)
        .map(|(form, _)| form)
        .ok_or_else(|| Status::not_acceptable(&media::ACCEPTED))
}

/// Media types that a route offers: only collections can be watched.
fn offered(request: &Request, target: &Target) -> &'static [&'static str] {
    const LISTED: [&str; 5] = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ];
    const CUSTOM_LISTED: [&str; 3] = [LISTED[0], LISTED[1], LISTED[3]];
    let lists = request.method == Method::GET && target.name.is_empty();
    match (lists || target.watch, target.resource_type.custom.is_some()) {
        (false, false) => &media::ACCEPTED,
        (false, true) => &media::ACCEPTED[..2],
        (true, false) => &LISTED,
        (true, true) => &CUSTOM_LISTED,
    }
}

/// 406 if the client accepts no offered media type.
fn check_accept(request: &Request, offered: &[&str]) -> Result<(), Status> {
    let accept = request.headers.get(ACCEPT).map(|value| value.to_str().unwrap_or("unreadable"));
    if media::is_offered(accept, offered) { Ok(()) } else { Err(responses::not_offered(offered)) }
}

/// 405 for an unsupported method.
fn not_allowed(method: &Method) -> Status {
    Status::generic(405, &Generic { method: method.as_str(), ..Generic::default() })
}

/// 404 for an unknown path below the API.
fn unknown_path_error(method: &Method) -> Status {
    let about = Generic { method: method.as_str(), ..Generic::default() };
    Status::generic(404, &about)
}
