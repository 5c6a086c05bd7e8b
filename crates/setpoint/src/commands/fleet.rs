//! Flags of simulated nodes.

mod kubelets;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use setpoint_api::names;
use setpoint_api::quantity::Quantity;
use setpoint_authorization::node::labels::{KUBELET_LABEL_NAMESPACES, KUBELET_LABELS, is_own_label};
use setpoint_node::{Fleet, behavior};
use setpoint_views::node::Taint;

pub use self::kubelets::Kubelets;

/// Properties of simulated nodes.
#[derive(Debug, clap::Args)]
pub struct FleetArgs {
    /// CPU of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "16", value_parser = parse_quantity)]
    node_cpu: String,
    /// Memory of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "64Gi", value_parser = parse_quantity)]
    node_memory: String,
    /// Maximum number of pods on each simulated node
    #[arg(long, value_name = "N", default_value_t = 110)]
    node_pods: u32,
    /// Labels of each simulated node, as KEY=VALUE
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_label)]
    node_labels: Vec<(String, String)>,
    /// Taints of each simulated node, as KEY=VALUE:EFFECT or KEY:EFFECT
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_taint)]
    node_taints: Vec<Taint>,
    /// Zones that simulated nodes are spread over
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_zone)]
    node_zones: Vec<String>,
    /// File with rules for the behavior of simulated containers
    #[arg(long, value_name = "FILE")]
    simulate: Option<PathBuf>,
    /// Time that a pod takes to start on a simulated node, and, up to a second or two, to stop
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pod_start: Duration,
    /// Duration of the Lease of each simulated node, which is renewed after a quarter of it
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = parse_lease_duration)]
    node_lease_duration: Duration,
}

impl FleetArgs {
    /// Returns a fleet of `count` nodes whose names begin with `prefix`.
    pub fn fleet(&self, count: u32, prefix: &str) -> anyhow::Result<Fleet> {
        let mut fleet =
            Fleet { count, prefix: prefix.to_owned(), pod_start_delay: self.pod_start, ..Fleet::default() };
        // The last name is the longest, so if it is valid, all are.
        let last = fleet.node_name(count.saturating_sub(1));
        reject_invalid(
            &format!("--prefix {prefix:?}: invalid node name {last:?}"),
            names::dns::subdomain(&last),
        )?;
        reject_invalid(
            &format!("--prefix {prefix:?}: invalid hostname label {last:?}"),
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

fn parse_quantity(text: &str) -> anyhow::Result<String> {
    match Quantity::parse(text) {
        Ok(quantity) if quantity.sign() >= 0 => Ok(text.to_owned()),
        _ => bail!("{text:?} is not a quantity such as 4, 500m or 16Gi"),
    }
}

fn parse_label(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').with_context(|| format!("{text:?} is not KEY=VALUE"))?;
    validate_label(key, value)?;
    if !is_own_label(key) {
        let (namespaces, labels) = (KUBELET_LABEL_NAMESPACES.join(", "), KUBELET_LABELS.join(", "));
        bail!(
            "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{key}]\n--node-labels in the \
             'kubernetes.io' namespace must begin with an allowed prefix ({namespaces}) or be in the specifically \
             allowed set ({labels})"
        );
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Validates the key and value of a label or taint.
fn validate_label(key: &str, value: &str) -> anyhow::Result<()> {
    reject_invalid(&format!("invalid key {key:?}"), names::key::label_key(key))?;
    reject_invalid(&format!("invalid value {value:?}"), names::key::label_value(value))
}

fn parse_zone(text: &str) -> anyhow::Result<String> {
    if text.is_empty() {
        bail!("zone must not be empty");
    }
    reject_invalid(&format!("invalid zone {text:?}"), names::key::label_value(text))?;
    Ok(text.to_owned())
}

/// Fails if validation found errors.
fn reject_invalid(context: &str, faults: names::Faults) -> anyhow::Result<()> {
    if faults.is_empty() { Ok(()) } else { bail!("{context}: {}", faults.join("; ")) }
}

fn parse_taint(text: &str) -> anyhow::Result<Taint> {
    let error =
        || format!("{text:?} is not KEY=VALUE:EFFECT with effect NoSchedule, PreferNoSchedule or NoExecute");
    let (label, effect) = text.rsplit_once(':').with_context(error)?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        bail!(error());
    }
    let (key, value) = label.split_once('=').unwrap_or((label, ""));
    validate_label(key, value)?;
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned(), time_added: None })
}

/// Parses a duration.
pub fn parse_duration(text: &str) -> anyhow::Result<Duration> {
    behavior::parse_duration(text).with_context(|| format!("{text:?} is not a duration such as 1s or 500ms"))
}

fn parse_lease_duration(text: &str) -> anyhow::Result<Duration> {
    match parse_duration(text)? {
        duration if duration.as_secs() > 0 && duration.subsec_nanos() == 0 => Ok(duration),
        _ => bail!("must be a whole number of seconds, at least 1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_flags_are_parsed_and_validated() {
        let parsed = parse_taint("a=b:NoExecute").unwrap();
        assert_eq!(
            (parsed.key.as_str(), parsed.value.as_str(), parsed.effect.as_str()),
            ("a", "b", "NoExecute")
        );
        assert_eq!(parse_taint("a:NoSchedule").unwrap().value, "");
        assert!(parse_taint("a=b").is_err() && parse_taint("a:Never").is_err());
        assert!(parse_quantity("4").is_ok() && parse_quantity("-1").is_err() && parse_quantity("x").is_err());
        assert!(parse_label("a=b").is_ok() && parse_label("a").is_err());
        assert!(parse_label("kubernetes.io/hostname=n").is_ok(), "kubelets set it");
        let restricted = parse_label("node-role.kubernetes.io/x=").unwrap_err().to_string();
        assert!(
            restricted.starts_with("unknown 'kubernetes.io' or 'k8s.io' labels specified"),
            "{restricted}"
        );
        for invalid in ["a b=c", "a=c d", "=x", "a/b/c=d"] {
            assert!(
                parse_label(invalid).is_err() && parse_taint(&format!("{invalid}:NoSchedule")).is_err(),
                "{invalid}"
            );
        }
        assert!(parse_zone("eu-1").is_ok() && parse_zone("").is_err() && parse_zone("eu 1").is_err());
        assert_eq!(parse_duration("0").unwrap(), Duration::ZERO);
        assert!(
            parse_lease_duration("4s").is_ok()
                && parse_lease_duration("0").is_err()
                && parse_lease_duration("500ms").is_err()
        );
    }
}
