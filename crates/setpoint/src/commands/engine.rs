//! Construction of the engine from flags: selected controllers and the scheduler.

use anyhow::{Context, bail};
use setpoint_api::names::ip;
use setpoint_api::yaml;
use setpoint_controllers::api_service_availability::RemoteAvailability;
use setpoint_controllers::api_services::MetricsService;
use setpoint_controllers::authentication_trust::AuthenticationTrust;
use setpoint_controllers::certificate_expiry::CertificateExpiry;
use setpoint_controllers::lease_holder::LeaseHolder;
use setpoint_controllers::legacy_token_tracking::LegacyTokenTracking;
use setpoint_controllers::node_ipam::{Cidr, ClusterCidr, NodeIpam};
use setpoint_controllers::{Settings, crd, flow_control};
use setpoint_node::Fleet;
use setpoint_reconcile::{Controller, Engine};
use setpoint_scheduler::{Profile, Scheduler, config};
use setpoint_views::world_config;

use crate::clock::entropy;

/// Name of the Lease under which controllers run.
pub const LEASE: &str = "kube-controller-manager";

/// Name of the scheduler in `--controllers`.
pub const SCHEDULER: &str = "scheduler";

/// Set of controllers to run, as in `*,-replicaset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSelection {
    /// `true` if controllers that are not named run.
    selects_rest: bool,
    /// Names, with `false` for disabled ones.
    named: Vec<(String, bool)>,
}

/// Parses `--controllers`: names of controllers, `-NAME` to disable one, `*` for all that are not named.
pub fn parse_controllers(text: &str) -> anyhow::Result<ControllerSelection> {
    let mut selection = ControllerSelection { selects_rest: false, named: Vec::new() };
    let mut known: Vec<&str> =
        setpoint_controllers::all(&full_settings()).iter().map(|controller| controller.name()).collect();
    known.push(SCHEDULER);
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if word == "*" {
            selection.selects_rest = true;
            continue;
        }
        let (name, is_enabled) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
        if !known.iter().any(|known| is_name_of(known, name)) {
            bail!("{name:?} is not in the list of known controllers: {}", known.join(", "));
        }
        selection.named.push((name.to_owned(), is_enabled));
    }
    Ok(selection)
}

impl ControllerSelection {
    /// `true` if nodes get pod CIDRs.
    pub fn assigns_pod_cidrs(&self) -> bool {
        self.selects(NodeIpam::NAME)
    }

    /// `true` if the controller of this name is selected; `None` if `--controllers` does not apply to it, as
    /// to those of nodes.
    pub fn is_selected(&self, controller: &str) -> Option<bool> {
        let all = setpoint_controllers::all(&full_settings());
        let is_known = controller == SCHEDULER || all.iter().any(|known| known.name() == controller);
        is_known.then(|| self.selects(controller))
    }

    fn selects(&self, controller: &str) -> bool {
        let named = self.named.iter().find(|(name, _)| is_name_of(controller, name));
        named.map_or(self.selects_rest, |(_, is_enabled)| *is_enabled)
    }

    /// Returns the engine with the selected controllers, for a process that takes part in leader election.
    pub fn engine(&self, settings: &Settings) -> Engine {
        Engine::new(self.controllers(settings), world_config(setpoint_controllers::indexes::all()))
    }

    /// Returns the engine with the selected controllers, the scheduler, the simulated nodes, and the tasks of
    /// every server. It holds the Leases without an election because it has the store. If no controller is
    /// selected, another process can lead.
    pub fn server_engine(
        &self,
        settings: &Settings,
        nodes: Fleet,
        profiles: Option<&SchedulerConfig>,
    ) -> Engine {
        let mut controllers = self.controllers(settings);
        let lease_holder =
            |lease| -> Box<dyn Controller> { Box::new(LeaseHolder { lease, identity: identity() }) };
        if !controllers.is_empty() {
            controllers.push(lease_holder(LEASE));
        }
        if self.selects(SCHEDULER) {
            controllers.push(Box::new(scheduler(profiles)));
            controllers.push(lease_holder(setpoint_scheduler::planner::LEASE));
        }
        let mut server_controllers = flow_control::server_controllers();
        server_controllers.extend(crd::server_controllers());
        server_controllers.push(Box::new(MetricsService { has_nodes: nodes.count > 0 }));
        server_controllers.push(Box::new(RemoteAvailability));
        server_controllers.push(Box::new(AuthenticationTrust));
        server_controllers.push(Box::new(LegacyTokenTracking));
        server_controllers.push(Box::new(CertificateExpiry));
        if nodes.count > 0 {
            controllers.extend(setpoint_node::planners(nodes));
        }
        if controllers.is_empty() {
            return Engine::new(server_controllers, world_config(crd::indexes()))
                .with_watched_resources_only();
        }
        let indexes = setpoint_controllers::indexes::all().into_iter().chain(setpoint_node::indexes());
        Engine::new(controllers.into_iter().chain(server_controllers).collect(), world_config(indexes))
    }

    /// Components that run in a serving process with this selection.
    pub fn components(&self, settings: &Settings) -> Vec<&'static str> {
        let mut components = vec!["kube-apiserver"];
        if !self.controllers(settings).is_empty() {
            components.push(LEASE);
        }
        if self.selects(SCHEDULER) {
            components.push(setpoint_scheduler::planner::LEASE);
        }
        components
    }

    /// First log lines of each component in a serving process.
    pub fn start_lines(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        let leads = |lease| (lease, format!("became leader, holding lease kube-system/{lease}"));
        let names: Vec<&str> =
            self.controllers(settings).iter().map(|controller| controller.name()).collect();
        let mut start_lines = Vec::new();
        if !names.is_empty() {
            start_lines.push(leads(LEASE));
            start_lines.push((LEASE, format!("started {} controllers: {}", names.len(), names.join(", "))));
        }
        if self.selects(SCHEDULER) {
            start_lines.push(leads(setpoint_scheduler::planner::LEASE));
        }
        start_lines
    }

    fn controllers(&self, settings: &Settings) -> Vec<Box<dyn Controller>> {
        let all = setpoint_controllers::all(settings).into_iter();
        all.filter(|controller| self.selects(controller.name())).collect()
    }
}

/// Profiles of a KubeSchedulerConfiguration.
#[derive(Clone, Debug)]
pub struct SchedulerConfig(Vec<Profile>);

/// Reads a KubeSchedulerConfiguration, in YAML or JSON.
pub fn read_scheduler_config(path: &str) -> anyhow::Result<SchedulerConfig> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {path}"))?;
    Ok(SchedulerConfig(config::read(&yaml::parse_strict(&text)?.0)?))
}

fn scheduler(config: Option<&SchedulerConfig>) -> Scheduler {
    config.map_or_else(Scheduler::default, |config| Scheduler::new(config.0.clone()))
}

/// Returns the engine with only the scheduler.
pub fn scheduler_engine(config: Option<&SchedulerConfig>) -> Engine {
    Engine::new(vec![Box::new(scheduler(config))], world_config([]))
}

/// Network flags of the controllers, with kube-controller-manager's names.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    /// CIDR range for pods
    #[arg(long, value_name = "CIDR", default_value = DEFAULT_CLUSTER_CIDR, value_parser = parse_cidr)]
    cluster_cidr: Cidr,
    /// Prefix length of the pod CIDR of each node
    #[arg(long, value_name = "BITS", default_value_t = 24)]
    node_cidr_mask_size: u32,
}

/// Default CIDR range for pods: enough for 32,768 nodes.
const DEFAULT_CLUSTER_CIDR: &str = "10.128.0.0/9";

impl NetworkArgs {
    /// Returns the settings of the controllers. `root_ca` is the certificate that pods trust.
    pub fn settings(&self, root_ca: String, service_cidrs: Vec<Cidr>) -> anyhow::Result<Settings> {
        let cluster_cidrs = vec![self.pod_range()?];
        Ok(Settings { root_ca, cluster_cidrs, service_cidrs, ..Settings::default() })
    }

    /// Rejects a range that cannot be split by the prefix length, or that overlaps with a Service range,
    /// because an address would be ambiguous.
    pub fn check<'a>(&self, services: impl IntoIterator<Item = &'a ip::Cidr>) -> anyhow::Result<()> {
        self.pod_range()?;
        let pods = self.cluster_cidr;
        for services in services {
            if pods.overlaps(services.to_string().parse()?) {
                bail!(
                    "pod CIDR {pods} overlaps with Service CIDR {services}: choose another --cluster-cidr, or for a new \
                     cluster another --service-cluster-ip-range"
                );
            }
        }
        Ok(())
    }

    fn pod_range(&self) -> anyhow::Result<ClusterCidr> {
        Ok(ClusterCidr::new(self.cluster_cidr, self.node_cidr_mask_size)?)
    }
}

fn parse_cidr(text: &str) -> anyhow::Result<Cidr> {
    Ok(text.parse()?)
}

/// Settings with which every controller runs, used to list their names.
fn full_settings() -> Settings {
    let range = DEFAULT_CLUSTER_CIDR.parse::<Cidr>().and_then(|all| ClusterCidr::new(all, 24));
    let cluster_cidrs = range.into_iter().collect();
    Settings { root_ca: "any".to_owned(), cluster_cidrs, signs_tokens: true, ..Settings::default() }
}

/// Identity of this process in leader election, as `host_id`.
pub fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:016x}", host.trim(), entropy())
}

/// `true` if `name` is the name of a controller, or that name without its last word.
fn is_name_of(controller: &str, name: &str) -> bool {
    controller == name || controller.strip_suffix("-controller") == Some(name)
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Resource, Time};
    use setpoint_reconcile::Seed;

    use super::*;

    #[test]
    fn controllers_are_selected_by_name() {
        let all = parse_controllers("*").unwrap();
        assert!(all.selects("replicaset-controller"));
        for off in ["*,-replicaset", "*,-replicaset-controller", ""] {
            assert!(!parse_controllers(off).unwrap().selects("replicaset-controller"), "{off}");
        }
        let one = parse_controllers("replicaset").unwrap();
        assert!(one.selects("replicaset-controller") && !one.selects("deployment-controller"));
        assert!(all.selects("scheduler") && !parse_controllers("*,-scheduler").unwrap().selects("scheduler"));
        assert!(
            parse_controllers("*,-replicasets").unwrap_err().to_string().contains("replicaset-controller")
        );
    }

    #[test]
    fn metrics_service_is_reconciled_with_any_selection_of_controllers() {
        for controllers in ["", "scheduler", "replicaset", "*"] {
            for count in [0, 1] {
                let fleet = Fleet { count, ..Fleet::default() };
                let engine =
                    parse_controllers(controllers).unwrap().server_engine(&full_settings(), fleet, None);
                assert!(engine.stats().any(|(name, ..)| name == "autoregister"), "{controllers:?}");
                for watched in ["nodes", "apiservices.apiregistration.k8s.io"] {
                    assert!(engine.follows(&Resource::new(watched).unwrap()), "{controllers:?} {watched}");
                }
                // Nodes in the server's own process do not delay its readiness.
                let gaps = engine.gaps(Time::EPOCH, Seed(1));
                let is_wanted = gaps.iter().any(|(_, key, _)| key.name() == "v1beta1.metrics.k8s.io");
                assert_eq!(is_wanted, count > 0, "{controllers:?}");
            }
        }
    }
}
