//! Bindings of the roles of components and users, and roles and bindings of namespaces.

use super::facts::{
    BindingFacts, EVENTS, NamespaceFacts, READ, account, binding, group, named, role, rule, user,
};

/// Bindings of the cluster scope.
pub(super) const CLUSTER_BINDINGS: &[BindingFacts] = &[
    binding("cluster-admin", "cluster-admin", &[group("system:masters")]),
    binding("system:basic-user", "system:basic-user", &[group("system:authenticated")]),
    binding(
        "system:cluster-trust-bundle-discovery",
        "system:cluster-trust-bundle-discovery",
        &[group("system:serviceaccounts")],
    ),
    binding("system:discovery", "system:discovery", &[group("system:authenticated")]),
    binding(
        "system:kube-controller-manager",
        "system:kube-controller-manager",
        &[user("system:kube-controller-manager")],
    ),
    binding("system:kube-dns", "system:kube-dns", &[account("kube-dns")]),
    binding("system:kube-scheduler", "system:kube-scheduler", &[user("system:kube-scheduler")]),
    binding("system:monitoring", "system:monitoring", &[group("system:monitoring")]),
    binding("system:node", "system:node", &[]),
    binding("system:node-proxier", "system:node-proxier", &[user("system:kube-proxy")]),
    binding(
        "system:public-info-viewer",
        "system:public-info-viewer",
        &[group("system:authenticated"), group("system:unauthenticated")],
    ),
    binding(
        "system:service-account-issuer-discovery",
        "system:service-account-issuer-discovery",
        &[group("system:serviceaccounts")],
    ),
    binding("system:volume-scheduler", "system:volume-scheduler", &[user("system:kube-scheduler")]),
];

/// Roles and bindings of namespaces.
pub(super) const NAMESPACES: &[NamespaceFacts] = &[
    NamespaceFacts {
        namespace: "kube-public",
        roles: &[role(
            "system:controller:bootstrap-signer",
            &[
                rule(READ, "core", "configmaps"),
                named("update", "core", "configmaps", "cluster-info"),
                EVENTS,
            ],
        )],
        bindings: &[binding(
            "system:controller:bootstrap-signer",
            "system:controller:bootstrap-signer",
            &[account("bootstrap-signer")],
        )],
    },
    NamespaceFacts {
        namespace: "kube-system",
        roles: &[
            role(
                "extension-apiserver-authentication-reader",
                &[named(READ, "core", "configmaps", "extension-apiserver-authentication")],
            ),
            role(
                "system::leader-locking-kube-controller-manager",
                &[
                    rule("create get list update watch", "coordination.k8s.io", "leases"),
                    rule("create get list update watch", "coordination.k8s.io", "leasecandidates"),
                ],
            ),
            role(
                "system::leader-locking-kube-scheduler",
                &[
                    rule("create get list update watch", "coordination.k8s.io", "leases"),
                    rule("create get list update watch", "coordination.k8s.io", "leasecandidates"),
                ],
            ),
            role("system:controller:bootstrap-signer", &[rule(READ, "core", "secrets")]),
            role("system:controller:cloud-provider", &[rule("create get list watch", "core", "configmaps")]),
            role(
                "system:controller:token-cleaner",
                &[rule("delete get list watch", "core", "secrets"), EVENTS],
            ),
        ],
        bindings: &[
            binding(
                "system::extension-apiserver-authentication-reader",
                "extension-apiserver-authentication-reader",
                &[user("system:kube-controller-manager"), user("system:kube-scheduler")],
            ),
            binding(
                "system::leader-locking-kube-controller-manager",
                "system::leader-locking-kube-controller-manager",
                &[
                    user("system:kube-controller-manager"),
                    account("kube-controller-manager"),
                    account("leader-election-controller"),
                ],
            ),
            binding(
                "system::leader-locking-kube-scheduler",
                "system::leader-locking-kube-scheduler",
                &[user("system:kube-scheduler"), account("kube-scheduler")],
            ),
            binding(
                "system:controller:bootstrap-signer",
                "system:controller:bootstrap-signer",
                &[account("bootstrap-signer")],
            ),
            binding(
                "system:controller:cloud-provider",
                "system:controller:cloud-provider",
                &[account("cloud-provider")],
            ),
            binding(
                "system:controller:token-cleaner",
                "system:controller:token-cleaner",
                &[account("token-cleaner")],
            ),
        ],
    },
];
