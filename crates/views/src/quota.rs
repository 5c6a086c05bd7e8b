//! Quota evaluator: computes usage for the status of ResourceQuotas and for admission.
//!
//! [`usage`] is the usage of one object, [`ResourceQuotaSpec::covers`] matches an object against the scopes of a quota,
//! [`ResourceQuotaSpec::counts`] matches a resource against its `hard` limits, and [`find_unspecified_resources`] finds
//! requests and limits that a covered pod must specify. Admission adds the usage of a new object (for an update, the
//! difference) to `used` and compares the sum with `hard`; the controller sums the usage of a namespace
//! ([`namespace_usage`]).

mod devices;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use setpoint_api::Time;
use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::{Object, Pairs, View};
use setpoint_reconcile::world::WorldReader;

use crate::or_default;
use crate::persistent_volume_claim::PersistentVolumeClaim;
use crate::pod::Pod;
use crate::resource_claim::ResourceClaim;
use crate::service::Service;

/// Quantities by quota resource name, such as `requests.cpu` or `count/jobs.batch`.
pub type Usage = BTreeMap<String, Quantity>;

/// Separator between a storage class and a resource name.
const STORAGE_CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";
/// Quota resource names of PersistentVolumeClaims.
const CLAIM_RESOURCE_NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// Resources without object count quota.
const UNCOUNTED_RESOURCES: [&str; 2] = ["events", "events.events.k8s.io"];
/// Resources whose objects are also counted under the plain resource name.
const PLAIN_COUNT_RESOURCES: [&str; 4] =
    ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// Parses quantities; those that are invalid are left out.
#[must_use]
pub fn amounts(pairs: &Pairs) -> Usage {
    pairs.iter().filter_map(|(name, text)| Some((name.to_owned(), Quantity::parse(text).ok()?))).collect()
}

/// Spec of a ResourceQuota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaSpec {
    #[serde(deserialize_with = "or_default")]
    pub hard: Pairs,
    /// All must match.
    #[serde(deserialize_with = "or_default")]
    pub scopes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub scope_selector: ScopeSelector,
}

/// Scope selector of a quota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// All must match.
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<ScopeRequirement>,
}

/// Requirement of a scope selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeRequirement {
    pub scope_name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    #[serde(deserialize_with = "or_default")]
    pub values: BTreeSet<String>,
}

impl fmt::Display for ScopeRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        write!(f, "{{{} {} [{}]}}", self.scope_name, self.operator, values.join(" "))
    }
}

impl ScopeRequirement {
    /// `true` if the values of an object match.
    fn matches(&self, present: &[&str]) -> bool {
        let is_any_listed = || present.iter().any(|value| self.values.contains(*value));
        match self.operator.as_str() {
            "In" => is_any_listed(),
            // One value that is not listed suffices.
            "NotIn" => present.is_empty() || !present.iter().all(|value| self.values.contains(*value)),
            "DoesNotExist" => present.is_empty(),
            _ => !present.is_empty(),
        }
    }
}

impl ResourceQuotaSpec {
    /// `true` if a `hard` limit applies to objects of the resource.
    #[must_use]
    pub fn counts(&self, resource: &str) -> bool {
        self.hard.iter().any(|(name, _)| is_charged_by(name, resource))
    }

    /// `true` if an object matches all scopes.
    #[must_use]
    pub fn covers(&self, object: &Object) -> bool {
        let is_in_scopes = self.scopes.iter().all(|name| is_in_scope(object, &exists(name)));
        is_in_scopes && self.scope_selector.match_expressions.iter().all(|scope| is_in_scope(object, scope))
    }

    /// Returns all scopes as requirements.
    pub fn requirements(&self) -> impl Iterator<Item = ScopeRequirement> + '_ {
        let scopes = self.scopes.iter().map(|name| exists(name));
        scopes.chain(self.scope_selector.match_expressions.iter().cloned())
    }
}

fn exists(scope: &str) -> ScopeRequirement {
    let operator = "Exists".to_owned();
    ScopeRequirement { scope_name: scope.to_owned(), operator, ..ScopeRequirement::default() }
}

/// Returns the scopes that an object matches.
pub fn matching_scopes<'a>(
    object: &'a Object,
    scopes: impl Iterator<Item = &'a ScopeRequirement> + 'a,
) -> impl Iterator<Item = &'a ScopeRequirement> + 'a {
    scopes.filter(|scope| is_in_scope(object, scope))
}

fn is_in_scope(object: &Object, scope: &ScopeRequirement) -> bool {
    if let Some(pod) = object.view::<Pod>() {
        return pods::is_in_scope(pod, scope);
    }
    match object.view::<PersistentVolumeClaim>() {
        Some(claim) if scope.scope_name == "VolumeAttributesClass" => {
            scope.matches(&claim.attributes_classes())
        }
        // No scope matches objects of other resources.
        _ => false,
    }
}

/// `true` if objects of the resource are charged to the quota resource name.
#[must_use]
pub fn is_charged_by(name: &str, resource: &str) -> bool {
    if name.strip_prefix("count/") == Some(resource) {
        return !UNCOUNTED_RESOURCES.contains(&resource);
    }
    match resource {
        "pods" => pods::is_charged_by_pods(name),
        "services" => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => {
            let plain = name.split_once(STORAGE_CLASS_INFIX).map_or(name, |(_, rest)| rest);
            CLAIM_RESOURCE_NAMES.contains(&plain)
        }
        ResourceClaim::RESOURCE => devices::is_charged_by_claims(name),
        other => PLAIN_COUNT_RESOURCES.contains(&other) && name == other,
    }
}

/// Returns the message about requests and limits that the containers of a pod must specify and do not, among the names
/// that quotas limit.
#[must_use]
pub fn find_unspecified_resources<'a>(
    object: &Object,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    pods::find_unspecified_resources(object.view::<Pod>()?, names)
}

/// Returns the usage of an object by all quota resource names that it is charged to.
#[must_use]
pub fn usage(object: &Object, now: Time) -> Usage {
    let resource = object.key().resource().as_str();
    let mut usage = Usage::new();
    usage.insert(format!("count/{resource}"), Quantity::from(1_i64));
    if let Some(pod) = object.view::<Pod>() {
        if pods::is_charged(object, pod, now) {
            pods::add_usage(pod, &mut usage);
        }
    } else if let Some(service) = object.view::<Service>() {
        add_service_usage(service, &mut usage);
    } else if let Some(claim) = object.view::<PersistentVolumeClaim>() {
        add_claim_usage(object, claim, &mut usage);
    } else if let Some(claim) = object.view::<ResourceClaim>() {
        devices::add_usage(claim, &mut usage);
    } else if PLAIN_COUNT_RESOURCES.contains(&resource) {
        usage.insert(resource.to_owned(), Quantity::from(1_i64));
    }
    usage
}

fn add_service_usage(service: &Service, usage: &mut Usage) {
    let spec = &service.spec;
    let ports = spec.ports.len();
    let allocated = spec.ports.iter().filter(|port| port.node_port != 0).count();
    let (node_ports, load_balancers) = match spec.kind.as_str() {
        "NodePort" => (ports, 0),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => (allocated, 1),
        "LoadBalancer" => (ports, 1),
        _ => (0, 0),
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    usage.insert("services".to_owned(), Quantity::from(1_i64));
    usage.insert("services.nodeports".to_owned(), Quantity::from(node_ports));
    usage.insert("services.loadbalancers".to_owned(), Quantity::from(load_balancers));
}

fn add_claim_usage(object: &Object, claim: &PersistentVolumeClaim, usage: &mut Usage) {
    let class = claim.class(object);
    let mut add = |name: &str, amount: Quantity| {
        if !class.is_empty() {
            usage.insert(format!("{class}{STORAGE_CLASS_INFIX}{name}"), amount);
        }
        usage.insert(name.to_owned(), amount);
    };
    add("persistentvolumeclaims", Quantity::from(1_i64));
    let storage = |amounts: &Pairs| amounts.get("storage").and_then(|text| Quantity::parse(text).ok());
    if let Some(requested) = storage(&claim.spec.resources.requests) {
        // A claim that shrinks is charged for its allocation until the allocation is released.
        let allocated = storage(&claim.status.allocated_resources);
        let amount = allocated.map_or(requested, |allocated| allocated.max(requested));
        add("requests.storage", Quantity::new(amount.value(), amount.format()));
    }
}

/// Returns the usage of a quota in a namespace: a quantity for each `hard` limit that applies to an observed resource.
#[must_use]
pub fn namespace_usage(
    world: &WorldReader<'_>,
    namespace: &str,
    spec: &ResourceQuotaSpec,
    now: Time,
) -> Usage {
    let mut used = Usage::new();
    for resource in world.resources().filter(|resource| spec.counts(resource.as_str())) {
        let names =
            || spec.hard.iter().map(|(name, _)| name).filter(|name| is_charged_by(name, resource.as_str()));
        for name in names() {
            used.entry(name.to_owned()).or_insert_with(|| Quantity::from(0_i64));
        }
        for object in world.in_namespace(resource.as_str(), namespace).filter(|object| spec.covers(object)) {
            for (name, amount) in usage(object, now) {
                if let Some(sum) = used.get_mut(&name) {
                    *sum += amount;
                }
            }
        }
    }
    used
}
