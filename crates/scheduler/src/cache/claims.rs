//! How many pods that have a node use each claim for a volume.
//!
//! Kept up with every pod that comes to a node or leaves it, also in a plan and in tries that are undone; pods without
//! claims cost nothing.

use std::collections::BTreeMap;

use crate::shape::{Claim, Shape};

/// How many pods use each claim, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Users(BTreeMap<Box<str>, BTreeMap<Box<str>, i64>>);

impl Users {
    /// Counts a pod that got a node, or with -1 no longer.
    pub fn count(&mut self, shape: &Shape, times: i64) {
        if shape.claims.is_empty() {
            return;
        }
        let claims = self.0.entry(shape.namespace.clone()).or_default();
        for Claim { name, .. } in &shape.claims {
            let users = claims.entry(name.clone()).or_insert(0);
            *users += times;
            if *users == 0 {
                claims.remove(name);
            }
        }
        if claims.is_empty() {
            self.0.remove(&shape.namespace);
        }
    }

    /// How many pods use a claim.
    #[must_use]
    pub fn of(&self, namespace: &str, claim: &str) -> i64 {
        self.0.get(namespace).and_then(|claims| claims.get(claim)).copied().unwrap_or(0)
    }
}
