//! Write requests: create, update, patch, apply, delete.
//!
//! The pipeline decides on a snapshot, the store commits with preconditions, and a conflict with another write is
//! retried on a new snapshot: see [`Api::perform`].

use http::header::CONTENT_TYPE;
use setpoint_api::apply::manager_name;
use setpoint_api::decode::decode;
use setpoint_api::field_error::ErrorList;
use setpoint_api::json::Duplicate;
use setpoint_api::metadata::delete::returns_deleted_object;
use setpoint_api::metadata::options::{DeleteOptions, WriteOptions};
use setpoint_api::metadata::owners;
use setpoint_api::patch::PatchType;
use setpoint_api::schema::builtin;
use setpoint_api::status::{Qualified, Reason, Status};
use setpoint_api::{Time, Value, json, metadata, yaml};
use setpoint_store::{CommitError, Record, RejectReason, Snapshot};

use super::access::authorize_create;
use super::patching::{self, ParsedPatch};
use super::{Api, accepted_form_and_view};
use crate::authorization::{AuthorizationContext, RequestAuthorizations};
use crate::body::{self, BodyError, Expected, Strictness};
use crate::catalog::DEFINITIONS;
use crate::conversion::{ConversionContext, RequestConversions, webhook_kind};
use crate::exchange::{Request, Response};
use crate::media::{self, Form, Representation};
use crate::pipeline::apply::{Configuration, apply};
use crate::pipeline::create::create;
use crate::pipeline::delete::{check_options, delete};
use crate::pipeline::update::{Subresource, update, update_live};
use crate::pipeline::{
    Decision, DesiredObject, PipelineResult, RequestContext, WriteOrigin, check_uid, quota,
    set_namespace_and_check_name,
};
use crate::query::QueryParams;
use crate::route::Target;
use crate::webhooks::WebhookContext;
use crate::webhooks::answers::WebhookAnswers;
use crate::{codec, list, responses};

/// Patch types of custom kinds.
const CUSTOM_PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
/// Message of a write that was decided by a definition which has changed meanwhile.
const STALE_DEFINITION: &str = "the definition of the resource has changed; please try again";

/// 409 for a write that must be routed again, because the definition of its kind has changed.
fn stale_definition() -> Status {
    Status::failure(Reason::Conflict, STALE_DEFINITION)
}

/// `true` for the status of a write that must be routed again.
pub(super) fn is_stale_definition(status: &Status) -> bool {
    status.reason == Reason::Conflict && status.message == STALE_DEFINITION
}

/// Attempts of a write that conflicts with other writes of its object.
const ATTEMPTS_MAX: usize = 5;
/// Attempts of a write that conflicts with other writes of its quotas. Each conflict means that another write
/// succeeded, and [quota locks](super::quota_locks) make conflicts rare.
const CHARGES_MAX: usize = 1000;

/// Result of a write.
pub(super) enum WriteResult {
    /// The stored object.
    Stored(Record),
    /// The last state of a removed object.
    Removed(Value),
    /// The object that would be stored, in a dry run.
    DryRun(Value),
}

/// Time and random numbers of a decision.
#[derive(Clone, Copy)]
struct DecisionSeed {
    entropy: [u64; 3],
    now: Time,
}

impl Api {
    pub(super) async fn create(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let media = accepted_form_and_view(request)?;
        let (desired, mut warnings) = self.body(request, target, query)?;
        let writer = writer(request, query, None)?;
        // Most writes are decided once, and decoding the body again is cheaper than cloning it each time.
        let mut first = Some(desired);
        let (mut more, mut called) = (Vec::new(), Vec::new());
        let done = self
            .perform(request, &mut called, |context| {
                let desired = match first.take() {
                    Some(desired) => desired,
                    None => self.body(request, target, query)?.0,
                };
                take_warnings(
                    create(&target.resource_type, &target.namespace, desired, &writer, context),
                    &mut more,
                )
            })
            .await;
        warnings.extend(more);
        warnings.extend(called);
        self.write_response(target, done, 201, media, query, &warnings).await
    }

    pub(super) async fn update(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let media = accepted_form_and_view(request)?;
        let (mut desired, mut warnings) = self.body(request, target, query)?;
        set_namespace(&mut desired.object, target)?;
        let writer = writer(request, query, None)?;
        let subresource = subresource(target);
        let creates =
            subresource == Subresource::None && target.resource_type.rules.allows_create_on_update();
        let mut created = false;
        let (mut more, mut called) = (Vec::new(), Vec::new());
        let done = self
            .perform(request, &mut called, |context| {
                let decided = match self.find(target, context.snapshot) {
                    Ok(record) => check_uid(&target.resource_type, &desired.object, &record).and_then(|()| {
                        update(&target.resource_type, subresource, desired.clone(), &record, &writer, context)
                    }),
                    Err(_) if creates => {
                        created = true;
                        authorize_create(request, context)?;
                        create(&target.resource_type, &target.namespace, desired.clone(), &writer, context)
                    }
                    Err(missing) => Err(missing),
                };
                take_warnings(decided, &mut more)
            })
            .await;
        warnings.extend(more);
        warnings.extend(called);
        let code = if created { 201 } else { 200 };
        self.write_response(target, done, code, media, query, &warnings).await
    }

    pub(super) async fn patch(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let media = accepted_form_and_view(request)?;
        let Some(patch_type) = patching::patch_type(request)? else {
            return self.apply(request, target, query).await;
        };
        if patch_type == PatchType::Strategic && target.resource_type.custom.is_some() {
            return Err(Status::unsupported_media_type(&CUSTOM_PATCHES));
        }
        let writer = writer(request, query, Some(false))?;
        let patch = ParsedPatch::parse(patch_type, request, query)?;
        let resource_type = &target.resource_type;
        let api_version = resource_type.api_version();
        let expected = Expected {
            api_version: &api_version,
            kind: &resource_type.info.kind,
            schema: resource_type.schema.view(),
        };
        let is_status = subresource(target) == Subresource::Status
            && patch.is_untouched("spec")
            && !resource_type.is_converted();
        let (mut warnings, mut more, mut called) = (Vec::new(), Vec::new(), Vec::new());
        let done = self
            .perform(request, &mut called, |context| {
                let record = self.find(target, context.snapshot)?;
                let mut old = if is_status {
                    codec::partial(resource_type, &record)
                } else {
                    context.live(resource_type, &record)
                };
                let mut patched = match patch.apply(resource_type.to_served(old.clone()), expected) {
                    // A rejection contains the whole object.
                    Err(_) if is_status => {
                        old = context.live(resource_type, &record);
                        patch.apply(old.clone(), expected)?
                    }
                    patched => patched?,
                };
                warnings = patched.warnings;
                set_namespace(&mut patched.object, target)?;
                warnings.extend(owners::deduplicate(&mut patched.object, true));
                let desired = DesiredObject {
                    object: resource_type.to_stored(patched.object),
                    has_omitted_empty: patched.has_omitted_empty,
                    owners: None,
                };
                take_warnings(
                    update_live(
                        resource_type,
                        subresource(target),
                        desired,
                        (&record, old),
                        &writer,
                        context,
                    ),
                    &mut more,
                )
            })
            .await;
        warnings.extend(more);
        warnings.extend(called);
        self.write_response(target, done, 200, media, query, &warnings).await
    }

    async fn apply(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let media = accepted_form_and_view(request)?;
        let writer = writer(request, query, Some(true))?;
        let force = query.flag("force") == Some(true);
        let strictness = Strictness::of(query.get("fieldValidation"));
        let (config, mut warnings) = applied_config(&request.body, strictness)?;
        let config =
            Configuration { object: &config, force, name: &target.name, namespace: &target.namespace };
        let mut created = false;
        let (mut more, mut called) = (Vec::new(), Vec::new());
        let done = self
            .perform(request, &mut called, |context| {
                let record = self.find(target, context.snapshot).ok();
                created = record.is_none();
                if created {
                    authorize_create(request, context)?;
                }
                let decided = apply(
                    &target.resource_type,
                    subresource(target),
                    config,
                    record.as_ref(),
                    &writer,
                    context,
                );
                take_warnings(decided, &mut more)
            })
            .await;
        warnings.extend(more);
        warnings.extend(called);
        let code = if created { 201 } else { 200 };
        self.write_response(target, done, code, media, query, &warnings).await
    }

    pub(super) async fn delete(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let media = accepted_form_and_view(request)?;
        let (options, writer) = delete_options(request, query)?;
        let options = DeleteOptions::from_value(&options);
        check_options(&options)?;
        let (mut warnings, mut called) = (job_warnings(target, &options), Vec::new());
        let done = self
            .perform(request, &mut called, |context| {
                let record = self.find(target, context.snapshot)?;
                delete(&target.resource_type, &record, &options, &writer, context)
            })
            .await;
        warnings.extend(called);
        match done {
            Ok(WriteResult::Removed(object))
                if !returns_deleted_object(
                    &target.resource_type.info.group,
                    &target.resource_type.info.kind,
                ) =>
            {
                let uid = metadata::text(&object, "uid");
                let status = Status::deleted(target.resource_type.qualified(), &target.name, uid);
                let mut response = responses::status(&status);
                responses::warn(&mut response, &warnings);
                Ok(response)
            }
            done => {
                let response = self.write_response(target, done, 200, media, query, &warnings).await;
                // The delete is done, so a response that cannot be converted is no failure.
                match (response, webhook_kind(&target.resource_type)) {
                    (Err(status), Some(_)) if status.code == 500 => {
                        let deleted = Status::deleted(target.resource_type.qualified(), &target.name, "");
                        Ok(responses::status(&deleted))
                    }
                    (response, _) => response,
                }
            }
        }
    }

    pub(super) async fn delete_collection(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let media = accepted_form_and_view(request)?;
        let (options, writer) = delete_options(request, query)?;
        let options = DeleteOptions::from_value(&options);
        check_options(&options)?;
        let now = self.options.clock.now();
        let page = list::selected_page(&self.store, &self.conversions, target, query, now).await?;
        let mut called = Vec::new();
        for record in &page.records {
            let outcome = self
                .perform(request, &mut called, |context| {
                    let key = target
                        .resource_type
                        .key(record.namespace().unwrap_or_default(), record.name())
                        .map_err(|error| Status::bad_request(error.to_string()))?;
                    match context.snapshot.get(&key) {
                        Some(now) => delete(&target.resource_type, now, &options, &writer, context),
                        None => Ok(PipelineResult::DryRun(Value::Null)),
                    }
                })
                .await;
            if let Err(status) = outcome {
                return responses::with_warnings(Err(status), &called);
            }
        }
        let mut response = match self.converted_page(&target.resource_type, page).await {
            Ok(page) => list::answer(target, page, media, query, self.options.clock.now())?,
            // The deletes are done, so a response that cannot be converted is no failure.
            Err(_) => responses::status(&Status::deleted(target.resource_type.qualified(), "", "")),
        };
        let mut warnings = job_warnings(target, &options);
        warnings.extend(called);
        responses::warn(&mut response, &warnings);
        Ok(response)
    }

    /// Response to a write with its warnings, which an error has too.
    async fn write_response(
        &self,
        target: &Target,
        done: Result<WriteResult, Status>,
        code: u16,
        media: (Form, Representation),
        query: &QueryParams,
        warnings: &[String],
    ) -> Result<Response, Status> {
        let response = match done {
            Ok(done) => {
                let done = match done {
                    WriteResult::Stored(record) => {
                        WriteResult::Stored(self.converted(&target.resource_type, record).await?)
                    }
                    done => done,
                };
                Ok(encode_result(target, done, code, media, query, self.options.clock.now())?)
            }
            Err(status) => Err(status),
        };
        responses::with_warnings(response, warnings)
    }

    fn body(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<(DesiredObject, Vec<String>), Status> {
        let resource_type = &target.resource_type;
        let api_version = resource_type.api_version();
        let expected = Expected {
            api_version: &api_version,
            kind: &resource_type.info.kind,
            schema: resource_type.schema.view(),
        };
        if resource_type.custom.is_some() && media::content_form(header(request)) == Some(Form::Protobuf) {
            return Err(Status::unsupported_media_type(&media::ACCEPTED[..2]));
        }
        let strictness = Strictness::of(query.get("fieldValidation"));
        let mut decoded = body::object(&request.body, header(request), expected, strictness)?;
        request.annotations.record_object(&decoded.object);
        decoded.warnings.extend(owners::deduplicate(&mut decoded.object, false));
        let desired = DesiredObject {
            object: resource_type.to_stored(decoded.object),
            has_omitted_empty: decoded.has_omitted_empty,
            owners: None,
        };
        Ok((desired, decoded.warnings))
    }

    pub(super) fn find(&self, target: &Target, snapshot: &Snapshot) -> Result<Record, Status> {
        let missing = || Status::not_found(target.resource_type.qualified(), &target.name);
        let key = target.resource_type.key(&target.namespace, &target.name).map_err(|_| missing())?;
        snapshot.get(&key).cloned().ok_or_else(missing)
    }

    /// Decides and commits a write; calls webhooks and retries on conflicts. Warnings of webhooks are added to
    /// `warnings`, for an error too, and audit annotations to the request.
    pub(super) async fn perform(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
        decide: impl FnMut(&RequestContext<'_>) -> Result<PipelineResult, Status>,
    ) -> Result<WriteResult, Status> {
        let mut answers = WebhookAnswers::default();
        let done = self.perform_with(request, &mut answers, decide).await;
        warnings.extend(answers.warnings());
        request.annotations.extend(answers.audit_annotations());
        done
    }

    async fn perform_with(
        &self,
        request: &Request,
        answers: &mut WebhookAnswers,
        mut decide: impl FnMut(&RequestContext<'_>) -> Result<PipelineResult, Status>,
    ) -> Result<WriteResult, Status> {
        let (mut turn, mut attempts) = (None, 0);
        let (mut conversions, mut authorizations) =
            (RequestConversions::default(), RequestAuthorizations::default());
        let mut seed = self.seed();
        for _ in 0..CHARGES_MAX {
            let step = self
                .decide_or_call(request, seed, answers, &mut conversions, &mut authorizations, &mut decide)
                .await?;
            let (proposal, removed) = match step {
                None | Some(PipelineResult::Call(_)) => continue,
                Some(PipelineResult::Commit(proposal)) => (proposal, None),
                Some(PipelineResult::Remove(proposal, object)) => (proposal, Some(object)),
                Some(PipelineResult::Unchanged(record)) => return Ok(WriteResult::Stored(record)),
                Some(PipelineResult::DryRun(object)) => return Ok(WriteResult::DryRun(object)),
                Some(PipelineResult::DryRunRemove(object)) => return Ok(WriteResult::Removed(object)),
            };
            if let Some(charged) = quota::charged_quota(&proposal).filter(|_| turn.is_none()) {
                let (taken, waited) = self.quota_locks.lock(charged).await;
                turn = Some(taken);
                if waited {
                    continue;
                }
            }
            match self.store.submit(*proposal).await {
                Ok(committed) => {
                    return Ok(match removed {
                        Some(object) => WriteResult::Removed(object),
                        None => WriteResult::Stored(committed.records[0].clone()),
                    });
                }
                Err(CommitError::Rejected(RejectReason::Conflict(conflict)))
                    if quota::is_quota(&conflict.key) =>
                {
                    if turn.is_none() {
                        turn = Some(self.quota_locks.lock(&conflict.key).await.0);
                    }
                }
                Err(CommitError::Rejected(RejectReason::Conflict(conflict)))
                    if *conflict.key.resource() == *DEFINITIONS =>
                {
                    return Err(stale_definition());
                }
                Err(CommitError::Rejected(RejectReason::Conflict(_))) => {
                    attempts += 1;
                    // Answers of webhooks are for one UID and time, so these stay once there are answers.
                    if answers.is_empty() {
                        seed = self.seed();
                    }
                }
                Err(error) => return Err(commit_status(&error)),
            }
            if attempts == ATTEMPTS_MAX {
                break;
            }
        }
        let message =
            "the object has been modified; please apply your changes to the latest version and try again";
        Err(Status::failure(setpoint_api::status::Reason::Conflict, message))
    }

    /// Decides once. `None` if webhooks or authorizers were called: the write must be decided again, with their answers.
    async fn decide_or_call(
        &self,
        request: &Request,
        seed: DecisionSeed,
        answers: &mut WebhookAnswers,
        conversions: &mut RequestConversions,
        authorizations: &mut RequestAuthorizations,
        decide: &mut impl FnMut(&RequestContext<'_>) -> Result<PipelineResult, Status>,
    ) -> Result<Option<PipelineResult>, Status> {
        let decided = self.decide(request, seed, answers, conversions, authorizations, decide);
        if authorizations.receive().await {
            return Ok(None);
        }
        let missing = conversions.take_missing();
        if !missing.is_empty() {
            let batch = self.conversions.start(missing, conversions)?;
            conversions.extend(batch.await?);
            return Ok(None);
        }
        match decided? {
            PipelineResult::Call(calls) => {
                let batch = self.webhooks.start(calls, answers)?;
                answers.extend(batch.await);
                Ok(None)
            }
            step => Ok(Some(step)),
        }
    }

    fn seed(&self) -> DecisionSeed {
        DecisionSeed { entropy: [(); 3].map(|()| (self.options.entropy)()), now: self.options.clock.now() }
    }

    /// Decides once, on the newest snapshot.
    fn decide(
        &self,
        request: &Request,
        DecisionSeed { entropy, now }: DecisionSeed,
        answers: &WebhookAnswers,
        conversions: &RequestConversions,
        authorizations: &RequestAuthorizations,
        decide: &mut impl FnMut(&RequestContext<'_>) -> Result<PipelineResult, Status>,
    ) -> Result<PipelineResult, Status> {
        let snapshot = self.store.snapshot();
        let catalog = self.catalogs.of(&snapshot);
        let webhooks = Some(WebhookContext { registry: &self.webhooks.registry, answers });
        decide(&RequestContext {
            snapshot: &snapshot,
            now,
            entropy,
            tolerations: self.options.tolerations,
            catalog: &catalog,
            admission: self.admission.context(Some(&request.annotations)),
            webhooks,
            conversions: Some(ConversionContext { request: conversions, keeps_version: false }),
            authorization: Some(AuthorizationContext {
                authorization: &self.authorization,
                answers: Some(authorizations),
            }),
        })
    }
}

/// Parses the configuration of an apply, YAML or JSON, with warnings. Unknown fields are rejected by the apply
/// itself, whatever the strictness.
fn applied_config(body: &[u8], strictness: Strictness) -> Result<(Value, Vec<String>), Status> {
    let (config, duplicates) = configuration(body)?;
    if duplicates.is_empty() || strictness == Strictness::Ignore {
        return Ok((config, Vec::new()));
    }
    let repeated = yaml::repeated_keys(body);
    if strictness == Strictness::Warn {
        return Ok((config, repeated));
    }
    Err(Status::bad_request(format!(
        "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
        repeated.join("\n  ")
    )))
}

/// Parses an applied configuration, with its duplicate fields.
///
/// # Errors
/// If it is not an object.
pub(super) fn configuration(body: &[u8]) -> Result<(Value, Vec<Duplicate>), Status> {
    let (config, duplicates) = yaml::parse_strict(body)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    let config = if config.is_null() { Value::map() } else { config };
    if config.as_map().is_none() {
        let found = config.type_name();
        return Err(Status::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal \
             {found} into Go value of type map[string]interface {{}}"
        )));
    }
    Ok((config, duplicates))
}

/// Sets the namespace of the path; 400 if the object has another namespace or name.
fn set_namespace(object: &mut Value, target: &Target) -> Result<(), Status> {
    set_namespace_and_check_name(object, &target.namespace, &target.name)
}

/// Warning for deleting a Job without a propagation policy.
fn job_warnings(target: &Target, options: &DeleteOptions<'_>) -> Vec<String> {
    let is_silent = options.propagation_policy.is_none() && options.orphan_dependents.is_none();
    if target.resource_type.resource.as_str() != "jobs.batch" || !is_silent {
        return Vec::new();
    }
    let warning = "child pods are preserved by default when jobs are deleted; set \
                   propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
                   this warning";
    vec![warning.to_owned()]
}

pub(super) fn header(request: &Request) -> Option<&str> {
    // A header that is not text counts as an unknown media type.
    request.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("unreadable"))
}

fn subresource(target: &Target) -> Subresource {
    Subresource::from_name(&target.subresource).unwrap_or(Subresource::None)
}

/// Identity and field manager of a write. The manager defaults to the first word of the user agent.
pub(super) fn writer(
    request: &Request,
    query: &QueryParams,
    patch: Option<bool>,
) -> Result<WriteOrigin, Status> {
    let dry_run = query.all("dryRun");
    let options = WriteOptions {
        field_manager: query.get("fieldManager"),
        dry_run: &dry_run,
        field_validation: query.get("fieldValidation"),
    };
    let mut errors = ErrorList::new();
    let name = match patch {
        Some(is_apply) => {
            options.validate_patch(&mut errors, is_apply, query.flag("force"));
            "PatchOptions"
        }
        None if request.method == http::Method::POST => {
            options.validate(&mut errors);
            "CreateOptions"
        }
        None => {
            options.validate(&mut errors);
            if request.method == http::Method::DELETE { "DeleteOptions" } else { "UpdateOptions" }
        }
    };
    if !errors.is_empty() {
        return Err(Status::invalid(Qualified { group: "meta.k8s.io", name }, "", &errors));
    }
    let agent = request.headers.get("user-agent").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let manager = manager_name(options.field_manager, agent).into_owned();
    Ok(WriteOrigin {
        identity: request.identity.clone(),
        manager,
        dry_run: !dry_run.is_empty(),
        reconciler: String::new(),
        takes_over: query.flag("takeOver") == Some(true),
    })
}

/// Delete options from the body or the query, and the writer. Every API group accepts the options in its own
/// versions.
fn delete_options(request: &Request, query: &QueryParams) -> Result<(Value, WriteOrigin), Status> {
    if request.body.is_empty() {
        let options = delete_parameters(query)?;
        let writer = writer(request, query, None)?;
        return Ok((options, writer));
    }
    let schema = builtin().meta("DeleteOptions").ok_or_else(|| Status::internal_error("no DeleteOptions"))?;
    let (options, _) = body::read(&request.body, header(request)).map_err(|fault| match fault {
        BodyError::Media => Status::unsupported_media_type(&media::ACCEPTED),
        BodyError::Unrecognized(why) => Status::bad_request(why),
    })?;
    let given = |field, otherwise| match options.str_at(&[field]) {
        "" => otherwise,
        given => given,
    };
    let (version, kind) = (given("apiVersion", "meta.k8s.io/v1"), given("kind", "DeleteOptions"));
    if kind != "DeleteOptions" {
        let scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";
        let why = format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}");
        return Err(Status::bad_request(why));
    }
    let options = decode(options, schema, &[]).map_err(|error| Status::bad_request(error.to_string()))?.value;
    // With a body, the query is ignored.
    let mut writer = writer(request, &QueryParams::default(), None)?;
    writer.dry_run = !DeleteOptions::from_value(&options).dry_run.is_empty();
    Ok((options, writer))
}

/// Delete options from the query.
fn delete_parameters(query: &QueryParams) -> Result<Value, Status> {
    let mut options = Value::map();
    let map = options.make_map();
    if let Some(seconds) =
        query.number("gracePeriodSeconds").map_err(|error| Status::bad_request(error.to_string()))?
    {
        map.insert("gracePeriodSeconds", seconds);
    }
    if !query.get("propagationPolicy").is_empty() {
        map.insert("propagationPolicy", query.get("propagationPolicy"));
    }
    if let Some(orphan) = query.flag("orphanDependents") {
        map.insert("orphanDependents", orphan);
    }
    let dry_run: Vec<Value> = query.all("dryRun").into_iter().map(Value::from).collect();
    if !dry_run.is_empty() {
        map.insert("dryRun", dry_run);
    }
    Ok(options)
}

/// Moves the warnings of a decision to `warnings`.
fn take_warnings(
    decided: Result<Decision, Status>,
    warnings: &mut Vec<String>,
) -> Result<PipelineResult, Status> {
    let Decision { step, warnings: more } = decided?;
    *warnings = more;
    Ok(step)
}

fn encode_result(
    target: &Target,
    done: WriteResult,
    code: u16,
    (form, view): (Form, Representation),
    query: &QueryParams,
    now: Time,
) -> Result<Response, Status> {
    let pretty = query.flag("pretty") == Some(true);
    let bytes = match done {
        WriteResult::Stored(record) if view == Representation::Whole => {
            return Ok(responses::record(code, &target.resource_type, &record, form, pretty));
        }
        WriteResult::Stored(record) => record.value(),
        WriteResult::Removed(object) | WriteResult::DryRun(object) => {
            let schema = &target.resource_type.stored_schema;
            let object = schema.decode(object.clone(), &[]).map_or(object, |decoded| decoded.value);
            json::to_vec(&object).into()
        }
    };
    if view != Representation::Whole {
        let object = json::parse(&bytes).unwrap_or(Value::Null);
        return responses::view_of_object(code, &target.resource_type, &object, view, query, now);
    }
    let bytes = codec::served_bytes(&target.resource_type, bytes);
    Ok(responses::object(code, &target.resource_type, bytes, form, pretty))
}

/// `Retry-After` of a write that failed for lack of file descriptors, in seconds.
const NO_DESCRIPTORS_RETRY_SECONDS: i32 = 1;

pub(crate) fn commit_status(error: &CommitError) -> Status {
    match error {
        CommitError::Rejected(
            RejectReason::TooLarge { .. }
            | RejectReason::ChainTooLarge { .. }
            | RejectReason::TooManyChanges { .. }
            | RejectReason::TooManyCommits { .. },
        ) => Status::request_entity_too_large(error),
        CommitError::Rejected(RejectReason::DiskFull | RejectReason::StoreFull { .. }) => {
            Status::unclassified(507, error.to_string())
        }
        CommitError::Rejected(RejectReason::NoDescriptors) => {
            Status::too_many_requests(error.to_string(), NO_DESCRIPTORS_RETRY_SECONDS)
        }
        other => Status::internal_error(other),
    }
}
