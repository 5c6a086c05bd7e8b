//! Claims about the graph, and a comparison with a slow model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn pod(node: &str, objects: &[(VertexType, &str)]) -> PodReferences {
    let objects = objects.iter().map(|(vertex_type, name)| (*vertex_type, Box::from(*name)));
    PodReferences { node: node.into(), objects: objects.collect() }
}

fn volume(claim: (&str, &str), secrets: &[(&str, &str)]) -> VolumeReferences {
    let secrets = secrets.iter().map(|(namespace, name)| (Box::from(*namespace), Box::from(*name)));
    VolumeReferences { claim: (claim.0.into(), claim.1.into()), secrets: secrets.collect() }
}

#[test]
fn deleted_pod_takes_its_relationships_with_it() {
    let mut graph = NodeGraph::default();
    let secret = |graph: &NodeGraph, node| graph.is_related(node, VertexType::Secret, "a", "s");
    graph.set_pod("a/p", Some(&pod("n1", &[(VertexType::Secret, "s")])));
    graph.set_pod("a/q", Some(&pod("n1", &[(VertexType::Secret, "s")])));
    graph.set_pod("a/r", Some(&pod("n2", &[(VertexType::Secret, "s")])));
    assert!(secret(&graph, "n1") && secret(&graph, "n2") && !secret(&graph, "n3"));
    graph.set_pod("a/p", None);
    assert!(secret(&graph, "n1"), "another pod on the node refers to it");
    graph.set_pod("a/q", None);
    assert!(!secret(&graph, "n1") && secret(&graph, "n2"));
    graph.set_pod("a/r", None);
    assert!(graph.is_empty());
}

#[test]
fn object_of_another_namespace_is_not_related() {
    let mut graph = NodeGraph::default();
    graph.set_pod("a/p", Some(&pod("n", &[(VertexType::Secret, "s"), (VertexType::Claim, "c")])));
    assert!(graph.is_related("n", VertexType::Secret, "a", "s"));
    for (vertex_type, namespace, name) in [
        (VertexType::Secret, "b", "s"),
        (VertexType::Secret, "", "s"),
        (VertexType::Secret, "", "a/s"),
        (VertexType::ConfigMap, "a", "s"),
        (VertexType::Claim, "", "a/c"),
        (VertexType::Volume, "a", "c"),
    ] {
        assert!(!graph.is_related("n", vertex_type, namespace, name), "{vertex_type:?} {namespace} {name}");
    }
}

#[test]
fn volume_and_its_secrets_are_related_while_a_pod_uses_the_claim() {
    let claim = [(VertexType::Claim, "c")];
    let related = |graph: &NodeGraph| {
        let secret = graph.is_related("n", VertexType::Secret, "x", "s");
        assert_eq!(graph.is_related("n", VertexType::Volume, "", "v"), secret);
        secret
    };
    // In both orders of creation and deletion.
    for pod_first in [true, false] {
        let mut graph = NodeGraph::default();
        let set = |graph: &mut NodeGraph, is_pod: bool, exists: bool| match is_pod {
            true => graph.set_pod("a/p", exists.then(|| pod("n", &claim)).as_ref()),
            false => graph.set_volume("v", exists.then(|| volume(("a", "c"), &[("x", "s")])).as_ref()),
        };
        set(&mut graph, pod_first, true);
        assert!(!related(&graph));
        set(&mut graph, !pod_first, true);
        assert!(related(&graph));
        set(&mut graph, pod_first, false);
        assert!(!related(&graph));
        set(&mut graph, !pod_first, false);
        assert!(graph.is_empty() && graph.volumes.is_empty() && graph.bound_volumes.is_empty());
    }
}

#[test]
fn object_of_one_node_moves_with_its_node() {
    let mut graph = NodeGraph::default();
    let slice = |graph: &NodeGraph, node| graph.is_related(node, VertexType::ResourceSlice, "", "s");
    graph.set_owned(VertexType::ResourceSlice, "s", Some("n1"));
    assert!(slice(&graph, "n1"));
    graph.set_owned(VertexType::ResourceSlice, "s", Some("n2"));
    assert!(!slice(&graph, "n1") && slice(&graph, "n2"));
    graph.set_owned(VertexType::ResourceSlice, "s", Some(""));
    assert!(graph.is_empty());
}

const NODES: [&str; 3] = ["n0", "n1", "n2"];
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 3] = ["x", "y", "z"];
const OWNED: [VertexType; 3] =
    [VertexType::VolumeAttachment, VertexType::ResourceSlice, VertexType::PodCertificateRequest];
const REFERENCED: [VertexType; 5] = [
    VertexType::Secret,
    VertexType::ConfigMap,
    VertexType::ServiceAccount,
    VertexType::Claim,
    VertexType::ResourceClaim,
];

/// A change of one object.
#[derive(Clone, Debug)]
enum Change {
    Pod(String, Option<PodReferences>),
    Volume(&'static str, Option<VolumeReferences>),
    Owned(VertexType, String, Option<&'static str>),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let name = || prop::sample::select(&NAMES[..]);
    let namespace = || prop::sample::select(&NAMESPACES[..]);
    let path = || (namespace(), name()).prop_map(|(namespace, name)| format!("{namespace}/{name}"));
    let object = (prop::sample::select(&REFERENCED[..]), name()).prop_map(|(ty, name)| (ty, Box::from(name)));
    let references = (prop::sample::select(&NODES[..]), prop::collection::btree_set(object, 0..5))
        .prop_map(|(node, objects)| PodReferences { node: node.into(), objects });
    let secret = (namespace(), name()).prop_map(|(namespace, name)| (Box::from(namespace), Box::from(name)));
    let bound = ((namespace(), name()), prop::collection::btree_set(secret, 0..3)).prop_map(
        |((namespace, name), secrets)| VolumeReferences { claim: (namespace.into(), name.into()), secrets },
    );
    let owned =
        (prop::sample::select(&OWNED[..]), path(), prop::option::of(prop::sample::select(&NODES[..])));
    let change = prop_oneof![
        5 => (path(), prop::option::weighted(0.7, references)).prop_map(|(path, one)| Change::Pod(path, one)),
        3 => (name(), prop::option::weighted(0.7, bound)).prop_map(|(name, one)| Change::Volume(name, one)),
        1 => owned.prop_map(|(ty, path, node)| {
            let path = if ty.is_namespaced() { path } else { path.replace('/', "-") };
            Change::Owned(ty, path, node)
        }),
    ];
    prop::collection::vec(change, 1..60)
}

/// Objects as they are, searched for paths without an index.
#[derive(Default)]
struct Model {
    pods: BTreeMap<String, PodReferences>,
    volumes: BTreeMap<&'static str, VolumeReferences>,
    owned: BTreeMap<(VertexType, String), &'static str>,
}

impl Model {
    fn apply(&mut self, change: &Change) {
        match change.clone() {
            Change::Pod(path, Some(references)) => drop(self.pods.insert(path, references)),
            Change::Pod(path, None) => drop(self.pods.remove(&path)),
            Change::Volume(name, Some(references)) => drop(self.volumes.insert(name, references)),
            Change::Volume(name, None) => drop(self.volumes.remove(name)),
            Change::Owned(ty, path, Some(node)) => drop(self.owned.insert((ty, path), node)),
            Change::Owned(ty, path, None) => drop(self.owned.remove(&(ty, path))),
        }
    }

    fn is_referenced(&self, node: &str, vertex_type: VertexType, namespace: &str, name: &str) -> bool {
        self.pods.iter().any(|(path, pod)| {
            *pod.node == *node
                && path.split_once('/').unwrap().0 == namespace
                && pod.objects.contains(&(vertex_type, name.into()))
        })
    }

    fn is_mounted(&self, node: &str, volume: &VolumeReferences) -> bool {
        self.is_referenced(node, VertexType::Claim, &volume.claim.0, &volume.claim.1)
    }

    fn is_related(&self, node: &str, vertex_type: VertexType, namespace: &str, name: &str) -> bool {
        let path = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        match vertex_type {
            VertexType::Pod => self.pods.get(&path).is_some_and(|pod| *pod.node == *node),
            VertexType::Volume => self.volumes.get(name).is_some_and(|volume| self.is_mounted(node, volume)),
            ty if OWNED.contains(&ty) => self.owned.get(&(ty, path)) == Some(&node),
            VertexType::Secret => {
                self.is_referenced(node, vertex_type, namespace, name)
                    || self.volumes.values().any(|volume| {
                        volume.secrets.contains(&(namespace.into(), name.into()))
                            && self.is_mounted(node, volume)
                    })
            }
            _ => self.is_referenced(node, vertex_type, namespace, name),
        }
    }
}

fn apply(graph: &mut NodeGraph, change: &Change) {
    match change {
        Change::Pod(path, references) => graph.set_pod(path, references.as_ref()),
        Change::Volume(name, references) => graph.set_volume(name, references.as_ref()),
        Change::Owned(ty, path, node) => graph.set_owned(*ty, path, *node),
    }
}

fn assert_equal(graph: &NodeGraph, model: &Model) {
    let types = REFERENCED.into_iter().chain(OWNED).chain([VertexType::Pod, VertexType::Volume]);
    for (node, vertex_type) in types.flat_map(|ty| NODES.map(|node| (node, ty))) {
        for (namespace, name) in NAMESPACES.into_iter().flat_map(|of| NAMES.map(|name| (of, name))) {
            let joined = format!("{namespace}-{name}");
            let is_owned = OWNED.contains(&vertex_type);
            let (namespace, name) = match (vertex_type.is_namespaced(), is_owned) {
                (true, _) => (namespace, name),
                (false, true) => ("", joined.as_str()),
                (false, false) => ("", name),
            };
            assert_eq!(
                graph.is_related(node, vertex_type, namespace, name),
                model.is_related(node, vertex_type, namespace, name),
                "{node} {vertex_type:?} {namespace}/{name}"
            );
        }
    }
}

proptest! {
    #[test]
    fn graph_agrees_with_a_search_for_paths_under_random_changes(changes in changes()) {
        let (mut graph, mut model) = (NodeGraph::default(), Model::default());
        for change in &changes {
            apply(&mut graph, change);
            model.apply(change);
            assert_equal(&graph, &model);
        }
        for path in model.pods.keys() {
            graph.set_pod(path, None);
        }
        for name in NAMES {
            graph.set_volume(name, None);
        }
        for (vertex_type, path) in model.owned.keys() {
            graph.set_owned(*vertex_type, path, None);
        }
        prop_assert!(graph.is_empty(), "nothing is left behind");
        prop_assert!(graph.pods.is_empty() && graph.volumes.is_empty() && graph.bound_volumes.is_empty());
    }
}
