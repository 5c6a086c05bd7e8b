//! Node authorizer: permissions of kubelets.
//!
//! A user `system:node:NAME` in the group `system:nodes` is the node NAME. It may read the objects that the pods on it
//! refer to, which [`NodeGraph`] records, and write its own objects. Writes that the path does not restrict to the node
//! are restricted by the NodeRestriction admission plugin. Decisions and reasons are those of upstream's node authorizer.

mod graph;
pub mod labels;
mod references;

use setpoint_api::Identity;
use setpoint_api::quote::Quoted;

use crate::bootstrap::node_rules;
use crate::{Attributes, Decision};

pub use graph::{NodeGraph, VertexType};
pub use references::{PodReferences, VolumeReferences, first_api_reference};

/// Prefix of the user names of nodes.
const USER_PREFIX: &str = "system:node:";
/// Group of nodes.
const GROUP: &str = "system:nodes";
/// Namespace of the Leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Returns the node that a user is; `None` for other users. The name may be empty.
#[must_use]
pub fn node_name(user: &Identity) -> Option<&str> {
    let name = user.user.strip_prefix(USER_PREFIX)?;
    user.groups.iter().any(|group| group == GROUP).then_some(name)
}

/// Verdict of the node authorizer on a request, before it reads the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// The decision does not depend on the graph.
    Decided(Decision),
    /// The request is allowed if the object is related to the node.
    IfRelated(Relation),
}

/// Relationship that allows a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Node.
    pub node: Box<str>,
    /// Type of the object.
    pub vertex_type: VertexType,
    /// Namespace of the object; empty if it is cluster-scoped.
    pub namespace: Box<str>,
    /// Name of the object.
    pub name: Box<str>,
}

impl Relation {
    /// Decides by the relationships of a graph.
    #[must_use]
    pub fn decide(&self, graph: &NodeGraph) -> Decision {
        if graph.is_related(&self.node, self.vertex_type, &self.namespace, &self.name) {
            return Decision::Allowed(String::new());
        }
        Decision::NoOpinion(format!("no relationship found between node '{}' and this object", self.node))
    }
}

/// Decides a request of a node, as far as that is possible without a graph. There is no opinion on requests of other
/// users.
#[must_use]
pub fn review(attributes: &Attributes<'_>) -> NodeVerdict {
    let Some(node) = node_name(attributes.user) else { return no_opinion("") };
    if node.is_empty() {
        return no_opinion(format!("unknown node for user {}", Quoted(&attributes.user.user)));
    }
    NodeRequest { node, attributes }.review()
}

/// Decides a request of a node.
#[must_use]
pub fn authorize(graph: &NodeGraph, attributes: &Attributes<'_>) -> Decision {
    match review(attributes) {
        NodeVerdict::Decided(decision) => decision,
        NodeVerdict::IfRelated(relation) => relation.decide(graph),
    }
}

fn no_opinion(reason: impl Into<String>) -> NodeVerdict {
    NodeVerdict::Decided(Decision::NoOpinion(reason.into()))
}

fn allowed() -> NodeVerdict {
    NodeVerdict::Decided(Decision::Allowed(String::new()))
}

/// A request of a node.
struct NodeRequest<'a> {
    node: &'a str,
    attributes: &'a Attributes<'a>,
}

impl NodeRequest<'_> {
    fn review(&self) -> NodeVerdict {
        let request = &self.attributes.request;
        if !request.is_resource {
            return no_opinion("");
        }
        match (request.group, request.resource) {
            ("", "secrets") => self.read_namespaced(VertexType::Secret),
            ("", "configmaps") => self.read_namespaced(VertexType::ConfigMap),
            ("", "persistentvolumeclaims") if request.subresource == "status" => self.update_claim_status(),
            ("", "persistentvolumeclaims") => self.get(VertexType::Claim),
            ("", "persistentvolumes") => self.get(VertexType::Volume),
            ("resource.k8s.io", "resourceclaims") => self.get(VertexType::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => self.get(VertexType::VolumeAttachment),
            ("", "serviceaccounts") => self.service_account(),
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(),
            ("", "nodes") => self.own_node(),
            ("", "pods") => self.pod(),
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate_request(),
            _ if node_rules().iter().any(|rule| rule.allows(request)) => allowed(),
            _ => no_opinion(""),
        }
    }

    /// Allows the request if the object is related to the node.
    fn related(&self, vertex_type: VertexType) -> NodeVerdict {
        let request = &self.attributes.request;
        if request.name.is_empty() {
            return no_opinion("No Object name found");
        }
        NodeVerdict::IfRelated(Relation {
            node: self.node.into(),
            vertex_type,
            namespace: request.namespace.into(),
            name: request.name.into(),
        })
    }

    fn get(&self, vertex_type: VertexType) -> NodeVerdict {
        match (self.attributes.request.verb, self.attributes.request.subresource) {
            ("get", "") => self.related(vertex_type),
            ("get", _) => no_opinion("cannot get subresource"),
            _ => no_opinion("can only get individual resources of this type"),
        }
    }

    fn read_namespaced(&self, vertex_type: VertexType) -> NodeVerdict {
        let request = &self.attributes.request;
        if !matches!(request.verb, "get" | "list" | "watch") {
            return no_opinion("can only read resources of this type");
        }
        if !request.subresource.is_empty() {
            return no_opinion("cannot read subresource");
        }
        if request.namespace.is_empty() {
            return no_opinion("can only read namespaced object of this type");
        }
        self.related(vertex_type)
    }

    fn update_claim_status(&self) -> NodeVerdict {
        match self.attributes.request.verb {
            "update" | "patch" => self.related(VertexType::Claim),
            _ => no_opinion("can only get/update/patch this type"),
        }
    }

    /// Accounts of the pods on the node: reads of the account, and creation of tokens.
    fn service_account(&self) -> NodeVerdict {
        let request = &self.attributes.request;
        match (request.verb, request.subresource) {
            ("get", "") => self.read_namespaced(VertexType::ServiceAccount),
            ("create", _) if request.name.is_empty() => {
                no_opinion("can only create tokens for individual service accounts")
            }
            ("create", "token") => self.related(VertexType::ServiceAccount),
            ("create", _) => no_opinion("can only create token subresource of serviceaccount"),
            _ => no_opinion("can only create tokens for individual service accounts"),
        }
    }

    fn lease(&self) -> NodeVerdict {
        let request = &self.attributes.request;
        if !is_object_verb(request.verb) {
            return no_opinion("can only get, create, update, patch, or delete a node lease");
        }
        if request.namespace != LEASE_NAMESPACE {
            return no_opinion(format!(
                "can only access leases in the \"{LEASE_NAMESPACE}\" system namespace"
            ));
        }
        // The path of a create has no name; NodeRestriction checks that of the object.
        if request.verb != "create" && request.name != self.node {
            return no_opinion("can only access node lease with the same name as the requesting node");
        }
        allowed()
    }

    fn csi_node(&self) -> NodeVerdict {
        let request = &self.attributes.request;
        match request.subresource {
            "" if is_object_verb(request.verb) => {}
            "" => return no_opinion("can only get, create, update, patch, or delete a CSINode"),
            "status" => return no_opinion("CSINode status access requires CSIVolumeHealth feature"),
            _ => return no_opinion("cannot authorize CSINode subresources"),
        }
        if request.verb != "create" && request.name != self.node {
            return no_opinion("can only access CSINode with the same name as the requesting node");
        }
        allowed()
    }

    fn resource_slice(&self) -> NodeVerdict {
        let request = &self.attributes.request;
        if !request.subresource.is_empty() {
            return no_opinion("cannot authorize ResourceSlice subresources");
        }
        match request.verb {
            "create" => allowed(),
            "get" | "update" | "patch" | "delete" => self.related(VertexType::ResourceSlice),
            "watch" | "list" | "deletecollection" if self.selects_node() => allowed(),
            "watch" | "list" | "deletecollection" => {
                no_opinion("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no_opinion(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn pod_certificate_request(&self) -> NodeVerdict {
        let request = &self.attributes.request;
        if !request.subresource.is_empty() {
            return no_opinion("nodes may not access the status subresource of PodCertificateRequests");
        }
        match request.verb {
            "create" => allowed(),
            "get" => self.related(VertexType::PodCertificateRequest),
            "list" | "watch" if self.selects_node() => allowed(),
            "list" | "watch" => {
                no_opinion("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => no_opinion(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    /// The Node of the node itself. Compares names, so that a kubelet can read its Node before it exists.
    fn own_node(&self) -> NodeVerdict {
        let (request, node) = (&self.attributes.request, self.node);
        match (request.subresource, request.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => allowed(),
            ("", "get" | "list" | "watch") if request.name == node => allowed(),
            ("", "get" | "list" | "watch") if request.name.is_empty() => {
                no_opinion(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => {
                let other = request.name;
                no_opinion(format!("node '{node}' cannot read '{other}', only its own Node object"))
            }
            _ => no_opinion(""),
        }
    }

    fn pod(&self) -> NodeVerdict {
        let request = &self.attributes.request;
        match (request.subresource, request.verb) {
            ("", "get") => self.related(VertexType::Pod),
            ("", "list" | "watch") if self.selects_node() => allowed(),
            ("", "list" | "watch") if !request.name.is_empty() => self.related(VertexType::Pod),
            ("", "list" | "watch") => {
                no_opinion("can only list/watch pods with spec.nodeName field selector")
            }
            // NodeRestriction limits these to pods that are bound to the node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => allowed(),
            _ => no_opinion(""),
        }
    }

    /// `true` if the field selector of the request requires this node as `spec.nodeName`.
    fn selects_node(&self) -> bool {
        self.attributes.field_selector.iter().any(|requirement| {
            requirement.key == "spec.nodeName"
                && requirement.operator == "In"
                && matches!(&requirement.values[..], [value] if value == self.node)
        })
    }
}

/// `true` for the verbs of an object that the node owns.
fn is_object_verb(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

#[cfg(test)]
mod tests;
