//! Event logger: new Events of the control plane as lines of the process's log.
//!
//! Warnings and the [`NOTABLE`] reasons are logged at info level, at most [`LINES_MAX`] lines in a second; the number of
//! lines left out is logged in the next second. All other Events are logged at debug level.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::{EventType, NewEvent, Write, WriteRequest};

/// Maximum number of lines in a second.
const LINES_MAX: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Reasons that are logged although their Events are not warnings.
const NOTABLE: [&str; 5] =
    ["NodeNotReady", "Preempted", "RegisteredNode", "RemovingNode", "TaintManagerEviction"];

/// Lines of the current second.
#[derive(Default)]
pub(super) struct EventLogger {
    second: Time,
    logged: u32,
    left_out: u32,
}

impl EventLogger {
    /// Logs an Event that is created.
    pub(super) fn log(
        &mut self,
        WriteRequest { write, manager, .. }: &WriteRequest,
        now: impl FnOnce() -> Time,
    ) {
        let Write::CreateEvent(new_event) = write else { return };
        // Simulated nodes are not a component of the control plane.
        if *manager == "kubelet" {
            return;
        }
        // A field called `message` would replace the text of the line.
        let (reason, note) = (new_event.reason, new_event.message.as_str());
        if new_event.event_type != EventType::Warning && !NOTABLE.contains(&reason) {
            tracing::debug!(component = *manager, about = object_name(new_event), reason, note, "event");
        } else if self.has_room(manager, now()) {
            tracing::info!(component = *manager, about = object_name(new_event), reason, note, "event");
        }
    }

    /// `true` if another line may be logged now.
    fn has_room(&mut self, manager: &'static str, now: Time) -> bool {
        let second = now.whole(SECOND);
        if second != self.second {
            if self.left_out > 0 {
                tracing::info!(component = manager, lines = self.left_out, "event log lines suppressed");
            }
            *self = EventLogger { second, ..EventLogger::default() };
        }
        let has_room = self.logged < LINES_MAX;
        if has_room {
            self.logged += 1
        } else {
            self.left_out += 1
        }
        has_room
    }
}

/// Returns the object that an Event is about, for the log.
fn object_name(new_event: &NewEvent) -> String {
    format!("{} {}", new_event.involved_object.kind, new_event.involved_object.key.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_second_are_bounded() {
        let mut logger = EventLogger::default();
        let mut lines =
            |at: i64| (0..50).filter(|_| logger.has_room("kube-scheduler", Time::from_seconds(at))).count();
        assert_eq!((lines(1), lines(1), lines(2)), (20, 0, 20));
        assert_eq!(logger.left_out, 30);
    }
}
