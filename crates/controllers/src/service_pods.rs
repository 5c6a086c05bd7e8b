//! Pods and ports of Services, shared by the controllers of endpoints.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Key, Time};
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::IntOrString;
use setpoint_views::pod::Pod;
use setpoint_views::service::{Service, ServicePort};

use crate::indexes::{PODS_BY_LABEL, SERVICES_BY_SELECTOR, label_key};
use crate::pods::PodRef;

/// Annotation with the time of the change that caused an update of endpoints.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Label of endpoints of a headless Service.
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// Pods that a Service selects, sorted by name.
pub fn select_pods<'a>(world: &'a WorldReader<'a>, object: &Object, service: &Service) -> Vec<PodRef<'a>> {
    let Some(selector) = &service.spec.selector else { return Vec::new() };
    let namespace = &object.meta().namespace;
    let matches =
        |pod: &&Object| selector.iter().all(|(name, value)| pod.meta().labels.get(name) == Some(value));
    let found: Vec<&Object> = match selector.iter().next() {
        Some((name, value)) => {
            let key = label_key(namespace, name, value);
            world.by_index(PODS_BY_LABEL, &key).filter(matches).collect()
        }
        None => Vec::new(),
    };
    found.into_iter().filter_map(|pod| Some((pod, pod.view()?))).collect()
}

/// Enqueues the Services that may select a pod.
pub fn enqueue_services(pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let meta = pod.meta();
    if !world.has_index_entries(SERVICES_BY_SELECTOR) {
        return;
    }
    for (name, value) in meta.labels.iter() {
        let key = label_key(&meta.namespace, name, value);
        let services: Vec<Key> =
            world.by_index(SERVICES_BY_SELECTOR, &key).map(|service| service.key().clone()).collect();
        services.into_iter().for_each(&mut *enqueue);
    }
}

/// `true` if a pod is an endpoint: it has an address and is not finished.
#[must_use]
pub fn is_endpoint((object, pod): &PodRef<'_>, includes_terminating: bool) -> bool {
    !pod.is_finished()
        && (!pod.status.pod_ip.is_empty() || !pod.status.pod_ips.is_empty())
        && (includes_terminating || !object.meta().is_deleted())
}

/// Numbers of a pod's named ports that are target ports, by name and protocol.
type NamedPorts = BTreeMap<(Box<str>, Box<str>), i64>;

/// Target ports of a Service on its pods. Most pods have equal ports; results are cached by ports.
pub struct TargetPorts<'s, T> {
    service: &'s Service,
    /// Names and protocols of the named target ports.
    named: BTreeSet<(&'s str, &'s str)>,
    results: BTreeMap<NamedPorts, T>,
}

impl<'s, T: Clone> TargetPorts<'s, T> {
    /// Target ports of a Service.
    #[must_use]
    pub fn of(service: &'s Service) -> TargetPorts<'s, T> {
        let named = service.spec.ports.iter().filter_map(|port| match port.target_port.as_ref()? {
            IntOrString::Text(name) => Some((name.as_str(), port.protocol.as_str())),
            IntOrString::Int(_) => None,
        });
        TargetPorts { service, named: named.collect(), results: BTreeMap::new() }
    }

    /// Result of `compute` for the ports of the Service with the port numbers of a pod; target ports that the
    /// pod does not have are omitted.
    pub fn resolve(&mut self, pod: &Pod, compute: impl FnOnce(&[(&'s ServicePort, i64)]) -> T) -> T {
        let named = self.named_ports(pod);
        if let Some(result) = self.results.get(&named) {
            return result.clone();
        }
        let ports = self.service.spec.ports.iter().filter_map(|port| match port.target_port.as_ref()? {
            IntOrString::Int(number) => Some((port, *number)),
            IntOrString::Text(name) => {
                Some((port, *named.get(&(name.as_str().into(), port.protocol.as_str().into()))?))
            }
        });
        let result = compute(&ports.collect::<Vec<_>>());
        self.results.insert(named, result.clone());
        result
    }

    /// Named target ports of a pod by name and protocol; the first of equal ones counts.
    fn named_ports(&self, pod: &Pod) -> NamedPorts {
        let mut ports = NamedPorts::new();
        if self.named.is_empty() {
            return ports;
        }
        let sidecars =
            pod.spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
        for port in pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports) {
            let (name, protocol) = (port.name.as_str(), port.protocol.as_str());
            if self.named.contains(&(name, protocol)) {
                ports.entry((name.into(), protocol.into())).or_insert(port.container_port);
            }
        }
        ports
    }
}

/// Hostname of a pod behind a Service, if the pod has a subdomain of that name.
#[must_use]
pub fn hostname<'a>(pod: &'a Pod, service: &Object) -> Option<&'a str> {
    let has = !pod.spec.hostname.is_empty() && *pod.spec.subdomain == *service.meta().name;
    has.then_some(pod.spec.hostname.as_str())
}

/// Time of the newest change that affects the endpoints: of the Service, or of the readiness of a pod.
#[must_use]
pub fn trigger_time(service: &Object, pods: &[PodRef<'_>]) -> Option<Time> {
    let readiness = pods.iter().filter_map(|(_, pod)| {
        let ready = setpoint_views::condition(&pod.status.conditions, "Ready")?;
        ready.last_transition_time
    });
    readiness.chain(service.meta().creation_timestamp).max()
}
