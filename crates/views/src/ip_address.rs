//! What planners read of an IPAddress.

use serde::Deserialize;

use setpoint_reconcile::object::{Object, View};

/// An IPAddress: that an address is allocated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct IpAddress {
    /// What is wanted.
    pub spec: IpAddressSpec,
}

impl View for IpAddress {
    const RESOURCE: &'static str = "ipaddresses.networking.k8s.io";
}

/// What is wanted of an address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpAddressSpec {
    /// Who has it.
    pub parent_ref: Option<ParentRef>,
}

/// Who has an address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ParentRef {
    /// The group of its resource.
    pub group: String,
    /// Its resource.
    pub resource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl IpAddress {
    /// Namespace and name of the Service that has it; none if something else has.
    #[must_use]
    pub fn service(&self) -> Option<(&str, &str)> {
        let parent = self.spec.parent_ref.as_ref()?;
        (parent.group.is_empty() && parent.resource == "services")
            .then_some((&*parent.namespace, &*parent.name))
    }

    /// Whether it was allocated for a Service by the API.
    #[must_use]
    pub fn is_managed(object: &Object) -> bool {
        object.meta().labels.get("ipaddress.kubernetes.io/managed-by") == Some("ipallocator.k8s.io")
    }
}
