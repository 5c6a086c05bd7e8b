//! Flags of simulated nodes.

mod kubelets;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use setpoint_api::names;
use setpoint_api::quantity::Quantity;
use setpoint_node::{Fleet, behavior};
use setpoint_reconcile::views::node::Taint;

pub use self::kubelets::Kubelets;

/// Properties of simulated nodes.
#[derive(Debug, clap::Args)]
pub struct FleetArguments {
    /// CPU of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "16", value_parser = quantity)]
    node_cpu: String,
    /// Memory of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "64Gi", value_parser = quantity)]
    node_memory: String,
    /// Maximum number of pods on each simulated node
    #[arg(long, value_name = "N", default_value_t = 110)]
    node_pods: u32,
    /// Labels of each simulated node, as KEY=VALUE
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pair)]
    node_labels: Vec<(String, String)>,
    /// Taints of each simulated node, as KEY=VALUE:EFFECT or KEY:EFFECT
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = taint)]
    node_taints: Vec<Taint>,
    /// Zones that simulated nodes are spread over
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = zone)]
    node_zones: Vec<String>,
    /// File with rules for the behavior of simulated containers
    #[arg(long, value_name = "FILE")]
    simulate: Option<PathBuf>,
    /// Time that a pod takes to start on a simulated node, and, up to a second or two, to stop
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pod_start: Duration,
    /// Duration of the Lease of each simulated node, which is renewed four times as often
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = lease)]
    node_lease_duration: Duration,
}

impl FleetArguments {
    /// Returns a fleet of `count` nodes whose names begin with `prefix`.
    pub fn fleet(&self, count: u32, prefix: &str) -> anyhow::Result<Fleet> {
        let mut fleet =
            Fleet { count, prefix: prefix.to_owned(), pod_start_delay: self.pod_start, ..Fleet::default() };
        // The last name is the longest, so if it is valid, all are.
        let last = fleet.node_name(count.saturating_sub(1));
        refuse(
            &format!("--prefix {prefix:?}: a node cannot be called {last:?}"),
            names::dns::subdomain(&last),
        )?;
        refuse(
            &format!("--prefix {prefix:?}: the host name {last:?} is no label"),
            names::key::label_value(&last),
        )?;
        fleet.lease_duration = self.node_lease_duration;
        fleet.set_capacity("cpu", &self.node_cpu);
        fleet.set_capacity("memory", &self.node_memory);
        fleet.set_capacity("pods", &self.node_pods.to_string());
        fleet.labels.clone_from(&self.node_labels);
        fleet.taints.clone_from(&self.node_taints);
        fleet.zones.clone_from(&self.node_zones);
        if let Some(path) = &self.simulate {
            let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            fleet.rules =
                behavior::rules_file::parse_rules(&text).with_context(|| format!("in {}", path.display()))?;
            fleet.published_rules = String::from_utf8(text).ok();
        }
        Ok(fleet)
    }
}

fn quantity(text: &str) -> anyhow::Result<String> {
    match Quantity::parse(text) {
        Ok(quantity) if quantity.sign() >= 0 => Ok(text.to_owned()),
        _ => bail!("{text:?} is no quantity such as 4, 500m or 16Gi"),
    }
}

fn pair(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').with_context(|| format!("{text:?} is not KEY=VALUE"))?;
    check_pair(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Validates the key and value of a label or taint.
fn check_pair(key: &str, value: &str) -> anyhow::Result<()> {
    refuse(&format!("the key {key:?}"), names::key::label_key(key))?;
    refuse(&format!("the value {value:?}"), names::key::label_value(value))
}

fn zone(text: &str) -> anyhow::Result<String> {
    if text.is_empty() {
        bail!("the name of a zone must not be empty");
    }
    refuse(&format!("the zone {text:?}"), names::key::label_value(text))?;
    Ok(text.to_owned())
}

/// Fails if there are faults.
fn refuse(what: &str, faults: names::Faults) -> anyhow::Result<()> {
    if faults.is_empty() { Ok(()) } else { bail!("{what}: {}", faults.join("; ")) }
}

fn taint(text: &str) -> anyhow::Result<Taint> {
    let wrong =
        || format!("{text:?} is not KEY=VALUE:EFFECT, with NoSchedule, PreferNoSchedule or NoExecute");
    let (what, effect) = text.rsplit_once(':').with_context(wrong)?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        bail!(wrong());
    }
    let (key, value) = what.split_once('=').unwrap_or((what, ""));
    check_pair(key, value)?;
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned(), time_added: None })
}

/// Parses a duration.
pub fn duration(text: &str) -> anyhow::Result<Duration> {
    behavior::parse_duration(text).with_context(|| format!("{text:?} is no duration such as 1s or 500ms"))
}

fn lease(text: &str) -> anyhow::Result<Duration> {
    match duration(text)? {
        span if span.as_secs() > 0 && span.subsec_nanos() == 0 => Ok(span),
        _ => bail!("a Lease is taken for whole seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_flags_are_parsed_and_validated() {
        let read = taint("a=b:NoExecute").unwrap();
        assert_eq!((read.key.as_str(), read.value.as_str(), read.effect.as_str()), ("a", "b", "NoExecute"));
        assert_eq!(taint("a:NoSchedule").unwrap().value, "");
        assert!(taint("a=b").is_err() && taint("a:Never").is_err());
        assert!(quantity("4").is_ok() && quantity("-1").is_err() && quantity("x").is_err());
        assert!(pair("a=b").is_ok() && pair("a").is_err());
        for wrong in ["a b=c", "a=c d", "=x", "a/b/c=d"] {
            assert!(pair(wrong).is_err() && taint(&format!("{wrong}:NoSchedule")).is_err(), "{wrong}");
        }
        assert!(zone("eu-1").is_ok() && zone("").is_err() && zone("eu 1").is_err());
        assert_eq!(duration("0").unwrap(), Duration::ZERO);
        assert!(lease("4s").is_ok() && lease("0").is_err() && lease("500ms").is_err());
    }
}
