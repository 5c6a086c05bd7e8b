//! What a write comes to.
//!
//! Each function takes the request and the world as it is, and answers with the commit to make, or with what to
//! say instead. None knows a socket, a clock or a runtime: time and chance are in [`RequestContext`], so that the loop can
//! call them, a simulator can run them, and a fork can replay them.

pub mod admission;
pub mod apply;
pub mod binding;
pub mod create;
pub mod delete;
pub mod eviction;
pub mod ownership;
pub mod quota;
pub mod service_network;
pub mod subresource;
pub mod update;

use setpoint_api::ResourceType;
use setpoint_api::apply::FieldSet;
use setpoint_api::decode::{KeepEmpty, decode_keeping_empty};
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::Author;
use setpoint_api::metadata::validate::MetadataRules;
use setpoint_api::status::Status;
use setpoint_api::{Resource, Time, Value, metadata};
use setpoint_store::{Cause, Expect, Proposal, Record, Snapshot};

use self::admission::tolerations::Tolerations;
use self::ownership::Owners;
use self::update::Subresource;
use crate::codec;
use crate::exchange::Identity;

/// The path that stands for all of an object.
const WHOLE: &str = ".";
/// The path that stands for all of a status.
const STATUS: &str = ".status";
/// How many paths a cause names. It is kept with every version of an object, in memory too.
const CAUSE_PATHS_MAX: usize = 16;

/// The world a write meets.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    /// What is true.
    pub snapshot: &'a Snapshot,
    /// The time.
    pub now: Time,
    /// Chance: for uids and generated names.
    pub entropy: [u64; 3],
    /// For how long pods stay on nodes that are not well, unless they say.
    pub tolerations: Tolerations,
}

/// Who writes, and how.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Who it is.
    pub identity: Identity,
    /// The field manager.
    pub manager: String,
    /// Whether nothing is to be written.
    pub dry_run: bool,
    /// The reconciler that writes, and for which key; empty for everyone else.
    pub reconciler: String,
}

/// An object as somebody wants it.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    /// The object, in the form in which it is stored.
    pub object: Value,
    /// Whether it still has empty lists that are not stored; see [`setpoint_api::decode::decode_request`].
    pub has_omitted_empty: bool,
    /// Who owns what, where an apply has settled that already.
    pub owners: Option<Owners>,
}

impl DesiredObject {
    /// A wish for an object that is decoded as it is stored.
    #[must_use]
    pub fn new(object: Value) -> DesiredObject {
        DesiredObject { object, has_omitted_empty: false, owners: None }
    }

    /// Notes who owns what of the object, which is then brought into the form in which it is judged: that in which it is
    /// stored, but for what is empty and counts. Answers with the object and what is changed.
    fn finalize(
        self,
        resource_type: &ResourceType,
        subresource: Subresource,
        writer: &Writer,
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
        // What is empty and never shown as such is owned by nobody, but rules still want to see it.
        let keeping = |object: &Value, keep| {
            let kept = decode_keeping_empty(object.clone(), resource_type.stored_schema, keep);
            kept.map_or_else(|_| object.clone(), |decoded| decoded.value)
        };
        let changed = match owners {
            Some(Owners { managed, changed }) => {
                ownership::set(&mut object, managed);
                changed
            }
            None if has_omitted_empty => {
                let mut owned = keeping(&object, KeepEmpty { for_ownership: true, for_validation: false });
                let changed = ownership::note(resource_type, subresource, writer, context, live, &mut owned);
                let managed = owned.at(&["metadata", "managedFields"]).cloned();
                ownership::set(&mut object, managed.unwrap_or_default());
                changed
            }
            None => ownership::note(resource_type, subresource, writer, context, live, &mut object),
        };
        if has_omitted_empty {
            object = keeping(&object, KeepEmpty { for_ownership: false, for_validation: true });
        }
        (object, changed)
    }
}

/// What a write comes to, and what the writer should know.
pub struct Decision {
    /// What it comes to.
    pub step: Step,
    /// What to warn the writer of.
    pub warnings: Vec<String>,
}

/// What a write comes to.
pub enum Step {
    /// Make this commit; the object it puts is the answer.
    Commit(Box<Proposal>),
    /// Make this commit, which removes an object; this was its last state.
    Remove(Box<Proposal>, Value),
    /// The object is already as it should be.
    Unchanged(Record),
    /// What would be written, were it not for a dry run.
    DryRun(Value),
    /// What would be removed, were it not for a dry run.
    DryRunRemove(Value),
}

impl Writer {
    /// A commit that makes or removes an object as a whole.
    pub(crate) fn proposal(&self, context: &RequestContext<'_>) -> Proposal {
        self.proposal_for(context, vec![WHOLE.to_owned()])
    }

    /// A commit that changes these paths of a part of an object. A change of many is told as one of the part.
    pub(crate) fn proposal_of(
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
        let cause = Cause {
            user: self.identity.user.clone(),
            manager: self.manager.clone(),
            reconciler: self.reconciler.clone(),
            seen: context.snapshot.revision(),
            paths,
        };
        Proposal::new(cause, context.now)
    }

    pub(crate) fn author(&self, context: &RequestContext<'_>) -> Author<'_> {
        Author { now: context.now, user: &self.identity.user, groups: &self.identity.groups }
    }
}

pub(crate) fn metadata_rules(resource_type: &ResourceType) -> MetadataRules {
    MetadataRules {
        name: resource_type.rules.name_rule(),
        namespaced: resource_type.info.namespaced,
        standard_finalizers: resource_type.resource.as_str() != "events",
    }
}

/// Refuses an object with faults.
pub(crate) fn check(resource_type: &ResourceType, object: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(resource_type.qualified_kind(), metadata::name(object), errors))
}

/// Gives an object the namespace of the place that it is written to, and refuses one that has another place.
///
/// # Errors
/// If its namespace or its name is another one, or it has no name.
pub(crate) fn place(object: &mut Value, namespace: &str, name: &str) -> Result<(), Status> {
    metadata::create::ensure_namespace(object, namespace)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    metadata::update::check_name(object, name).map_err(|error| Status::bad_request(error.to_string()))
}

/// Refuses to put an object in the place of another one of its name.
///
/// # Errors
/// If it says that it is another one.
pub(crate) fn check_uid(resource_type: &ResourceType, object: &Value, record: &Record) -> Result<(), Status> {
    let found = codec::object(record);
    precondition(resource_type, &found, "UID", metadata::text(object, "uid"), metadata::text(&found, "uid"))
}

/// Refuses a write that is meant for something else than what it found, in the words in which upstream's store says
/// it: with the key that the object has there.
pub(crate) fn precondition(
    resource_type: &ResourceType,
    object: &Value,
    title: &str,
    wanted: &str,
    found: &str,
) -> Result<(), Status> {
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let directory = match (resource_type.info.group, resource_type.info.plural) {
        ("", "replicationcontrollers") => "controllers",
        ("", "endpoints") => "services/endpoints",
        ("", "nodes") => "minions",
        ("", "services") => "services/specs",
        ("networking.k8s.io", "ingresses") => "ingress",
        ("apiregistration.k8s.io", _) => "apiregistration.k8s.io/apiservices",
        (_, plural) => plural,
    };
    let (name, namespace) = (metadata::name(object), metadata::namespace(object));
    let separator = if namespace.is_empty() { "" } else { "/" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{directory}/{namespace}{separator}{name}, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {title} in precondition: {wanted}, \
         {title} in object meta: {found}"
    );
    Err(Status::conflict(resource_type.qualified(), name, why))
}

/// An object that could not be put into its stored form, though it was decoded: a fault of ours.
pub(crate) fn unstorable() -> Status {
    Status::internal_error("the object cannot be stored")
}

/// Holds a commit to the namespace it is made in: it must be there, and not on its way out.
pub(crate) fn guard_namespace(
    proposal: Proposal,
    context: &RequestContext<'_>,
    namespace: &str,
    resource_type: &ResourceType,
    name: &str,
) -> Result<Proposal, Status> {
    if !resource_type.info.namespaced {
        return Ok(proposal);
    }
    let namespaces = setpoint_api::status::Qualified { group: "", name: "namespaces" };
    let missing = || Status::not_found(namespaces, namespace);
    let resource = Resource::new("namespaces").map_err(|_| missing())?;
    let key = setpoint_api::Key::cluster(&resource, namespace).map_err(|_| missing())?;
    let record = context.snapshot.get(&key).ok_or_else(missing)?;
    if record.tags().field("status.phase") == Some("Terminating") {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(resource_type.qualified(), name, why);
        if let Some(details) = &mut status.details {
            details.causes.push(setpoint_api::status::Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated").into(),
                field: "metadata.namespace".into(),
            });
        }
        return Err(status);
    }
    Ok(proposal.guard(key, Expect::Revision(record.revision())))
}
