//! Kinds of the group `networking.k8s.io`.

pub mod ingress;
pub mod ingress_class;
pub mod ip_address;
pub mod network_policy;
pub mod service_cidr;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Ingress" => &ingress::Ingress,
        "IngressClass" => &ingress_class::IngressClass,
        "NetworkPolicy" => &network_policy::NetworkPolicy,
        "IPAddress" => &ip_address::IpAddress,
        "ServiceCIDR" => &service_cidr::ServiceCidr,
        _ => return None,
    })
}
