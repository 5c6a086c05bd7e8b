//! Turns at the quotas of a namespace.
//!
//! Writes that raise what is used of a quota cannot be committed side by side: all but one would be decided again, and
//! again. So they go one after another, in the order in which they came. Whoever had to wait decides anew.

use setpoint_api::Key;
use tokio::sync::{Mutex, MutexGuard};

/// How many namespaces may go on at a time, if they have places of their own.
const LOCKS: usize = 64;

/// Who is at the quotas of which namespaces.
pub(super) struct QuotaLocks([Mutex<()>; LOCKS]);

impl Default for QuotaLocks {
    fn default() -> QuotaLocks {
        QuotaLocks(std::array::from_fn(|_| Mutex::default()))
    }
}

impl QuotaLocks {
    /// Takes a turn at the quotas of the namespace of this one. Says whether others came first.
    pub(super) async fn lock(&self, quota: &Key) -> (MutexGuard<'_, ()>, bool) {
        // Namespaces that share a place wait for each other in vain, which is rare and does no harm.
        let namespace = quota.namespace().unwrap_or_default().bytes();
        let lock = namespace.fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        let lock = &self.0[lock % LOCKS];
        match lock.try_lock() {
            Ok(guard) => (guard, false),
            Err(_) => (lock.lock().await, true),
        }
    }
}
