//! How many requests may be under way at a time.
//!
//! A place is taken before the body of a request is read and given back with its answer, so that the bounds also
//! limit the memory that bodies take. Watches and what else lasts take no place. Upstream lets administrators pass
//! over the bounds; here they protect the server from everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use setpoint_api::status::Status;

use crate::query::Query;

/// How many requests that change nothing are under way at a time.
pub const READ_ONLY_MAX: usize = 1000;
/// How many requests that change something are under way at a time.
pub const MUTATING_MAX: usize = 500;
/// After how many seconds a client that was refused should try again.
const RETRY_SECONDS: i32 = 1;

/// The requests under way.
pub struct Inflight {
    read_only: Arc<Gauge>,
    mutating: Arc<Gauge>,
}

struct Gauge {
    now: AtomicUsize,
    /// The most since somebody last looked.
    peak: AtomicUsize,
    bound: usize,
}

/// The place of one request, given back when it is dropped.
#[derive(Default)]
pub struct Place(Option<Arc<Gauge>>);

impl Default for Inflight {
    fn default() -> Inflight {
        Inflight::new(READ_ONLY_MAX, MUTATING_MAX)
    }
}

impl Inflight {
    /// With bounds of one's own.
    #[must_use]
    pub fn new(read_only: usize, mutating: usize) -> Inflight {
        let gauge = |bound| Arc::new(Gauge { now: AtomicUsize::new(0), peak: AtomicUsize::new(0), bound });
        Inflight { read_only: gauge(read_only), mutating: gauge(mutating) }
    }

    /// Takes a place for a request.
    ///
    /// # Errors
    /// If there is none.
    pub fn enter(&self, method: &Method, path: &str, query: &str) -> Result<Place, Status> {
        if lasts(method, path, query) {
            return Ok(Place(None));
        }
        let gauge = if is_read_only(method) { &self.read_only } else { &self.mutating };
        let before = gauge.now.fetch_add(1, Ordering::Relaxed);
        let place = Place(Some(Arc::clone(gauge)));
        if before >= gauge.bound {
            return Err(Status::too_many_requests(
                "Too many requests, please try again later.",
                RETRY_SECONDS,
            ));
        }
        gauge.peak.fetch_max(before + 1, Ordering::Relaxed);
        Ok(place)
    }

    /// The most requests at a time since the last call, by kind.
    #[must_use]
    pub fn take_peaks(&self) -> [(&'static str, usize); 2] {
        let peak = |gauge: &Gauge| gauge.peak.swap(gauge.now.load(Ordering::Relaxed), Ordering::Relaxed);
        [("readOnly", peak(&self.read_only)), ("mutating", peak(&self.mutating))]
    }

    /// The bounds, by kind.
    #[must_use]
    pub fn bounds(&self) -> [(&'static str, usize); 2] {
        [("readOnly", self.read_only.bound), ("mutating", self.mutating.bound)]
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(gauge) = &self.0 {
            gauge.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn is_read_only(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether a request lasts by its nature: a watch, or a connection to something in the cluster.
fn lasts(method: &Method, path: &str, query: &str) -> bool {
    if *method == Method::GET && query.contains("watch") && Query::parse(query).flag("watch") == Some(true) {
        return true;
    }
    let mut words = [""; 7];
    words.iter_mut().zip(path.split('/').skip(1)).for_each(|(word, part)| *word = part);
    match words {
        ["api", _, "watch", ..] | ["apis", _, _, "watch", ..] => true,
        ["api", _, "namespaces", _, "pods" | "services", _, part] | ["api", _, "nodes", _, part, ..] => {
            matches!(part, "attach" | "exec" | "log" | "portforward" | "proxy")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_over_the_bound_is_refused_until_another_ends() {
        let inflight = Inflight::new(1, 2);
        let enter = |method: Method| inflight.enter(&method, "/api/v1/pods", "");
        let first = enter(Method::GET).ok().unwrap();
        let refused = enter(Method::HEAD).err().unwrap();
        assert_eq!((refused.http_code(), refused.details.unwrap().retry_after_seconds), (429, 1));
        let writes = [enter(Method::POST), enter(Method::DELETE)];
        assert!(writes.iter().all(Result::is_ok), "reads and writes do not share their bounds");
        assert!(enter(Method::PUT).is_err());
        assert_eq!(inflight.take_peaks(), [("readOnly", 1), ("mutating", 2)]);
        drop((first, writes));
        assert!(enter(Method::GET).is_ok() && enter(Method::PATCH).is_ok());
        let _ = inflight.take_peaks();
        assert_eq!(inflight.take_peaks(), [("readOnly", 0), ("mutating", 0)]);
    }

    #[test]
    fn what_lasts_takes_no_place() {
        let inflight = Inflight::new(0, 0);
        for (method, path, query) in [
            (Method::GET, "/api/v1/pods", "watch=1"),
            (Method::GET, "/apis/apps/v1/deployments", "limit=1&watch=true"),
            (Method::GET, "/api/v1/watch/pods", ""),
            (Method::GET, "/apis/apps/v1/watch/deployments", ""),
            (Method::GET, "/api/v1/namespaces/a/pods/p/log", "follow=true"),
            (Method::POST, "/api/v1/namespaces/a/pods/p/exec", ""),
            (Method::PUT, "/api/v1/namespaces/a/services/s/proxy/some/where", ""),
        ] {
            assert!(inflight.enter(&method, path, query).is_ok(), "{method} {path}?{query}");
        }
        for (method, path, query) in [
            (Method::GET, "/api/v1/pods", "watch=false"),
            (Method::POST, "/api/v1/namespaces/a/pods", "watch=true"),
            (Method::GET, "/api/v1/namespaces/watch", ""),
            (Method::PUT, "/api/v1/namespaces/a/configmaps/log", ""),
            (Method::GET, "/log", ""),
        ] {
            assert!(inflight.enter(&method, path, query).is_err(), "{method} {path}?{query}");
        }
    }
}
