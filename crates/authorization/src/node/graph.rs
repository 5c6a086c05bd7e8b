//! Relationships between nodes and objects.
//!
//! An object is related to a node if a path leads from it to the node:
//!
//! ```text
//! node <- pod <- secret, configmap, serviceaccount, resourceclaim
//! node <- pod <- claim <- volume <- secret
//! node <- volumeattachment, resourceslice, podcertificaterequest
//! ```
//!
//! The graph keeps for every object the nodes that it is related to, with the number of paths to each, so that a
//! question costs two lookups however many pods share the object. Setting a pod or a volume changes the counts along its
//! own edges only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{PodReferences, VolumeReferences};

/// Type of an object that is related to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VertexType {
    /// ConfigMap.
    ConfigMap,
    /// Secret.
    Secret,
    /// ServiceAccount.
    ServiceAccount,
    /// Pod.
    Pod,
    /// PersistentVolumeClaim.
    Claim,
    /// PersistentVolume.
    Volume,
    /// ResourceClaim.
    ResourceClaim,
    /// ResourceSlice.
    ResourceSlice,
    /// VolumeAttachment.
    VolumeAttachment,
    /// PodCertificateRequest.
    PodCertificateRequest,
}

impl VertexType {
    fn is_namespaced(self) -> bool {
        !matches!(self, VertexType::Volume | VertexType::ResourceSlice | VertexType::VolumeAttachment)
    }
}

/// Nodes that an object is related to, with the number of paths to each.
type NodeCounts = BTreeMap<Arc<str>, u32>;

/// Edges of a pod.
#[derive(Clone, Debug)]
struct PodEdges {
    node: Arc<str>,
    objects: Vec<(VertexType, Arc<str>)>,
}

/// Edges of a volume.
#[derive(Clone, Debug)]
struct VolumeEdges {
    claim: Arc<str>,
    secrets: Vec<Arc<str>>,
}

/// Relationships between nodes and objects. Objects are named by their path: `namespace/name`, or the name alone.
#[derive(Clone, Debug, Default)]
pub struct NodeGraph {
    vertices: BTreeMap<VertexType, BTreeMap<Arc<str>, NodeCounts>>,
    pods: BTreeMap<Box<str>, PodEdges>,
    volumes: BTreeMap<Arc<str>, VolumeEdges>,
    /// Volumes by the path of their claim.
    bound_volumes: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Nodes of objects that belong to one node.
    owned: BTreeMap<VertexType, BTreeMap<Box<str>, Arc<str>>>,
}

impl NodeGraph {
    /// `true` if the object is related to the node. A cluster-scoped object has no namespace.
    #[must_use]
    pub fn is_related(&self, node: &str, vertex_type: VertexType, namespace: &str, name: &str) -> bool {
        let Some(vertices) = self.vertices.get(&vertex_type) else { return false };
        let nodes = match (vertex_type.is_namespaced(), namespace.is_empty()) {
            (true, false) => vertices.get(format!("{namespace}/{name}").as_str()),
            (false, true) => vertices.get(name),
            _ => None,
        };
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    /// Sets the references of the pod at `path`; `None` if it does not exist or is not bound.
    pub fn set_pod(&mut self, path: &str, references: Option<&PodReferences>) {
        if let Some(PodEdges { node, objects }) = self.pods.remove(path) {
            self.disconnect(VertexType::Pod, path, &node);
            for (vertex_type, object) in objects {
                self.remove_reference(vertex_type, &object, &node);
            }
        }
        let Some(references) = references else { return };
        let namespace = path.split_once('/').map_or("", |(namespace, _)| namespace);
        let node: Arc<str> = Arc::from(&*references.node);
        self.connect(VertexType::Pod, path, &node);
        let objects = references.objects.iter().map(|(vertex_type, name)| {
            let object = self.add_reference(*vertex_type, &format!("{namespace}/{name}"), &node);
            (*vertex_type, object)
        });
        let objects = objects.collect();
        self.pods.insert(path.into(), PodEdges { node, objects });
    }

    /// Sets the references of a PersistentVolume; `None` if it does not exist or has no claim.
    pub fn set_volume(&mut self, name: &str, references: Option<&VolumeReferences>) {
        if let Some((volume, edges)) = self.volumes.remove_entry(name) {
            for node in self.nodes_of(VertexType::Claim, &edges.claim) {
                self.remove_volume_paths(&volume, &edges.secrets, &node);
            }
            if let Some(bound) = self.bound_volumes.get_mut(&edges.claim) {
                bound.remove(&volume);
                if bound.is_empty() {
                    self.bound_volumes.remove(&edges.claim);
                }
            }
        }
        let Some(VolumeReferences { claim: (namespace, claim), secrets }) = references else { return };
        let (volume, claim): (Arc<str>, Arc<str>) = (name.into(), format!("{namespace}/{claim}").into());
        let secrets: Vec<Arc<str>> =
            secrets.iter().map(|(namespace, name)| format!("{namespace}/{name}").into()).collect();
        for node in self.nodes_of(VertexType::Claim, &claim) {
            self.add_volume_paths(&volume, &secrets, &node);
        }
        self.bound_volumes.entry(Arc::clone(&claim)).or_default().insert(Arc::clone(&volume));
        self.volumes.insert(volume, VolumeEdges { claim, secrets });
    }

    /// Sets the node of a VolumeAttachment, ResourceSlice or PodCertificateRequest; `None` if it does not exist or has
    /// no node.
    pub fn set_owned(&mut self, vertex_type: VertexType, path: &str, node: Option<&str>) {
        if let Some(before) = self.owned.get_mut(&vertex_type).and_then(|owned| owned.remove(path)) {
            self.disconnect(vertex_type, path, &before);
        }
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            let node: Arc<str> = node.into();
            self.connect(vertex_type, path, &node);
            self.owned.entry(vertex_type).or_default().insert(path.into(), node);
        }
    }

    /// Number of objects that are related to nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.vertices.values().map(BTreeMap::len).sum()
    }

    /// `true` if no object is related to a node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vertices.values().all(BTreeMap::is_empty)
    }

    fn nodes_of(&self, vertex_type: VertexType, path: &str) -> Vec<Arc<str>> {
        let nodes = self.vertices.get(&vertex_type).and_then(|vertices| vertices.get(path));
        nodes.map(|nodes| nodes.keys().cloned().collect()).unwrap_or_default()
    }

    /// Adds a reference of a pod on `node`. Returns the path, shared with other references.
    fn add_reference(&mut self, vertex_type: VertexType, path: &str, node: &Arc<str>) -> Arc<str> {
        let is_first = self.connect(vertex_type, path, node);
        if is_first && vertex_type == VertexType::Claim {
            self.for_bound_volumes(path, |graph, volume, secrets| {
                graph.add_volume_paths(volume, secrets, node)
            });
        }
        let shared = self.vertices.get(&vertex_type).and_then(|vertices| vertices.get_key_value(path));
        shared.map_or_else(|| path.into(), |(shared, _)| Arc::clone(shared))
    }

    fn remove_reference(&mut self, vertex_type: VertexType, path: &Arc<str>, node: &str) {
        let is_last = self.disconnect(vertex_type, path, node);
        if is_last && vertex_type == VertexType::Claim {
            self.for_bound_volumes(path, |graph, volume, secrets| {
                graph.remove_volume_paths(volume, secrets, node);
            });
        }
    }

    fn for_bound_volumes(&mut self, claim: &str, mut each: impl FnMut(&mut NodeGraph, &str, &[Arc<str>])) {
        let volumes = self.bound_volumes.get(claim).cloned().unwrap_or_default();
        for volume in volumes {
            let Some(edges) = self.volumes.get(&volume).cloned() else { continue };
            each(self, &volume, &edges.secrets);
        }
    }

    fn add_volume_paths(&mut self, volume: &str, secrets: &[Arc<str>], node: &Arc<str>) {
        self.connect(VertexType::Volume, volume, node);
        for secret in secrets {
            self.connect(VertexType::Secret, secret, node);
        }
    }

    fn remove_volume_paths(&mut self, volume: &str, secrets: &[Arc<str>], node: &str) {
        self.disconnect(VertexType::Volume, volume, node);
        for secret in secrets {
            self.disconnect(VertexType::Secret, secret, node);
        }
    }

    /// Adds a path from an object to a node. Returns `true` if it is the first.
    fn connect(&mut self, vertex_type: VertexType, path: &str, node: &Arc<str>) -> bool {
        let vertices = self.vertices.entry(vertex_type).or_default();
        let nodes = match vertices.get_mut(path) {
            Some(nodes) => nodes,
            None => vertices.entry(path.into()).or_default(),
        };
        let count = nodes.entry(Arc::clone(node)).or_insert(0);
        *count += 1;
        *count == 1
    }

    /// Removes a path from an object to a node. Returns `true` if it was the last.
    fn disconnect(&mut self, vertex_type: VertexType, path: &str, node: &str) -> bool {
        let Some(vertices) = self.vertices.get_mut(&vertex_type) else { return false };
        let Some(nodes) = vertices.get_mut(path) else { return false };
        let Some(count) = nodes.get_mut(node) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        nodes.remove(node);
        if nodes.is_empty() {
            vertices.remove(path);
        }
        true
    }
}

#[cfg(test)]
mod tests;
