//! Roles of components of the cluster, and of discovery.

use super::facts::{EVENTS, READ, READ_UPDATE, READ_WRITE, RoleFacts, named, paths, role, rule};

/// The roles, ordered by name.
pub(super) const COMPONENT_ROLES: &[RoleFacts] = &[
    role(
        "system:auth-delegator",
        &[
            rule("create", "authentication.k8s.io", "tokenreviews"),
            rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    role(
        "system:basic-user",
        &[
            rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            rule("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[rule("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[rule("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving")],
    ),
    role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[named("approve", "certificates.k8s.io", "signers", "kubernetes.io/legacy-unknown")],
    ),
    role(
        "system:cluster-trust-bundle-discovery",
        &[rule(READ, "certificates.k8s.io", "clustertrustbundles")],
    ),
    role(
        "system:discovery",
        &[paths(
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
        )],
    ),
    role(
        "system:heapster",
        &[rule(READ, "core", "events namespaces nodes pods"), rule(READ, "extensions", "deployments")],
    ),
    role("system:kube-aggregator", &[rule(READ, "core", "endpoints services")]),
    role(
        "system:kube-controller-manager",
        &[
            EVENTS,
            rule("create", "coordination.k8s.io", "leases"),
            named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
            rule("create", "core", "secrets serviceaccounts"),
            rule("delete", "core", "secrets"),
            rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
            rule("update", "core", "secrets serviceaccounts"),
            rule("create", "authentication.k8s.io", "tokenreviews"),
            rule("create", "authorization.k8s.io", "subjectaccessreviews"),
            rule("list watch", "*", "*"),
            rule("create", "core", "serviceaccounts/token"),
        ],
    ),
    role("system:kube-dns", &[rule("list watch", "core", "endpoints services")]),
    role(
        "system:kube-scheduler",
        &[
            EVENTS,
            rule("create", "coordination.k8s.io", "leases"),
            named("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
            rule(READ_WRITE, "coordination.k8s.io", "leasecandidates"),
            rule(READ, "core", "nodes"),
            rule("delete get list watch", "core", "pods"),
            rule("create", "core", "bindings pods/binding"),
            rule("patch update", "core", "pods/status"),
            rule(READ, "core", "replicationcontrollers services"),
            rule(READ, "apps extensions", "replicasets"),
            rule(READ, "apps", "statefulsets"),
            rule(READ, "policy", "poddisruptionbudgets"),
            rule(READ, "core", "persistentvolumeclaims persistentvolumes"),
            rule("create", "authentication.k8s.io", "tokenreviews"),
            rule("create", "authorization.k8s.io", "subjectaccessreviews"),
            rule(READ, "storage.k8s.io", "csinodes"),
            rule(READ, "storage.k8s.io", "volumeattachments"),
            rule(READ, "core", "namespaces"),
            rule(READ, "storage.k8s.io", "csidrivers"),
            rule(READ, "storage.k8s.io", "csistoragecapacities"),
            rule(READ, "resource.k8s.io", "deviceclasses"),
            rule(READ_UPDATE, "resource.k8s.io", "resourceclaims"),
            rule(READ_UPDATE, "resource.k8s.io", "resourceclaims/status"),
            rule("update", "core", "pods/finalizers"),
            rule(READ, "resource.k8s.io", "resourceslices"),
            rule("create delete", "resource.k8s.io", "resourceclaims"),
            rule(READ, "resource.k8s.io", "devicetaintrules"),
            rule("patch update", "resource.k8s.io", "resourceclaims/binding"),
        ],
    ),
    role(
        "system:kubelet-api-admin",
        &[
            rule(READ, "core", "nodes"),
            rule("proxy", "core", "nodes"),
            rule("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
            rule("*", "core", "nodes/configz nodes/healthz nodes/pods"),
        ],
    ),
    role(
        "system:monitoring",
        &[
            paths(
                "get",
                "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz",
            ),
            rule("get", "core", "nodes/metrics"),
        ],
    ),
    role(
        "system:node",
        &[
            rule("create", "authentication.k8s.io", "tokenreviews"),
            rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
            rule(READ, "core", "services"),
            rule("create get list watch", "core", "nodes"),
            rule("patch update", "core", "nodes/status"),
            rule("patch update", "core", "nodes"),
            EVENTS,
            rule(READ, "core", "pods"),
            rule("create delete", "core", "pods"),
            rule("patch update", "core", "pods/status"),
            rule("create", "core", "pods/eviction"),
            rule(READ, "core", "configmaps secrets"),
            rule("get", "core", "persistentvolumeclaims persistentvolumes"),
            rule("get", "core", "endpoints"),
            rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
            rule("create delete get patch update", "coordination.k8s.io", "leases"),
            rule("get", "storage.k8s.io", "volumeattachments"),
            rule("create", "core", "serviceaccounts/token"),
            rule("get patch update", "core", "persistentvolumeclaims/status"),
            rule(READ, "storage.k8s.io", "csidrivers"),
            rule("create delete get patch update", "storage.k8s.io", "csinodes"),
            rule(READ, "node.k8s.io", "runtimeclasses"),
            rule("get", "resource.k8s.io", "resourceclaims"),
            rule("deletecollection", "resource.k8s.io", "resourceslices"),
            rule(READ, "certificates.k8s.io", "clustertrustbundles"),
            rule("get", "core", "serviceaccounts"),
            rule("create get list watch", "certificates.k8s.io", "podcertificaterequests"),
        ],
    ),
    role(
        "system:node-bootstrapper",
        &[rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    role(
        "system:node-problem-detector",
        &[rule("get", "core", "nodes"), rule("patch", "core", "nodes/status"), EVENTS],
    ),
    role(
        "system:node-proxier",
        &[
            rule("list watch", "core", "endpoints services"),
            rule(READ, "core", "nodes"),
            EVENTS,
            rule("list watch", "networking.k8s.io", "servicecidrs"),
            rule("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    ),
    role(
        "system:persistent-volume-provisioner",
        &[
            rule("create delete get list watch", "core", "persistentvolumes"),
            rule("get list update watch", "core", "persistentvolumeclaims"),
            rule(READ, "storage.k8s.io", "storageclasses"),
            rule("watch", "core", "events"),
            EVENTS,
        ],
    ),
    role("system:public-info-viewer", &[paths("get", "/healthz /livez /readyz /version /version/")]),
    role(
        "system:service-account-issuer-discovery",
        &[paths(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    role(
        "system:volume-scheduler",
        &[
            rule(READ_UPDATE, "core", "persistentvolumes"),
            rule(READ, "storage.k8s.io", "storageclasses"),
            rule(READ_UPDATE, "core", "persistentvolumeclaims"),
        ],
    ),
];
