//! Which pods serve a Service, and how: what the controllers of endpoints have in common.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Key, Time};
use setpoint_reconcile::views::IntOrString;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::service::{Service, ServicePort};
use setpoint_reconcile::{Object, World};

use crate::indexes::{PODS_BY_LABEL, SERVICES_BY_SELECTOR, labelled};
use crate::pods::Seen;

/// The annotation that tells when what led to a change of endpoints happened.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of what belongs to a Service without an address.
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// The pods that a Service selects, in the order of their names.
pub fn selected<'a>(world: &'a World, object: &Object, service: &Service) -> Vec<Seen<'a>> {
    let Some(selector) = &service.spec.selector else { return Vec::new() };
    let namespace = &object.meta().namespace;
    let matches =
        |pod: &&Object| selector.iter().all(|(name, value)| pod.meta().labels.get(name) == Some(value));
    let found: Vec<&Object> = match selector.iter().next() {
        Some((name, value)) => {
            let place = labelled(namespace, name, value);
            world.indexed(PODS_BY_LABEL, &place).filter(matches).collect()
        }
        None => Vec::new(),
    };
    found.into_iter().filter_map(|pod| Some((pod, pod.view()?))).collect()
}

/// Wakes the Services that may select a pod.
pub fn wake_services(pod: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    let meta = pod.meta();
    if !world.has_indexed(SERVICES_BY_SELECTOR) {
        return;
    }
    for (name, value) in meta.labels.iter() {
        let place = labelled(&meta.namespace, name, value);
        let services: Vec<Key> =
            world.indexed(SERVICES_BY_SELECTOR, &place).map(|service| service.key().clone()).collect();
        services.into_iter().for_each(&mut *wake);
    }
}

/// Whether a pod is to be found behind a Service: it has an address and has not come to its end.
#[must_use]
pub fn serves((object, pod): &Seen<'_>, even_terminating: bool) -> bool {
    !pod.is_finished()
        && (!pod.status.pod_ip.is_empty() || !pod.status.pod_ips.is_empty())
        && (even_terminating || !object.meta().is_deleted())
}

/// Ports of a pod that a Service leads to by name, with their protocols and numbers.
type NamedPorts = BTreeMap<(Box<str>, Box<str>), i64>;

/// What the ports of a Service lead to on its pods. Pods mostly have the same ports, and what comes of them is made once.
pub struct TargetPorts<'s, T> {
    service: &'s Service,
    /// Names and protocols of the ports that it leads to by name.
    named: BTreeSet<(&'s str, &'s str)>,
    made: BTreeMap<NamedPorts, T>,
}

impl<'s, T: Clone> TargetPorts<'s, T> {
    /// Those of a Service.
    #[must_use]
    pub fn of(service: &'s Service) -> TargetPorts<'s, T> {
        let named = service.spec.ports.iter().filter_map(|port| match port.target_port.as_ref()? {
            IntOrString::Text(name) => Some((name.as_str(), port.protocol.as_str())),
            IntOrString::Int(_) => None,
        });
        TargetPorts { service, named: named.collect(), made: BTreeMap::new() }
    }

    /// What is made of the ports of the Service, each with the port of a pod that it leads to; those that lead nowhere
    /// are left out.
    pub fn on(&mut self, pod: &Pod, make: impl FnOnce(&[(&'s ServicePort, i64)]) -> T) -> T {
        let named = self.named_ports(pod);
        if let Some(made) = self.made.get(&named) {
            return made.clone();
        }
        let ports = self.service.spec.ports.iter().filter_map(|port| match port.target_port.as_ref()? {
            IntOrString::Int(number) => Some((port, *number)),
            IntOrString::Text(name) => {
                Some((port, *named.get(&(name.as_str().into(), port.protocol.as_str().into()))?))
            }
        });
        let made = make(&ports.collect::<Vec<_>>());
        self.made.insert(named, made.clone());
        made
    }

    /// Ports of a pod by name and protocol, as far as the Service leads to them; the first of equal ones counts.
    fn named_ports(&self, pod: &Pod) -> NamedPorts {
        let mut ports = NamedPorts::new();
        if self.named.is_empty() {
            return ports;
        }
        let sidecars = pod.spec.init_containers.iter().filter(|one| one.restart_policy == "Always");
        for port in pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports) {
            let (name, protocol) = (port.name.as_str(), port.protocol.as_str());
            if self.named.contains(&(name, protocol)) {
                ports.entry((name.into(), protocol.into())).or_insert(port.container_port);
            }
        }
        ports
    }
}

/// The name under which a pod is known behind a Service, if it has one of its own.
#[must_use]
pub fn hostname<'a>(pod: &'a Pod, service: &Object) -> Option<&'a str> {
    let has = !pod.spec.hostname.is_empty() && *pod.spec.subdomain == *service.meta().name;
    has.then_some(pod.spec.hostname.as_str())
}

/// The newest of what may have led to a change: the Service itself, or a pod that became ready or stopped being so.
#[must_use]
pub fn trigger_time(service: &Object, pods: &[Seen<'_>]) -> Option<Time> {
    let readiness = pods.iter().filter_map(|(_, pod)| {
        let ready = setpoint_reconcile::views::condition(&pod.status.conditions, "Ready")?;
        ready.last_transition_time
    });
    readiness.chain(service.meta().creation_timestamp).max()
}
