//! System calls and allocator options that need `unsafe`. No other crate contains `unsafe`.

use std::ffi::{c_int, c_long};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

// Linked only: the crate has no bindings for the functions below.
use libmimalloc_sys as _;

/// `mi_option_purge_delay`: time in milliseconds for which unused memory is kept.
const PURGE_DELAY: c_int = 15;

// SAFETY: the signatures are those of `mimalloc.h`. Both functions take plain numbers, validate the option against
// their table, and access only that table.
unsafe extern "C" {
    safe fn mi_option_set_default(option: c_int, value: c_long);
    #[cfg(test)]
    safe fn mi_option_get(option: c_int) -> c_long;
}

/// Sets the delay after which unused memory is returned to the system. The environment variable
/// `MIMALLOC_PURGE_DELAY` takes precedence. To be called at the start of a program, before threads are created.
pub fn set_purge_delay(delay: Duration) {
    mi_option_set_default(PURGE_DELAY, c_long::try_from(delay.as_millis()).unwrap_or(c_long::MAX));
}

/// Niceness of low-priority threads, on the system's scale from -20 to 19.
const LOW_PRIORITY: i32 = 10;

/// Lowers the priority of the calling thread below that of the process's other threads.
pub fn lower_thread_priority() {
    // A failure affects only fairness: the thread still runs. On Linux, `None` is the calling thread.
    let _ = rustix::process::setpriority_process(None, LOW_PRIORITY);
}

/// Raises the soft limit of open files to the hard limit. Returns the limit in force; `None` if unlimited.
///
/// Connections, files of the store and open log streams take one descriptor each. If the limit cannot be raised, the
/// server works with fewer clients.
pub fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// Forbids core dumps of this process, and access to its memory by other processes of the same user: both would show
/// keys, tokens and Secrets.
///
/// Profilers and debuggers need the privileges of root from then on. Programs that this process starts may not dump
/// either, unless they raise their limit.
pub fn forbid_core_dumps() {
    // Each of the two suffices against a dump, so if one is refused, the other remains.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    #[cfg(target_os = "linux")]
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_of_open_files_is_raised_to_the_hard_limit() {
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit { current: Some(128), ..limit };
        setrlimit(Resource::Nofile, lowered).unwrap();
        assert_eq!(raise_descriptor_limit(), limit.maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn process_without_core_dumps_is_not_dumpable() {
        forbid_core_dumps();
        let limit = getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }

    #[test]
    fn purge_delay_is_set_in_the_allocator() {
        assert_ne!(mi_option_get(PURGE_DELAY), 70, "the default differs");
        set_purge_delay(Duration::from_millis(70));
        assert_eq!(mi_option_get(PURGE_DELAY), 70);
    }

    #[test]
    fn only_the_calling_thread_gets_a_lower_priority() {
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
