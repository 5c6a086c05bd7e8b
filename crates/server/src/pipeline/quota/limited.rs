//! Limited resources: those that can only be consumed in a namespace with a quota for them.
//!
//! The configuration of ResourceQuota names them by parts of the names of quota resources, and by scopes. For example,
//! with `matchContains: [.storageclass.storage.k8s.io/requests.storage]` a claim of any storage class needs a quota of
//! that class.

use std::collections::BTreeSet;

use setpoint_reconcile::Object;
use setpoint_views::quota::{ResourceQuotaSpec, ScopeRequirement, Usage, matching_scopes};

/// Resource whose consumption needs a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedResource {
    /// Plural name and group, such as `pods` or `jobs.batch`.
    pub resource: String,
    /// Parts of the names of quota resources.
    pub match_contains: Vec<String>,
    /// Scopes that need a quota with the scope.
    pub match_scopes: Vec<ScopeRequirement>,
}

/// Usage of an object that may need a quota.
pub(super) struct LimitedUsage<'a> {
    pub object: &'a Object,
    pub usage: &'a Usage,
}

impl LimitedUsage<'_> {
    /// Rejects usage and scopes that no quota covers. `covered` are the limits of the quotas that match the object,
    /// `quotas` those of the namespace.
    pub fn check<'q>(
        &self,
        limited: &[LimitedResource],
        covered: impl Iterator<Item = impl Iterator<Item = &'q String>>,
        quotas: impl Iterator<Item = Option<&'q ResourceQuotaSpec>>,
    ) -> Result<(), String> {
        let resource = self.object.key().resource().as_str();
        let covered: BTreeSet<&str> = covered.flatten().map(String::as_str).collect();
        let consumed =
            self.usage.iter().filter(|(_, amount)| amount.sign() > 0).map(|(name, _)| name.as_str());
        let is_limited = |name: &str| {
            let of_resource = limited.iter().filter(|limit| limit.resource == resource);
            of_resource.flat_map(|limit| &limit.match_contains).any(|part| name.contains(&**part))
        };
        let uncovered: Vec<&str> =
            consumed.filter(|name| is_limited(name) && !covered.contains(name)).collect();
        if !uncovered.is_empty() {
            return Err(format!("insufficient quota to consume: {}", uncovered.join(",")));
        }
        let limited_scopes =
            limited.iter().flat_map(|limit| matching_scopes(self.object, limit.match_scopes.iter()));
        let limited_scopes: Vec<&ScopeRequirement> = limited_scopes.collect();
        if limited_scopes.is_empty() {
            return Ok(());
        }
        let scopes: Vec<ScopeRequirement> =
            quotas.flatten().flat_map(ResourceQuotaSpec::requirements).collect();
        let present: BTreeSet<&str> =
            matching_scopes(self.object, scopes.iter()).map(|scope| &*scope.scope_name).collect();
        let uncovered: Vec<String> = limited_scopes
            .into_iter()
            .filter(|scope| !present.contains(&*scope.scope_name))
            .map(ToString::to_string)
            .collect();
        if uncovered.is_empty() {
            return Ok(());
        }
        let uncovered = uncovered.join(" ");
        // Upstream answers 500, since its error has no status.
        Err(format!("insufficient quota to match these scopes: [{uncovered}]"))
    }
}
