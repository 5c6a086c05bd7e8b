//! What planners read of a ClusterTrustBundle.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// A ClusterTrustBundle.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterTrustBundle {
    /// What it holds.
    pub spec: BundleSpec,
}

impl View for ClusterTrustBundle {
    const RESOURCE: &'static str = "clustertrustbundles.certificates.k8s.io";
}

/// What a bundle holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleSpec {
    /// Whose certificates it is to trust; empty if nobody's in particular.
    pub signer_name: String,
    /// The certificates, in PEM.
    pub trust_bundle: String,
}
