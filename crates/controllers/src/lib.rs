//! Built-in controllers, one file each, planners only.
//!
//! A controller is a [`Planner`](setpoint_reconcile::Planner): a pure function of the world. [`all`] lists
//! them; [`indexes`] are the lookups that they need; [`kinds`] maps kinds to resources; [`owners`] adopts and
//! releases; [`pods`] is shared by controllers that manage pods, [`service_pods`] by those of endpoints,
//! [`revisions`] by those with a history; [`staleness`] detects a stale world. To add a controller, write its
//! file, add what it reads to the views, and name it in [`all`].

pub mod admission_policy_status;
pub mod api_service_availability;
pub mod api_services;
pub mod attach_detach;
pub mod authentication_trust;
pub mod bootstrap_tokens;
pub mod certificate_expiry;
pub mod certificate_requests;
pub mod cluster_role_aggregation;
pub mod conditions;
pub mod crd;
pub mod crd_cleanup;
pub mod crd_conditions;
pub mod crd_names;
pub mod crd_registration;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod device_taint_eviction;
pub mod disruption;
pub mod endpoint_slice;
pub mod endpoints;
pub mod ephemeral_volume;
pub mod event_dedup;
pub mod expand;
pub mod finalizers;
pub mod flow_control;
pub mod garbage_collector;
pub mod hashes;
pub mod horizontal_pod_autoscaler;
pub mod indexes;
pub mod ip_repair;
pub mod job;
pub mod kinds;
pub mod lease_holder;
pub mod legacy_token_tracking;
pub mod legacy_tokens;
pub mod migrated_plugins;
pub mod namespace;
pub mod node_ipam;
pub mod node_lifecycle;
pub mod node_ttl;
pub mod owners;
pub mod placement;
pub mod pod_gc;
pub mod pods;
mod quota_headroom;
pub mod replica_set;
pub mod replication_controller;
pub mod resource_claim;
pub mod resource_quota;
pub mod revisions;
pub mod root_ca;
pub mod scale;
pub mod service_account;
pub mod service_account_tokens;
pub mod service_cidr;
pub mod service_pods;
pub mod slice_mirroring;
pub mod staleness;
pub mod stateful_set;
pub mod storage_version_migrator;
pub mod taint_eviction;
pub mod trust_bundle;
pub mod ttl_after_finished;
pub mod volume_binder;
pub mod volume_protection;

#[cfg(test)]
mod testing;

use setpoint_reconcile::Controller;

/// Settings of the controllers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CA certificates of the API server in PEM, for pods; if empty, nothing is published.
    pub root_ca: String,
    /// CIDR ranges of pods; if empty, nodes get no `podCIDRs`.
    pub cluster_cidrs: Vec<node_ipam::ClusterCidr>,
    /// CIDR ranges of Services, which are not given to pods.
    pub service_cidrs: Vec<node_ipam::Cidr>,
    /// Directory of the built-in provisioner's volumes, on every node.
    pub host_path_directory: String,
    /// Grace periods of nodes, and the rate of eviction.
    pub node_monitor: node_lifecycle::NodeMonitorSettings,
    /// Maximum number of terminated pods to keep (0 keeps all).
    pub terminated_pod_gc_threshold: usize,
    /// `true` if the process has the key that signs service account tokens. Without it no Secret gets a token.
    pub signs_tokens: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            root_ca: String::new(),
            cluster_cidrs: Vec::new(),
            service_cidrs: Vec::new(),
            host_path_directory: volume_binder::host_path::DIRECTORY.to_owned(),
            node_monitor: node_lifecycle::NodeMonitorSettings::default(),
            terminated_pod_gc_threshold: pod_gc::TERMINATED_THRESHOLD,
            signs_tokens: false,
        }
    }
}

/// All controllers.
#[must_use]
pub fn all(settings: &Settings) -> Vec<Box<dyn Controller>> {
    let mut all: Vec<Box<dyn Controller>> = vec![
        Box::new(admission_policy_status::AdmissionPolicyStatusController),
        Box::new(attach_detach::AttachDetach),
        Box::new(bootstrap_tokens::BootstrapSigner),
        Box::new(bootstrap_tokens::TokenCleaner),
        Box::new(certificate_requests::RequestApprover),
        Box::new(certificate_requests::RequestCleaner),
        Box::new(certificate_requests::signer::RequestSigner),
        Box::new(cluster_role_aggregation::ClusterRoleAggregation),
        Box::new(cron_job::CronJobController),
        Box::new(daemon_set::DaemonSetController),
        Box::new(deployment::DeploymentController),
        Box::new(device_taint_eviction::DeviceTaintEviction),
        Box::new(disruption::DisruptionController),
        Box::new(endpoint_slice::EndpointSliceController),
        Box::new(endpoints::EndpointsController),
        Box::new(ephemeral_volume::EphemeralVolumes),
        Box::new(expand::Expander),
        Box::new(garbage_collector::GarbageCollector),
        Box::new(horizontal_pod_autoscaler::HorizontalPodAutoscalerController),
        Box::new(ip_repair::IpRepair),
        Box::new(job::JobController),
        Box::new(legacy_tokens::LegacyTokenCleaner),
        Box::new(namespace::NamespaceController),
        Box::new(node_lifecycle::NodeLifecycle(settings.node_monitor.clone())),
        Box::new(node_ttl::NodeTtl),
        Box::new(pod_gc::PodGcController { terminated_threshold: settings.terminated_pod_gc_threshold }),
        Box::new(replica_set::ReplicaSetController),
        Box::new(replication_controller::ReplicationControllerController),
        Box::new(resource_claim::ResourceClaimController),
        Box::new(resource_quota::ResourceQuotaController),
        Box::new(service_account::ServiceAccountController),
        Box::new(service_cidr::ServiceCidrController),
        Box::new(slice_mirroring::SliceMirroring),
        Box::new(stateful_set::StatefulSetController),
        Box::new(storage_version_migrator::StorageVersionMigrator),
        Box::new(taint_eviction::TaintEviction),
        Box::new(ttl_after_finished::TtlAfterFinishedController),
        Box::new(volume_binder::VolumeBinder::new(settings.host_path_directory.as_str())),
        Box::new(volume_binder::host_path::DefaultStorageClass),
        Box::new(volume_protection::AttributesClassProtection),
        Box::new(volume_protection::ClaimProtection),
        Box::new(volume_protection::VolumeProtection),
    ];
    if !settings.cluster_cidrs.is_empty() {
        let (ranges, taken) = (settings.cluster_cidrs.clone(), settings.service_cidrs.clone());
        all.push(Box::new(node_ipam::NodeIpam::new(ranges, taken)));
    }
    if settings.signs_tokens {
        all.push(Box::new(service_account_tokens::ServiceAccountTokens::new(&settings.root_ca)));
    }
    if !settings.root_ca.is_empty() {
        all.push(Box::new(root_ca::RootCaPublisher::new(&*settings.root_ca)));
        all.push(Box::new(trust_bundle::TrustBundlePublisher::new(&*settings.root_ca)));
    }
    all
}
