//! Last log lines of each component, for `kubectl logs` of control plane pods.
//!
//! A line belongs to the component in its field `component`, or to that of its crate; all others belong to
//! the server. Lines below the log level are not kept.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::rfc3339::Micros;
use setpoint_api::{Clock, Time};
use setpoint_node::control_plane::COMPONENTS;
use setpoint_server::nodes::LogResponse;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::clock::SystemClock;

/// Maximum number of lines per component.
const LINES_MAX: usize = 1000;
/// Maximum bytes of a line.
const LINE_BYTES_MAX: usize = 4096;

/// Last lines of one component.
#[derive(Debug, Default)]
struct LogBuffer {
    lines: VecDeque<(Time, String)>,
    /// Number of lines that have been dropped.
    dropped: usize,
}

/// Last lines of each component.
#[derive(Clone, Debug, Default)]
pub struct ComponentLogs(Arc<[Mutex<LogBuffer>; COMPONENTS.len()]>);

impl ComponentLogs {
    fn buffer(&self, component: &str) -> &Mutex<LogBuffer> {
        let index = COMPONENTS.iter().position(|known| *known == component);
        // The server is first, and gets the lines of unknown components.
        &self.0[index.unwrap_or(0)]
    }

    /// Adds the first line of a component, with its version and process. It is redundant in the process
    /// log, so it is only here.
    pub fn log_start(&self, component: &str) {
        let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
        self.log(component, &format!("{component} runs in setpoint {version}, process {process}"));
    }

    /// Adds a line of a component that is not in the process log.
    pub fn log(&self, component: &str, text: &str) {
        let now = SystemClock.now();
        self.push(component, now, format!("{}  INFO setpoint: {text}", Micros(now)));
    }

    /// Returns the last lines of a component. The log grows as long as the process runs.
    pub fn container_log(&self, component: &str) -> LogResponse {
        let buffer = self.buffer(component).lock();
        let lines = buffer.lines.iter().cloned().collect();
        LogResponse { lines, dropped: buffer.dropped, is_running: true, next: None }
    }

    fn push(&self, component: &str, at: Time, line: String) {
        let mut buffer = self.buffer(component).lock();
        if buffer.lines.len() == LINES_MAX {
            buffer.lines.pop_front();
            buffer.dropped += 1;
        }
        buffer.lines.push_back((at, line));
    }
}

impl<S: Subscriber> Layer<S> for ComponentLogs {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (now, metadata) = (SystemClock.now(), event.metadata());
        let mut visitor = LineVisitor::default();
        event.record(&mut visitor);
        let component = visitor.component.unwrap_or_else(|| component_of(metadata.target()));
        let LineVisitor { message, fields, .. } = visitor;
        let mut line =
            format!("{} {:>5} {}: {message}{fields}", Micros(now), metadata.level(), metadata.target());
        let mut end = LINE_BYTES_MAX.min(line.len());
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        // Logs are read line by line, so a line must not contain a newline.
        self.push(component, now, line.replace('\n', "\\n"));
    }
}

/// Component of a crate.
fn component_of(target: &str) -> &'static str {
    match target.split("::").next().unwrap_or_default() {
        "setpoint_scheduler" => "kube-scheduler",
        "setpoint_controllers" | "setpoint_reconcile" => "kube-controller-manager",
        _ => "kube-apiserver",
    }
}

/// Fields of one log line.
#[derive(Default)]
struct LineVisitor {
    component: Option<&'static str>,
    message: String,
    fields: String,
}

impl Visit for LineVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "component" => self.component = COMPONENTS.into_iter().find(|known| *known == value),
            // A panic's location contains the crate, and thus the component.
            "location" if value.contains("scheduler/") => self.component = Some("kube-scheduler"),
            "location" if value.contains("controllers/") => self.component = Some("kube-controller-manager"),
            _ => {}
        }
        self.record_debug(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string never fails.
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
    fn lines_belong_to_their_component_and_old_lines_are_dropped() {
        let component_logs = ComponentLogs::default();
        let subscriber = tracing_subscriber::registry().with(component_logs.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(component = "kube-scheduler", pods = 3, "placed");
            tracing::warn!(target: "setpoint_controllers::job", "late\nand long");
            tracing::error!(location = "crates/scheduler/src/lib.rs:1:1", "panic");
            for number in 0..=LINES_MAX {
                tracing::info!(number, "served {}", "x".repeat(2 * LINE_BYTES_MAX));
            }
        });
        let lines = |component: &str| -> Vec<String> {
            component_logs.container_log(component).lines.into_iter().map(|(_, line)| line).collect()
        };
        let scheduler = lines("kube-scheduler");
        assert_eq!(scheduler.len(), 2);
        assert!(scheduler[0].ends_with(": placed component=\"kube-scheduler\" pods=3"), "{scheduler:?}");
        let manager = lines("kube-controller-manager");
        assert!(manager[0].ends_with(" WARN setpoint_controllers::job: late\\nand long"), "{manager:?}");
        let server = component_logs.container_log("kube-apiserver");
        assert_eq!((server.lines.len(), server.dropped), (LINES_MAX, 1));
        assert!(server.lines.iter().all(|(_, line)| line.len() == LINE_BYTES_MAX));
    }
}
