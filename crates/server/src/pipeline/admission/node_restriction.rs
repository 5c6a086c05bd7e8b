//! NodeRestriction: nodes write only their own objects.
//!
//! The node authorizer decides by the path of a request; this plugin checks the object. A node creates mirror pods that
//! refer to nothing, changes the status of its own pods, Node and claims, keeps its own Lease and CSINode, and requests
//! tokens and certificates for its own pods. Messages are upstream's.

mod certificates;
mod node;
mod pod;
mod token;

use setpoint_api::quote::Quoted;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Key, RequestInfo, Resource, Value, metadata};
use setpoint_authorization::node::node_name;
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::Snapshot;

use super::AdmissionInput;
use crate::codec;
use crate::webhooks::{AdmissionRequest, Operation};

/// Namespace of the Leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Authorizer of further permissions of a node.
pub type NodePermissions<'a> = &'a dyn Fn(&Attributes<'_>) -> Decision;

/// Checks a write of a node.
pub(super) fn admit(object: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    let authorize = |attributes: &Attributes<'_>| input.context.authorize(attributes);
    check(input.request, object, input.old, input.context.snapshot, &authorize)
}

/// A write of a node.
struct NodeWrite<'a> {
    node: &'a str,
    request: &'a AdmissionRequest<'a>,
    /// The object; null for a delete.
    object: &'a Value,
    old: Option<&'a Value>,
    snapshot: &'a Snapshot,
    authorize: NodePermissions<'a>,
}

/// Checks a write, if its author is a node. `object` is null for a delete, `old` is the stored object of an update or
/// delete.
///
/// # Errors
/// If a node may not make the write.
fn check(
    request: &AdmissionRequest<'_>,
    object: &Value,
    old: Option<&Value>,
    snapshot: &Snapshot,
    authorize: NodePermissions<'_>,
) -> Result<(), Status> {
    let identity = &request.writer.identity;
    let Some(node) = node_name(identity) else { return Ok(()) };
    if request.operation == Operation::Connect {
        return Ok(());
    }
    let write = NodeWrite { node, request, object, old, snapshot, authorize };
    if node.is_empty() {
        return write.forbid(format!("could not determine node from user {}", Quoted(&identity.user)));
    }
    let subresource = request.subresource;
    match request.resource_type.resource.as_str() {
        "pods" => match subresource {
            "" => write.check_pod(),
            "status" => write.check_pod_status(),
            "eviction" => write.check_eviction(),
            other => write.forbid(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                Quoted(other)
            )),
        },
        "nodes" => write.check_node(),
        "persistentvolumeclaims" if subresource == "status" => write.check_claim_status(),
        "persistentvolumeclaims" => write.forbid("may only update PVC status"),
        "serviceaccounts" => write.check_token(),
        "podcertificaterequests.certificates.k8s.io" => write.check_pod_certificate(),
        "leases.coordination.k8s.io" => write.check_lease(),
        "csinodes.storage.k8s.io" => write.check_csi_node(),
        "resourceslices.resource.k8s.io" => write.check_resource_slice(),
        "certificatesigningrequests.certificates.k8s.io" => write.check_signing_request(),
        _ => Ok(()),
    }
}

impl<'a> NodeWrite<'a> {
    fn operation(&self) -> Operation {
        self.request.operation
    }

    /// Name of the object; that of the object itself where the path has none.
    fn name(&self) -> &'a str {
        if self.request.name.is_empty() { metadata::name(self.object) } else { self.request.name }
    }

    fn forbid(&self, why: impl AsRef<str>) -> Result<(), Status> {
        Err(self.forbidden(why))
    }

    fn forbidden(&self, why: impl AsRef<str>) -> Status {
        let name = match (self.name(), metadata::text(self.object, "generateName")) {
            ("", "") => "Unknown",
            ("", prefix) => prefix,
            (name, _) => name,
        };
        Status::forbidden(self.request.resource_type.qualified(), name, why.as_ref())
    }

    fn unexpected_operation(&self) -> Result<(), Status> {
        self.forbid(format!("unexpected operation {}", Quoted(self.operation().as_str())))
    }

    /// Returns an object of the core group.
    ///
    /// # Errors
    /// 404 if it does not exist.
    fn find(&self, plural: &'static str, namespace: &str, name: &str) -> Result<Value, Status> {
        let found = find(self.snapshot, plural, namespace, name);
        found.ok_or_else(|| Status::not_found(Qualified { group: "", name: plural }, name))
    }

    /// `true` if the node has a permission about a ServiceAccount: `verb` on a resource that is an audience or signer.
    fn has_permission(&self, verb: &str, resource: &str, account: &str) -> bool {
        let info = &self.request.resource_type.info;
        let request = RequestInfo {
            is_resource: true,
            verb,
            group: &info.group,
            version: &info.version,
            resource,
            namespace: self.request.namespace,
            name: account,
            ..RequestInfo::default()
        };
        let user = &self.request.writer.identity;
        let attributes = Attributes { user, request, field_selector: &[], label_selector: &[] };
        matches!((self.authorize)(&attributes), Decision::Allowed(_))
    }

    fn check_lease(&self) -> Result<(), Status> {
        if self.request.namespace != LEASE_NAMESPACE {
            return self
                .forbid(format!("can only access leases in the \"{LEASE_NAMESPACE}\" system namespace"));
        }
        if self.name() != self.node {
            return self.forbid("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    fn check_csi_node(&self) -> Result<(), Status> {
        if self.name() != self.node {
            return self.forbid("can only access CSINode with the same name as the requesting node");
        }
        if self.request.subresource == "status" {
            return self.forbid("CSIVolumeHealth feature gate is disabled");
        }
        Ok(())
    }

    fn check_resource_slice(&self) -> Result<(), Status> {
        let is_own = |slice: &Value| slice.str_at(&["spec", "nodeName"]) == self.node;
        match (self.operation(), self.old) {
            (Operation::Create, _) if !is_own(self.object) => {
                self.forbid("can only create ResourceSlice with the same NodeName as the requesting node")
            }
            (Operation::Delete, Some(old)) if !is_own(old) => {
                self.forbid("can only delete ResourceSlice with the same NodeName as the requesting node")
            }
            _ => Ok(()),
        }
    }
}

/// Returns an object of the core group.
fn find(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Option<Value> {
    let resource = Resource::new(resource).ok()?;
    let key = match namespace {
        "" => Key::cluster(&resource, name),
        namespace => Key::namespaced(&resource, namespace, name),
    };
    snapshot.get(&key.ok()?).map(codec::object)
}

#[cfg(test)]
mod tests;
