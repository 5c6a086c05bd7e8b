//! A node as the rules see it: what it offers, and what is taken of it.

use setpoint_reconcile::Object;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::node::{self, Taint};

use super::PodId;
use crate::request::{Amounts, Request};
use crate::shape::{PortSet, Shape, normal_image};

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: Box<str>,
    /// A number that stands for its name, to break ties.
    pub hash: u64,
    /// Whether there is such a node; pods may be bound to one that is not there.
    pub exists: bool,
    /// What it offers.
    pub offer: Offer,
    /// What is taken of it.
    pub taken: Amounts,
    /// What is likely used of it: thousandths of a core.
    pub likely_cpu: i64,
    /// What is likely used of it: bytes.
    pub likely_memory: i64,
    /// The ports that are taken.
    pub ports: PortSet,
    /// The pods on it.
    pub pods: Vec<PodId>,
}

/// What a node offers and demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Its labels.
    pub labels: Pairs,
    /// What keeps pods away.
    pub taints: Vec<Taint>,
    /// Whether it gets no new pods.
    pub unschedulable: bool,
    /// What pods may take.
    pub amounts: Amounts,
    /// How many pods it takes.
    pub pods: i64,
    /// The images that it has, with their sizes.
    pub images: Vec<(Box<str>, i64)>,
    /// What it says that it can do.
    pub features: Vec<Box<str>>,
}

impl Offer {
    /// What a node offers.
    #[must_use]
    pub fn of(object: &Object, node: &node::Node) -> Offer {
        let (amounts, pods) = Amounts::read(node.status.allocatable.iter());
        let images =
            node.status.images.iter().flat_map(|image| {
                image.names.iter().map(|name| (normal_image(name).into(), image.size_bytes))
            });
        let mut images: Vec<(Box<str>, i64)> = images.collect();
        images.sort_unstable();
        Offer {
            labels: object.meta().labels.clone(),
            taints: node.spec.taints.clone(),
            unschedulable: node.spec.unschedulable,
            amounts,
            pods,
            images,
            features: node.status.declared_features.iter().map(|one| one.as_str().into()).collect(),
        }
    }
}

impl Node {
    /// A node of which nothing is known but its name.
    #[must_use]
    pub fn named(name: &str) -> Node {
        Node { name: name.into(), hash: hash(name), ..Node::default() }
    }

    /// Takes what a pod asks for, or with -1 gives it back.
    pub fn take(&mut self, request: &Request, times: i64) {
        self.taken.add(&request.asked, times);
        self.likely_cpu += request.likely_cpu * times;
        self.likely_memory += request.likely_memory * times;
    }

    /// Puts a pod on the node.
    pub fn add(&mut self, id: PodId, shape: &Shape) {
        self.take(&shape.request, 1);
        self.ports.take(&shape.ports);
        self.pods.push(id);
    }

    /// Takes a pod off the node.
    pub fn remove(&mut self, id: PodId, shape: &Shape) {
        self.take(&shape.request, -1);
        self.ports.give_back(&shape.ports);
        if let Some(at) = self.pods.iter().position(|other| *other == id) {
            self.pods.swap_remove(at);
        }
    }
}

/// A number that stands for a text: FNV-1a, which is the same everywhere.
#[must_use]
pub fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
