//! Plugins of old, and the drivers that took over from them.

use setpoint_reconcile::Object;

/// A plugin of old.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// The field of a volume that is of it.
    pub field: &'static str,
    /// What it was called.
    pub name: &'static str,
    /// Who took over.
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

/// The plugin of old that is called so.
#[must_use]
pub fn named(name: &str) -> Option<Plugin> {
    PLUGINS.into_iter().find(|plugin| plugin.name == name)
}

/// The plugin of old that a volume is of.
#[must_use]
pub fn of_volume(volume: &Object) -> Option<Plugin> {
    let volume = volume.value();
    PLUGINS.into_iter().find(|plugin| volume.at(&["spec", plugin.field]).is_some())
}
