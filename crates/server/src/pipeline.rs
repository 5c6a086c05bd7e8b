//! What a write comes to.
//!
//! Each function takes the request and the world as it is, and answers with the commit to make, or with what to
//! say instead. None knows a socket, a clock or a runtime: time and chance are in [`World`], so that the loop can
//! call them, a simulator can run them, and a fork can replay them.

pub mod admission;
pub mod apply;
pub mod binding;
pub mod create;
pub mod delete;
pub mod eviction;
pub mod ownership;
pub mod part;
pub mod quota;
pub mod service_network;
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
use self::update::Part;
use crate::exchange::Identity;
use crate::stored;

/// The path that stands for all of an object.
const WHOLE: &str = ".";
/// The path that stands for all of a status.
const STATUS: &str = ".status";
/// How many paths a cause names. It is kept with every version of an object, in memory too.
const CAUSE_PATHS_MAX: usize = 16;

/// The world a write meets.
#[derive(Clone, Copy)]
pub struct World<'a> {
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
pub struct Wish {
    /// The object, in the form in which it is stored.
    pub object: Value,
    /// Whether it still has empty lists that are not stored; see [`setpoint_api::decode::decode_request`].
    pub hollow: bool,
    /// Who owns what, where an apply has settled that already.
    pub owners: Option<Owners>,
}

impl Wish {
    /// A wish for an object that is decoded as it is stored.
    #[must_use]
    pub fn of(object: Value) -> Wish {
        Wish { object, hollow: false, owners: None }
    }

    /// Notes who owns what of the object, which is then brought into the form in which it is judged: that in which it is
    /// stored, but for what is empty and counts. Answers with the object and what is changed.
    fn settle(
        self,
        served: &ResourceType,
        part: Part,
        writer: &Writer,
        world: &World<'_>,
        live: Option<&Value>,
    ) -> (Value, FieldSet) {
        let Wish { mut object, hollow, owners } = self;
        if part == Part::Status && live.is_some() {
            served.rules.default_status(&mut object);
        } else {
            served.rules.default(&mut object);
        }
        served.rules.default_times(&mut object, world.now);
        // What is empty and never shown as such is owned by nobody, but rules still want to see it.
        let keeping = |object: &Value, keep| {
            let kept = decode_keeping_empty(object.clone(), served.stored_schema, keep);
            kept.map_or_else(|_| object.clone(), |decoded| decoded.value)
        };
        let changed = match owners {
            Some(Owners { managed, changed }) => {
                ownership::set(&mut object, managed);
                changed
            }
            None if hollow => {
                let mut owned = keeping(&object, KeepEmpty { for_ownership: true, for_validation: false });
                let changed = ownership::note(served, part, writer, world, live, &mut owned);
                let managed = owned.at(&["metadata", "managedFields"]).cloned();
                ownership::set(&mut object, managed.unwrap_or_default());
                changed
            }
            None => ownership::note(served, part, writer, world, live, &mut object),
        };
        if hollow {
            object = keeping(&object, KeepEmpty { for_ownership: false, for_validation: true });
        }
        (object, changed)
    }
}

/// What a write comes to, and what the writer should know.
pub struct Decided {
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
    Would(Value),
    /// What would be removed, were it not for a dry run.
    WouldRemove(Value),
}

impl Writer {
    /// A commit that makes or removes an object as a whole.
    pub(crate) fn proposal(&self, world: &World<'_>) -> Proposal {
        self.proposal_for(world, vec![WHOLE.to_owned()])
    }

    /// A commit that changes these paths of a part of an object. A change of many is told as one of the part.
    pub(crate) fn proposal_of(&self, world: &World<'_>, part: Part, changed: &FieldSet) -> Proposal {
        let whole = if part == Part::Status { STATUS } else { WHOLE };
        let paths = changed.leaf_texts(CAUSE_PATHS_MAX).unwrap_or_else(|| vec![whole.to_owned()]);
        self.proposal_for(world, paths)
    }

    fn proposal_for(&self, world: &World<'_>, paths: Vec<String>) -> Proposal {
        let cause = Cause {
            user: self.identity.user.clone(),
            manager: self.manager.clone(),
            reconciler: self.reconciler.clone(),
            seen: world.snapshot.revision(),
            paths,
        };
        Proposal::new(cause, world.now)
    }

    pub(crate) fn author(&self, world: &World<'_>) -> Author<'_> {
        Author { now: world.now, user: &self.identity.user, groups: &self.identity.groups }
    }
}

pub(crate) fn metadata_rules(served: &ResourceType) -> MetadataRules {
    MetadataRules {
        name: served.rules.name_rule(),
        namespaced: served.info.namespaced,
        standard_finalizers: served.resource.as_str() != "events",
    }
}

/// Refuses an object with faults.
pub(crate) fn check(served: &ResourceType, object: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(served.qualified_kind(), metadata::name(object), errors))
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
pub(crate) fn check_uid(served: &ResourceType, object: &Value, record: &Record) -> Result<(), Status> {
    let found = stored::object(record);
    precondition(served, &found, "UID", metadata::text(object, "uid"), metadata::text(&found, "uid"))
}

/// Refuses a write that is meant for something else than what it found, in the words in which upstream's store says
/// it: with the key that the object has there.
pub(crate) fn precondition(
    served: &ResourceType,
    object: &Value,
    title: &str,
    wanted: &str,
    found: &str,
) -> Result<(), Status> {
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let directory = match (served.info.group, served.info.plural) {
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
    Err(Status::conflict(served.qualified(), name, why))
}

/// An object that could not be put into its stored form, though it was decoded: a fault of ours.
pub(crate) fn unstorable() -> Status {
    Status::internal_error("the object cannot be stored")
}

/// Holds a commit to the namespace it is made in: it must be there, and not on its way out.
pub(crate) fn guard_namespace(
    proposal: Proposal,
    world: &World<'_>,
    namespace: &str,
    served: &ResourceType,
    name: &str,
) -> Result<Proposal, Status> {
    if !served.info.namespaced {
        return Ok(proposal);
    }
    let namespaces = setpoint_api::status::Qualified { group: "", name: "namespaces" };
    let missing = || Status::not_found(namespaces, namespace);
    let resource = Resource::new("namespaces").map_err(|_| missing())?;
    let key = setpoint_api::Key::cluster(&resource, namespace).map_err(|_| missing())?;
    let record = world.snapshot.get(&key).ok_or_else(missing)?;
    if record.tags().field("status.phase") == Some("Terminating") {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(served.qualified(), name, why);
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
