//! In-tree volume plugins, and the CSI drivers that replace them.

use setpoint_reconcile::Object;

/// In-tree volume plugin.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// Field of a volume source.
    pub field: &'static str,
    /// Name of the plugin.
    pub name: &'static str,
    /// Name of the CSI driver.
    pub driver: &'static str,
}

const fn plugin(field: &'static str, name: &'static str, driver: &'static str) -> Plugin {
    Plugin { field, name, driver }
}

const PLUGINS: [Plugin; 7] = [
    plugin("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    plugin("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    plugin("azureFile", "kubernetes.io/azure-file", "file.csi.azure.com"),
    plugin("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org"),
    plugin("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    plugin("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
    plugin("vsphereVolume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// Finds a plugin by name.
#[must_use]
pub fn find_by_name(name: &str) -> Option<Plugin> {
    PLUGINS.into_iter().find(|plugin| plugin.name == name)
}

/// Finds the plugin of a volume.
#[must_use]
pub fn find_by_volume(volume: &Object) -> Option<Plugin> {
    let volume = volume.value();
    PLUGINS.into_iter().find(|plugin| volume.at(&["spec", plugin.field]).is_some())
}
