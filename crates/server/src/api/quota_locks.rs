//! Quota locks: writes that charge the quotas of one namespace are serialized.
//!
//! Concurrent commits that raise `status.used` of one quota conflict: all but one would be decided again, repeatedly.
//! Writers wait in FIFO order, and a writer that had to wait decides again with the new state.

use setpoint_api::Key;
use tokio::sync::{Mutex, MutexGuard};

/// Number of locks. Namespaces are hashed onto them.
const LOCKS: usize = 64;

/// Locks of the quotas of all namespaces.
pub(super) struct QuotaLocks([Mutex<()>; LOCKS]);

impl Default for QuotaLocks {
    fn default() -> QuotaLocks {
        QuotaLocks(std::array::from_fn(|_| Mutex::default()))
    }
}

impl QuotaLocks {
    /// Locks the quotas of this quota's namespace. Returns `true` if another writer held the lock.
    pub(super) async fn lock(&self, quota: &Key) -> (MutexGuard<'_, ()>, bool) {
        // Namespaces that share a lock wait for each other needlessly, which is rare and harmless.
        let namespace = quota.namespace().unwrap_or_default().bytes();
        let lock = namespace.fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        let lock = &self.0[lock % LOCKS];
        match lock.try_lock() {
            Ok(guard) => (guard, false),
            Err(_) => (lock.lock().await, true),
        }
    }
}
