//! Health endpoints: `/healthz`, `/livez` and `/readyz`, in total or check by check.
//!
//! Each check tests something that can really fail. Details of a failure are shown for a single check only; a summary
//! names the failed checks, and the log has the details. A store that does not respond in time is unhealthy; checking
//! it never blocks other requests.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use setpoint_api::quote::Quoted;
use setpoint_api::resource_types;
use setpoint_store::{Store, StoreStat};

use crate::bootstrap;
use crate::exchange::Response;
use crate::query::QueryParams;
use crate::responses;

/// Time for the store to respond.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// Name of the store's check in upstream's probes.
const STORE_GROUP: &str = "etcd";

/// A health endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/healthz`, deprecated: same as [`Endpoint::Live`].
    Healthy,
    /// `/livez`: fails if a restart would help.
    Live,
    /// `/readyz`: fails if requests should not be sent here.
    Ready,
}

impl Endpoint {
    /// Parses a path: the endpoint, and the name of a single check; empty for all.
    #[must_use]
    pub fn find(parts: &[String]) -> Option<(Endpoint, String)> {
        let (first, rest) = parts.split_first()?;
        let all = [Endpoint::Healthy, Endpoint::Live, Endpoint::Ready];
        let endpoint = all.into_iter().find(|endpoint| endpoint.name() == first)?;
        Some((endpoint, rest.join("/")))
    }

    fn has(self, check: &Check) -> bool {
        self == Endpoint::Ready || !check.ready_only
    }

    const fn name(self) -> &'static str {
        match self {
            Endpoint::Healthy => "healthz",
            Endpoint::Live => "livez",
            Endpoint::Ready => "readyz",
        }
    }
}

/// A health check.
pub struct Check {
    name: &'static str,
    /// Alias in paths and exclusions.
    group: &'static str,
    /// `true` if only `/readyz` runs it.
    ready_only: bool,
    test: Test,
}

/// Returns the failure, if any.
type CheckFn = dyn Fn() -> Result<(), String> + Send + Sync;

enum Test {
    /// Always succeeds.
    Ping,
    /// The log is writable.
    Store,
    /// The store accepts new objects.
    Capacity,
    /// The bootstrap objects exist.
    Bootstrap,
    /// The server is not shutting down.
    Shutdown,
    Other(Box<CheckFn>),
}

impl Check {
    /// Creates a check. It must not block.
    pub fn new(
        name: &'static str,
        ready_only: bool,
        test: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Check {
        Check { name, group: "", ready_only, test: Test::Other(Box::new(test)) }
    }

    fn has_name(&self, name: &str) -> bool {
        !name.is_empty() && (self.name == name || self.group == name)
    }
}

/// All checks.
pub struct Health {
    checks: Vec<Check>,
    stopping: AtomicBool,
}

impl Default for Health {
    fn default() -> Health {
        let check = |name, group, ready_only, test| Check { name, group, ready_only, test };
        let checks = vec![
            check("ping", "", false, Test::Ping),
            check("store", STORE_GROUP, false, Test::Store),
            check("store-readiness", "etcd-readiness", true, Test::Capacity),
            check("poststarthook/bootstrap", "", false, Test::Bootstrap),
            check("shutdown", "", true, Test::Shutdown),
        ];
        Health { checks, stopping: AtomicBool::new(false) }
    }
}

impl Health {
    /// Adds a check before the last one, which is about the shutdown.
    pub fn add(&mut self, check: Check) {
        self.checks.insert(self.checks.len().saturating_sub(1), check);
    }

    /// Makes `/readyz` fail from now on.
    pub fn begin_shutdown(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Paths of all checks.
    pub fn paths(&self) -> impl Iterator<Item = String> + '_ {
        [Endpoint::Healthy, Endpoint::Live, Endpoint::Ready].into_iter().flat_map(|endpoint| {
            let own = [format!("/{}", endpoint.name())].into_iter();
            let checks = self.checks.iter().filter(move |check| endpoint.has(check));
            own.chain(checks.map(move |check| format!("/{}/{}", endpoint.name(), check.name)))
        })
    }

    /// Runs the check `name`; `None` if there is none.
    pub async fn of(&self, name: &str, store: &Store) -> Option<Result<(), String>> {
        let check = self.checks.iter().find(|check| check.has_name(name))?;
        Some(self.run(check, &HealthInputs::collect(store).await))
    }

    /// Responds to a request: all checks of an endpoint, or the one named.
    pub async fn answer(&self, endpoint: Endpoint, name: &str, query: &str, store: &Store) -> Response {
        let mut checks = self.checks.iter().filter(|check| endpoint.has(check));
        if name.is_empty() {
            let inputs = HealthInputs::collect(store).await;
            let query = QueryParams::parse(query);
            return self.summary(endpoint, checks, &query, &inputs);
        }
        let Some(check) = checks.find(|check| check.has_name(name)) else {
            return responses::text(404, "404 page not found\n");
        };
        let inputs = if matches!(check.test, Test::Ping) {
            HealthInputs::default()
        } else {
            HealthInputs::collect(store).await
        };
        match self.run(check, &inputs) {
            Ok(()) => responses::text(200, "ok"),
            Err(why) => set_nosniff(responses::text(500, format!("internal server error: {why}\n"))),
        }
    }

    fn summary<'a>(
        &self,
        endpoint: Endpoint,
        checks: impl Iterator<Item = &'a Check>,
        query: &QueryParams,
        inputs: &HealthInputs,
    ) -> Response {
        let mut excluded: Vec<(&str, bool)> =
            query.all("exclude").into_iter().map(|name| (name, false)).collect();
        excluded.sort_unstable();
        excluded.dedup();
        let (mut text, mut failed) = (String::new(), Vec::new());
        for check in checks {
            let name = check.name;
            let mut matching = excluded.iter_mut().filter(|(excluded, _)| check.has_name(excluded));
            let line = if let Some((excluded, is_known)) = matching.next() {
                *is_known = true;
                match *excluded {
                    excluded if excluded == name => format!("[+]{name} excluded: ok\n"),
                    group => format!("[+]{name} excluded with {group}: ok\n"),
                }
            } else if let Err(why) = self.run(check, inputs) {
                failed.push(format!("{name}: {why}"));
                format!("[-]{name} failed: reason withheld\n")
            } else {
                format!("[+]{name} ok\n")
            };
            text.push_str(&line);
        }
        let unknown = excluded.iter().filter(|(_, is_known)| !is_known);
        let unknown: Vec<String> = unknown.map(|(name, _)| Quoted(name).to_string()).collect();
        if !unknown.is_empty() {
            let unknown = unknown.join(",");
            text.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {unknown}\n"
            ));
        }
        let word = endpoint.name();
        let verbose = query.is_present("verbose");
        set_nosniff(if !failed.is_empty() {
            tracing::warn!(failed = failed.join("; "), "{word} check failed");
            responses::text(500, format!("{text}{word} check failed\n"))
        } else if verbose {
            responses::text(200, format!("{text}{word} check passed\n"))
        } else {
            responses::text(200, "ok")
        })
    }

    fn run(&self, check: &Check, inputs: &HealthInputs) -> Result<(), String> {
        match &check.test {
            Test::Ping => Ok(()),
            Test::Store => inputs.store.as_ref().map(|_| ()).map_err(Clone::clone),
            Test::Capacity => match &inputs.store {
                Ok(stat) if stat.log.full => Err("the disk is full: objects can only be deleted".to_owned()),
                Ok(_) => Ok(()),
                Err(why) => Err(why.clone()),
            },
            Test::Bootstrap if inputs.missing.is_empty() => Ok(()),
            Test::Bootstrap => Err(inputs.missing.clone()),
            Test::Shutdown if self.stopping.load(Ordering::Relaxed) => {
                Err("process is shutting down".to_owned())
            }
            Test::Shutdown => Ok(()),
            Test::Other(test) => test(),
        }
    }
}

/// State that the checks test.
struct HealthInputs {
    store: Result<StoreStat, String>,
    /// Missing bootstrap objects; empty if there are none.
    missing: String,
}

impl Default for HealthInputs {
    fn default() -> HealthInputs {
        HealthInputs { store: Ok(StoreStat::default()), missing: String::new() }
    }
}

impl HealthInputs {
    async fn collect(store: &Store) -> HealthInputs {
        HealthInputs { store: stat(store).await, missing: missing(store) }
    }
}

/// Reads the state of the store, on a blocking thread, since the disk may hang.
pub(crate) async fn stat(store: &Store) -> Result<StoreStat, String> {
    if let Some(error) = store.failure() {
        return Err(error.to_string());
    }
    let probed = store.clone();
    let probing = tokio::task::spawn_blocking(move || probed.stat());
    match tokio::time::timeout(STORE_TIMEOUT, probing).await {
        Ok(Ok(stat)) => Ok(stat),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("the store did not answer within {STORE_TIMEOUT:?}")),
    }
}

/// Bootstrap namespaces that do not exist.
fn missing(store: &Store) -> String {
    let Some(namespaces) = resource_types::find("", "v1", "namespaces") else {
        return "namespaces".to_owned();
    };
    let snapshot = store.snapshot();
    let table = snapshot.table(&namespaces.resource);
    let mut missing = String::new();
    for name in bootstrap::REQUIRED_NAMESPACES {
        if table.is_none_or(|table| table.get(name).is_none()) {
            let _ = write!(missing, "namespace {name} is missing; ");
        }
    }
    missing.trim_end_matches("; ").to_owned()
}

/// Sets `X-Content-Type-Options: nosniff`.
fn set_nosniff(mut response: Response) -> Response {
    let name = HeaderName::from_static("x-content-type-options");
    response.headers.insert(name, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use setpoint_store::Retention;

    use super::*;
    use crate::exchange::Payload;

    struct TestServer {
        health: Health,
        store: Store,
        runtime: tokio::runtime::Runtime,
    }

    impl TestServer {
        /// A server with an empty store.
        fn new() -> TestServer {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            TestServer { health: Health::default(), store: Store::in_memory(Retention::default()), runtime }
        }

        fn get(&self, path: &str) -> (u16, String) {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
            let (endpoint, check) = Endpoint::find(&parts).unwrap();
            let response = self.runtime.block_on(self.health.answer(endpoint, &check, query, &self.store));
            let Payload::Whole(parts) = response.body else { panic!("a stream") };
            (response.status.as_u16(), String::from_utf8(parts.concat()).unwrap())
        }
    }

    #[test]
    fn health_summary_names_failures_and_a_single_check_has_details() {
        let server = TestServer::new();
        let (code, text) = server.get("livez");
        let expected = "[+]ping ok\n[+]store ok\n[-]poststarthook/bootstrap failed: reason withheld\nlivez check failed\n";
        assert_eq!((code, &text[..]), (500, expected));
        let (code, text) = server.get("livez/poststarthook/bootstrap");
        assert_eq!(code, 500);
        assert!(text.starts_with("internal server error: namespace default is missing"), "{text}");
        assert_eq!(server.get("readyz/ping"), (200, "ok".to_owned()));
        assert_eq!(server.get("healthz/etcd"), (200, "ok".to_owned()));
        assert_eq!(server.get("livez/shutdown").0, 404, "only readiness depends on it");
        assert_eq!(server.get("livez?exclude=poststarthook/bootstrap"), (200, "ok".to_owned()));
    }

    #[test]
    fn checks_are_excluded_by_name_or_group_and_unknown_names_are_reported() {
        let mut server = TestServer::new();
        server.health.add(Check::new("loop", true, || Err("stuck".to_owned())));
        let (code, text) = server.get(
            "readyz?verbose&exclude=poststarthook/bootstrap&exclude=etcd&exclude=loop&exclude=x&exclude=x",
        );
        let expected = "[+]ping ok\n[+]store excluded with etcd: ok\n[+]store-readiness ok\n\
                        [+]poststarthook/bootstrap excluded: ok\n[+]loop excluded: ok\n[+]shutdown ok\n\
                        warn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n";
        assert_eq!((code, &text[..]), (200, expected));
        assert_eq!(server.get("readyz/loop"), (500, "internal server error: stuck\n".to_owned()));
    }

    #[test]
    fn stopping_server_is_live_but_not_ready() {
        let server = TestServer::new();
        let rest = "exclude=poststarthook/bootstrap";
        assert_eq!(server.get(&format!("readyz?{rest}")).0, 200);
        server.health.begin_shutdown();
        assert_eq!(server.get(&format!("livez?{rest}")).0, 200);
        let (code, text) = server.get(&format!("readyz?{rest}"));
        assert_eq!(code, 500);
        assert!(text.ends_with("[-]shutdown failed: reason withheld\nreadyz check failed\n"), "{text}");
    }
}
