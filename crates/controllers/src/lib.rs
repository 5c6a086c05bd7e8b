//! What should follow: the built-in controllers, one file each, planners only.
//!
//! A controller is a [`Planner`](setpoint_reconcile::Planner): a pure function of the world. [`all`] lists them;
//! [`indexes`] are the questions they ask of the world; [`pods`] is what those have in common that manage pods, [`service_pods`]
//! those that look behind Services. To
//! add one, write its file, add what it reads to the views, and name it in [`all`].

pub mod endpoint_slice;
pub mod endpoints;
pub mod ephemeral_volume;
pub mod finalizers;
pub mod holder;
pub mod indexes;
pub mod ip_repair;
pub mod pods;
pub mod replica_set;
pub mod service_cidr;
pub mod service_pods;
pub mod slice_mirroring;
pub mod volume_binder;
pub mod volume_protection;

use setpoint_reconcile::Controller;

/// Every controller.
#[must_use]
pub fn all() -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(endpoint_slice::EndpointSliceController),
        Box::new(ephemeral_volume::EphemeralVolumes),
        Box::new(ip_repair::IpRepair),
        Box::new(replica_set::ReplicaSetController),
        Box::new(service_cidr::ServiceCidrController),
        Box::new(slice_mirroring::SliceMirroring),
        Box::new(volume_binder::VolumeBinder::new(volume_binder::host_path::DIRECTORY)),
        Box::new(volume_binder::host_path::DefaultStorageClass),
        Box::new(volume_protection::AttributesClassProtection),
        Box::new(volume_protection::ClaimProtection),
        Box::new(volume_protection::VolumeProtection),
    ]
}
