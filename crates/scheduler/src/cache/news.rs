//! What happened that may help pods for which no node would do, told apart as far as that is cheap: whoever is tried in
//! vain costs time, and is told to people.

use std::collections::BTreeSet;

use super::{Cache, PodEntry, PodId};
use crate::rules::Helps;
use crate::waiting::Waiting;

/// What happened since pods were last stirred.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// What may help anybody who waits for it.
    pub helps: Helps,
    /// Claims that changed, as `namespace/name`.
    pub claims: BTreeSet<Box<str>>,
    /// Counters of pods that others must be near to, or spread with, in which a pod counts that came to a node.
    came: BTreeSet<usize>,
    /// Whether any pod came to a node, whoever counts it.
    has_any_come: bool,
}

impl News {
    fn is_none(&self) -> bool {
        self.helps == Helps::NONE && self.claims.is_empty() && !self.has_any_come
    }

    /// The counters get other numbers: whom pods helped that came before then, nobody knows any more.
    pub fn renumber(&mut self) {
        if !self.came.is_empty() {
            self.came.clear();
            self.helps |= Helps::PODS_CAME;
        }
    }
}

impl Cache {
    /// A pod came to a node: that helps those that want to be where it is, or count it.
    pub fn note_came(&mut self, id: PodId) {
        let Some(entry) = self.pods[id as usize].as_ref() else { return };
        self.news.has_any_come = true;
        if let Some(weights) = super::weights(&self.shapes, entry.shape) {
            self.news.came.extend(self.counters.drawing(weights, entry.is_deleted));
        }
    }

    /// Stirs the waiting pods that what happened may have helped.
    pub fn stir_waiting(&mut self) {
        let news = std::mem::take(&mut self.news);
        if news.is_none() {
            return;
        }
        for id in self.line.values() {
            let Some(entry) = self.pods[*id as usize].as_ref() else { continue };
            let Some(waiting) = entry.waiting else { continue };
            let is_pressing = self.is_pressed(entry, waiting, &news);
            let may_help =
                is_pressing || waiting.helps.meets(news.helps) || self.may_count(entry, waiting, &news);
            if let Some(waiting) = self.pods[*id as usize].as_mut().and_then(|entry| entry.waiting.as_mut()) {
                waiting.is_pressing |= is_pressing;
                waiting.is_stirred |= may_help;
            }
        }
    }

    /// Whether what happened is what this very pod waits for.
    fn is_pressed(&self, entry: &PodEntry, waiting: Waiting, news: &News) -> bool {
        let by_itself = [Helps::NODES, Helps::NODES_GONE, Helps::PODS];
        if by_itself.into_iter().any(|sort| news.helps.meets(sort) && waiting.helps.meets(sort)) {
            return true;
        }
        let Some(shape) = self.shapes[entry.shape as usize].as_ref() else { return true };
        if waiting.helps.meets(Helps::VOLUMES) && !news.claims.is_empty() {
            let namespace = &shape.shape.namespace;
            let is_own = |name: &str| news.claims.contains(format!("{namespace}/{name}").as_str());
            if shape.shape.claims.iter().any(|claim| is_own(&claim.name)) {
                return true;
            }
        }
        if !waiting.helps.meets(Helps::PODS_CAME) {
            return false;
        }
        let mut counters = shape.class.iter().flat_map(|class| class.gates.drawn_by());
        counters.any(|counter| news.came.contains(&counter))
    }

    /// Whether a pod came, and nobody knows any more what this one counts. It is not pressing: to be tried makes counters,
    /// and where there are too many of them they go again.
    fn may_count(&self, entry: &PodEntry, waiting: Waiting, news: &News) -> bool {
        let is_unknown =
            || self.shapes[entry.shape as usize].as_ref().is_none_or(|shape| shape.class.is_none());
        news.has_any_come && waiting.helps.meets(Helps::PODS_CAME) && is_unknown()
    }
}
