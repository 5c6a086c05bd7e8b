//! Doorbell: a wakeup that is kept until the sleeper looks.
//!
//! The sleeper clears the bell, then looks at everything that may ring it, and then waits. A ring after the clearing
//! ends the wait at once, so a change is either seen by the look or ends the wait. The state is the bell's own: a
//! thread's parking token would be consumed by anything else that parks the thread in between.
//!
//! `tests/wakeups.rs` compiles this file against the model checker's primitives, in place of `super::sync`.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use super::sync::{Condvar, Mutex};

/// A bell that one thread waits for. As a [`Waker`](std::task::Waker) it rings.
#[derive(Default)]
pub(super) struct Doorbell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Doorbell {
    /// Ends the wait of the sleeper, or its next one.
    pub(super) fn ring(&self) {
        let mut is_rung = self.is_rung.lock();
        if !*is_rung {
            *is_rung = true;
            self.rung.notify_one();
        }
    }

    /// Forgets earlier rings. What they announced must be looked at after this.
    pub(super) fn clear(&self) {
        *self.is_rung.lock() = false;
    }

    /// Waits for a ring since the last [`Doorbell::clear`], at most for `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let mut is_rung = self.is_rung.lock();
        if !*is_rung {
            self.rung.wait_for(&mut is_rung, timeout);
        }
    }
}

impl Wake for Doorbell {
    fn wake(self: Arc<Doorbell>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Doorbell>) {
        self.ring();
    }
}
