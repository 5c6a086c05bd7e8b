//! Construction of the loop: chosen controllers and the scheduler.

use anyhow::{Context, bail};
use setpoint_api::names::ip;
use setpoint_api::yaml;
use setpoint_controllers::api_services::MetricsService;
use setpoint_controllers::lease_holder::LeaseHolder;
use setpoint_controllers::node_ipam::{Cidr, ClusterCidr, NodeIpam};
use setpoint_controllers::{Settings, flow_control};
use setpoint_node::Fleet;
use setpoint_reconcile::{Controller, Engine};
use setpoint_scheduler::{Profile, Scheduler, config};

use crate::clock::entropy;

/// Name of the Lease under which controllers run.
pub const LEASE: &str = "kube-controller-manager";

/// Name of the scheduler in `--controllers`.
pub const SCHEDULER: &str = "scheduler";

/// Set of controllers to run, as in `*,-replicaset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    rest: bool,
    named: Vec<(String, bool)>,
}

/// Parses `--controllers`: names of controllers, `-NAME` to disable one, `*` for all that are not named.
pub fn choice(text: &str) -> anyhow::Result<Choice> {
    let mut choice = Choice { rest: false, named: Vec::new() };
    let mut known: Vec<&str> =
        setpoint_controllers::all(&everything()).iter().map(|controller| controller.name()).collect();
    known.push(SCHEDULER);
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if word == "*" {
            choice.rest = true;
            continue;
        }
        let (name, on) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
        if !known.iter().any(|known| is(known, name)) {
            bail!("there is no controller {name:?}: there are {}", known.join(", "));
        }
        choice.named.push((name.to_owned(), on));
    }
    Ok(choice)
}

impl Choice {
    /// `true` if nodes get pod CIDRs.
    pub fn gives_addresses(&self) -> bool {
        self.takes(NodeIpam::NAME)
    }

    /// Returns whether a controller of this name runs; `None` if `--controllers` does not apply to it, as to
    /// those of nodes.
    pub fn decides(&self, controller: &str) -> Option<bool> {
        let all = setpoint_controllers::all(&everything());
        let is_known = controller == SCHEDULER || all.iter().any(|known| known.name() == controller);
        is_known.then(|| self.takes(controller))
    }

    fn takes(&self, controller: &str) -> bool {
        let named = self.named.iter().find(|(name, _)| is(controller, name));
        named.map_or(self.rest, |(_, on)| *on)
    }

    /// Returns the loop with the chosen controllers, which takes part in leader election.
    pub fn engine(&self, settings: &Settings) -> Engine {
        Engine::new(self.controllers(settings), setpoint_controllers::indexes::all())
    }

    /// Returns the loop with the chosen controllers, the scheduler, the simulated nodes, and the tasks of
    /// every server. It leads because it has the store. If no controller is chosen, another process can
    /// lead.
    pub fn engine_of_store(
        &self,
        settings: &Settings,
        nodes: Fleet,
        profiles: Option<&SchedulerConfig>,
    ) -> Engine {
        let mut chosen = self.controllers(settings);
        let lead = |lease| -> Box<dyn Controller> { Box::new(LeaseHolder { lease, identity: identity() }) };
        if !chosen.is_empty() {
            chosen.push(lead(LEASE));
        }
        if self.takes(SCHEDULER) {
            chosen.push(Box::new(scheduler(profiles)));
            chosen.push(lead(setpoint_scheduler::planner::LEASE));
        }
        let mut own = flow_control::server_controllers();
        own.push(Box::new(MetricsService { has_nodes: nodes.count > 0 }));
        if nodes.count > 0 {
            chosen.extend(setpoint_node::planners(nodes));
        }
        if chosen.is_empty() {
            return Engine::new(own, []).narrow();
        }
        let indexes = setpoint_controllers::indexes::all().into_iter().chain(setpoint_node::indexes());
        Engine::new(chosen.into_iter().chain(own).collect(), indexes)
    }

    /// Components that run in a serving process with this choice.
    pub fn components(&self, settings: &Settings) -> Vec<&'static str> {
        let mut components = vec!["kube-apiserver"];
        if !self.controllers(settings).is_empty() {
            components.push(LEASE);
        }
        if self.takes(SCHEDULER) {
            components.push(setpoint_scheduler::planner::LEASE);
        }
        components
    }

    /// First log lines of each component in a serving process.
    pub fn start_lines(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        let leads = |lease| (lease, format!("became the leader: holds the lease kube-system/{lease}"));
        let names: Vec<&str> =
            self.controllers(settings).iter().map(|controller| controller.name()).collect();
        let mut start_lines = Vec::new();
        if !names.is_empty() {
            start_lines.push(leads(LEASE));
            start_lines.push((LEASE, format!("started {} controllers: {}", names.len(), names.join(", "))));
        }
        if self.takes(SCHEDULER) {
            start_lines.push(leads(setpoint_scheduler::planner::LEASE));
        }
        start_lines
    }

    fn controllers(&self, settings: &Settings) -> Vec<Box<dyn Controller>> {
        let all = setpoint_controllers::all(settings).into_iter();
        all.filter(|controller| self.takes(controller.name())).collect()
    }
}

/// Profiles of a KubeSchedulerConfiguration.
#[derive(Clone, Debug)]
pub struct SchedulerConfig(Vec<Profile>);

/// Reads a KubeSchedulerConfiguration, in YAML or JSON.
pub fn scheduler_config(path: &str) -> anyhow::Result<SchedulerConfig> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {path}"))?;
    Ok(SchedulerConfig(config::read(&yaml::parse_strict(&text)?.0)?))
}

fn scheduler(config: Option<&SchedulerConfig>) -> Scheduler {
    config.map_or_else(Scheduler::default, |config| Scheduler::new(config.0.clone()))
}

/// Returns the loop with only the scheduler.
pub fn scheduler_alone(config: Option<&SchedulerConfig>) -> Engine {
    Engine::new(vec![Box::new(scheduler(config))], [])
}

/// Network flags of the controllers, with kube-controller-manager's names.
#[derive(Debug, clap::Args)]
pub struct NetworkArguments {
    /// CIDR range for pods
    #[arg(long, value_name = "CIDR", default_value = POD_NETWORK, value_parser = cidr)]
    cluster_cidr: Cidr,
    /// Prefix length of the pod CIDR of each node
    #[arg(long, value_name = "BITS", default_value_t = 24)]
    node_cidr_mask_size: u32,
}

/// Default CIDR range for pods: enough for 32,768 nodes.
const POD_NETWORK: &str = "10.128.0.0/9";

impl NetworkArguments {
    /// Returns the settings of the controllers. `root_ca` is the certificate that pods trust.
    pub fn settings(&self, root_ca: String, service_cidrs: Vec<Cidr>) -> anyhow::Result<Settings> {
        let cluster_cidrs = vec![self.range()?];
        Ok(Settings { root_ca, cluster_cidrs, service_cidrs, ..Settings::default() })
    }

    /// Rejects a range that cannot be split by the prefix length, or that overlaps with a Service range,
    /// because an address would be ambiguous.
    pub fn check<'a>(&self, services: impl IntoIterator<Item = &'a ip::Cidr>) -> anyhow::Result<()> {
        self.range()?;
        let pods = self.cluster_cidr;
        for services in services {
            if pods.overlaps(services.to_string().parse()?) {
                bail!(
                    "the addresses of pods, {pods}, and those of Services, {services}, overlap: choose another \
                     --cluster-cidr, or for a new cluster another --service-cluster-ip-range"
                );
            }
        }
        Ok(())
    }

    fn range(&self) -> anyhow::Result<ClusterCidr> {
        Ok(ClusterCidr::new(self.cluster_cidr, self.node_cidr_mask_size)?)
    }
}

fn cidr(text: &str) -> anyhow::Result<Cidr> {
    Ok(text.parse()?)
}

/// Settings with which every controller runs, to list their names.
fn everything() -> Settings {
    let range = POD_NETWORK.parse::<Cidr>().and_then(|all| ClusterCidr::new(all, 24));
    let cluster_cidrs = range.into_iter().collect();
    Settings { root_ca: "any".to_owned(), cluster_cidrs, ..Settings::default() }
}

/// Identity of this process in leader election, as `host_id`.
pub fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:016x}", host.trim(), entropy())
}

/// `true` if `name` is the name of a controller, or that name without its last word.
fn is(controller: &str, name: &str) -> bool {
    controller == name || controller.strip_suffix("-controller") == Some(name)
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Resource, Time};
    use setpoint_reconcile::Seed;

    use super::*;

    #[test]
    fn controllers_are_selected_by_name() {
        let all = choice("*").unwrap();
        assert!(all.takes("replicaset-controller"));
        for off in ["*,-replicaset", "*,-replicaset-controller", ""] {
            assert!(!choice(off).unwrap().takes("replicaset-controller"), "{off}");
        }
        let one = choice("replicaset").unwrap();
        assert!(one.takes("replicaset-controller") && !one.takes("deployment-controller"));
        assert!(all.takes("scheduler") && !choice("*,-scheduler").unwrap().takes("scheduler"));
        assert!(choice("*,-replicasets").unwrap_err().to_string().contains("replicaset-controller"));
    }

    #[test]
    fn metrics_service_is_reconciled_with_any_choice_of_controllers() {
        for chosen in ["", "scheduler", "replicaset", "*"] {
            for count in [0, 1] {
                let fleet = Fleet { count, ..Fleet::default() };
                let engine = choice(chosen).unwrap().engine_of_store(&everything(), fleet, None);
                assert!(engine.stats().any(|(name, ..)| name == "autoregister"), "{chosen:?}");
                for watched in ["nodes", "apiservices.apiregistration.k8s.io"] {
                    assert!(engine.follows(&Resource::new(watched).unwrap()), "{chosen:?} {watched}");
                }
                // Nodes in the server's own process do not delay its readiness.
                let gaps = engine.gaps(Time::EPOCH, Seed(1));
                let is_wanted = gaps.iter().any(|(_, key, _)| key.name() == "v1beta1.metrics.k8s.io");
                assert_eq!(is_wanted, count > 0, "{chosen:?}");
            }
        }
    }
}
