//! View of an IPAddress.

use serde::Deserialize;

use setpoint_reconcile::object::{Object, View};

/// View of an IPAddress.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct IpAddress {
    pub spec: IpAddressSpec,
}

impl View for IpAddress {
    const RESOURCE: &'static str = "ipaddresses.networking.k8s.io";
}

/// Spec of an IPAddress.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpAddressSpec {
    pub parent_ref: Option<ParentReference>,
}

/// Reference to the object that the address is allocated to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ParentReference {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl IpAddress {
    /// Namespace and name of the Service that is its parent; `None` for any other parent.
    #[must_use]
    pub fn service(&self) -> Option<(&str, &str)> {
        let parent = self.spec.parent_ref.as_ref()?;
        (parent.group.is_empty() && parent.resource == "services")
            .then_some((&*parent.namespace, &*parent.name))
    }

    /// `true` if the API server's allocator manages it.
    #[must_use]
    pub fn is_managed(object: &Object) -> bool {
        object.meta().labels.get("ipaddress.kubernetes.io/managed-by") == Some("ipallocator.k8s.io")
    }
}
