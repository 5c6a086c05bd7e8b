//! Roles for users: `cluster-admin`, `admin`, `edit`, `view`, and the roles that they aggregate.

use super::facts::{READ, READ_WRITE, RoleFacts, WRITE, paths, role, rule};

/// The roles, ordered by name.
pub(super) const USER_ROLES: &[RoleFacts] = &[
    RoleFacts { aggregates: Some("admin"), ..role("admin", &[]) },
    role("cluster-admin", &[rule("*", "*", "*"), paths("*", "*")]),
    RoleFacts { aggregates: Some("edit"), aggregated_to: Some("admin"), ..role("edit", &[]) },
    RoleFacts {
        aggregated_to: Some("admin"),
        ..role(
            "system:aggregate-to-admin",
            &[
                rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
                rule(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
            ],
        )
    },
    RoleFacts {
        aggregated_to: Some("edit"),
        ..role(
            "system:aggregate-to-edit",
            &[
                rule(
                    READ,
                    "core",
                    "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
                ),
                rule("impersonate", "core", "serviceaccounts"),
                rule(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
                rule("create", "core", "pods/eviction"),
                rule(
                    WRITE,
                    "core",
                    "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
                ),
                rule("create", "core", "serviceaccounts/token"),
                rule(WRITE, "core events.k8s.io", "events"),
                rule(
                    WRITE,
                    "apps",
                    "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale",
                ),
                rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
                rule(WRITE, "batch", "cronjobs jobs"),
                rule(
                    WRITE,
                    "extensions",
                    "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale",
                ),
                rule(WRITE, "policy", "poddisruptionbudgets"),
                rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
                rule(READ_WRITE, "coordination.k8s.io", "leases"),
                rule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
            ],
        )
    },
    RoleFacts {
        aggregated_to: Some("view"),
        ..role(
            "system:aggregate-to-view",
            &[
                rule(
                    READ,
                    "core",
                    "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
                ),
                rule(
                    READ,
                    "core",
                    "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status",
                ),
                rule(READ, "core", "namespaces"),
                rule(READ, "core events.k8s.io", "events"),
                rule(READ, "discovery.k8s.io", "endpointslices"),
                rule(
                    READ,
                    "apps",
                    "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
                ),
                rule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
                rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
                rule(
                    READ,
                    "extensions",
                    "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
                ),
                rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
                rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
                rule(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
            ],
        )
    },
    RoleFacts { aggregates: Some("view"), aggregated_to: Some("edit"), ..role("view", &[]) },
];
