//! Host ports of pods, and the conflicts between them.

use std::collections::BTreeMap;

use setpoint_views::pod::Pod;

/// Host IP that stands for every address of a node.
const ANY_IP: &str = "0.0.0.0";

/// Host port of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    number: i64,
    protocol: Box<str>,
    /// `hostIP`; `0.0.0.0` if it is not set.
    ip: Box<str>,
}

/// Returns the host ports of a pod, those of its containers and sidecars.
#[must_use]
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let sidecars = pod.spec.init_containers.iter().filter(|one| one.restart_policy == "Always");
    let containers = pod.spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| &container.ports).filter(|port| port.host_port > 0);
    let ports = ports.map(|port| HostPort {
        number: port.host_port,
        protocol: if port.protocol.is_empty() { "TCP".into() } else { port.protocol.as_str().into() },
        ip: if port.host_ip.is_empty() { ANY_IP.into() } else { port.host_ip.as_str().into() },
    });
    ports.collect()
}

impl HostPort {
    fn has_conflict(&self, other: &HostPort) -> bool {
        let is_any = |ip: &str| ip == ANY_IP;
        self.number == other.number
            && self.protocol == other.protocol
            && (self.ip == other.ip || is_any(&self.ip) || is_any(&other.ip))
    }
}

/// Multiset of host ports: those of a pod, or of all pods on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPorts(BTreeMap<HostPort, u32>);

impl FromIterator<HostPort> for HostPorts {
    fn from_iter<I: IntoIterator<Item = HostPort>>(ports: I) -> HostPorts {
        let mut set = HostPorts::default();
        ports.into_iter().for_each(|port| *set.0.entry(port).or_insert(0) += 1);
        set
    }
}

impl HostPorts {
    /// Number of distinct ports.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds the ports of a pod.
    pub fn add(&mut self, ports: &HostPorts) {
        for (port, times) in &ports.0 {
            match self.0.get_mut(port) {
                Some(count) => *count += times,
                None => {
                    self.0.insert(port.clone(), *times);
                }
            }
        }
    }

    /// Removes the ports of a pod.
    pub fn remove(&mut self, ports: &HostPorts) {
        for (port, times) in &ports.0 {
            if let Some(count) = self.0.get_mut(port) {
                *count = count.saturating_sub(*times);
                if *count == 0 {
                    self.0.remove(port);
                }
            }
        }
    }

    /// `true` if a port of one set conflicts with a port of the other. Searches the larger set for each port of the
    /// smaller one.
    #[must_use]
    pub fn has_conflict(&self, other: &HostPorts) -> bool {
        let (few, many) = if self.count() < other.count() { (self, other) } else { (other, self) };
        few.0.keys().any(|port| many.has_conflict_with(port))
    }

    fn has_conflict_with(&self, port: &HostPort) -> bool {
        let with_ip = |ip: &str| HostPort { ip: ip.into(), ..port.clone() };
        if &*port.ip == ANY_IP {
            return self.0.range(with_ip("")..).next().is_some_and(|(other, _)| other.has_conflict(port));
        }
        self.0.contains_key(port) || self.0.contains_key(&with_ip(ANY_IP))
    }
}
