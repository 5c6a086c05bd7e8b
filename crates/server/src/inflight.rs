//! In-flight limits of requests, in total and per client.
//!
//! A permit is taken after a request is authorized and before its body is read, and released when the last byte of
//! the response is sent. Long-running requests, such as watches, have a limit of their own. A client, that is a user,
//! never takes all permits: a quarter of each limit is left for others. Upstream exempts administrators; here the
//! limits protect the server from everyone. [`crate::fairness`] queues requests before they take a permit, so these
//! limits are a safety net: few but exempt requests reach them.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use setpoint_api::status::Status;

use crate::query::QueryParams;

/// Read requests in flight at a time.
const READ_ONLY_MAX: usize = 1000;
/// Writing requests in flight at a time.
const MUTATING_MAX: usize = 500;
/// Watches and connections to containers and Services at a time.
const LONG_RUNNING_MAX: usize = 50_000;
/// Part of each bound that one client leaves for others: a quarter.
const RESERVED_SHARE: usize = 4;
/// `Retry-After` of a rejected request, in seconds.
const RETRY_SECONDS: i32 = 1;

/// Requests in flight.
pub struct Inflight {
    read_only: Arc<Limit>,
    mutating: Arc<Limit>,
    long_running: Arc<Limit>,
}

/// Limit of one kind of request.
struct Limit {
    bound: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    now: usize,
    /// Maximum since the last report.
    peak: usize,
    by_client: BTreeMap<Box<str>, usize>,
}

/// Permit of one request, released on drop.
#[derive(Default)]
pub struct InflightPermit(Option<(Arc<Limit>, Box<str>)>);

impl Default for Inflight {
    fn default() -> Inflight {
        Inflight::new(READ_ONLY_MAX, MUTATING_MAX, LONG_RUNNING_MAX)
    }
}

impl Limit {
    fn new(bound: usize) -> Arc<Limit> {
        Arc::new(Limit { bound, counts: Mutex::default() })
    }

    /// Takes a permit for the client. Returns `false` if there is none.
    fn try_acquire(&self, client: &str) -> bool {
        let mut counts = self.counts.lock();
        let of_client = counts.by_client.get(client).copied().unwrap_or(0);
        if counts.now >= self.bound || of_client >= self.bound - self.bound / RESERVED_SHARE {
            return false;
        }
        counts.now += 1;
        counts.peak = counts.peak.max(counts.now);
        match counts.by_client.get_mut(client) {
            Some(count) => *count += 1,
            None => drop(counts.by_client.insert(client.into(), 1)),
        }
        true
    }

    fn release(&self, client: &str) {
        let mut counts = self.counts.lock();
        counts.now -= 1;
        if let Some(count) = counts.by_client.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                counts.by_client.remove(client);
            }
        }
    }

    fn take_peak(&self) -> usize {
        let mut counts = self.counts.lock();
        let now = counts.now;
        std::mem::replace(&mut counts.peak, now)
    }
}

impl Inflight {
    /// Creates limits with these bounds.
    #[must_use]
    pub fn new(read_only: usize, mutating: usize, long_running: usize) -> Inflight {
        Inflight {
            read_only: Limit::new(read_only),
            mutating: Limit::new(mutating),
            long_running: Limit::new(long_running),
        }
    }

    /// Creates limits of reads and writes for a server without priority and fairness; 0 is no limit.
    #[must_use]
    pub fn of_requests(read_only: u32, mutating: u32) -> Inflight {
        let bound = |limit: u32| if limit == 0 { usize::MAX } else { limit as usize };
        Inflight::new(bound(read_only), bound(mutating), LONG_RUNNING_MAX)
    }

    /// Takes a permit for a request of `client`.
    ///
    /// # Errors
    /// 429 if there is none.
    pub fn enter(
        &self,
        client: &str,
        method: &Method,
        path: &str,
        query: &str,
    ) -> Result<InflightPermit, Status> {
        let limit = if is_long_running(method, path, query) {
            &self.long_running
        } else if is_read_only(method) {
            &self.read_only
        } else {
            &self.mutating
        };
        if limit.try_acquire(client) {
            return Ok(InflightPermit(Some((Arc::clone(limit), client.into()))));
        }
        Err(Status::too_many_requests("Too many requests, please try again later.", RETRY_SECONDS))
    }

    /// Returns the maximum of requests at a time since the last call, by kind.
    #[must_use]
    pub(crate) fn take_peaks(&self) -> [(&'static str, usize); 2] {
        [("readOnly", self.read_only.take_peak()), ("mutating", self.mutating.take_peak())]
    }

    /// Returns the bounds, by kind.
    #[must_use]
    pub fn bounds(&self) -> [(&'static str, usize); 2] {
        [("readOnly", self.read_only.bound), ("mutating", self.mutating.bound)]
    }
}

impl Drop for InflightPermit {
    fn drop(&mut self) {
        if let Some((limit, client)) = &self.0 {
            limit.release(client);
        }
    }
}

fn is_read_only(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// `true` if a request is long-running: a watch, or a connection to a pod, node or Service.
pub(crate) fn is_long_running(method: &Method, path: &str, query: &str) -> bool {
    if *method == Method::GET
        && query.contains("watch")
        && QueryParams::parse(query).flag("watch") == Some(true)
    {
        return true;
    }
    let mut segments = [""; 7];
    segments.iter_mut().zip(path.split('/').skip(1)).for_each(|(slot, segment)| *slot = segment);
    match segments {
        ["api", _, "watch", ..] | ["apis", _, _, "watch", ..] => true,
        ["api", _, "namespaces", _, "pods" | "services", _, segment]
        | ["api", _, "nodes", _, segment, ..] => {
            matches!(segment, "attach" | "exec" | "log" | "portforward" | "proxy")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_over_the_limit_is_rejected_until_another_ends() {
        let inflight = Inflight::new(1, 2, 1);
        let enter = |method: Method| inflight.enter("a", &method, "/api/v1/pods", "");
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
    fn limit_of_zero_is_none() {
        let inflight = Inflight::of_requests(0, 1);
        let reads: Vec<_> =
            (0..5000).map(|_| inflight.enter("a", &Method::GET, "/api/v1/pods", "")).collect();
        assert!(reads.iter().all(Result::is_ok));
        let write = inflight.enter("a", &Method::POST, "/api/v1/pods", "");
        assert!(write.is_ok() && inflight.enter("b", &Method::POST, "/api/v1/pods", "").is_err());
    }

    #[test]
    fn one_client_leaves_a_quarter_of_the_permits_for_others() {
        let inflight = Inflight::new(8, 8, 8);
        let enter = |client: &str| inflight.enter(client, &Method::POST, "/api/v1/namespaces/a/pods", "");
        let mut hostile: Vec<InflightPermit> =
            std::iter::repeat_with(|| enter("hostile")).map_while(Result::ok).collect();
        assert_eq!(hostile.len(), 6);
        let others = [enter("a"), enter("b")];
        assert!(others.iter().all(Result::is_ok));
        assert!(enter("c").is_err(), "the bound holds for all together");
        hostile.pop();
        assert!(enter("c").is_ok());
        drop((hostile, others));
        assert!(
            inflight.mutating.counts.lock().by_client.is_empty(),
            "clients without requests take no memory"
        );
    }

    #[test]
    fn long_running_requests_have_a_limit_of_their_own() {
        let inflight = Inflight::new(0, 0, 1);
        for (method, path, query) in [
            (Method::GET, "/api/v1/pods", "watch=1"),
            (Method::GET, "/apis/apps/v1/deployments", "limit=1&watch=true"),
            (Method::GET, "/api/v1/watch/pods", ""),
            (Method::GET, "/apis/apps/v1/watch/deployments", ""),
            (Method::GET, "/api/v1/namespaces/a/pods/p/log", "follow=true"),
            (Method::POST, "/api/v1/namespaces/a/pods/p/exec", ""),
            (Method::PUT, "/api/v1/namespaces/a/services/s/proxy/some/where", ""),
        ] {
            let held = inflight.enter("a", &method, path, query);
            assert!(held.is_ok(), "{method} {path}?{query}");
            assert!(
                inflight.enter("a", &method, path, query).is_err(),
                "{method} {path}?{query}: no path is unbounded"
            );
        }
        for (method, path, query) in [
            (Method::GET, "/api/v1/pods", "watch=false"),
            (Method::POST, "/api/v1/namespaces/a/pods", "watch=true"),
            (Method::GET, "/api/v1/namespaces/watch", ""),
            (Method::PUT, "/api/v1/namespaces/a/configmaps/log", ""),
            (Method::GET, "/log", ""),
        ] {
            assert!(inflight.enter("a", &method, path, query).is_err(), "{method} {path}?{query}");
        }
    }
}
