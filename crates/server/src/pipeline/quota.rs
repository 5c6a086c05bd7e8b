//! ResourceQuota admission: charges writes to the quotas of their namespace.
//!
//! A write that increases usage is checked against `status` of the quotas, and its commit also raises `status.used`
//! of each, on condition that the quota is unchanged: of two writes that read the same quota one is decided again. So
//! admitted usage never exceeds a quota, and the controller, which recounts usage, cannot undo a charge that it has
//! not observed. Decreases are not charged: the controller lowers `status.used`.
//!
//! A limit whose usage the controller has not counted yet is not enforced. Its quota is still written, without a
//! change, so that a count which started before the write fails with a conflict.
//!
//! For example, with `hard.pods: 10` and `used.pods: 9` two concurrent creates both decide `used.pods: 10`; one
//! commits, the other conflicts, reads 10, and is rejected with `exceeded quota`.

use setpoint_api::apply::{FieldPath, FieldSet};
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::status::Status;
use setpoint_api::{Key, Revision, Value, json, metadata};
use setpoint_reconcile::{Object, View};
use setpoint_runtime::objects;
use setpoint_store::commit::CHAIN_COMMITS_MAX;
use setpoint_store::{Precondition, Proposal, Record};
use setpoint_views::quota::{
    ResourceQuotaSpec, Usage, amounts, find_unspecified_resources, is_charged_by, usage,
};
use setpoint_views::resource_quota::ResourceQuota;

pub mod limited;

use self::limited::LimitedUsage;
use super::admission;
use super::admission::plugins::Plugin;
use super::update::Subresource;
use super::{RequestContext, WriteOrigin, encoding_error, ownership};
use crate::codec;

/// Maximum number of quotas that an object can be charged to: they are committed together with it.
const QUOTAS_MAX: usize = CHAIN_COMMITS_MAX - 1;

/// Charges of a commit to the quotas of its namespace.
#[derive(Debug, Default)]
pub struct Charges(Vec<Charge>);

/// A quota with its new `status.used`.
#[derive(Debug)]
struct Charge {
    key: Key,
    revision: Revision,
    quota: Value,
}

/// Computes the charges of a write.
///
/// # Errors
/// If a quota is exceeded, or its usage is unknown.
pub fn charge(
    resource_type: &ResourceType,
    subresource: Subresource,
    new: &Value,
    old: Option<&Value>,
    context: &RequestContext<'_>,
) -> Result<Charges, Status> {
    let namespace = metadata::namespace(new);
    let config = context.admission.config;
    if namespace.is_empty()
        || !config.is_enabled(Plugin::ResourceQuota)
        || !can_increase_usage(resource_type, subresource, new, old)
    {
        return Ok(Charges::default());
    }
    let resource = resource_type.resource.as_str();
    let table = admission::table(context.snapshot, ResourceQuota::RESOURCE);
    let prefix = format!("{namespace}/");
    let quotas = table.into_iter().flat_map(|table| table.range(&prefix, None));
    let quotas: Vec<Quota<'_>> = quotas.filter_map(|record| Quota::read(record, resource)).collect();
    if quotas.is_empty() && config.limited_resources.is_empty() {
        return Ok(Charges::default());
    }
    let read = |value: &Value| object(resource_type, value, context).ok_or_else(encoding_error);
    let (new, old) = (read(new)?, old.map(read).transpose()?);
    compute_charges(&quotas, &new, old.as_ref(), subresource, context)
        .map_err(|why| Status::forbidden(resource_type.qualified(), &new.meta().name, why))
}

impl Charges {
    /// Adds the charges to a commit.
    ///
    /// # Errors
    /// If a quota cannot be encoded.
    pub fn commit(
        self,
        proposal: Proposal,
        writer: &WriteOrigin,
        context: &RequestContext<'_>,
    ) -> Result<Proposal, Status> {
        let server = WriteOrigin { manager: "kube-apiserver".to_owned(), ..writer.clone() };
        self.0.into_iter().try_fold(proposal, |proposal, Charge { key, revision, mut quota }| {
            let resource_type = resource_types::storage_type(key.resource()).ok_or_else(encoding_error)?;
            let live = context.snapshot.get(&key).map(codec::object);
            ownership::record_owners(
                resource_type,
                Subresource::Status,
                &server,
                context,
                live.as_ref(),
                &mut quota,
            );
            let draft = codec::draft(resource_type, quota, context.now).ok_or_else(encoding_error)?;
            let used = FieldSet::from_paths([&FieldPath::from_fields(&["status", "used"])]);
            Ok(proposal.after(writer.proposal_of(context, Subresource::Status, &used).put(
                key,
                Precondition::Revision(revision),
                draft,
            )))
        })
    }
}

/// Returns the first quota that a commit charges.
#[must_use]
pub fn charged_quota(proposal: &Proposal) -> Option<&Key> {
    let writes = proposal.predecessors().iter().flat_map(Proposal::writes);
    writes.map(|write| &write.key).find(|key| is_quota(key))
}

/// `true` if the key is that of a quota.
#[must_use]
pub(crate) fn is_quota(key: &Key) -> bool {
    key.resource().as_str() == ResourceQuota::RESOURCE
}

/// `true` if a write can increase usage: it creates an object, or changes a counted field.
fn can_increase_usage(
    resource_type: &ResourceType,
    subresource: Subresource,
    new: &Value,
    old: Option<&Value>,
) -> bool {
    let Some(old) = old else { return true };
    match (resource_type.resource.as_str(), subresource) {
        ("pods", Subresource::None) => has_deadline(new) != has_deadline(old),
        ("pods", Subresource::Resize)
        | ("services" | "resourceclaims.resource.k8s.io", Subresource::None)
        | ("persistentvolumeclaims", Subresource::None | Subresource::Status) => true,
        _ => false,
    }
}

fn has_deadline(pod: &Value) -> bool {
    pod.at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| !seconds.is_null())
}

/// A quota that counts objects of one resource.
struct Quota<'a> {
    record: &'a Record,
    object: Object,
    /// Enforced limits of the resource.
    hard: Usage,
    /// Usage of all resources of the quota.
    used: Usage,
    /// Limits of the resource that are not enforced yet.
    unenforced: Vec<String>,
}

impl<'a> Quota<'a> {
    fn read(record: &'a Record, resource: &str) -> Option<Quota<'a>> {
        let key = Key::from_path(&resource_types::find("", "v1", "resourcequotas")?.resource, record.path())
            .ok()?;
        let object = objects::object(key, record)?;
        let quota = object.view::<ResourceQuota>()?;
        let mut hard = amounts(&quota.status.hard);
        hard.retain(|name, _| is_charged_by(name, resource));
        let used = amounts(&quota.status.used);
        let unenforced = quota.spec.hard.iter().map(|(name, _)| name);
        let unenforced = unenforced.filter(|name| is_charged_by(name, resource) && !hard.contains_key(*name));
        let unenforced: Vec<String> = unenforced.map(str::to_owned).collect();
        (!hard.is_empty() || !unenforced.is_empty()).then_some(Quota {
            record,
            object,
            hard,
            used,
            unenforced,
        })
    }

    fn name(&self) -> &str {
        self.record.name()
    }

    fn spec(&self) -> Option<&ResourceQuotaSpec> {
        Some(&self.object.view::<ResourceQuota>()?.spec)
    }

    fn covers(&self, object: &Object) -> bool {
        self.spec().is_some_and(|spec| spec.covers(object))
    }

    /// Rejects an object that lacks counted requests, or a quota without usage.
    fn check(&self, object: &Object) -> Result<(), String> {
        let name = self.name();
        if let Some(why) = find_unspecified_resources(object, self.hard.keys().map(String::as_str)) {
            return Err(format!("failed quota: {name}: {why}"));
        }
        if self.hard.keys().all(|resource| self.used.contains_key(resource)) {
            return Ok(());
        }
        let names: Vec<&str> = self.hard.keys().map(String::as_str).collect();
        Err(format!("status unknown for quota: {name}, resources: {}", names.join(",")))
    }

    /// Returns the quota with its usage increased; `None` if it does not count the increase.
    fn charge(&self, increase: &Usage, subresource: Subresource) -> Result<Option<Charge>, String> {
        let requested: Usage = self
            .hard
            .keys()
            .filter_map(|name| Some((name.clone(), *increase.get(name).filter(|amount| !amount.is_zero())?)))
            .collect();
        let mut used = requested.clone();
        for (name, sum) in &mut used {
            let mut before = self.used.get(name).copied().unwrap_or_default();
            before += *sum;
            *sum = before;
        }
        let exceeded: Vec<&String> =
            used.iter().filter(|(name, sum)| *sum > &self.hard[*name]).map(|(name, _)| name).collect();
        // The size of a volume has already grown, so it is counted beyond the limit.
        if !exceeded.is_empty() && subresource != Subresource::Status {
            let format_exceeded = |amounts: &Usage| {
                let parts =
                    exceeded.iter().filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
                parts.collect::<Vec<_>>().join(",")
            };
            let (name, requested, used, limited) = (
                self.name(),
                format_exceeded(&requested),
                format_exceeded(&self.used),
                format_exceeded(&self.hard),
            );
            return Err(format!(
                "exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
            ));
        }
        let has_unenforced =
            self.unenforced.iter().any(|name| increase.get(name).is_some_and(|amount| !amount.is_zero()));
        if used.is_empty() && !has_unenforced {
            return Ok(None);
        }
        let mut quota = codec::object(self.record);
        if !used.is_empty() {
            let status_used = quota.ensure_map("status").ensure_map("used");
            used.into_iter().for_each(|(name, sum)| drop(status_used.insert(name, sum.to_string())));
        }
        Ok(Some(Charge { key: self.object.key().clone(), revision: self.record.revision(), quota }))
    }
}

/// Checks an object against every quota that matches it, then charges them.
fn compute_charges(
    quotas: &[Quota<'_>],
    new: &Object,
    old: Option<&Object>,
    subresource: Subresource,
    context: &RequestContext<'_>,
) -> Result<Charges, String> {
    let matching: Vec<&Quota<'_>> = quotas.iter().filter(|quota| quota.covers(new)).collect();
    for quota in &matching {
        quota.check(new)?;
    }
    let limited = &context.admission.config.limited_resources;
    if matching.is_empty() && limited.is_empty() {
        return Ok(Charges::default());
    }
    let total = usage(new, context.now);
    let negative: Vec<&str> =
        total.iter().filter(|(_, amount)| amount.sign() < 0).map(|(name, _)| &**name).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let mut increase = total.clone();
    for (name, before) in old.map(|old| usage(old, context.now)).unwrap_or_default() {
        if let Some(amount) = increase.get_mut(&name) {
            *amount -= before.min(*amount);
        }
    }
    // A quota that did not count the object before charges it in full.
    let was_counted = |quota: &Quota<'_>| old.is_some_and(|old| quota.covers(old));
    if !limited.is_empty() {
        let is_charged = matching.iter().any(|quota| !was_counted(quota))
            || increase.values().any(|amount| !amount.is_zero());
        if is_charged {
            let usage = LimitedUsage { object: new, usage: &total };
            usage.check(
                limited,
                matching.iter().map(|quota| quota.hard.keys()),
                quotas.iter().map(Quota::spec),
            )?;
        }
    }
    let mut charges = Charges::default();
    if matching.len() > QUOTAS_MAX {
        let why = format!(
            "{} quotas of its namespace count it, at most {QUOTAS_MAX} are supported: remove some of them",
            matching.len()
        );
        return Err(why);
    }
    for quota in matching {
        let was_counted = was_counted(quota);
        charges.0.extend(quota.charge(if was_counted { &increase } else { &total }, subresource)?);
    }
    Ok(charges)
}

fn object(resource_type: &ResourceType, value: &Value, context: &RequestContext<'_>) -> Option<Object> {
    let key = resource_type.key(metadata::namespace(value), metadata::name(value)).ok()?;
    Object::read(key, context.snapshot.revision(), context.now, json::to_vec(value)).ok()
}

#[cfg(test)]
mod tests;
