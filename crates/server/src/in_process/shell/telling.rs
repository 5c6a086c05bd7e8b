//! What the loop tells people in Events is in the log of the component that tells it too: what went wrong, and what
//! happens to nodes and to pods that must go. The rest is there for those who look closer.
//!
//! Many pods that fit nowhere are many lines. So many come in a second and no more; how many were left out is said.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::{News, Sent, Severity, Write};

/// How many lines come in a second.
const LINES_MAX: u32 = 20;
/// What is a second.
const SECOND: Duration = Duration::from_secs(1);

/// Events that everybody wants to know of though nothing went wrong.
const WORTH_TELLING: [&str; 5] =
    ["NodeNotReady", "Preempted", "RegisteredNode", "RemovingNode", "TaintManagerEviction"];

/// How much was told lately.
#[derive(Default)]
pub(super) struct Telling {
    second: Time,
    told: u32,
    left_out: u32,
}

impl Telling {
    /// Writes a line about an Event that is told for the first time.
    pub(super) fn tell(&mut self, Sent { write, manager, .. }: &Sent, now: impl FnOnce() -> Time) {
        let Write::Tell(news) = write else { return };
        // What nodes tell is not what a component of the control plane does.
        if *manager == "kubelet" {
            return;
        }
        // A field called message would be one with the text of the line.
        let (reason, note) = (news.reason, news.message.as_str());
        if news.severity != Severity::Warning && !WORTH_TELLING.contains(&reason) {
            tracing::debug!(component = *manager, about = about(news), reason, note, "event");
        } else if self.has_room(manager, now()) {
            tracing::info!(component = *manager, about = about(news), reason, note, "event");
        }
    }

    /// Whether a further line may come now.
    fn has_room(&mut self, manager: &'static str, now: Time) -> bool {
        let second = now.whole(SECOND);
        if second != self.second {
            if self.left_out > 0 {
                tracing::info!(component = manager, lines = self.left_out, "events were left out of the log");
            }
            *self = Telling { second, ..Telling::default() };
        }
        let has_room = self.told < LINES_MAX;
        if has_room {
            self.told += 1
        } else {
            self.left_out += 1
        }
        has_room
    }
}

/// What news is about.
fn about(news: &News) -> String {
    format!("{} {}", news.about.kind, news.about.key.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_come_in_a_second_and_no_more() {
        let mut telling = Telling::default();
        let mut lines =
            |at: i64| (0..50).filter(|_| telling.has_room("kube-scheduler", Time::from_seconds(at))).count();
        assert_eq!((lines(1), lines(1), lines(2)), (20, 0, 20));
        assert_eq!(telling.left_out, 30);
    }
}
