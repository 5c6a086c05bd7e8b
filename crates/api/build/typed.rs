//! Schemas of the `k8s-openapi` crate: structure and descriptions of every definition.

use std::collections::BTreeMap;

use k8s_openapi::api as k8s;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::SchemaGenerator;
use serde_json::Value;

/// Adds types to the schema generator, with everything they refer to.
macro_rules! add_types {
    ($generator:ident, $($module:path: $($kind:ident)*;)*) => {$($({
        use $module as module;
        $generator.subschema_for::<module::$kind>();
    })*)*};
}

/// Schemas of all served kinds and of everything they refer to, by definition name.
pub fn definitions() -> BTreeMap<String, Value> {
    let mut generator = SchemaGenerator::default();
    add_types!(generator,
        k8s::admissionregistration::v1: MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
            MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
            ValidatingWebhookConfiguration;
        k8s::apps::v1: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        k8s::autoscaling::v1: HorizontalPodAutoscaler;
        k8s::autoscaling::v2: HorizontalPodAutoscaler;
        k8s::batch::v1: CronJob Job;
        k8s::certificates::v1: CertificateSigningRequest ClusterTrustBundle PodCertificateRequest;
        k8s::coordination::v1: Lease;
        k8s::core::v1: ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
            PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
            ServiceAccount;
        k8s::discovery::v1: EndpointSlice;
        k8s::events::v1: Event;
        k8s::flowcontrol::v1: FlowSchema PriorityLevelConfiguration;
        k8s::networking::v1: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR;
        k8s::node::v1: RuntimeClass;
        k8s::policy::v1: PodDisruptionBudget;
        k8s::rbac::v1: ClusterRole ClusterRoleBinding Role RoleBinding;
        k8s::resource::v1: DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice;
        k8s::scheduling::v1: PriorityClass;
        k8s::storage::v1: CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment
            VolumeAttributesClass;
        k8s::storagemigration::v1: StorageVersionMigration;
        apiextensions: CustomResourceDefinition;
        apiregistration: APIService;
        k8s::authentication::v1: SelfSubjectReview TokenRequest TokenReview;
        k8s::authorization::v1: LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
            SubjectAccessReview;
        k8s::autoscaling::v1: Scale;
        k8s::core::v1: Binding;
        k8s::policy::v1: Eviction;
        meta: APIGroup APIGroupList APIResourceList APIVersions DeleteOptions Status;
    );
    generator.take_definitions(true).into_iter().collect()
}
