//! `/metrics` in Prometheus' text format, under upstream's metric names.
//!
//! Counting a request costs a table lookup and a few atomic additions: there is no lock, and no allocation once a
//! series exists; only requests of custom resources take a read lock, to find their row. The number of series is
//! bounded, because every label comes from the table of resource types or a bounded number of custom ones. Other
//! components add families by [`Metrics::register`].

mod certificates;
mod custom_rows;
mod process;
mod requests;
mod text;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use setpoint_api::{Clock, resource_types};
use setpoint_store::{Snapshot, StoreStat};

pub use self::certificates::CertificateExpirations;
pub use self::requests::SeriesKey;
pub use self::text::{MetricType, Text};

use self::custom_rows::CUSTOM_ROWS_MAX;
use self::requests::Requests;
use crate::catalog::Catalog;
use crate::exchange::{Frames, Payload, Request, Response};
use crate::inflight::Inflight;
use crate::route::Route;
use crate::watch::WatchStream;

/// A writer of metric families.
type Source = dyn Fn(&mut Text) + Send + Sync;

/// All metrics of the server.
pub struct Metrics {
    requests: Requests,
    /// Events sent to watches, by the index of the resource type; then those of custom ones, by their row.
    watch_events: Vec<AtomicU64>,
    sources: RwLock<Vec<Box<Source>>>,
    certificates: CertificateExpirations,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            requests: Requests::default(),
            watch_events: std::iter::repeat_with(AtomicU64::default)
                .take(resource_types::all().len() + CUSTOM_ROWS_MAX)
                .collect(),
            sources: RwLock::default(),
            certificates: CertificateExpirations::default(),
        }
    }
}

impl Metrics {
    /// Adds a source, which is called at each scrape. It must write complete families and must not block.
    pub fn register(&self, source: impl Fn(&mut Text) + Send + Sync + 'static) {
        self.sources.write().push(Box::new(source));
    }

    /// Expiry times of certificates.
    #[must_use]
    pub fn certificates(&self) -> &CertificateExpirations {
        &self.certificates
    }

    /// Series of a request.
    pub(crate) fn key(&self, route: &Route, request: &Request) -> SeriesKey {
        self.requests.key(route, request)
    }

    /// Counts a request that was rejected before it was routed.
    pub(crate) fn count_refused(&self, key: SeriesKey, code: u16) {
        self.requests.count(key, code);
    }

    /// Counts a response; a stream is counted when it ends.
    pub(crate) fn count_answer(&self, key: SeriesKey, response: &Response, took: Duration) {
        if !matches!(response.body, Payload::Stream(_)) {
            self.requests.count(key, response.status.as_u16());
            self.requests.observe(key, took);
        }
    }

    /// Returns all families as text.
    #[must_use]
    pub fn render(
        &self,
        snapshot: &Snapshot,
        catalog: &Catalog,
        store: Option<&StoreStat>,
        inflight: &Inflight,
    ) -> String {
        let mut text = Text::default();
        self.requests.write(&mut text);
        self.write_watch_events(&mut text);
        write_inflight(&mut text, inflight);
        write_objects(&mut text, snapshot, catalog);
        self.certificates.write(&mut text, snapshot);
        if let Some(store) = store {
            write_store(&mut text, store);
        }
        process::write(&mut text);
        for source in self.sources.read().iter() {
            source(&mut text);
        }
        text.finish()
    }

    fn write_watch_events(&self, text: &mut Text) {
        let name = "apiserver_watch_events_total";
        text.family(name, MetricType::Counter, "Events sent to watches, by resource.");
        let built_in = resource_types::all().iter().map(|resource_type| {
            let info = &resource_type.info;
            [&*info.group, &*info.version, &*info.plural]
        });
        let custom = self.requests.custom_rows();
        let custom = custom.iter().map(|[group, version, resource, _]| [&**group, &**version, &**resource]);
        for ([group, version, resource], count) in built_in.chain(custom).zip(&self.watch_events) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let labels = [("group", group), ("version", version), ("resource", resource)];
                text.sample(name, &labels, count);
            }
        }
    }

    fn count_events(&self, key: SeriesKey, built_in: usize, events: u64) {
        let index = key.custom_row().map_or(built_in, |row| resource_types::all().len() + row);
        self.watch_events[index].fetch_add(events, Ordering::Relaxed);
    }
}

/// A watch with metrics: it counts as running, as a request when it ends, and each of its events.
pub(crate) struct CountedWatch {
    watch: WatchStream,
    metrics: Arc<Metrics>,
    key: SeriesKey,
    clock: Arc<dyn Clock>,
    /// Uptime at the start of the request.
    begun: Duration,
}

impl CountedWatch {
    /// Wraps a watch.
    #[must_use]
    pub fn new(
        watch: WatchStream,
        metrics: Arc<Metrics>,
        (key, begun): (SeriesKey, Duration),
        clock: Arc<dyn Clock>,
    ) -> CountedWatch {
        metrics.requests.begin(key);
        CountedWatch { watch, metrics, key, clock, begun }
    }
}

impl Frames for CountedWatch {
    fn is_initialized(&self) -> bool {
        self.watch.is_initialized()
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let polled = self.watch.poll_frame(context);
        if polled.is_ready() {
            let events = self.watch.take_events();
            self.metrics.count_events(self.key, self.watch.resource_type().index, events);
        }
        polled
    }
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let requests = &self.metrics.requests;
        requests.end(self.key);
        requests.count(self.key, 200);
        requests.observe(self.key, self.clock.uptime().saturating_sub(self.begun));
    }
}

fn write_inflight(text: &mut Text, inflight: &Inflight) {
    let name = "apiserver_current_inflight_requests";
    text.family(name, MetricType::Gauge, "Peak number of in-flight requests since the last scrape.");
    for (kind, peak) in inflight.take_peaks() {
        text.sample(name, &[("request_kind", kind)], peak);
    }
    let name = "setpoint_inflight_requests_limit";
    text.family(name, MetricType::Gauge, "Maximum number of in-flight requests.");
    for (kind, bound) in inflight.bounds() {
        text.sample(name, &[("request_kind", kind)], bound);
    }
}

fn write_objects(text: &mut Text, snapshot: &Snapshot, catalog: &Catalog) {
    let mut custom: Vec<&Arc<resource_types::ResourceType>> = catalog.custom().collect();
    // The versions of a custom resource follow each other, and share a table.
    custom.dedup_by(|a, b| a.resource == b.resource);
    let mut stored: Vec<&Arc<resource_types::ResourceType>> = resource_types::stored().collect();
    stored.extend(custom);
    let counts: Vec<(&resource_types::ResourceType, usize, u64)> = stored
        .into_iter()
        .map(|resource_type| {
            let table = snapshot.table(&resource_type.resource);
            (&**resource_type, table.map_or(0, |table| table.len()), table.map_or(0, |table| table.bytes()))
        })
        .collect();
    text.family("apiserver_storage_objects", MetricType::Gauge, "Number of stored objects, by resource.");
    for (resource_type, count, _) in &counts {
        text.sample("apiserver_storage_objects", &[("resource", resource_type.resource.as_str())], *count);
    }
    text.family(
        "apiserver_resource_objects",
        MetricType::Gauge,
        "Number of stored objects, by group and resource.",
    );
    for (resource_type, count, _) in &counts {
        let labels = [("group", &*resource_type.info.group), ("resource", &*resource_type.info.plural)];
        text.sample("apiserver_resource_objects", &labels, *count);
    }
    let name = "apiserver_resource_size_estimate_bytes";
    text.family(name, MetricType::Gauge, "Bytes of stored objects, by group and resource.");
    for (resource_type, _, bytes) in &counts {
        text.sample(
            name,
            &[("group", &*resource_type.info.group), ("resource", &*resource_type.info.plural)],
            *bytes,
        );
    }
}

fn write_store(text: &mut Text, stat: &StoreStat) {
    let mut write_metric = |name: &str, metric_type, help: &str, value: u64| {
        text.family(name, metric_type, help);
        text.sample(name, &[], value);
    };
    let log = &stat.log;
    write_metric("setpoint_store_revision", MetricType::Gauge, "Newest revision.", stat.revision.0);
    write_metric(
        "setpoint_store_objects",
        MetricType::Gauge,
        "Number of stored objects.",
        stat.objects as u64,
    );
    write_metric("setpoint_store_bytes", MetricType::Gauge, "Bytes of all stored objects.", stat.bytes);
    write_metric(
        "setpoint_store_hot_revision_min",
        MetricType::Gauge,
        "Oldest revision in memory.",
        stat.hot_floor.0,
    );
    write_metric(
        "setpoint_store_hot_bytes",
        MetricType::Gauge,
        "Bytes of superseded objects in memory.",
        stat.hot_bytes,
    );
    write_metric(
        "setpoint_log_revision_min",
        MetricType::Gauge,
        "Oldest revision that can be rebuilt from the log.",
        log.floor.0,
    );
    write_metric(
        "setpoint_log_live_bytes",
        MetricType::Gauge,
        "Bytes of commits since the newest checkpoint.",
        log.live_bytes,
    );
    write_metric(
        "setpoint_log_base_bytes",
        MetricType::Gauge,
        "Bytes of the newest checkpoint.",
        log.base_bytes,
    );
    write_metric(
        "setpoint_log_history_bytes",
        MetricType::Gauge,
        "Bytes of history before the newest checkpoint.",
        log.history_bytes,
    );
    write_metric("setpoint_log_syncs_total", MetricType::Counter, "Total number of syncs.", log.syncs);
    write_metric(
        "setpoint_log_full",
        MetricType::Gauge,
        "1 if the disk is full, otherwise 0.",
        u64::from(log.full),
    );
}
