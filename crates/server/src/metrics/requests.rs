//! Request metrics by resource, operation and status code.
//!
//! A series has two indexes: the row of a resource or subresource, and the column of an operation. Rows and series
//! are allocated at their first request, so unused ones take no memory and are not exposed. Custom resources get a row
//! at their first request; when all are taken, the rest share the last one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use parking_lot::RwLock;
use setpoint_api::resource_types;

use super::custom_rows::{CUSTOM_ROWS_MAX, CustomRow, CustomRows};

use super::text::{MetricType, Text};
use crate::exchange::Request;
use crate::query::QueryParams;
use crate::route::{Route, Target};

/// Bucket bounds of durations, in seconds: those of upstream's dashboards.
const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Number of leading buckets that the SLI histogram leaves out, as upstream's.
const SLI_BUCKETS_SKIPPED: usize = 2;
/// Status codes with a label of their own; all others share the last one.
const CODES: [&str; 25] = [
    "200", "201", "202", "304", "400", "401", "403", "404", "405", "406", "408", "409", "410", "413", "415",
    "422", "429", "431", "500", "501", "502", "503", "504", "507", "other",
];
/// Verb and scope of each operation.
const OPERATIONS: [(&str, &str); 15] = [
    ("GET", "resource"),
    ("LIST", "namespace"),
    ("LIST", "cluster"),
    ("WATCH", "resource"),
    ("WATCH", "namespace"),
    ("WATCH", "cluster"),
    ("POST", "resource"),
    ("PUT", "resource"),
    ("PATCH", "resource"),
    ("APPLY", "resource"),
    ("DELETE", "resource"),
    ("DELETE", "namespace"),
    ("DELETE", "cluster"),
    ("CONNECT", "resource"),
    ("other", "resource"),
];
const GET: usize = 0;
const OTHER: usize = OPERATIONS.len() - 1;
/// Values of `dryRun`.
const DRY_RUNS: [&str; 3] = ["", "All", "invalid"];
/// Paths of non-resource routes, which are also their `subresource` labels.
const NON_RESOURCE_PATHS: [&str; 10] = [
    "",
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
];
const COMPONENT: (&str, &str) = ("component", "apiserver");

/// Index of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesKey {
    row: u16,
    column: u16,
}

impl SeriesKey {
    /// Row among those of custom resources; `None` if the series is of another route.
    pub(super) fn custom_row(self) -> Option<usize> {
        usize::from(self.row).checked_sub(first_custom_row())
    }
}

fn document_operation(method: &Method) -> usize {
    if matches!(*method, Method::GET | Method::HEAD) { GET } else { OTHER }
}

fn dry_run(query: &QueryParams) -> usize {
    let values = query.all("dryRun");
    match values.as_slice() {
        [] => 0,
        values if values.iter().all(|value| *value == "All") => 1,
        _ => 2,
    }
}

fn operation(target: &Target, method: &Method, query: &str, is_apply: bool) -> usize {
    if matches!(&*target.subresource, "attach" | "exec" | "log" | "portforward" | "proxy") {
        return operation_index("CONNECT", "resource");
    }
    let scope = match (&*target.name, &*target.namespace) {
        ("", "") => "cluster",
        ("", _) => "namespace",
        _ => "resource",
    };
    let is_watch =
        || target.watch || (query.contains("watch") && QueryParams::parse(query).flag("watch") == Some(true));
    match *method {
        Method::GET | Method::HEAD if is_watch() => operation_index("WATCH", scope),
        Method::GET | Method::HEAD if scope == "resource" => GET,
        Method::GET | Method::HEAD => operation_index("LIST", scope),
        Method::POST => operation_index("POST", "resource"),
        Method::PUT => operation_index("PUT", "resource"),
        Method::PATCH if is_apply => operation_index("APPLY", "resource"),
        Method::PATCH => operation_index("PATCH", "resource"),
        Method::DELETE => operation_index("DELETE", scope),
        _ => OTHER,
    }
}

fn operation_index(verb: &str, scope: &str) -> usize {
    OPERATIONS.iter().position(|operation| *operation == (verb, scope)).unwrap_or(OTHER)
}

/// First row of each resource: its own, then one for each subresource.
fn first_rows() -> &'static [usize] {
    static STARTS: OnceLock<Vec<usize>> = OnceLock::new();
    STARTS.get_or_init(|| {
        let mut next = 0;
        let rows =
            resource_types::all().iter().map(|resource_type| 1 + resource_type.info.subresources.len());
        rows.map(|rows| {
            next += rows;
            next - rows
        })
        .collect()
    })
}

fn object_row(target: &Target, custom: &RwLock<CustomRows>) -> usize {
    let info = &target.resource_type.info;
    if target.resource_type.custom.is_some() {
        let subresource = info.subresource(&target.subresource).map_or("", |sub| &*sub.name);
        let name = [&*info.group, &*info.version, &*info.plural, subresource];
        let known = custom.read().find(name);
        return first_custom_row() + known.unwrap_or_else(|| custom.write().find_or_add(name));
    }
    let subresources = &info.subresources;
    let offset =
        subresources.iter().position(|it| it.name == target.subresource).map_or(0, |index| index + 1);
    first_rows()[target.resource_type.index] + offset
}

/// First row of non-resource routes.
fn first_non_resource_row() -> usize {
    let all = resource_types::all();
    all.last().map_or(0, |last| first_rows()[last.index] + 1 + last.info.subresources.len())
}

/// First row of custom resources.
fn first_custom_row() -> usize {
    first_non_resource_row() + NON_RESOURCE_PATHS.len()
}

fn non_resource_row(segments: &[String]) -> usize {
    let matches = |path: &str| match segments {
        [] => path.is_empty(),
        [first, second, ..] if first == "openapi" => path.strip_prefix("/openapi/") == Some(second.as_str()),
        [first, ..] => path.strip_prefix('/') == Some(first.as_str()),
    };
    first_non_resource_row() + NON_RESOURCE_PATHS.iter().position(|path| matches(path)).unwrap_or(0)
}

fn load(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

/// Counters of one series.
struct Series {
    codes: [AtomicU64; CODES.len()],
    buckets: [AtomicU64; BUCKETS.len()],
    observed: AtomicU64,
    nanoseconds: AtomicU64,
    running: AtomicU64,
}

impl Default for Series {
    fn default() -> Series {
        let zero = AtomicU64::default;
        Series {
            codes: std::array::from_fn(|_| zero()),
            buckets: std::array::from_fn(|_| zero()),
            observed: zero(),
            nanoseconds: zero(),
            running: zero(),
        }
    }
}

type Row = [OnceLock<Box<Series>>; OPERATIONS.len() * DRY_RUNS.len()];

/// All series.
pub(super) struct Requests {
    rows: Vec<OnceLock<Box<Row>>>,
    custom: RwLock<CustomRows>,
}

impl Default for Requests {
    fn default() -> Requests {
        let rows = first_custom_row() + CUSTOM_ROWS_MAX;
        let rows = std::iter::repeat_with(OnceLock::new).take(rows).collect();
        Requests { rows, custom: RwLock::default() }
    }
}

impl Requests {
    /// Series of a request.
    pub fn key(&self, route: &Route, request: &Request) -> SeriesKey {
        let is_apply = request
            .headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch"));
        self.key_of(route, &request.method, &request.query, is_apply)
    }

    /// Series of a request with this method and query; `is_apply` distinguishes an apply from other patches.
    fn key_of(&self, route: &Route, method: &Method, query: &str, is_apply: bool) -> SeriesKey {
        let (row, operation, dry_run) = match route {
            Route::Objects(target) => {
                let dry_run = if query.contains("dryRun") { dry_run(&QueryParams::parse(query)) } else { 0 };
                (object_row(target, &self.custom), operation(target, method, query, is_apply), dry_run)
            }
            Route::Document(parts) => (non_resource_row(parts), document_operation(method), 0),
            Route::Usage(_) | Route::NotFound => (first_non_resource_row(), document_operation(method), 0),
        };
        // Both fit: they are bounded by the tables above, that of resource types and the bound of custom rows.
        SeriesKey { row: row as u16, column: (operation * DRY_RUNS.len() + dry_run) as u16 }
    }

    /// Names of the rows of custom resources, in their order.
    pub fn custom_rows(&self) -> Vec<CustomRow> {
        self.custom.read().all()
    }

    fn series(&self, key: SeriesKey) -> &Series {
        let row = self.rows[usize::from(key.row)]
            .get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        row[usize::from(key.column)].get_or_init(Box::default)
    }

    pub fn count(&self, key: SeriesKey, code: u16) {
        let index = match code {
            200 => 0,
            201 => 1,
            _ => CODES
                .iter()
                .position(|text| text.parse::<u16>().ok() == Some(code))
                .unwrap_or(CODES.len() - 1),
        };
        self.series(key).codes[index].fetch_add(1, Ordering::Relaxed);
    }

    pub fn observe(&self, key: SeriesKey, duration: Duration) {
        let series = self.series(key);
        let seconds = duration.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            series.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        series.observed.fetch_add(1, Ordering::Relaxed);
        series
            .nanoseconds
            .fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn begin(&self, key: SeriesKey) {
        self.series(key).running.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end(&self, key: SeriesKey) {
        self.series(key).running.fetch_sub(1, Ordering::Relaxed);
    }

    /// All series, with their labels.
    fn all<'a>(&'a self, custom: &'a [CustomRow]) -> impl Iterator<Item = (Labels<'a>, &'a Series)> {
        let rows = self
            .rows
            .iter()
            .zip(RowLabels::all(custom))
            .filter_map(|(row, row_labels)| Some((row.get()?, row_labels)));
        rows.flat_map(|(row, row_labels)| {
            row.iter().enumerate().filter_map(move |(column, series)| {
                let (verb, scope) = OPERATIONS[column / DRY_RUNS.len()];
                let scope = if row_labels.is_resource() { scope } else { "" };
                let dry_run = DRY_RUNS[column % DRY_RUNS.len()];
                Some((Labels { row: row_labels, verb, scope, dry_run }, &**series.get()?))
            })
        })
    }

    pub fn write(&self, text: &mut Text) {
        let custom = self.custom_rows();
        let name = "apiserver_request_total";
        text.family(
            name,
            MetricType::Counter,
            "Requests by verb, dry run, group, version, resource, scope, component and status code.",
        );
        for (labels, series) in self.all(&custom) {
            for (code, count) in CODES.iter().zip(&series.codes).filter(|(_, count)| load(count) > 0) {
                let labels: Vec<_> =
                    labels.common().into_iter().chain([("code", *code), labels.dry_run_label()]).collect();
                text.sample(name, &labels, load(count));
            }
        }
        let name = "apiserver_request_duration_seconds";
        text.family(
            name,
            MetricType::Histogram,
            "Response latency in seconds by verb, dry run, group, version, resource, scope and component.",
        );
        for (labels, series) in self.all(&custom) {
            let labels: Vec<_> = labels.common().into_iter().chain([labels.dry_run_label()]).collect();
            write_histogram(text, name, &labels, series, 0);
        }
        let name = "apiserver_request_sli_duration_seconds";
        text.family(
            name,
            MetricType::Histogram,
            "Response latency in seconds without time spent in external calls.",
        );
        for (labels, series) in self.all(&custom).filter(|(labels, _)| labels.dry_run.is_empty()) {
            write_histogram(text, name, &labels.common(), series, SLI_BUCKETS_SKIPPED);
        }
        let name = "apiserver_longrunning_requests";
        text.family(name, MetricType::Gauge, "Long-running requests in progress.");
        for (labels, series) in
            self.all(&custom).filter(|(labels, _)| ["WATCH", "CONNECT"].contains(&labels.verb))
        {
            text.sample(name, &labels.common(), load(&series.running));
        }
        let name = "apiserver_requested_deprecated_apis";
        text.family(name, MetricType::Gauge, "Deprecated resources that have been requested.");
        for (row, labels) in self.rows.iter().zip(RowLabels::all(&custom)) {
            if row.get().is_some() && labels.is_deprecated {
                let labels = [
                    ("group", labels.group),
                    ("version", labels.version),
                    ("resource", labels.resource),
                    ("subresource", labels.subresource),
                    ("removed_release", ""),
                ];
                text.sample(name, &labels, 1);
            }
        }
    }
}

fn write_histogram(text: &mut Text, name: &str, labels: &[(&str, &str)], series: &Series, skip: usize) {
    let observed = load(&series.observed);
    if observed == 0 {
        return;
    }
    let mut sum = 0;
    let buckets: Vec<(f64, u64)> = BUCKETS
        .into_iter()
        .zip(&series.buckets)
        .map(|(bound, count)| {
            sum += load(count);
            (bound, sum)
        })
        .collect();
    let seconds = Duration::from_nanos(load(&series.nanoseconds)).as_secs_f64();
    // A request that is counted concurrently must not make a bucket larger than the total.
    text.histogram(name, labels, buckets.into_iter().skip(skip), observed.max(sum), seconds);
}

/// Resource and subresource of a row.
#[derive(Clone, Copy)]
struct RowLabels<'a> {
    group: &'a str,
    version: &'a str,
    /// Resource; empty for non-resource routes.
    resource: &'a str,
    /// Subresource, or the path of a non-resource route.
    subresource: &'a str,
    is_deprecated: bool,
}

impl<'a> RowLabels<'a> {
    /// Labels in row order.
    fn all(custom: &'a [CustomRow]) -> impl Iterator<Item = RowLabels<'a>> {
        let objects = resource_types::all().iter().flat_map(|resource_type| {
            let info = &resource_type.info;
            let subresources = info.subresources.iter().map(|subresource| &*subresource.name);
            [""].into_iter().chain(subresources).map(move |subresource| RowLabels {
                group: &info.group,
                version: &info.version,
                resource: &info.plural,
                subresource,
                is_deprecated: resource_type.deprecation().is_some(),
            })
        });
        let others = NON_RESOURCE_PATHS.into_iter().map(|path| ["", "", "", path]);
        let custom = custom.iter().map(|row| row.each_ref().map(|name| &**name));
        objects.chain(others.chain(custom).map(|[group, version, resource, subresource]| RowLabels {
            group,
            version,
            resource,
            subresource,
            is_deprecated: false,
        }))
    }

    const fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}

struct Labels<'a> {
    row: RowLabels<'a>,
    verb: &'static str,
    scope: &'static str,
    dry_run: &'static str,
}

impl<'a> Labels<'a> {
    fn common(&self) -> [(&'static str, &'a str); 7] {
        [
            ("verb", self.verb),
            ("group", self.row.group),
            ("version", self.row.version),
            ("resource", self.row.resource),
            ("subresource", self.row.subresource),
            ("scope", self.scope),
            COMPONENT,
        ]
    }

    fn dry_run_label(&self) -> (&'static str, &'static str) {
        ("dry_run", self.dry_run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::route;

    fn key(method: Method, path: &str) -> SeriesKey {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let route = route(path, crate::catalog::Catalog::built_in());
        Requests::default().key_of(&route, &method, query, false)
    }

    #[test]
    fn every_row_has_the_labels_of_its_route() {
        assert_eq!(RowLabels::all(&[]).count(), first_custom_row());
        for (path, name, subresource) in [
            ("/api/v1/pods", "pods", ""),
            ("/apis/apps/v1/namespaces/a/deployments/d/scale", "deployments", "scale"),
            ("/livez/ping", "", "/livez"),
            ("/openapi/v3/api/v1", "", "/openapi/v3"),
            ("/apis/apps", "", "/apis"),
            ("/", "", ""),
            ("/nothing/here", "", ""),
        ] {
            let row_labels = RowLabels::all(&[]).nth(key(Method::GET, path).row.into()).unwrap();
            assert_eq!((row_labels.resource, row_labels.subresource), (name, subresource), "{path}");
        }
    }

    #[test]
    fn requests_are_labeled_by_verb_scope_code_and_dry_run() {
        let requests = Requests::default();
        let pods = "/api/v1/namespaces/a/pods";
        requests.count(key(Method::GET, pods), 200);
        requests.count(key(Method::GET, "/api/v1/pods?watch=1"), 200);
        requests.count(key(Method::POST, &format!("{pods}?dryRun=All")), 201);
        requests.count(key(Method::GET, &format!("{pods}/p/log")), 404);
        requests.count(key(Method::DELETE, pods), 418);
        requests.observe(key(Method::GET, pods), Duration::from_millis(30));
        let mut text = Text::default();
        requests.write(&mut text);
        let text = text.finish();
        for (verb, subresource, scope, code, dry_run) in [
            ("LIST", "", "namespace", "200", ""),
            ("WATCH", "", "cluster", "200", ""),
            ("POST", "", "resource", "201", "All"),
            ("CONNECT", "log", "resource", "404", ""),
            ("DELETE", "", "namespace", "other", ""),
        ] {
            let line = format!(
                "apiserver_request_total{{verb=\"{verb}\",group=\"\",version=\"v1\",resource=\"pods\",subresource=\"{subresource}\",\
                 scope=\"{scope}\",component=\"apiserver\",code=\"{code}\",dry_run=\"{dry_run}\"}} 1\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(text.contains("le=\"0.025\"} 0\n") && text.contains("le=\"0.05\"} 1\n"), "{text}");
        assert_eq!(text.matches("apiserver_request_duration_seconds_count").count(), 1);
    }
}
