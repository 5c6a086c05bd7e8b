//! PersistentVolumeClaim users: pods with a node that use each claim, for the `ReadWriteOncePod` access mode.
//!
//! Updated with every pod that is assigned to a node or removed from it, also during a plan and in preemption dry runs.
//! Pods without claims cost nothing.

use std::collections::BTreeMap;

use crate::signature::{PodSignature, VolumeClaimRef};

/// Pods that use each claim, by namespace and claim name.
#[derive(Clone, Debug, Default)]
pub struct ClaimUsers(BTreeMap<Box<str>, BTreeMap<Box<str>, i64>>);

impl ClaimUsers {
    /// Adds a pod that is assigned to a node (`times` 1) or removes it (`times` -1).
    pub fn count(&mut self, signature: &PodSignature, times: i64) {
        if signature.claims.is_empty() {
            return;
        }
        let claims = self.0.entry(signature.namespace.clone()).or_default();
        for VolumeClaimRef { name, .. } in &signature.claims {
            let users = claims.entry(name.clone()).or_insert(0);
            *users += times;
            if *users == 0 {
                claims.remove(name);
            }
        }
        if claims.is_empty() {
            self.0.remove(&signature.namespace);
        }
    }

    /// Pods that use a claim.
    #[must_use]
    pub fn count_users(&self, namespace: &str, claim: &str) -> i64 {
        self.0.get(namespace).and_then(|claims| claims.get(claim)).copied().unwrap_or(0)
    }
}
