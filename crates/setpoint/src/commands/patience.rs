//! How long is waited for what, under the names that upstream gives it.

use std::time::Duration;

use anyhow::bail;
use setpoint_controllers::node_lifecycle::Patience;
use setpoint_controllers::node_lifecycle::zones::Pace;
use setpoint_controllers::{Settings, pod_gc};
use setpoint_reconcile::election::Timing;
use setpoint_server::pipeline::admission::tolerations::Tolerations;

use super::fleet::duration;

/// What controllers are told.
#[derive(Debug, clap::Args)]
pub struct ControllerArguments {
    /// How long a node may be silent before it counts as not ready
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = positive)]
    node_monitor_grace_period: Duration,
    /// How long a new node may take to say anything
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = positive)]
    node_startup_grace_period: Duration,
    /// How often a node is looked at that is not ready
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = positive)]
    node_monitor_period: Duration,
    /// How many nodes of a healthy zone lose their pods in a second, when nodes fail
    #[arg(long, value_name = "RATE", default_value_t = 0.1, value_parser = rate)]
    node_eviction_rate: f64,
    /// How many nodes of a large zone that is not healthy lose their pods in a second
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = rate)]
    secondary_node_eviction_rate: f64,
    /// The share of nodes that are not ready from which a zone is not healthy; three are the least
    #[arg(long, value_name = "SHARE", default_value_t = 0.55, value_parser = share)]
    unhealthy_zone_threshold: f64,
    /// The most nodes of a zone that is not large; in one that is not healthy no node loses its pods
    #[arg(long, value_name = "N", default_value_t = 50)]
    large_cluster_size_threshold: u32,
    /// How many pods that ended are kept; all if it is 0
    #[arg(long, value_name = "N", default_value_t = pod_gc::ENDED_MAX as u32)]
    terminated_pod_gc_threshold: u32,
}

impl ControllerArguments {
    /// Settings with what is said here.
    pub fn complete(&self, settings: Settings) -> Settings {
        let pace = Pace {
            interval: interval(self.node_eviction_rate),
            interval_disrupted: interval(self.secondary_node_eviction_rate),
            large_zone: self.large_cluster_size_threshold as usize,
            unhealthy_share: self.unhealthy_zone_threshold,
        };
        let patience = Patience {
            monitor_grace: self.node_monitor_grace_period,
            startup_grace: self.node_startup_grace_period,
            monitor_period: self.node_monitor_period,
            pace,
        };
        let ended_pods_max = self.terminated_pod_gc_threshold as usize;
        Settings { patience, ended_pods_max, ..settings }
    }

    /// Refuses to give up nodes that renew their Leases, but not that often.
    pub fn check(&self, renewal: Duration) -> anyhow::Result<()> {
        let grace = self.node_monitor_grace_period;
        if grace <= renewal {
            bail!(
                "--node-monitor-grace-period {grace:?} must be longer than the {renewal:?} in which simulated nodes renew \
                 their Leases: that is a quarter of --node-lease-duration"
            );
        }
        Ok(())
    }
}

/// What the server is told.
#[derive(Debug, clap::Args)]
pub struct TolerationArguments {
    /// How many seconds pods stay on a node that is not ready, unless they say
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(i64).range(0..))]
    default_not_ready_toleration_seconds: i64,
    /// How many seconds pods stay on a node that nobody reaches, unless they say
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(i64).range(0..))]
    default_unreachable_toleration_seconds: i64,
}

impl TolerationArguments {
    /// For how long pods stay.
    pub fn tolerations(&self) -> Tolerations {
        Tolerations {
            not_ready: self.default_not_ready_toleration_seconds,
            unreachable: self.default_unreachable_toleration_seconds,
        }
    }
}

/// What a candidate for the leadership is told.
#[derive(Debug, clap::Args)]
pub struct ElectionArguments {
    /// For how long others wait for a leader that is silent
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = positive)]
    leader_elect_lease_duration: Duration,
    /// How long a leader acts that cannot renew its Lease
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive)]
    leader_elect_renew_deadline: Duration,
    /// How often a candidate looks, and a leader renews
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = positive)]
    leader_elect_retry_period: Duration,
}

impl ElectionArguments {
    /// How it counts the time.
    pub fn timing(&self) -> anyhow::Result<Timing> {
        let timing = Timing {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        // A Lease is given out in whole seconds.
        if timing.lease_duration.subsec_nanos() != 0 {
            bail!("--leader-elect-lease-duration {:?} must be whole seconds", timing.lease_duration);
        }
        if timing.renew_deadline >= timing.lease_duration {
            bail!("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline");
        }
        // Some room, so that one attempt that fails is not the end.
        if timing.renew_deadline <= timing.retry_period.mul_f64(1.2) {
            bail!("--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period");
        }
        Ok(timing)
    }
}

/// How long it takes from one to the next; nothing if there is no next.
fn interval(rate: f64) -> Option<Duration> {
    (rate > 0.0).then(|| Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX))
}

fn positive(text: &str) -> anyhow::Result<Duration> {
    match duration(text)? {
        Duration::ZERO => bail!("it must be longer than nothing"),
        span => Ok(span),
    }
}

fn rate(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(rate) if f64::is_finite(rate) && rate >= 0.0 => Ok(rate),
        _ => bail!("{text:?} is no number of nodes in a second such as 0.1"),
    }
}

fn share(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => bail!("{text:?} is no share from 0 to 1"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct All {
        #[command(flatten)]
        controllers: ControllerArguments,
        #[command(flatten)]
        tolerations: TolerationArguments,
        #[command(flatten)]
        election: ElectionArguments,
    }

    fn parse(flags: &[&str]) -> Result<All, clap::Error> {
        All::try_parse_from([&["setpoint"], flags].concat())
    }

    #[test]
    fn what_nobody_says_is_as_the_parts_themselves_have_it() {
        let all = parse(&[]).unwrap();
        let settings = all.controllers.complete(Settings::default());
        assert_eq!(settings.patience, Patience::default());
        assert_eq!(settings.ended_pods_max, Settings::default().ended_pods_max);
        assert_eq!(all.tolerations.tolerations(), Tolerations::default());
        assert_eq!(all.election.timing().unwrap(), Timing::default());
    }

    #[test]
    fn what_is_said_reaches_whom_it_concerns() {
        let all = parse(&[
            "--node-monitor-grace-period=4s",
            "--node-eviction-rate=0.5",
            "--secondary-node-eviction-rate=0",
            "--terminated-pod-gc-threshold=7",
            "--default-unreachable-toleration-seconds=3",
            "--leader-elect-retry-period=1s",
        ]);
        let all = all.unwrap();
        let settings = all.controllers.complete(Settings::default());
        let Patience { monitor_grace, pace, .. } = settings.patience;
        assert_eq!((monitor_grace.as_secs(), settings.ended_pods_max), (4, 7));
        assert_eq!((pace.interval, pace.interval_disrupted), (Some(Duration::from_secs(2)), None));
        assert_eq!(all.tolerations.tolerations(), Tolerations { not_ready: 300, unreachable: 3 });
        assert_eq!(all.election.timing().unwrap().retry_period.as_secs(), 1);
        assert!(all.controllers.check(Duration::from_secs(3)).is_ok());
        let why = all.controllers.check(Duration::from_secs(10)).unwrap_err().to_string();
        assert!(why.starts_with("--node-monitor-grace-period 4s must be longer than the 10s"), "{why}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for flag in [
            "--node-monitor-period=0",
            "--node-monitor-grace-period=soon",
            "--node-eviction-rate=-1",
            "--unhealthy-zone-threshold=1.5",
            "--default-not-ready-toleration-seconds=-3",
            "--terminated-pod-gc-threshold=x",
        ] {
            let refused = parse(&[flag]).unwrap_err().to_string();
            assert!(refused.contains(flag.split('=').next().unwrap()), "{refused}");
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
