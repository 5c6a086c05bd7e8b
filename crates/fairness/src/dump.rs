//! Dumps of levels, queues and requests, in the format of upstream's debug endpoints.

use std::fmt::Write;
use std::time::Duration;

use crate::controller::Controller;
use crate::level::report::{QueueReport, RequestReport};

/// Least width of a column.
const COLUMN_WIDTH_MIN: usize = 8;
/// Configured queues up to which idle ones are shown, too.
const SHOWN_QUEUES_MAX: u32 = 4096;
/// Start of a request that has not started.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Formats an uptime as a time of day (RFC 3339 with nanoseconds).
pub type DumpTime<'a> = &'a dyn Fn(Duration) -> String;

/// Rows of cells.
struct Rows(Vec<Vec<String>>);

impl Rows {
    fn new(headers: &[&str]) -> Rows {
        Rows(vec![headers.iter().map(|header| (*header).to_owned()).collect()])
    }

    /// Aligns the columns: each but the last is as wide as its widest cell and the space after it.
    fn render(&self) -> String {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count() + ", ".len()).max().unwrap_or(0).max(COLUMN_WIDTH_MIN)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.0 {
            for (position, (cell, width)) in row.iter().zip(&widths).enumerate() {
                text.push_str(cell);
                if position + 1 < row.len() {
                    let padding = width.saturating_sub(cell.chars().count() + ",".len());
                    text.push(',');
                    text.extend(std::iter::repeat_n(' ', padding));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Returns a row per level.
#[must_use]
pub fn priority_levels<W>(controller: &Controller<W>, now: Duration) -> String {
    let mut rows = Rows::new(&[
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ]);
    for level in controller.reports(now) {
        rows.0.push(vec![
            level.name.to_string(),
            level.waiting_queues.to_string(),
            (level.waiting == 0 && level.executing == 0).to_string(),
            level.is_quiescing.to_string(),
            level.waiting.to_string(),
            level.executing.to_string(),
            level.counts.dispatched.to_string(),
            level.counts.rejected.to_string(),
            level.counts.timed_out.to_string(),
            level.counts.cancelled.to_string(),
        ]);
    }
    rows.render()
}

/// Returns a row per queue. Levels with very many queues show those with requests only.
#[must_use]
pub fn queues<W>(controller: &Controller<W>) -> String {
    let mut rows = Rows::new(&[
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ]);
    for (level, dump) in controller.dumps() {
        let mut active = dump.queues.iter().peekable();
        if dump.queue_count <= SHOWN_QUEUES_MAX {
            for index in 0..dump.queue_count {
                let queue = active.next_if(|queue| queue.index == index);
                rows.0.push(queue_row(&level, index, queue));
            }
        }
        rows.0.extend(active.map(|queue| queue_row(&level, queue.index, Some(queue))));
    }
    rows.render()
}

fn queue_row(level: &str, index: u32, queue: Option<&QueueReport>) -> Vec<String> {
    let number = |number: fn(&QueueReport) -> u64| queue.map_or(0, number).to_string();
    vec![
        level.to_owned(),
        index.to_string(),
        number(|queue| queue.waiting.len() as u64),
        number(|queue| queue.executing.into()),
        number(|queue| queue.seats_in_use.into()),
        queue.map(|queue| queue.next_dispatch).unwrap_or_default().to_string(),
        number(|queue| queue.initial_seats_waiting),
        number(|queue| queue.max_seats_waiting),
        queue.map(|queue| queue.work_waiting).unwrap_or_default().to_string(),
    ]
}

/// Returns a row per request, with its attributes if `has_details`.
#[must_use]
pub fn requests<W>(controller: &Controller<W>, has_details: bool, time: DumpTime<'_>) -> String {
    let mut headers = vec![
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ];
    if has_details {
        headers.extend([
            "UserName",
            "Verb",
            "APIPath",
            "Namespace",
            "Name",
            "APIVersion",
            "Resource",
            "SubResource",
        ]);
    }
    let mut rows = Rows::new(&headers);
    for (level, dump) in controller.dumps() {
        let waiting = dump.queues.iter().flat_map(|queue| queue.waiting.iter().enumerate());
        let waiting = waiting.map(|(position, request)| (position.to_string(), request));
        let executing = dump.executing.iter().map(|request| ("-1".to_owned(), request));
        for (position, request) in waiting.chain(executing) {
            let mut row = request_row(&level, position, request, time);
            if has_details {
                row.extend(detail_cells(request));
            }
            rows.0.push(row);
        }
    }
    rows.render()
}

fn request_row(level: &str, position: String, request: &RequestReport, time: DumpTime<'_>) -> Vec<String> {
    let flow = request.subject.as_ref().map(|subject| subject.flow.to_string());
    vec![
        level.to_owned(),
        request.schema.to_string(),
        request.queue.map_or(-1, i64::from).to_string(),
        position,
        flow.unwrap_or_default(),
        time(request.arrived_at),
        request.estimate.initial_seats.to_string(),
        request.estimate.final_seats.to_string(),
        latency(request.estimate.additional_latency),
        request.started_at.map_or_else(|| NO_TIME.to_owned(), time),
    ]
}

fn detail_cells(request: &RequestReport) -> [String; 8] {
    let subject = request.subject.as_deref().cloned().unwrap_or_default();
    [
        subject.user.into(),
        subject.verb.into(),
        request.path.to_string(),
        subject.namespace.into(),
        request.name.to_string(),
        subject.api_version.into(),
        subject.resource.into(),
        subject.subresource.into(),
    ]
}

/// Formats a latency as Go does: `0s`, `7.5ms`, `1.2s`.
fn latency(latency: Duration) -> String {
    let nanos = latency.as_nanos();
    let (unit, digits) = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 0),
        1_000..1_000_000 => ("µs", 3),
        1_000_000..1_000_000_000 => ("ms", 6),
        _ => ("s", 9),
    };
    let scale = 10_u128.pow(digits);
    let mut text = (nanos / scale).to_string();
    let fraction = nanos % scale;
    if fraction > 0 {
        let _ = write!(text, ".{fraction:0width$}", width = digits as usize);
        text.truncate(text.trim_end_matches('0').len());
    }
    text + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut rows = Rows::new(&["Name", "A", "Last"]);
        rows.0.push(vec!["longer-name".into(), "1".into(), "x".into()]);
        let expected = "Name,        A,      Last\nlonger-name, 1,      x\n";
        assert_eq!(rows.render(), expected);
    }

    #[test]
    fn latency_is_formatted_as_in_go() {
        let text = |nanos| latency(Duration::from_nanos(nanos));
        assert_eq!((text(0), text(5_000_000), text(7_500_000)), ("0s".into(), "5ms".into(), "7.5ms".into()));
        assert_eq!((text(1_200_000_000), text(15)), ("1.2s".into(), "15ns".into()));
        assert_eq!(text(1_050), "1.05µs");
    }
}
