//! What objects use of a quota: one evaluator for the status of ResourceQuotas and for admission.
//!
//! [`usage`] says what one object uses, [`Spec::covers`] whether a quota counts it, [`Spec::counts`] whether a
//! quota counts objects of a resource at all, [`unstated`] what it must say to be counted. Admission adds the usage
//! of a new object (for an update, the difference) to what is used and compares with `hard`; the controller adds up
//! what there is ([`used`]).

mod pods;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use setpoint_api::Time;
use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::{Object, Pairs};
use setpoint_reconcile::world::WorldReader;

use crate::or_default;
use crate::persistent_volume_claim::PersistentVolumeClaim;
use crate::pod::Pod;
use crate::service::Service;

/// Amounts by the names that quotas have for them.
pub type Usage = BTreeMap<String, Quantity>;

/// What separates a storage class from what is counted of it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// What is counted of claims.
const CLAIM_NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// Resources that no quota counts.
const UNCOUNTED: [&str; 2] = ["events", "events.events.k8s.io"];
/// Resources whose plain name counts their objects.
const COUNTED: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// The amounts that can be read.
#[must_use]
pub fn amounts(pairs: &Pairs) -> Usage {
    pairs.iter().filter_map(|(name, text)| Some((name.to_owned(), Quantity::parse(text).ok()?))).collect()
}

/// What a quota limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The limits.
    #[serde(deserialize_with = "or_default")]
    pub hard: Pairs,
    /// What sort of objects it counts: all of these must hold.
    #[serde(deserialize_with = "or_default")]
    pub scopes: Vec<String>,
    /// What sort of objects it counts, said in more words.
    #[serde(deserialize_with = "or_default")]
    pub scope_selector: ScopeSelector,
}

/// What sort of objects a quota counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// All of these must hold.
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<Scope>,
}

/// One thing that must hold of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scope {
    /// What it is about.
    pub scope_name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values.
    #[serde(deserialize_with = "or_default")]
    pub values: BTreeSet<String>,
}

impl Scope {
    /// Whether it holds where there are these values.
    fn holds(&self, present: &[&str]) -> bool {
        let among = || present.iter().any(|value| self.values.contains(*value));
        match self.operator.as_str() {
            "In" => among(),
            // Of several values it is enough that one is another.
            "NotIn" => present.is_empty() || !present.iter().all(|value| self.values.contains(*value)),
            "DoesNotExist" => present.is_empty(),
            _ => !present.is_empty(),
        }
    }
}

impl Spec {
    /// Whether it limits anything of the objects of a resource.
    #[must_use]
    pub fn counts(&self, resource: &str) -> bool {
        self.hard.iter().any(|(name, _)| is_counted_of(name, resource))
    }

    /// Whether an object is of the sort that it counts.
    #[must_use]
    pub fn covers(&self, object: &Object) -> bool {
        let plain = self.scopes.iter().all(|name| {
            let scope = Scope { scope_name: name.clone(), operator: "Exists".to_owned(), ..Scope::default() };
            is_in_scope(object, &scope)
        });
        plain && self.scope_selector.match_expressions.iter().all(|scope| is_in_scope(object, scope))
    }
}

fn is_in_scope(object: &Object, scope: &Scope) -> bool {
    if let Some(pod) = object.view::<Pod>() {
        return pods::is_in_scope(pod, scope);
    }
    match object.view::<PersistentVolumeClaim>() {
        Some(claim) if scope.scope_name == "VolumeAttributesClass" => {
            scope.holds(&claim.attributes_classes())
        }
        // Other objects are of no sort at all.
        _ => false,
    }
}

/// Whether a name stands for something of the objects of a resource.
#[must_use]
pub fn is_counted_of(name: &str, resource: &str) -> bool {
    if name.strip_prefix("count/") == Some(resource) {
        return !UNCOUNTED.contains(&resource);
    }
    match resource {
        "pods" => pods::is_counted(name),
        "services" => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => {
            let of_class = name.split_once(OF_CLASS).map_or(name, |(_, rest)| rest);
            CLAIM_NAMES.contains(&of_class)
        }
        other => COUNTED.contains(&other) && name == other,
    }
}

/// Which of these amounts an object must state and does not, as people are told.
#[must_use]
pub fn unstated<'a>(object: &Object, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    pods::unstated(object.view::<Pod>()?, names)
}

/// What an object uses, by all the names that a quota could have for it.
#[must_use]
pub fn usage(object: &Object, now: Time) -> Usage {
    let resource = object.key().resource().as_str();
    let mut usage = Usage::new();
    usage.insert(format!("count/{resource}"), Quantity::from(1_i64));
    if let Some(pod) = object.view::<Pod>() {
        if pods::is_alive(object, pod, now) {
            pods::add_usage(pod, &mut usage);
        }
    } else if let Some(service) = object.view::<Service>() {
        add_service(service, &mut usage);
    } else if let Some(claim) = object.view::<PersistentVolumeClaim>() {
        add_claim(object, claim, &mut usage);
    } else if COUNTED.contains(&resource) {
        usage.insert(resource.to_owned(), Quantity::from(1_i64));
    }
    usage
}

fn add_service(service: &Service, usage: &mut Usage) {
    let spec = &service.spec;
    let all = spec.ports.len();
    let given = spec.ports.iter().filter(|port| port.node_port != 0).count();
    let (node_ports, balancers) = match spec.kind.as_str() {
        "NodePort" => (all, 0),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => (given, 1),
        "LoadBalancer" => (all, 1),
        _ => (0, 0),
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    usage.insert("services".to_owned(), Quantity::from(1_i64));
    usage.insert("services.nodeports".to_owned(), Quantity::from(node_ports));
    usage.insert("services.loadbalancers".to_owned(), Quantity::from(balancers));
}

fn add_claim(object: &Object, claim: &PersistentVolumeClaim, usage: &mut Usage) {
    let class = claim.class(object);
    let mut add = |name: &str, amount: Quantity| {
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_CLASS}{name}"), amount);
        }
        usage.insert(name.to_owned(), amount);
    };
    add("persistentvolumeclaims", Quantity::from(1_i64));
    let storage = |amounts: &Pairs| amounts.get("storage").and_then(|text| Quantity::parse(text).ok());
    if let Some(wanted) = storage(&claim.spec.resources.requests) {
        // What a shrinking claim still has counts until it is given back.
        let allocated = storage(&claim.status.allocated_resources);
        let amount = allocated.map_or(wanted, |allocated| allocated.max(wanted));
        add("requests.storage", Quantity::new(amount.value(), amount.format()));
    }
}

/// What is used of a quota in a namespace: a number for each of its limits that something is known of.
#[must_use]
pub fn used(world: &WorldReader<'_>, namespace: &str, spec: &Spec, now: Time) -> Usage {
    let mut used = Usage::new();
    for resource in world.resources().filter(|resource| spec.counts(resource.as_str())) {
        let names =
            || spec.hard.iter().map(|(name, _)| name).filter(|name| is_counted_of(name, resource.as_str()));
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
