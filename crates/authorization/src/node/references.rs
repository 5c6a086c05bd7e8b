//! References of pods and PersistentVolumes to other objects.

use std::collections::BTreeSet;

use setpoint_api::{Value, metadata};

use super::VertexType;

/// Annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Volume sources of pods with a reference to a Secret in this field.
const SECRET_REFERENCES: [(&str, &str); 8] = [
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
];
/// As above, in PersistentVolumes; kubelets do not read the secrets of CSI controllers.
const VOLUME_SECRET_REFERENCES: [(&str, &str); 10] = [
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("csi", "nodeStageSecretRef"),
    ("csi", "nodeExpandSecretRef"),
];
/// Sources of PersistentVolumes whose Secret is always in the named namespace; that of others is by default in the
/// namespace of the claim.
const QUALIFIED_SOURCES: [&str; 3] = ["cinder", "storageos", "csi"];

/// Node of a pod, and the objects in its namespace that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodReferences {
    /// Node that the pod is bound to.
    pub node: Box<str>,
    /// Types and names of the objects.
    pub objects: BTreeSet<(VertexType, Box<str>)>,
}

impl PodReferences {
    /// Reads a pod; `None` if it is not bound. A mirror pod has no references: a node creates it itself, and must not
    /// gain permissions by that.
    #[must_use]
    pub fn read(pod: &Value) -> Option<PodReferences> {
        let node = pod.str_at(&["spec", "nodeName"]);
        if node.is_empty() {
            return None;
        }
        let mut references = PodReferences { node: node.into(), objects: BTreeSet::new() };
        if metadata::entry(pod, "annotations", MIRROR).is_some() {
            return Some(references);
        }
        references.add(VertexType::ServiceAccount, pod.str_at(&["spec", "serviceAccountName"]));
        secrets(pod, &mut |name| references.add(VertexType::Secret, name));
        config_maps(pod, &mut |name| references.add(VertexType::ConfigMap, name));
        for volume in items(pod.get("spec"), "volumes") {
            references.add(VertexType::Claim, volume.str_at(&["persistentVolumeClaim", "claimName"]));
            if is_set(volume, "ephemeral") {
                let claim = format!("{}-{}", metadata::name(pod), volume.str_at(&["name"]));
                references.add(VertexType::Claim, &claim);
            }
        }
        references.add_resource_claims(pod);
        Some(references)
    }

    fn add(&mut self, vertex_type: VertexType, name: &str) {
        if !name.is_empty() {
            self.objects.insert((vertex_type, name.into()));
        }
    }

    /// Adds named claims, and those that were generated from templates.
    fn add_resource_claims(&mut self, pod: &Value) {
        let statuses = items(pod.get("status"), "resourceClaimStatuses");
        for claim in items(pod.get("spec"), "resourceClaims") {
            let named = claim.str_at(&["resourceClaimName"]);
            if is_set(claim, "resourceClaimName") {
                self.add(VertexType::ResourceClaim, named);
            } else if is_set(claim, "resourceClaimTemplateName") {
                let name = claim.str_at(&["name"]);
                let status = statuses.iter().find(|status| status.str_at(&["name"]) == name);
                let generated = status.map(|status| status.str_at(&["resourceClaimName"]));
                self.add(VertexType::ResourceClaim, generated.unwrap_or_default());
            }
        }
        let extended = ["status", "extendedResourceClaimStatus", "resourceClaimName"];
        self.add(VertexType::ResourceClaim, pod.str_at(&extended));
    }
}

/// Claim of a PersistentVolume, and the Secrets that kubelets need to mount it, each as namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeReferences {
    /// Claim that the volume is bound to.
    pub claim: (Box<str>, Box<str>),
    /// Secrets.
    pub secrets: BTreeSet<(Box<str>, Box<str>)>,
}

impl VolumeReferences {
    /// Reads a PersistentVolume; `None` if it has no claim.
    #[must_use]
    pub fn read(volume: &Value) -> Option<VolumeReferences> {
        let claim = volume.at(&["spec", "claimRef"]).filter(|claim| !claim.is_null())?;
        let (namespace, name) = (claim.str_at(&["namespace"]), claim.str_at(&["name"]));
        let mut secrets = BTreeSet::new();
        let mut add = |of: &str, secret: &str| {
            if !secret.is_empty() {
                secrets.insert((of.into(), secret.into()));
            }
        };
        let spec = volume.get("spec").unwrap_or(&Value::Null);
        let azure_file = spec.get("azureFile").unwrap_or(&Value::Null);
        let azure_namespace = azure_file.str_at(&["secretNamespace"]);
        let azure_namespace = if azure_namespace.is_empty() { namespace } else { azure_namespace };
        add(azure_namespace, azure_file.str_at(&["secretName"]));
        for (source, field) in VOLUME_SECRET_REFERENCES {
            let Some(reference) = spec.at(&[source, field]) else { continue };
            let of = reference.str_at(&["namespace"]);
            let is_default = of.is_empty() && !QUALIFIED_SOURCES.contains(&source);
            add(if is_default { namespace } else { of }, reference.str_at(&["name"]));
        }
        Some(VolumeReferences { claim: (namespace.into(), name.into()), secrets })
    }
}

/// Returns the first resource that a pod refers to, with the words of upstream's errors for mirror pods; `None` if it
/// refers to none.
///
/// # Errors
/// If a volume has an unknown source.
pub fn first_api_reference(pod: &Value) -> Result<Option<&'static str>, String> {
    if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    let (mut has_secrets, mut has_config_maps) = (false, false);
    secrets(pod, &mut |name| has_secrets |= !name.is_empty());
    config_maps(pod, &mut |name| has_config_maps |= !name.is_empty());
    if has_secrets {
        return Ok(Some("secrets"));
    }
    if has_config_maps {
        return Ok(Some("configmaps"));
    }
    if !items(pod.get("spec"), "resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in items(pod.get("spec"), "volumes") {
        if let Some(resource) = volume_reference(volume)? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

/// Volume sources that refer to no API object but Secrets, which are found before.
const LOCAL_SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Other volume sources, in upstream's order, with the words of errors.
const REFERRING_SOURCES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes, in upstream's order; those without words need no API object.
const PROJECTED_SOURCES: [(&str, Option<&str>); 6] = [
    ("configMap", Some("configmaps (via projected volumes)")),
    ("secret", Some("secrets (via projected volumes)")),
    ("serviceAccountToken", Some("serviceaccounts (via projected volumes)")),
    ("clusterTrustBundle", Some("clustertrustbundles")),
    ("podCertificate", Some("podcertificates")),
    ("downwardAPI", None),
];

fn volume_reference(volume: &Value) -> Result<Option<&'static str>, String> {
    if LOCAL_SOURCES.iter().any(|source| is_set(volume, source)) {
        return Ok(None);
    }
    if let Some((_, resource)) = REFERRING_SOURCES.iter().find(|(source, _)| is_set(volume, source)) {
        return Ok(Some(resource));
    }
    let name = setpoint_api::quote::Quoted(volume.str_at(&["name"]));
    if !is_set(volume, "projected") {
        return Err(format!("unknown volume type for volume  {name}"));
    }
    for projected in items(volume.get("projected"), "sources") {
        match PROJECTED_SOURCES.iter().find(|(source, _)| is_set(projected, source)) {
            Some((_, Some(resource))) => return Ok(Some(resource)),
            Some((_, None)) => {}
            None => return Err(format!("unknown source for projected volume {name}")),
        }
    }
    Ok(None)
}

/// Calls `each` with the name of every Secret that a pod refers to.
fn secrets(pod: &Value, each: &mut dyn FnMut(&str)) {
    for secret in items(pod.get("spec"), "imagePullSecrets") {
        each(secret.str_at(&["name"]));
    }
    for_environment(pod, "secretRef", "secretKeyRef", each);
    for volume in items(pod.get("spec"), "volumes") {
        each(volume.str_at(&["secret", "secretName"]));
        each(volume.str_at(&["azureFile", "secretName"]));
        for (source, field) in SECRET_REFERENCES {
            each(volume.str_at(&[source, field, "name"]));
        }
        for projected in items(volume.get("projected"), "sources") {
            each(projected.str_at(&["secret", "name"]));
        }
    }
}

/// Calls `each` with the name of every ConfigMap that a pod refers to.
fn config_maps(pod: &Value, each: &mut dyn FnMut(&str)) {
    for_environment(pod, "configMapRef", "configMapKeyRef", each);
    for volume in items(pod.get("spec"), "volumes") {
        each(volume.str_at(&["configMap", "name"]));
        for projected in items(volume.get("projected"), "sources") {
            each(projected.str_at(&["configMap", "name"]));
        }
    }
}

/// Calls `each` with the names in these fields of the environments of all containers.
fn for_environment(pod: &Value, whole: &str, key: &str, each: &mut dyn FnMut(&str)) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(pod.get("spec"), field) {
            items(Some(container), "envFrom").iter().for_each(|from| each(from.str_at(&[whole, "name"])));
            let variables = items(Some(container), "env").iter();
            variables.for_each(|variable| each(variable.str_at(&["valueFrom", key, "name"])));
        }
    }
}

fn items<'a>(object: Option<&'a Value>, field: &str) -> &'a [Value] {
    object.and_then(|object| object.get(field)).and_then(Value::as_list).unwrap_or_default()
}

fn is_set(object: &Value, field: &str) -> bool {
    object.get(field).is_some_and(|value| !value.is_null())
}
