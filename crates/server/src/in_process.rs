//! The loop beside the store: its writes go through the same pipeline as any client's, by function call.
//!
//! [`prepare`] and [`outcome`] are pure, so that a simulator uses them too; [`Shell`] is the thread that runs the
//! loop in a server.

mod printed;
pub mod report;
mod shell;

use setpoint_api::decode::decode;
use setpoint_api::metadata;
use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::patch::PatchType;
use setpoint_api::status::{Qualified, Reason, Status};
use setpoint_api::{Key, Map, Value};
use setpoint_reconcile::object::{Kept, ObjectBytes};
use setpoint_reconcile::plan::Sort;
use setpoint_reconcile::{Object, Observed, Outcome, Refusal, Sent, Write};
use setpoint_store::{CommitError, Committed, Event, Proposal, Record, Refusal as Refused};

use crate::exchange::Identity;
use crate::pipeline::apply::{Configuration, apply};
use crate::pipeline::update::Part;
use crate::pipeline::{Step, Wish, World, Writer, binding, create, delete, eviction, update};
use crate::served::{self, Served};
use crate::stored;

pub use shell::{LOOP_STALL_MAX, LoopEnd, SLEEP_MAX, Shell, ShellError};

/// What a write comes to before it is committed.
pub enum Prepared {
    /// There is nothing to commit.
    Settled(Outcome),
    /// Make this commit. The name is that of the object it writes.
    Commit(Box<Proposal>, Box<str>),
}

/// Decides what a write of the loop comes to.
#[must_use]
pub fn prepare(sent: &Sent, world: &World<'_>) -> Prepared {
    match decide(sent, world) {
        Ok(Step::Commit(proposal) | Step::Remove(proposal, _)) => {
            let name = proposal.writes().next().map(|write| write.key.name().into()).unwrap_or_default();
            Prepared::Commit(proposal, name)
        }
        Ok(Step::Unchanged(record)) => {
            Prepared::Settled(Outcome::Done { revision: record.revision(), name: record.name().into() })
        }
        // The loop never makes dry runs.
        Ok(Step::Would(_) | Step::WouldRemove(_)) => Prepared::Settled(Outcome::Gone),
        Err(status) => Prepared::Settled(refused(&sent.write, &status)),
    }
}

/// What a commit of the loop came to.
#[must_use]
pub fn outcome(committed: Result<Committed, CommitError>, name: Box<str>) -> Outcome {
    match committed {
        Ok(committed) => Outcome::Done { revision: committed.revision, name },
        Err(CommitError::Refused(Refused::Conflict(_))) => Outcome::Conflict,
        Err(error) => Outcome::Refused(Refusal {
            reason: Reason::InternalError.as_str().to_owned(),
            message: error.to_string(),
        }),
    }
}

/// A change of the store as the loop takes it in; nothing for one that cannot be read.
#[must_use]
pub fn observed(key: Key, event: &Event) -> Option<Observed> {
    let record = &event.after;
    let by = record.tags().reconciler().map(Into::into);
    let after = if record.is_tombstone() { None } else { Some(object(key.clone(), record)?) };
    Some(Observed { key, revision: record.revision(), after, by })
}

/// A stored object as the loop takes it in; nothing if it cannot be read.
#[must_use]
pub fn object(key: Key, record: &Record) -> Option<Object> {
    let (revision, time, kept) = (record.revision(), record.time(), Stored(record.clone()));
    // Hardly any planner looks at Events, and there are many.
    if key.resource().as_str() == "events" {
        return Some(Object::unread(key, revision, time, kept));
    }
    Object::read(key, revision, time, kept).ok()
}

/// The store keeps what the loop reads.
struct Stored(Record);

impl Kept for Stored {
    fn bytes(&self) -> ObjectBytes<'_> {
        ObjectBytes::Shared(self.0.value())
    }
}

fn decide(sent: &Sent, world: &World<'_>) -> Result<Step, Status> {
    let user = sent.user.to_string();
    let writer = Writer {
        identity: Identity { groups: groups(&user), user },
        manager: sent.manager.to_owned(),
        dry_run: false,
        reconciler: sent.by.to_string(),
    };
    let resource = sent.write.resource();
    let served = served::stored_form(resource)
        .ok_or_else(|| Status::not_found(Qualified { group: "", name: "" }, resource.as_str()))?;
    match &sent.write {
        Write::Create { namespace, object, .. } => make(served, namespace, object.clone(), &writer, world),
        Write::Tell(news) => printed::create(served, news, &writer, world)
            .unwrap_or_else(|| make(served, news.namespace(), news.to_value(), &writer, world)),
        Write::Patch { key, part, sort, patch, uid, revision } => {
            let record = find(served, key, world)?;
            let part = part_of(part)?;
            let is_closed = part == Part::Status && patch.get("spec").is_none();
            let live = if is_closed { stored::closed(served, &record) } else { stored::object(&record) };
            if uid.as_deref().is_some_and(|uid| uid != metadata::text(&live, "uid"))
                || revision.is_some_and(|revision| revision != record.revision())
            {
                return Err(changed(served, key));
            }
            let sort = match sort {
                Sort::Merge => PatchType::Merge,
                Sort::Strategic => PatchType::Strategic,
            };
            let patched =
                sort.apply(patch, live.clone(), served.stored_schema).map_err(|error| error.to_status())?;
            let wish = Wish::of(typed_where(served, patched, patch)?);
            Ok(update::update_live(served, part, wish, (&record, live), &writer, world)?.step)
        }
        Write::Apply { key, part, config, uid } => {
            let record = find(served, key, world)?;
            if **uid != *metadata::text(&stored::closed(served, &record), "uid") {
                return Err(changed(served, key));
            }
            let mut says = config.clone();
            identify(&mut says, served);
            says.ensure_map("metadata").insert("name", key.name());
            let namespace = key.namespace().unwrap_or_default();
            let config = Configuration { says: &says, force: true, name: key.name(), namespace };
            Ok(apply(served, part_of(part)?, config, Some(&record), &writer, world)?.step)
        }
        Write::Delete { key, uid, revision, propagation, grace } => {
            let record = find(served, key, world)?;
            let mut preconditions = Map::new();
            if let Some(uid) = uid {
                preconditions.insert("uid", &**uid);
            }
            if let Some(revision) = revision {
                preconditions.insert("resourceVersion", revision.to_string());
            }
            let mut options = Map::new();
            options.insert("preconditions", preconditions);
            options.insert("propagationPolicy", *propagation);
            options.insert("gracePeriodSeconds", *grace);
            let options = Value::Map(options);
            delete::delete(served, &record, &DeleteOptions::from_value(&options), &writer, world)
        }
        Write::Post { key, part, object } => post(served, key, part, object, &writer, world),
    }
}

fn make(
    served: &'static Served,
    namespace: &str,
    object: Value,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Step, Status> {
    let object = typed(served, object)?;
    Ok(create::create(served, namespace, Wish::of(object), writer, world)?.step)
}

fn post(
    served: &Served,
    key: &Key,
    part: &str,
    object: &Value,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Step, Status> {
    match part {
        "binding" => {
            binding::check(object)?;
            binding::bind(object, key.namespace().unwrap_or_default(), writer, world)
        }
        "eviction" => {
            eviction::check_wish(object, key.name())?;
            let options = object.get("deleteOptions").cloned().unwrap_or_default();
            let record = find(served, key, world)?;
            eviction::evict(served, &record, &DeleteOptions::from_value(&options), writer, world)
        }
        other => Err(Status::bad_request(format!("nothing can be posted to {other}"))),
    }
}

/// The groups that a user of the loop is in.
fn groups(user: &str) -> Vec<String> {
    let mut groups = vec!["system:authenticated".to_owned()];
    if user.starts_with("system:serviceaccount:") {
        groups.push("system:serviceaccounts".to_owned());
        groups.push("system:serviceaccounts:kube-system".to_owned());
    }
    if user.starts_with("system:node:") {
        groups.push("system:nodes".to_owned());
    }
    groups
}

fn part_of(part: &str) -> Result<Part, Status> {
    Part::of(part).ok_or_else(|| Status::bad_request(format!("no part {part}")))
}

fn changed(served: &Served, key: &Key) -> Status {
    Status::conflict(served.qualified(), key.name(), "the object has been modified")
}

/// Says of which kind an object of the loop's making is.
pub(crate) fn identify(object: &mut Value, served: &Served) {
    let map = object.make_map();
    map.insert("kind", served.info.kind);
    map.insert("apiVersion", served.api_version());
}

/// An object of the loop's making, read as a client's would be.
fn typed(served: &Served, mut object: Value) -> Result<Value, Status> {
    identify(&mut object, served);
    decode(object, served.stored_schema, &[])
        .map(|decoded| decoded.value)
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// An object that a patch of the loop's making changed, read as a client's would be. What the patch does not name is as it
/// was stored, and is left alone.
fn typed_where(served: &Served, mut object: Value, patch: &Value) -> Result<Value, Status> {
    let (Some(whole), Some(patch)) = (object.as_map_mut(), patch.as_map()) else {
        return typed(served, object);
    };
    let named = patch.keys().filter_map(|field| Some((field, whole.get_mut(field)?.take())));
    let mut part = typed(served, Value::Map(named.collect()))?;
    for field in patch.keys() {
        match part.as_map_mut().and_then(|part| part.remove(field)) {
            Some(value) => drop(whole.insert(field, value)),
            None => drop(whole.remove(field)),
        }
    }
    Ok(object)
}

fn find(served: &Served, key: &Key, world: &World<'_>) -> Result<Record, Status> {
    world.snapshot.get(key).cloned().ok_or_else(|| Status::not_found(served.qualified(), key.name()))
}

fn refused(write: &Write, status: &Status) -> Outcome {
    let creates = matches!(write, Write::Create { .. } | Write::Tell(_));
    match status.reason {
        // A namespace that is not there is no reason to plan again at once.
        Reason::NotFound if !creates => Outcome::Gone,
        Reason::Conflict | Reason::AlreadyExists => Outcome::Conflict,
        _ => Outcome::Refused(Refusal {
            reason: status.reason.as_str().to_owned(),
            message: status.message.to_string(),
        }),
    }
}

/// Every resource whose objects are stored.
pub fn resources() -> impl Iterator<Item = &'static setpoint_api::Resource> {
    let stored = served::all().iter().filter(|served| !served.is_virtual && !served.is_converted());
    stored.map(|served| &served.resource)
}
