//! Service: a stable address for a set of pods.
//!
//! The fields of a Service depend on each other. [`defaults`] sets defaults, [`families`] resolves the IP
//! families, [`update`] carries over allocated values and clears those that a new type does not use,
//! [`validate`] and [`change`] validate the result. Addresses and node ports are allocated elsewhere: between
//! [`families`] and the other rules.

use crate::field_error::ErrorList;
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::{Rules, SelectableFields};
use crate::metadata::texts;
use crate::names::NameRule;
use crate::names::ip::parse_ip;
use crate::value::Value;

mod change;
mod defaults;
pub mod families;
#[cfg(test)]
mod tests;
mod update;
mod validate;
mod warnings;

pub use families::Families;

/// Cluster IP of a headless Service.
pub const NO_CLUSTER_IP: &str = "None";

const FIELDS: FieldLabels<'static> = FieldLabels {
    known: &[
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.name", "metadata.name"),
        ("spec.clusterIP", "spec.clusterIP"),
        ("spec.type", "spec.type"),
    ],
    unsupported: UnsupportedLabel::Plain,
};

/// Rules of Service.
pub struct Service;

impl Rules for Service {
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn default(&self, object: &mut Value) {
        defaults::service(object);
    }

    fn has_status(&self) -> bool {
        true
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        crate::kinds::keep(new, old, "status");
        update::clear_unused_fields(new, old);
        if Spec::of(new).kind() == "ExternalName" {
            new.ensure_map("spec").remove("internalTrafficPolicy");
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate::check_service(errors, object, None);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        change::check(errors, new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        change::check(errors, new, old);
        validate::check_service(errors, new, Some(old));
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        validate::check_status(errors, new, old);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings::service(new)
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        warnings::status(new)
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &FIELDS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let spec = Spec::of(object);
        vec![("spec.clusterIP", spec.cluster_ip().into()), ("spec.type", spec.kind().into())]
    }
}

/// View of the spec of a Service.
#[derive(Clone, Copy)]
struct Spec<'a>(Option<&'a Value>);

impl<'a> Spec<'a> {
    fn of(service: &'a Value) -> Spec<'a> {
        Spec(service.get("spec"))
    }

    fn get(self, field: &str) -> Option<&'a Value> {
        self.0?.get(field).filter(|value| !value.is_null())
    }

    fn text(self, field: &str) -> &'a str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn int(self, field: &str) -> i64 {
        self.get(field).and_then(Value::as_i64).unwrap_or(0)
    }

    fn list(self, field: &str) -> Vec<&'a str> {
        texts(self.get(field))
    }

    fn kind(self) -> &'a str {
        self.text("type")
    }

    fn cluster_ip(self) -> &'a str {
        self.text("clusterIP")
    }

    fn cluster_ips(self) -> Vec<&'a str> {
        self.list("clusterIPs")
    }

    fn ports(self) -> &'a [Value] {
        self.get("ports").and_then(Value::as_list).unwrap_or_default()
    }

    fn has_selector(self) -> bool {
        self.get("selector").is_some_and(|selector| !selector.is_empty())
    }

    fn is_headless(self) -> bool {
        self.cluster_ips() == [NO_CLUSTER_IP]
    }

    fn is_load_balancer(self) -> bool {
        self.kind() == "LoadBalancer"
    }

    fn needs_cluster_ip(self) -> bool {
        self.kind() != "ExternalName"
    }

    /// `true` if clients outside of the cluster can reach it.
    fn is_external(self) -> bool {
        matches!(self.kind(), "LoadBalancer" | "NodePort")
            || (self.kind() == "ClusterIP" && !self.list("externalIPs").is_empty())
    }

    fn needs_health_check(self) -> bool {
        self.is_load_balancer() && self.text("externalTrafficPolicy") == "Local"
    }

    fn node_ports(self) -> impl Iterator<Item = i64> {
        self.ports().iter().map(|port| int(port, "nodePort")).filter(|port| *port != 0)
    }
}

fn int(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// `true` if the text is an IPv6 address, except IPv4-mapped ones.
fn is_ipv6(ip: &str) -> bool {
    parse_ip(ip).is_some_and(|ip| ip.to_canonical().is_ipv6())
}
