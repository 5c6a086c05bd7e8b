//! Certificates of nodes and pods.

use setpoint_api::quote::Quoted;
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};
use setpoint_pki::x509::CertificateRequest;

use super::pod::MIRROR;
use super::{NodeWrite, find};
use crate::webhooks::Operation;

/// Signers of the certificates of kubelets.
const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

impl NodeWrite<'_> {
    pub(super) fn check_signing_request(&self) -> Result<(), Status> {
        let signer = self.object.str_at(&["spec", "signerName"]);
        if self.operation() != Operation::Create || !KUBELET_SIGNERS.contains(&signer) {
            return Ok(());
        }
        let request = CertificateRequest::from_base64(self.object.str_at(&["spec", "request"]))
            .map_err(|error| self.forbidden(format!("unable to parse csr: {error}")))?;
        let expected = format!("system:node:{}", self.node);
        if request.common_name != expected {
            return self.forbid(format!("can only create a node CSR with CN={expected}"));
        }
        Ok(())
    }

    pub(super) fn check_pod_certificate(&self) -> Result<(), Status> {
        if self.operation() != Operation::Create {
            return self.forbid(format!("unexpected operation {}", self.operation().as_str()));
        }
        if !self.request.subresource.is_empty() {
            return self.forbid(format!("unexpected subresource {}", self.request.subresource));
        }
        let text = |field: &str| self.object.str_at(&["spec", field]);
        if text("nodeName") != self.node {
            return self.forbid(format!(
                "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
                Quoted(text("nodeName")),
                Quoted(self.node)
            ));
        }
        let namespace = self.request.namespace;
        let pod_path = format!("{namespace}/{}", text("podName"));
        let shown = Quoted(&pod_path);
        let node = self.named("node", "nodes", "", self.node)?;
        let (given, is) = (text("nodeUID"), metadata::text(&node, "uid"));
        if given != is {
            return self.conflict(format!(
                "PodCertificateRequest for pod {shown} names node UID {}, inconsistent with the running node ({})",
                Quoted(given),
                Quoted(is)
            ));
        }
        let pod = self.named("pod", "pods", namespace, text("podName"))?;
        let (given, is) = (text("podUID"), metadata::text(&pod, "uid"));
        if given != is {
            return self.conflict(format!(
                "PodCertificateRequest for pod {shown} contains pod UID ({}) which differs from running pod {}",
                Quoted(given),
                Quoted(is)
            ));
        }
        self.check_certified_pod(&pod, &pod_path)?;
        self.check_certified_account(&pod_path)?;
        self.check_signer(&pod, &pod_path)
    }

    fn check_certified_pod(&self, pod: &Value, path: &str) -> Result<(), Status> {
        let shown = Quoted(path);
        if pod.str_at(&["spec", "nodeName"]) != self.node {
            let node = Quoted(self.node);
            return self.forbid(format!(
                "pod {shown} is not running on node {node} named in the PodCertificateRequest"
            ));
        }
        if metadata::entry(pod, "annotations", MIRROR).is_some() {
            return self.forbid(format!("pod {shown} is a mirror pod"));
        }
        let given = self.object.str_at(&["spec", "serviceAccountName"]);
        let is = pod.str_at(&["spec", "serviceAccountName"]);
        if given != is {
            return self.forbid(format!(
                "PodCertificateRequest for pod {shown} contains serviceAccountName ({}) that differs from running pod ({})",
                Quoted(given),
                Quoted(is)
            ));
        }
        Ok(())
    }

    fn check_certified_account(&self, path: &str) -> Result<(), Status> {
        let text = |field: &str| self.object.str_at(&["spec", field]);
        let account = self.named(
            "service account",
            "serviceaccounts",
            self.request.namespace,
            text("serviceAccountName"),
        )?;
        let (given, is) = (text("serviceAccountUID"), metadata::text(&account, "uid"));
        if given != is {
            return self.conflict(format!(
                "PodCertificateRequest for pod {} names service account UID {}, which differs from the running service account ({})",
                Quoted(path),
                Quoted(given),
                Quoted(is)
            ));
        }
        Ok(())
    }

    /// The signer must be one of a volume of the pod, or the node has a permission.
    fn check_signer(&self, pod: &Value, path: &str) -> Result<(), Status> {
        let signer = self.object.str_at(&["spec", "signerName"]);
        let account = self.object.str_at(&["spec", "serviceAccountName"]);
        let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
        let sources = volumes.iter().flat_map(|volume| {
            volume.at(&["projected", "sources"]).and_then(Value::as_list).unwrap_or_default()
        });
        let mut signers = sources.map(|source| source.str_at(&["podCertificate", "signerName"]));
        let verb = "request-serviceaccounts-podcertificate-signer";
        if signers.any(|one| one == signer) || self.has_permission(verb, &signer.replace('/', ":"), account) {
            return Ok(());
        }
        self.forbid(format!(
            "pod {} does not mount a podCertificate projected volume for signer {}",
            Quoted(path),
            Quoted(signer)
        ))
    }

    /// Returns an object that the request names.
    fn named(&self, word: &str, plural: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        find(self.snapshot, plural, namespace, name).ok_or_else(|| {
            let path = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
            self.conflicts(&format!(
                "while retrieving {word} {} named in the PodCertificateRequest: {plural} {} not found",
                Quoted(&path),
                Quoted(name)
            ))
        })
    }

    /// 409 for a request that may succeed later: what it names may be newer or older than the stored state. Upstream
    /// answers 500.
    fn conflicts(&self, why: &str) -> Status {
        Status::conflict(self.request.resource_type.qualified(), self.name(), why)
    }

    fn conflict(&self, why: String) -> Result<(), Status> {
        Err(self.conflicts(&why))
    }
}
