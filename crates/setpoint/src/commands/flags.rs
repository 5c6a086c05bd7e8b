//! Timeouts and rates of controllers and leader election, with upstream's flag names.

use std::time::Duration;

use anyhow::bail;
use setpoint_controllers::node_lifecycle::NodeMonitorSettings;
use setpoint_controllers::node_lifecycle::zones::EvictionRate;
use setpoint_controllers::{Settings, pod_gc};
use setpoint_reconcile::election::LeaderElectionConfig;
use setpoint_server::pipeline::admission::tolerations::Tolerations;

use super::fleet::parse_duration;

/// Flags of the controllers.
#[derive(Debug, clap::Args)]
pub struct ControllerArgs {
    /// Time without a heartbeat after which a node is not ready
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = parse_positive_duration)]
    node_monitor_grace_period: Duration,
    /// Time without a heartbeat after which a new node is not ready
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_positive_duration)]
    node_startup_grace_period: Duration,
    /// Interval at which nodes that are not ready are checked
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_positive_duration)]
    node_monitor_period: Duration,
    /// Number of nodes per second from which pods are evicted when nodes fail in a healthy zone (0 evicts none)
    #[arg(long, value_name = "RATE", default_value_t = 0.1, value_parser = parse_rate)]
    node_eviction_rate: f64,
    /// Number of nodes per second from which pods are evicted in a large unhealthy zone (0 evicts none)
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = parse_rate)]
    secondary_node_eviction_rate: f64,
    /// Fraction of nodes that must not be ready for a zone to be treated as unhealthy (minimum 3 nodes)
    #[arg(long, value_name = "FRACTION", default_value_t = 0.55, value_parser = parse_fraction)]
    unhealthy_zone_threshold: f64,
    /// Maximum number of nodes in a small zone; no pods are evicted in a small unhealthy zone
    #[arg(long, value_name = "N", default_value_t = 50)]
    large_cluster_size_threshold: u32,
    /// Maximum number of terminated pods to keep (0 keeps all)
    #[arg(long, value_name = "N", default_value_t = pod_gc::TERMINATED_THRESHOLD as u32)]
    terminated_pod_gc_threshold: u32,
}

impl ControllerArgs {
    /// Returns the settings with these flags applied.
    pub fn apply_to(&self, settings: Settings) -> Settings {
        let eviction_rate = EvictionRate {
            interval: interval(self.node_eviction_rate),
            interval_disrupted: interval(self.secondary_node_eviction_rate),
            large_zone: self.large_cluster_size_threshold as usize,
            unhealthy_share: self.unhealthy_zone_threshold,
        };
        let node_monitor = NodeMonitorSettings {
            monitor_grace: self.node_monitor_grace_period,
            startup_grace: self.node_startup_grace_period,
            monitor_period: self.node_monitor_period,
            eviction_rate,
        };
        let terminated_pod_gc_threshold = self.terminated_pod_gc_threshold as usize;
        Settings { node_monitor, terminated_pod_gc_threshold, ..settings }
    }

    /// Rejects a grace period that is shorter than the interval at which Leases are renewed.
    pub fn validate(&self, renewal: Duration) -> anyhow::Result<()> {
        let grace = self.node_monitor_grace_period;
        if grace <= renewal {
            bail!(
                "--node-monitor-grace-period {grace:?} must be longer than {renewal:?}, the interval at which simulated \
                 nodes renew their Leases (a quarter of --node-lease-duration)"
            );
        }
        Ok(())
    }
}

/// Default tolerations of the server.
#[derive(Debug, clap::Args)]
pub struct TolerationArgs {
    /// Default seconds that pods tolerate a node that is not ready
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(i64).range(0..))]
    default_not_ready_toleration_seconds: i64,
    /// Default seconds that pods tolerate an unreachable node
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(i64).range(0..))]
    default_unreachable_toleration_seconds: i64,
}

impl TolerationArgs {
    /// Returns the default tolerations.
    pub fn tolerations(&self) -> Tolerations {
        Tolerations {
            not_ready: self.default_not_ready_toleration_seconds,
            unreachable: self.default_unreachable_toleration_seconds,
        }
    }
}

/// Flags of leader election.
#[derive(Debug, clap::Args)]
pub struct LeaderElectionArgs {
    /// Time after the last observed renewal at which candidates acquire the Lease of a leader
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_positive_duration)]
    leader_elect_lease_duration: Duration,
    /// Time that a leader keeps acting while it fails to renew its Lease
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_positive_duration)]
    leader_elect_renew_deadline: Duration,
    /// Interval at which a candidate checks the Lease and a leader renews it
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_positive_duration)]
    leader_elect_retry_period: Duration,
}

impl LeaderElectionArgs {
    /// Returns the validated timing of leader election.
    pub fn timing(&self) -> anyhow::Result<LeaderElectionConfig> {
        let timing = LeaderElectionConfig {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        // The API has whole seconds for the duration of a Lease.
        if timing.lease_duration.subsec_nanos() != 0 {
            bail!("--leader-elect-lease-duration {:?} must be whole seconds", timing.lease_duration);
        }
        if timing.renew_deadline >= timing.lease_duration {
            bail!("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline");
        }
        // Leaves room for one failed attempt.
        if timing.renew_deadline <= timing.retry_period.mul_f64(1.2) {
            bail!("--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period");
        }
        Ok(timing)
    }
}

/// Interval of a rate; `None` for zero.
fn interval(rate: f64) -> Option<Duration> {
    (rate > 0.0).then(|| Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX))
}

fn parse_positive_duration(text: &str) -> anyhow::Result<Duration> {
    match parse_duration(text)? {
        Duration::ZERO => bail!("must be greater than 0"),
        duration => Ok(duration),
    }
}

fn parse_rate(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(rate) if f64::is_finite(rate) && rate >= 0.0 => Ok(rate),
        _ => bail!("{text:?} is not a rate in nodes per second, such as 0.1"),
    }
}

fn parse_fraction(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => bail!("{text:?} is not a fraction between 0 and 1"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        controllers: ControllerArgs,
        #[command(flatten)]
        tolerations: TolerationArgs,
        #[command(flatten)]
        election: LeaderElectionArgs,
    }

    fn parse(args: &[&str]) -> Result<Flags, clap::Error> {
        Flags::try_parse_from([&["setpoint"], args].concat())
    }

    #[test]
    fn default_flags_equal_the_library_defaults() {
        let flags = parse(&[]).unwrap();
        let settings = flags.controllers.apply_to(Settings::default());
        assert_eq!(settings.node_monitor, NodeMonitorSettings::default());
        assert_eq!(settings.terminated_pod_gc_threshold, Settings::default().terminated_pod_gc_threshold);
        assert_eq!(flags.tolerations.tolerations(), Tolerations::default());
        assert_eq!(flags.election.timing().unwrap(), LeaderElectionConfig::default());
    }

    #[test]
    fn flags_are_applied_to_the_settings() {
        let flags = parse(&[
            "--node-monitor-grace-period=4s",
            "--node-eviction-rate=0.5",
            "--secondary-node-eviction-rate=0",
            "--terminated-pod-gc-threshold=7",
            "--default-unreachable-toleration-seconds=3",
            "--leader-elect-retry-period=1s",
        ]);
        let flags = flags.unwrap();
        let settings = flags.controllers.apply_to(Settings::default());
        let NodeMonitorSettings { monitor_grace, eviction_rate, .. } = settings.node_monitor;
        assert_eq!((monitor_grace.as_secs(), settings.terminated_pod_gc_threshold), (4, 7));
        assert_eq!(
            (eviction_rate.interval, eviction_rate.interval_disrupted),
            (Some(Duration::from_secs(2)), None)
        );
        assert_eq!(flags.tolerations.tolerations(), Tolerations { not_ready: 300, unreachable: 3 });
        assert_eq!(flags.election.timing().unwrap().retry_period.as_secs(), 1);
        assert!(flags.controllers.validate(Duration::from_secs(3)).is_ok());
        let error = flags.controllers.validate(Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.starts_with("--node-monitor-grace-period 4s must be longer than 10s"), "{error}");
    }

    #[test]
    fn invalid_flags_are_rejected() {
        for flag in [
            "--node-monitor-period=0",
            "--node-monitor-grace-period=soon",
            "--node-eviction-rate=-1",
            "--unhealthy-zone-threshold=1.5",
            "--default-not-ready-toleration-seconds=-3",
            "--terminated-pod-gc-threshold=x",
        ] {
            let error = parse(&[flag]).unwrap_err().to_string();
            assert!(error.contains(flag.split('=').next().unwrap()), "{error}");
        }
        for flags in [
            &["--leader-elect-lease-duration=10s"][..],
            &["--leader-elect-lease-duration=15500ms"],
            &["--leader-elect-retry-period=9s"],
        ] {
            assert!(parse(flags).unwrap().election.timing().is_err(), "{flags:?}");
        }
    }
}
