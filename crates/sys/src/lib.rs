//! What safe Rust has no words for: calls into the system, and into the allocator. No other crate has `unsafe` in it.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

// Only linked: what is called of it has no binding there.
use libmimalloc_sys as _;

/// The option of the allocator that says for how long memory is kept that nobody uses.
const PURGE_DELAY: c_int = 15;

// SAFETY: the signatures are those of `mimalloc.h`; both take plain numbers, check the option against their table, and
// touch nothing but that table.
unsafe extern "C" {
    safe fn mi_option_set_default(option: c_int, value: c_long);
    #[cfg(test)]
    safe fn mi_option_get(option: c_int) -> c_long;
}

/// Says after how long memory that nobody uses is given back to the system. What people set in the environment
/// (`MIMALLOC_PURGE_DELAY`) counts more. It is for the start of a program, before there are threads.
pub fn give_back_memory_after(delay: Duration) {
    mi_option_set_default(PURGE_DELAY, c_long::try_from(delay.as_millis()).unwrap_or(c_long::MAX));
}

/// Niceness of threads that do long work, on the system's scale from -20 to 19.
const LOW_PRIORITY: i32 = 10;

/// Lowers the priority of the calling thread: it gives way to the process's other threads when both want a core.
pub fn lower_thread_priority() {
    // Only fairness is at stake: a system that refuses still runs the thread. On Linux, "no process" is the thread.
    let _ = rustix::process::setpriority_process(None, LOW_PRIORITY);
}

/// Raises the soft limit of open files to the hard one and returns the limit in force; `None` if there is none.
///
/// A descriptor is a connection, a file of the store or a log that is read. What cannot be raised stays as it is: a
/// server under a low limit works, for fewer clients.
pub fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit { current: Some(128), ..limit };
        setrlimit(Resource::Nofile, lowered).unwrap();
        assert_eq!(raise_descriptor_limit(), limit.maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    }

    #[test]
    fn the_allocator_hears_when_to_give_memory_back() {
        assert_ne!(mi_option_get(PURGE_DELAY), 70, "it is another one before");
        give_back_memory_after(Duration::from_millis(70));
        assert_eq!(mi_option_get(PURGE_DELAY), 70);
    }

    #[test]
    fn lowered_priority_is_that_of_the_calling_thread_alone() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let lowered = std::thread::spawn(move || {
            lower_thread_priority();
            priority()
        });
        assert_eq!(lowered.join().unwrap(), LOW_PRIORITY.max(before));
        assert_eq!(priority(), before);
    }
}
