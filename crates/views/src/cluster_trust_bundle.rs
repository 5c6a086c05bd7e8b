//! View of a ClusterTrustBundle.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// View of a ClusterTrustBundle.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterTrustBundle {
    pub spec: ClusterTrustBundleSpec,
}

impl View for ClusterTrustBundle {
    const RESOURCE: &'static str = "clustertrustbundles.certificates.k8s.io";
}

/// Spec of a ClusterTrustBundle.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTrustBundleSpec {
    /// Empty if the bundle is not linked to a signer.
    pub signer_name: String,
    /// Certificates in PEM.
    pub trust_bundle: String,
}
