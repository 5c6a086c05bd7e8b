//! Labels that nodes may set on themselves.

/// Labels of the Kubernetes namespaces that a kubelet sets, sorted.
pub const KUBELET_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Namespaces whose labels a kubelet may set, as those of their subdomains.
pub const KUBELET_LABEL_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// `true` if a node may set the label on itself: labels of other domains, and those of Kubernetes that kubelets own. It
/// may not set labels that keep workloads away from it, such as those of `node-restriction.kubernetes.io`.
#[must_use]
pub fn is_own_label(key: &str) -> bool {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_in = |domain: &str| {
        namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !(is_in("kubernetes.io") || is_in("k8s.io"))
        || KUBELET_LABELS.contains(&key)
        || KUBELET_LABEL_NAMESPACES.into_iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_kubernetes_are_restricted_to_those_of_kubelets() {
        for own in KUBELET_LABELS {
            assert!(is_own_label(own), "{own}");
        }
        let allowed = [
            "x",
            "example.com/x",
            "node.kubernetes.io/x",
            "a.node.kubernetes.io/x",
            "kubelet.kubernetes.io/x",
        ];
        for key in allowed.into_iter().chain(["akubernetes.io/x", "nodekubernetes.io/x"]) {
            assert!(is_own_label(key), "{key}");
        }
        for key in [
            "kubernetes.io/x",
            "k8s.io/x",
            "a.k8s.io/x",
            "node-role.kubernetes.io/x",
            "node-restriction.kubernetes.io/x",
            "a.node-restriction.kubernetes.io/x",
            "anode.kubernetes.io/x",
        ] {
            assert!(!is_own_label(key), "{key}");
        }
    }
}
