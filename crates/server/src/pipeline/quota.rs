//! What the ResourceQuotas of a namespace let it use.
//!
//! A write that makes a namespace use more is judged by `status` of its quotas, and the commit that it comes to
//! raises `status.used` of each in the same moment, on condition that nobody has written them since: of two writes
//! that saw the same quota one is decided again. So what is admitted never exceeds a quota, and the controller, which
//! counts anew what there is, cannot undo a charge that it has not seen. Nothing is charged for what shrinks or goes:
//! the controller lowers `status.used`.
//!
//! A limit that is not in force yet, because the controller has not counted what it limits, lets everything pass. Its
//! quota is then written as it is, so that a count which began before does not stand.

use setpoint_api::apply::{FieldPath, FieldSet};
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::status::Status;
use setpoint_api::{Key, Revision, Value, json, metadata};
use setpoint_reconcile::quota::{Usage, amounts, is_counted_of, unstated, usage};
use setpoint_reconcile::views::resource_quota::ResourceQuota;
use setpoint_reconcile::{Object, View};
use setpoint_runtime::objects;
use setpoint_store::commit::CHAIN_COMMITS_MAX;
use setpoint_store::{Expect, Proposal, Record};

use super::admission;
use super::update::Subresource;
use super::{RequestContext, Writer, ownership, unstorable};
use crate::codec;

/// The most quotas that an object can be charged to: their commits and its own are made together.
pub const QUOTAS_MAX: usize = CHAIN_COMMITS_MAX - 1;

/// What a commit adds to the quotas of its namespace.
#[derive(Debug, Default)]
pub struct Charges(Vec<Charge>);

/// A quota as it is to be.
#[derive(Debug)]
struct Charge {
    key: Key,
    seen: Revision,
    quota: Value,
}

/// Works out what a write adds to the quotas of its namespace.
///
/// # Errors
/// If it is too much, or cannot be known.
pub fn charge(
    resource_type: &ResourceType,
    subresource: Subresource,
    new: &Value,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<Charges, Status> {
    let namespace = metadata::namespace(new);
    if namespace.is_empty() || !may_use_more(resource_type, subresource, new, old) {
        return Ok(Charges::default());
    }
    let Some(table) = admission::table(context.snapshot, ResourceQuota::RESOURCE) else {
        return Ok(Charges::default());
    };
    let resource = resource_type.resource.as_str();
    let prefix = format!("{namespace}/");
    let quotas = table.range(&prefix, None).filter_map(|record| Quota::read(record, resource));
    let quotas: Vec<Quota<'_>> = quotas.collect();
    if quotas.is_empty() {
        return Ok(Charges::default());
    }
    let read = |value: &Value| object(resource_type, value, context).ok_or_else(unstorable);
    let (new, old) = (read(new)?, old.map(read).transpose()?);
    add_up(&quotas, &new, old.as_ref(), subresource, context)
        .map_err(|why| Status::forbidden(resource_type.qualified(), &new.meta().name, why))
}

impl Charges {
    /// Adds to a commit what it is charged.
    ///
    /// # Errors
    /// If a quota cannot be written down.
    pub fn commit(
        self,
        proposal: Proposal,
        writer: &Writer,
        context: &RequestContext<'_>,
    ) -> Result<Proposal, Status> {
        let server = Writer { manager: "kube-apiserver".to_owned(), ..writer.clone() };
        self.0.into_iter().try_fold(proposal, |proposal, Charge { key, seen, mut quota }| {
            let resource_type = resource_types::storage_type(key.resource()).ok_or_else(unstorable)?;
            let live = context.snapshot.get(&key).map(codec::object);
            ownership::note(resource_type, Subresource::Status, &server, context, live.as_ref(), &mut quota);
            let draft = codec::draft(resource_type, quota, context.now).ok_or_else(unstorable)?;
            let used = FieldSet::from_paths([&FieldPath::from_fields(&["status", "used"])]);
            Ok(proposal.after(writer.proposal_of(context, Subresource::Status, &used).put(
                key,
                Expect::Revision(seen),
                draft,
            )))
        })
    }
}

/// The first quota that a commit is charged to, if it is to one.
#[must_use]
pub fn charged(proposal: &Proposal) -> Option<&Key> {
    let writes = proposal.ahead().iter().flat_map(Proposal::writes);
    writes.map(|write| &write.key).find(|key| is_quota(key))
}

/// Whether the key is that of a quota.
#[must_use]
pub fn is_quota(key: &Key) -> bool {
    key.resource().as_str() == ResourceQuota::RESOURCE
}

/// Whether a write can make its namespace use more: it makes an object, or changes what is counted of one.
fn may_use_more(
    resource_type: &ResourceType,
    subresource: Subresource,
    new: &Value,
    old: Option<&Value>,
) -> bool {
    let Some(old) = old else { return true };
    match (resource_type.resource.as_str(), subresource) {
        ("pods", Subresource::None) => has_deadline(new) != has_deadline(old),
        ("pods", Subresource::Resize)
        | ("services", Subresource::None)
        | ("persistentvolumeclaims", Subresource::None | Subresource::Status) => true,
        _ => false,
    }
}

fn has_deadline(pod: &Value) -> bool {
    pod.at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| !seconds.is_null())
}

/// A quota that counts objects of the resource in question.
struct Quota<'a> {
    record: &'a Record,
    object: Object,
    /// Its limits that are in force and concern the resource, and what is used of all.
    hard: Usage,
    used: Usage,
    /// Its limits that concern the resource and are not in force yet.
    awaited: Vec<String>,
}

impl<'a> Quota<'a> {
    fn read(record: &'a Record, resource: &str) -> Option<Quota<'a>> {
        let key = Key::from_path(&resource_types::find("", "v1", "resourcequotas")?.resource, record.path())
            .ok()?;
        let object = objects::object(key, record)?;
        let quota = object.view::<ResourceQuota>()?;
        let mut hard = amounts(&quota.status.hard);
        hard.retain(|name, _| is_counted_of(name, resource));
        let used = amounts(&quota.status.used);
        let awaited = quota.spec.hard.iter().map(|(name, _)| name);
        let awaited = awaited.filter(|name| is_counted_of(name, resource) && !hard.contains_key(*name));
        let awaited: Vec<String> = awaited.map(str::to_owned).collect();
        (!hard.is_empty() || !awaited.is_empty()).then_some(Quota { record, object, hard, used, awaited })
    }

    fn name(&self) -> &str {
        self.record.name()
    }

    fn covers(&self, object: &Object) -> bool {
        self.object.view::<ResourceQuota>().is_some_and(|quota| quota.spec.covers(object))
    }

    /// Refuses an object that cannot be held against the quota.
    fn check(&self, object: &Object) -> Result<(), String> {
        let name = self.name();
        if let Some(why) = unstated(object, self.hard.keys().map(String::as_str)) {
            return Err(format!("failed quota: {name}: {why}"));
        }
        if self.hard.keys().all(|resource| self.used.contains_key(resource)) {
            return Ok(());
        }
        let names: Vec<&str> = self.hard.keys().map(String::as_str).collect();
        Err(format!("status unknown for quota: {name}, resources: {}", names.join(",")))
    }

    /// The quota with `more` used of it; nothing if that does not concern it.
    fn charge(&self, more: &Usage, subresource: Subresource) -> Result<Option<Charge>, String> {
        let requested: Usage = self
            .hard
            .keys()
            .filter_map(|name| Some((name.clone(), *more.get(name).filter(|amount| !amount.is_zero())?)))
            .collect();
        let mut used = requested.clone();
        for (name, sum) in &mut used {
            let mut before = self.used.get(name).copied().unwrap_or_default();
            before += *sum;
            *sum = before;
        }
        let exceeded: Vec<&String> =
            used.iter().filter(|(name, sum)| *sum > &self.hard[*name]).map(|(name, _)| name).collect();
        // What a volume has grown to is a fact, and is counted even if it is too much.
        if !exceeded.is_empty() && subresource != Subresource::Status {
            let show = |amounts: &Usage| {
                let parts =
                    exceeded.iter().filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
                parts.collect::<Vec<_>>().join(",")
            };
            let (name, requested, used, limited) =
                (self.name(), show(&requested), show(&self.used), show(&self.hard));
            return Err(format!(
                "exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
            ));
        }
        let awaited = self.awaited.iter().any(|name| more.get(name).is_some_and(|amount| !amount.is_zero()));
        if used.is_empty() && !awaited {
            return Ok(None);
        }
        let mut quota = codec::object(self.record);
        if !used.is_empty() {
            let shown = quota.ensure_map("status").ensure_map("used");
            used.into_iter().for_each(|(name, sum)| drop(shown.insert(name, sum.to_string())));
        }
        Ok(Some(Charge { key: self.object.key().clone(), seen: self.record.revision(), quota }))
    }
}

/// Judges an object by all quotas before anything is added to one.
fn add_up(
    quotas: &[Quota<'_>],
    new: &Object,
    old: Option<&Object>,
    subresource: Subresource,
    context: &RequestContext<'_>,
) -> Result<Charges, String> {
    let concerned: Vec<&Quota<'_>> = quotas.iter().filter(|quota| quota.covers(new)).collect();
    for quota in &concerned {
        quota.check(new)?;
    }
    if concerned.is_empty() {
        return Ok(Charges::default());
    }
    let uses = usage(new, context.now);
    let negative: Vec<&str> =
        uses.iter().filter(|(_, amount)| amount.sign() < 0).map(|(name, _)| &**name).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let mut more = uses.clone();
    for (name, before) in old.map(|old| usage(old, context.now)).unwrap_or_default() {
        if let Some(amount) = more.get_mut(&name) {
            *amount -= before.min(*amount);
        }
    }
    let mut charges = Charges::default();
    if concerned.len() > QUOTAS_MAX {
        return Err(format!(
            "{} quotas of its namespace count it, at most {QUOTAS_MAX} are supported: remove some of them",
            concerned.len()
        ));
    }
    for quota in concerned {
        // What the quota did not count before, it counts as a whole.
        let grown = old.is_some_and(|old| quota.covers(old));
        charges.0.extend(quota.charge(if grown { &more } else { &uses }, subresource)?);
    }
    Ok(charges)
}

fn object(resource_type: &ResourceType, value: &Value, context: &RequestContext<'_>) -> Option<Object> {
    let key = resource_type.key(metadata::namespace(value), metadata::name(value)).ok()?;
    Object::read(key, context.snapshot.revision(), context.now, json::to_vec(value)).ok()
}

#[cfg(test)]
mod tests;
