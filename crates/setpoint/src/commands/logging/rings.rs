//! The last lines of the log, component by component, for those who ask the pods of the control plane for them.
//!
//! A line belongs to the component that it names in the field `component`, or whose crate it comes from; all else is
//! said by the server. What the log leaves out because of its level is not here either.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::rfc3339::Micros;
use setpoint_api::{Clock, Time};
use setpoint_node::control_plane::COMPONENTS;
use setpoint_server::nodes::ContainerLog;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::clock::SystemClock;

/// How many lines of a component are kept.
const LINES_MAX: usize = 1000;
/// How many bytes of a line are kept.
const LINE_BYTES_MAX: usize = 4096;

/// What one component said last.
#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<(Time, String)>,
    /// How many lines are kept no longer.
    dropped: usize,
}

/// What each component said last.
#[derive(Clone, Debug, Default)]
pub struct Rings(Arc<[Mutex<Ring>; COMPONENTS.len()]>);

impl Rings {
    fn of(&self, component: &str) -> &Mutex<Ring> {
        let place = COMPONENTS.iter().position(|known| *known == component);
        // The server says what nobody else does, and comes first.
        &self.0[place.unwrap_or(0)]
    }

    /// The first line of a component, which tells where it runs. Whoever watches the process knows that already, so it
    /// is in no other log.
    pub fn begin(&self, component: &str) {
        let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
        self.tell(component, &format!("{component} runs in setpoint {version}, process {process}"));
    }

    /// A line of a component that is in no other log.
    pub fn tell(&self, component: &str, text: &str) {
        let now = SystemClock.now();
        self.push(component, now, format!("{}  INFO setpoint: {text}", Micros(now)));
    }

    /// The last lines of a component. It goes on for as long as the process does.
    pub fn container_log(&self, component: &str) -> ContainerLog {
        let ring = self.of(component).lock();
        let lines = ring.lines.iter().cloned().collect();
        ContainerLog { lines, dropped: ring.dropped, is_running: true, next: None }
    }

    fn push(&self, component: &str, at: Time, line: String) {
        let mut ring = self.of(component).lock();
        if ring.lines.len() == LINES_MAX {
            ring.lines.pop_front();
            ring.dropped += 1;
        }
        ring.lines.push_back((at, line));
    }
}

impl<S: Subscriber> Layer<S> for Rings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (now, about) = (SystemClock.now(), event.metadata());
        let mut words = Words::default();
        event.record(&mut words);
        let component = words.component.unwrap_or_else(|| from(about.target()));
        let Words { message, fields, .. } = words;
        let mut line = format!("{} {:>5} {}: {message}{fields}", Micros(now), about.level(), about.target());
        let mut end = LINE_BYTES_MAX.min(line.len());
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        // Who reads a log reads it line by line.
        self.push(component, now, line.replace('\n', "\\n"));
    }
}

/// The component that a crate is.
fn from(target: &str) -> &'static str {
    match target.split("::").next().unwrap_or_default() {
        "setpoint_scheduler" => "kube-scheduler",
        "setpoint_controllers" | "setpoint_reconcile" => "kube-controller-manager",
        _ => "kube-apiserver",
    }
}

/// The words of one line.
#[derive(Default)]
struct Words {
    component: Option<&'static str>,
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "component" => self.component = COMPONENTS.into_iter().find(|known| *known == value),
            // A panic says where it happened, which tells whose it is.
            "place" if value.contains("scheduler/") => self.component = Some("kube-scheduler"),
            "place" if value.contains("controllers/") => self.component = Some("kube-controller-manager"),
            _ => {}
        }
        self.record_debug(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text never fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_line_belongs_to_the_component_it_names_and_old_lines_go() {
        let rings = Rings::default();
        let subscriber = tracing_subscriber::registry().with(rings.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(component = "kube-scheduler", pods = 3, "placed");
            tracing::warn!(target: "setpoint_controllers::job", "late\nand long");
            tracing::error!(place = "crates/scheduler/src/lib.rs:1:1", "panic");
            for number in 0..=LINES_MAX {
                tracing::info!(number, "served {}", "x".repeat(2 * LINE_BYTES_MAX));
            }
        });
        let lines = |component: &str| -> Vec<String> {
            rings.container_log(component).lines.into_iter().map(|(_, line)| line).collect()
        };
        let scheduler = lines("kube-scheduler");
        assert_eq!(scheduler.len(), 2);
        assert!(scheduler[0].ends_with(": placed component=\"kube-scheduler\" pods=3"), "{scheduler:?}");
        let manager = lines("kube-controller-manager");
        assert!(manager[0].ends_with(" WARN setpoint_controllers::job: late\\nand long"), "{manager:?}");
        let server = rings.container_log("kube-apiserver");
        assert_eq!((server.lines.len(), server.dropped), (LINES_MAX, 1));
        assert!(server.lines.iter().all(|(_, line)| line.len() == LINE_BYTES_MAX));
    }
}
