//! Write pipeline: decides create, update, apply, delete, bind and evict requests.
//!
//! Each function takes a request and a [`RequestContext`] and returns the commit to make, or a `Status`. It is pure:
//! snapshot, time and entropy are in the context, so that the API, the loop and the simulator share it, and a fork
//! can replay it.
//!
//! Order of a write: defaulting and field ownership ([`DesiredObject`]), mutating admission and webhooks, allocation of
//! addresses, validation, validating admission and webhooks, quota. Start at [`create::create`] or [`update::update`].

pub mod admission;
pub mod apply;
pub mod binding;
pub mod create;
pub mod delete;
pub mod escalation;
pub mod eviction;
mod namespace_provision;
pub mod ownership;
pub mod quota;
pub(crate) mod scale;
pub mod service_network;
pub mod strict_ownership;
pub mod subresource;
pub mod update;

use setpoint_api::ResourceType;
use setpoint_api::apply::FieldSet;
use setpoint_api::decode::KeepEmpty;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::Author;
use setpoint_api::metadata::validate::MetadataRules;
use setpoint_api::status::{Reason, Status};
use setpoint_api::{Key, Resource, Revision, Time, Value, metadata};
use setpoint_store::{CommitCause, Precondition, Proposal, Record, Snapshot};

use self::admission::AdmissionContext;
use self::admission::plugins::Plugin;
use self::admission::tolerations::Tolerations;
use self::ownership::Owners;
use self::update::Subresource;
use crate::authorization::AuthorizationContext;
use crate::catalog::Catalog;
use crate::codec;
use crate::conversion::ConversionContext;
use crate::exchange::Identity;
use crate::webhooks::WebhookContext;
use crate::webhooks::answers::PendingCall;

/// Field path of a whole object.
const WHOLE: &str = ".";
/// Field path of a whole status.
const STATUS: &str = ".status";
/// Field paths in the cause of a commit. They are kept with every version of an object, also in memory.
const CAUSE_PATHS_MAX: usize = 16;

/// Inputs of a decision, beside the request.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    /// State that the decision is based on.
    pub snapshot: &'a Snapshot,
    /// Time of the request.
    pub now: Time,
    /// Random numbers for UIDs and generated names.
    pub entropy: [u64; 3],
    /// Default toleration seconds of pods.
    pub tolerations: Tolerations,
    /// Resource types of the snapshot.
    pub catalog: &'a Catalog,
    /// Built-in admission plugins.
    pub admission: AdmissionContext<'a>,
    /// Admission webhooks; `None` if none are called.
    pub webhooks: Option<WebhookContext<'a>>,
    /// Conversion webhooks; `None` if none are called.
    pub conversions: Option<ConversionContext<'a>>,
    /// Authorizers, for requests that are part of the write; `None` if every one is allowed: see
    /// [`RequestContext::authorize`].
    pub authorization: Option<AuthorizationContext<'a>>,
}

/// Author and options of a write.
#[derive(Clone, Debug)]
pub struct WriteOrigin {
    /// Authenticated user.
    pub identity: Identity,
    /// The field manager.
    pub manager: String,
    /// `true` for a dry run.
    pub dry_run: bool,
    /// Reconciler and key, for writes of the loop; empty for clients.
    pub reconciler: String,
    /// `true` to take over fields of other managers where ownership is strict.
    pub takes_over: bool,
}

/// The object of a create or update request, before defaulting.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    /// The object, in its storage version.
    pub object: Value,
    /// `true` if the object still has empty lists that are omitted in storage; see
    /// [`setpoint_api::decode::decode_request`].
    pub has_omitted_empty: bool,
    /// Field owners, if an apply has computed them already.
    pub owners: Option<Owners>,
}

impl DesiredObject {
    /// Wraps an object that is decoded as it is stored.
    #[must_use]
    pub fn new(object: Value) -> DesiredObject {
        DesiredObject { object, has_omitted_empty: false, owners: None }
    }

    /// Sets defaults, records field ownership, and brings the object into the form that is validated: that in which
    /// it is stored, with the empty fields that rules check. Returns the object and the changed fields.
    fn finalize(
        self,
        resource_type: &ResourceType,
        subresource: Subresource,
        writer: &WriteOrigin,
        context: &RequestContext<'_>,
        live: Option<&Value>,
    ) -> (Value, FieldSet) {
        let DesiredObject { mut object, has_omitted_empty, owners } = self;
        if subresource == Subresource::Status && live.is_some() {
            resource_type.rules.default_status(&mut object);
        } else {
            resource_type.rules.default(&mut object);
        }
        resource_type.rules.default_times(&mut object, context.now);
        // Empty fields that are never shown have no owner, but some rules validate them.
        let keeping = |object: &Value, keep| {
            let kept = resource_type.stored_schema.decode_keeping_empty(object.clone(), keep);
            kept.map_or_else(|_| object.clone(), |decoded| decoded.value)
        };
        let changed = match owners {
            Some(Owners { managed, changed }) => {
                ownership::set(&mut object, managed);
                changed
            }
            None if has_omitted_empty => {
                let mut owned = keeping(&object, KeepEmpty { for_ownership: true, for_validation: false });
                let changed =
                    ownership::record_owners(resource_type, subresource, writer, context, live, &mut owned);
                let managed = owned.at(&["metadata", "managedFields"]).cloned();
                ownership::set(&mut object, managed.unwrap_or_default());
                changed
            }
            None => ownership::record_owners(resource_type, subresource, writer, context, live, &mut object),
        };
        if has_omitted_empty {
            object = keeping(&object, KeepEmpty { for_ownership: false, for_validation: true });
        }
        (object, changed)
    }
}

/// Outcome of the pipeline, with warnings.
pub struct Decision {
    /// The outcome.
    pub step: PipelineResult,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Outcome of the pipeline.
pub enum PipelineResult {
    /// A commit; the object it puts is the response.
    Commit(Box<Proposal>),
    /// A commit that removes an object, and its last state.
    Remove(Box<Proposal>, Value),
    /// The stored object is already as desired.
    Unchanged(Record),
    /// Dry run: the object that would be stored.
    DryRun(Value),
    /// Dry run: the object that would be removed.
    DryRunRemove(Value),
    /// Webhooks to call before the write can be decided; see [`crate::webhooks`].
    Call(Vec<PendingCall>),
}

impl WriteOrigin {
    /// Returns an empty proposal to create or remove an object.
    pub(crate) fn proposal(&self, context: &RequestContext<'_>) -> Proposal {
        self.proposal_for(context, vec![WHOLE.to_owned()])
    }

    /// Returns an empty proposal to change these fields. With more than [`CAUSE_PATHS_MAX`] fields the cause names
    /// the whole object or status.
    fn proposal_of(
        &self,
        context: &RequestContext<'_>,
        subresource: Subresource,
        changed: &FieldSet,
    ) -> Proposal {
        let whole = if subresource == Subresource::Status { STATUS } else { WHOLE };
        let paths = changed.leaf_texts(CAUSE_PATHS_MAX).unwrap_or_else(|| vec![whole.to_owned()]);
        self.proposal_for(context, paths)
    }

    fn proposal_for(&self, context: &RequestContext<'_>, paths: Vec<String>) -> Proposal {
        let cause = CommitCause {
            user: self.identity.user.clone(),
            manager: self.manager.clone(),
            reconciler: self.reconciler.clone(),
            seen: context.snapshot.revision(),
            paths,
        };
        Proposal::new(cause, context.now)
    }

    pub(crate) fn author(&self, context: &RequestContext<'_>) -> Author<'_> {
        let Identity { user, uid, groups, extra } = &self.identity;
        Author { now: context.now, user, uid, groups, extra }
    }
}

/// Resources whose finalizers need no domain prefix: upstream validates them outside of its core.
const WITHOUT_STANDARD_FINALIZERS: [&str; 2] = ["events", "customresourcedefinitions.apiextensions.k8s.io"];

fn metadata_rules(resource_type: &ResourceType) -> MetadataRules {
    MetadataRules {
        name: resource_type.rules.name_rule(),
        namespaced: resource_type.info.namespaced,
        standard_finalizers: resource_type.custom.is_none()
            && !WITHOUT_STANDARD_FINALIZERS.contains(&resource_type.resource.as_str()),
    }
}

/// 422 if there are field errors.
pub(crate) fn check(resource_type: &ResourceType, object: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(resource_type.qualified_kind(), metadata::name(object), errors))
}

/// Sets the namespace of the request path, and checks the name against it.
///
/// # Errors
/// If the object has another namespace or name, or no name.
pub(crate) fn set_namespace_and_check_name(
    object: &mut Value,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    metadata::create::ensure_namespace(object, namespace)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    metadata::update::check_name(object, name).map_err(|error| Status::bad_request(error.to_string()))
}

/// 409 if the object has another UID than the stored one.
///
/// # Errors
/// If it has.
pub(crate) fn check_uid(resource_type: &ResourceType, object: &Value, record: &Record) -> Result<(), Status> {
    let found = codec::object(record);
    precondition(resource_type, &found, "UID", metadata::text(object, "uid"), metadata::text(&found, "uid"))
}

/// 409 if a precondition fails, with the message of upstream's store, which contains the object's storage key.
pub(crate) fn precondition(
    resource_type: &ResourceType,
    object: &Value,
    title: &str,
    expected: &str,
    found: &str,
) -> Result<(), Status> {
    if expected.is_empty() || expected == found {
        return Ok(());
    }
    let in_group = format!("{}/{}", resource_type.info.group, resource_type.info.plural);
    let directory = match (&*resource_type.info.group, &*resource_type.info.plural) {
        ("", "replicationcontrollers") => "controllers",
        ("", "endpoints") => "services/endpoints",
        ("", "nodes") => "minions",
        ("", "services") => "services/specs",
        ("networking.k8s.io", "ingresses") => "ingress",
        ("apiregistration.k8s.io", _) => "apiregistration.k8s.io/apiservices",
        _ if resource_type.custom.is_some() => in_group.as_str(),
        (_, plural) => plural,
    };
    let (name, namespace) = (metadata::name(object), metadata::namespace(object));
    let separator = if namespace.is_empty() { "" } else { "/" };
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{directory}/{namespace}{separator}{name}, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {title} in precondition: {expected}, \
         {title} in object meta: {found}"
    );
    Err(Status::conflict(resource_type.qualified(), name, message))
}

/// Guards a commit of a custom object by the definition of its kind, so that no object is stored by a schema that
/// has changed meanwhile.
fn guard_definition(proposal: Proposal, resource_type: &ResourceType) -> Proposal {
    match &resource_type.custom {
        Some(custom) => proposal.guard(custom.kind.key.clone(), Precondition::Revision(custom.kind.revision)),
        None => proposal,
    }
}

/// 405 for a new object of a kind whose definition is in deletion.
fn check_definition(resource_type: &ResourceType) -> Result<(), Status> {
    match &resource_type.custom {
        Some(custom) if custom.kind.definition.is_terminating => Err(Status::failure(
            Reason::MethodNotAllowed,
            "create not allowed while custom resource definition is terminating",
        )),
        _ => Ok(()),
    }
}

/// 500 for a decoded object that cannot be encoded: a bug.
pub(crate) fn encoding_error() -> Status {
    Status::internal_error("the object cannot be stored")
}

/// Guards a commit by its namespace, which must exist and not be terminating, unless NamespaceLifecycle is disabled.
pub(crate) fn guard_namespace(
    proposal: Proposal,
    context: &RequestContext<'_>,
    namespace: &str,
    resource_type: &ResourceType,
    name: &str,
) -> Result<Proposal, Status> {
    Ok(match usable_namespace(context, namespace, resource_type, name)? {
        Some((key, revision)) => proposal.guard(key, Precondition::Revision(revision)),
        None => proposal,
    })
}

/// Returns the key and the revision of the namespace of a create; `None` if it is not checked.
///
/// # Errors
/// If it does not exist or is terminating.
pub(crate) fn usable_namespace(
    context: &RequestContext<'_>,
    namespace: &str,
    resource_type: &ResourceType,
    name: &str,
) -> Result<Option<(Key, Revision)>, Status> {
    let is_checked = context.admission.config.is_enabled(Plugin::NamespaceLifecycle);
    if !resource_type.info.namespaced || !is_checked {
        return Ok(None);
    }
    let namespaces = setpoint_api::status::Qualified { group: "", name: "namespaces" };
    let missing = || Status::not_found(namespaces, namespace);
    let resource = Resource::new("namespaces").map_err(|_| missing())?;
    let key = Key::cluster(&resource, namespace).map_err(|_| missing())?;
    let record = context.snapshot.get(&key).ok_or_else(missing)?;
    if record.attributes().field("status.phase") == Some("Terminating") {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(resource_type.qualified(), name, why);
        if let Some(details) = &mut status.details {
            details.causes.push(setpoint_api::status::StatusCause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated").into(),
                field: "metadata.namespace".into(),
            });
        }
        return Err(status);
    }
    let revision = record.revision();
    Ok(Some((key, revision)))
}
