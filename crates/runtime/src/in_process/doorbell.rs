//! Doorbell: wakeup flag that stays set until it is cleared.
//!
//! The waiting thread clears the bell, then checks every source that may ring it, and then waits. A ring after the clear
//! ends the wait at once, so a change is either found by the check or ends the wait. The bell does not use the thread's
//! parking token, which other code that parks the thread could consume.
//!
//! `tests/wakeups.rs` compiles this file against the model checker's primitives, in place of `super::sync`.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use super::sync::{Condvar, Mutex};

/// A bell that one thread waits for. Its [`Waker`](std::task::Waker) rings it.
#[derive(Default)]
pub(super) struct Doorbell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Doorbell {
    /// Ends the current wait, or the next one.
    pub(super) fn ring(&self) {
        let mut is_rung = self.is_rung.lock();
        if !*is_rung {
            *is_rung = true;
            self.rung.notify_one();
        }
    }

    /// Clears earlier rings. The caller must check all sources after this.
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
