//! Priority and fairness over stored objects: classification, queues, rejections, reconfiguration, and two clients of
//! which one floods the server.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use setpoint_api::{Clock, Time};
use setpoint_server::api::{Api, service};
use setpoint_server::exchange::{Admission, Identity, Request, Response, Service};
use setpoint_server::fairness::Seats;
use setpoint_store::{Retention, Store};
use tokio::runtime::Builder;

use crate::harness::{MAPS, START, TestServer, options, request};

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const DUMPS: &str = "/debug/api_priority_and_fairness";

fn level(name: &str, shares: u32, response: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"Limited","limited":{{
            "nominalConcurrencyShares":{shares},"limitResponse":{response}}}}}}}"#
    )
}

fn queue(queues: u32, length: u32) -> String {
    format!(r#"{{"type":"Queue","queuing":{{"queues":{queues},"handSize":1,"queueLengthLimit":{length}}}}}"#)
}

/// FlowSchema of all requests of a user.
fn schema(name: &str, level: &str, user: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"priorityLevelConfiguration":{{"name":"{level}"}},
            "matchingPrecedence":50,"distinguisherMethod":{{"type":"ByUser"}},"rules":[{{
            "subjects":[{{"kind":"User","user":{{"name":"{user}"}}}}],
            "resourceRules":[{{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,
                "namespaces":["*"]}}],
            "nonResourceRules":[{{"verbs":["*"],"nonResourceURLs":["*"]}}]}}]}}}}"#
    )
}

fn request_of(user: &str, method: &str, path: &str) -> Request {
    let identity = Identity::new(user, vec!["system:authenticated".into()]);
    Request { identity, ..request(method, path, "", &[]) }
}

/// Seats of a request that need not wait.
fn seated(admission: Result<Admission<'_>, Box<Response>>) -> Seats {
    match admission {
        Ok(Admission::Seated(seats)) => seats,
        Ok(Admission::Queued(_)) => panic!("the request waits"),
        Err(response) => panic!("rejected: {}", response.status),
    }
}

/// UIDs that the headers of a response name: of the FlowSchema, and of the PriorityLevelConfiguration.
fn uids(seats: &Seats) -> (String, String) {
    let mut headers = HeaderMap::new();
    seats.add_headers(&mut headers);
    header_uids(&headers)
}

fn header_uids(headers: &HeaderMap) -> (String, String) {
    let text = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    (text("X-Kubernetes-PF-FlowSchema-UID"), text("X-Kubernetes-PF-PriorityLevel-UID"))
}

impl TestServer {
    fn uid(&self, path: &str) -> String {
        self.object(path).str_at(&["metadata", "uid"]).to_owned()
    }

    fn seats(&self, request: &Request) -> Seats {
        seated(self.api.take_seats(request))
    }

    /// Creates a level with one seat and its FlowSchema for `ann`.
    fn limit_ann(&self, response: &str) {
        self.create(LEVELS, &level("small", 0, response));
        self.create(SCHEMAS, &schema("ann", "small", "ann"));
    }

    fn has_metric(&self, line: &str) {
        let reply = self.get("/metrics");
        assert!(reply.text().lines().any(|found| found == line), "{line}\n{}", reply.text());
    }
}

#[test]
fn requests_are_classified_by_the_objects_as_stored() {
    let server = TestServer::new();
    let get = request_of("ann", "GET", MAPS);
    let default =
        (server.uid(&format!("{SCHEMAS}/global-default")), server.uid(&format!("{LEVELS}/global-default")));
    assert_eq!(uids(&server.seats(&get)), default);
    server.create(LEVELS, &level("mine", 10, &queue(8, 5)));
    assert_eq!(uids(&server.seats(&get)), default);
    server.create(SCHEMAS, &schema("ann", "mine", "ann"));
    let own = (server.uid(&format!("{SCHEMAS}/ann")), server.uid(&format!("{LEVELS}/mine")));
    assert_eq!(uids(&server.seats(&get)), own);
    assert_eq!(uids(&server.seats(&request_of("bob", "GET", MAPS))), default);
    server.send("DELETE", &format!("{LEVELS}/mine"), "", &[]);
    assert_eq!(uids(&server.seats(&get)), default, "the level of the FlowSchema is gone");
    let admin = request("GET", MAPS, "", &[]);
    let exempt = (server.uid(&format!("{SCHEMAS}/exempt")), server.uid(&format!("{LEVELS}/exempt")));
    assert_eq!(uids(&server.seats(&admin)), exempt);
}

#[test]
fn connections_to_containers_are_not_counted_and_watches_until_they_are_initialized() {
    let server = TestServer::new();
    for (method, path) in [
        ("POST", "/api/v1/namespaces/a/pods/p/exec"),
        ("GET", "/api/v1/namespaces/a/pods/p/log"),
        ("GET", "/api/v1/namespaces/a/services/s/proxy/some/where"),
    ] {
        let seats = server.seats(&request_of("ann", method, path));
        assert!(!seats.are_occupied() && uids(&seats).0.is_empty(), "{path}");
    }
    let watch = server.seats(&request_of("ann", "GET", &format!("{MAPS}?watch=true")));
    assert!(watch.are_occupied() && watch.is_of_watch());
    server.create(MAPS, r#"{"metadata":{"name":"a"}}"#);
    let mut frames = server.watch(&format!("{MAPS}?watch=true"), "application/json");
    assert!(!frames.is_initialized(), "the existing objects are not sent yet");
    server.ready_frames(&mut *frames);
    assert!(frames.is_initialized());
    let later = server.watch(&format!("{MAPS}?watch=true&resourceVersion=1"), "application/json");
    assert!(later.is_initialized(), "it begins with no objects");
}

#[test]
fn request_over_the_limit_is_rejected_with_retry_after() {
    let server = TestServer::new();
    server.limit_ann(r#"{"type":"Reject"}"#);
    let get = request_of("ann", "GET", MAPS);
    // Without seats of its own, a level without queues runs one request at a time.
    let first = server.seats(&get);
    let refused = server.api.take_seats(&get).err().unwrap();
    assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(header_uids(&refused.headers), uids(&first));
    let reply = server.read(*refused);
    assert_eq!(reply.value().str_at(&["message"]), "Too many requests, please try again later.");
    drop(first);
    drop(server.seats(&get));
    server.has_metric(
        "apiserver_flowcontrol_rejected_requests_total{priority_level=\"small\",flow_schema=\"ann\",\
         reason=\"concurrency-limit\"} 1",
    );
    server.has_metric(
        "apiserver_flowcontrol_dispatched_requests_total{priority_level=\"small\",flow_schema=\"ann\"} 2",
    );
}

#[test]
fn queue_is_bounded_and_requests_leave_it_by_timeout_cancellation_and_dispatch() {
    let server = TestServer::paused();
    server.limit_ann(&queue(1, 2));
    let get = request_of("ann", "GET", &format!("{MAPS}?timeout=8s"));
    let queued = || match server.api.take_seats(&get) {
        Ok(Admission::Queued(waiting)) => waiting,
        _ => panic!("the level has no seats"),
    };
    let (first, second) = (queued(), queued());
    let full = server.api.take_seats(&get).err().unwrap();
    assert_eq!(full.status, 429);
    server.has_metric(
        "apiserver_flowcontrol_current_inqueue_requests{priority_level=\"small\",flow_schema=\"ann\"} 2",
    );
    let dump = server.get(&format!("{DUMPS}/dump_requests?includeRequestDetails=1"));
    let row = dump.text().lines().find(|line| line.starts_with("small,")).unwrap();
    assert!(row.contains(" ann,") && row.contains(MAPS) && row.contains(" list,"), "{row}");
    drop(second);
    let refused = server.runtime.block_on(first).err().unwrap();
    assert_eq!(refused.status, 429);
    let third = queued();
    // The level gets seats while the request waits.
    let more = r#"{"spec":{"limited":{"nominalConcurrencyShares":100}}}"#;
    assert_eq!(server.call("PATCH", &format!("{LEVELS}/small"), more).0, 200);
    drop(server.seats(&request_of("bob", "GET", MAPS)));
    let seats = server.runtime.block_on(third).ok().unwrap();
    assert!(seats.are_occupied());
    drop(seats);
    for reason in ["queue-full", "time-out", "cancelled"] {
        server.has_metric(&format!(
            "apiserver_flowcontrol_rejected_requests_total{{priority_level=\"small\",flow_schema=\"ann\",\
             reason=\"{reason}\"}} 1"
        ));
    }
    server.has_metric(
        "apiserver_flowcontrol_current_executing_seats{priority_level=\"small\",flow_schema=\"ann\"} 0",
    );
}

#[test]
fn dumps_are_served_while_priority_and_fairness_is_enabled() {
    let mut server = TestServer::new();
    let dump = |server: &TestServer, name: &str| {
        let reply = server.get(&format!("{DUMPS}/{name}"));
        (reply.code, reply.text().to_owned())
    };
    // The first request reads the stored objects.
    drop(server.seats(&request_of("ann", "GET", "/version")));
    let (code, levels) = dump(&server, "dump_priority_levels");
    assert_eq!(code, 200);
    assert!(levels.starts_with("PriorityLevelName, ActiveQueues, IsIdle, "), "{levels}");
    assert_eq!(levels.lines().count(), 1 + 8, "{levels}");
    assert_eq!(dump(&server, "dump_queues").1.lines().count(), 1 + 128 + 16 + 64 + 64 + 128 + 128);
    assert_eq!(dump(&server, "dump_requests").1.lines().count(), 1);
    assert_eq!(dump(&server, "dump_nothing").0, 404);
    assert!(server.get("/metrics").text().contains("apiserver_flowcontrol_nominal_limit_seats"));
    server.api = server.api.with_fairness(None);
    assert_eq!(dump(&server, "dump_queues").0, 404);
    assert!(!server.get("/metrics").text().contains("apiserver_flowcontrol"));
    assert!(!server.seats(&request_of("ann", "GET", MAPS)).are_occupied());
}

#[test]
fn writes_to_watched_objects_occupy_more_seats() {
    let server = TestServer::paused();
    let write = request_of("ann", "POST", MAPS);
    let seats = || {
        let _seats = server.seats(&write);
        let reply = server.get("/metrics");
        let name = "apiserver_flowcontrol_current_executing_seats{priority_level=\"global-default\"";
        let line = reply.text().lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(seats(), 1);
    let watch = request("GET", &format!("{MAPS}?watch=true&resourceVersion=1"), "", &[]);
    let watches: Vec<Seats> = (0..35).map(|_| server.seats(&watch)).collect();
    assert_eq!(seats(), 4);
    drop(watches);
    // The seats of the last write are still occupied, since the clock stands.
    assert_eq!(seats(), 4 + 1);
}

/// Clock that shows the virtual time of the runtime.
struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Time {
        START.after(self.uptime())
    }

    #[expect(clippy::disallowed_methods, reason = "the runtime's time is virtual")]
    fn uptime(&self) -> Duration {
        tokio::time::Instant::now() - self.0
    }
}

/// Sends a request that the server executes for three milliseconds. Returns the time until its end; `None` if it is
/// rejected.
#[expect(clippy::disallowed_methods, reason = "the runtime's time is virtual")]
async fn send(api: &Api, clock: &RuntimeClock, user: &str) -> Option<Duration> {
    let begun = clock.uptime();
    let request = request_of(user, "GET", MAPS);
    let seats = match api.take_seats(&request).ok()? {
        Admission::Seated(seats) => seats,
        Admission::Queued(waiting) => waiting.await.ok()?,
    };
    let response = api.answer(request.clone()).await;
    tokio::time::sleep(Duration::from_millis(3)).await;
    drop((response, seats));
    Some(clock.uptime() - begun)
}

/// Sends requests of `polite` with pauses, while `connections` of `hostile` send theirs without. Returns the times of
/// the polite requests, sorted.
#[expect(clippy::disallowed_methods, reason = "the runtime's time is virtual")]
fn polite_times(connections: u32) -> Vec<Duration> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(RuntimeClock(tokio::time::Instant::now()));
        let api = service(Store::in_memory(Retention::default()), options(Arc::clone(&clock) as _)).unwrap();
        let api = Arc::new(api.with_fairness(Some(60)));
        let hostile: Vec<_> = (0..connections)
            .map(|_| {
                let (api, clock) = (Arc::clone(&api), Arc::clone(&clock));
                tokio::spawn(async move {
                    loop {
                        if send(&api, &clock, "hostile").await.is_none() {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                })
            })
            .collect();
        let mut times = Vec::new();
        for pause in 0..300_u64 {
            tokio::time::sleep(Duration::from_micros(2000 + pause * 7919 % 3000)).await;
            times.push(send(&api, &clock, "polite").await.expect("a polite request is not rejected"));
        }
        hostile.iter().for_each(|task| task.abort());
        times.sort();
        times
    })
}

#[test]
fn flooding_client_does_not_double_the_99th_percentile_of_a_polite_one() {
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
    let (alone, flooded) = (polite_times(0), polite_times(400));
    assert!(p99(&flooded) <= p99(&alone) * 2, "{:?} becomes {:?}", p99(&alone), p99(&flooded));
}
