//! Tests of the levels of a server.

use setpoint_api::kinds::flowcontrol::builtin;
use setpoint_api::{Identity, RequestInfo, Value, value};

use super::*;
use crate::dump;
use crate::level::{Arrival, RequestId, RequestSubject, Start};
use crate::work::RequestWork;

const NOW: Duration = Duration::ZERO;

fn schemas() -> Vec<FlowSchema> {
    builtin::schema_names().filter_map(FlowSchema::built_in).collect()
}

fn levels() -> Vec<PriorityLevel> {
    builtin::level_names().filter_map(PriorityLevel::built_in).collect()
}

fn limited(name: &str, shares: i64) -> PriorityLevel {
    let object = value!({
        "metadata": {"name": (name), "uid": (format!("uid-{name}"))},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": (shares),
            "limitResponse": {"type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 100}},
        }},
    });
    PriorityLevel::read(&object).unwrap()
}

fn schema(name: &str, level: &str, precedence: i64) -> FlowSchema {
    let object = value!({
        "metadata": {"name": (name)},
        "spec": {
            "priorityLevelConfiguration": {"name": (level)}, "matchingPrecedence": (precedence),
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": (name)}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    });
    FlowSchema::read(&object).unwrap()
}

fn classified(
    configuration: &Configuration<u32>,
    user: &str,
    groups: &[&str],
    info: &RequestInfo<'_>,
) -> String {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let schema = &configuration.schemas()[configuration.classify(&Identity::new(user, groups), info)];
    format!("{} {}", schema.schema.name, schema.level_name)
}

/// Starts a request of the first FlowSchema of a name.
fn start(configuration: &Configuration<u32>, schema: &str, now: Duration, number: u32) -> Start {
    let schema = configuration.schemas().iter().find(|one| *one.schema.name == *schema).unwrap();
    let subject =
        RequestSubject { user: "ann".into(), flow: "ann".into(), verb: "get".into(), ..Default::default() };
    let arrival = Arrival {
        generation: configuration.generation(),
        schema: schema.position,
        flow: u64::from(number),
        work: RequestWork::Plain,
        is_watch: false,
        subject: Some(&Arc::new(subject)),
        path: "/some/path",
        name: "some",
    };
    schema.level.lock().start(now, &arrival, || number)
}

#[test]
fn built_in_flow_schemas_classify_as_upstreams() {
    let controller = Controller::new(600, NOW);
    let (configuration, _) = controller.reconfigure(NOW, 1, schemas(), levels());
    let get = RequestInfo {
        is_resource: true,
        verb: "get",
        resource: "pods",
        namespace: "a",
        ..Default::default()
    };
    let lease = RequestInfo { group: "coordination.k8s.io", resource: "leases", ..get };
    let health = RequestInfo { verb: "get", path: "/readyz/ping", ..Default::default() };
    let of =
        |user: &str, groups: &[&str], info: &RequestInfo<'_>| classified(&configuration, user, groups, info);
    let everyone = "system:authenticated";
    assert_eq!(of("admin", &["system:masters", everyone], &get), "exempt exempt");
    assert_eq!(of("ann", &[everyone], &health), "probes exempt");
    assert_eq!(of("system:kube-scheduler", &[everyone], &lease), "system-leader-election leader-election");
    assert_eq!(of("system:node:n", &["system:nodes", everyone], &lease), "system-node-high node-high");
    assert_eq!(of("system:node:n", &["system:nodes", everyone], &get), "system-nodes system");
    assert_eq!(of("system:kube-scheduler", &[everyone], &get), "kube-scheduler workload-high");
    let account = "system:serviceaccount:kube-system:x";
    assert_eq!(
        of(account, &["system:serviceaccounts", everyone], &get),
        "kube-system-service-accounts workload-high"
    );
    let account = "system:serviceaccount:default:x";
    assert_eq!(of(account, &["system:serviceaccounts", everyone], &get), "service-accounts workload-low");
    assert_eq!(of("ann", &[everyone], &get), "global-default global-default");
    assert_eq!(of("ann", &[], &get), "catch-all catch-all", "a user of no group");
}

#[test]
fn mandatory_objects_are_supplied_and_dangling_schemas_ignored() {
    let controller: Controller<u32> = Controller::new(600, NOW);
    let dangling = schema("ann", "none", 5);
    let (configuration, _) = controller.reconfigure(NOW, 1, vec![dangling], Vec::new());
    let names: Vec<&str> = configuration.schemas().iter().map(|schema| &*schema.schema.name).collect();
    assert_eq!(names, ["exempt", "catch-all"]);
    assert_eq!(controller.levels().len(), 2);
    assert_eq!(controller.levels()[0].lock().limits().current, 600, "catch-all has all seats");
}

#[test]
fn schemas_match_by_precedence_then_name() {
    let controller: Controller<u32> = Controller::new(600, NOW);
    let all = vec![schema("b", "l", 7), schema("c", "l", 5), schema("a", "l", 7)];
    let (configuration, _) = controller.reconfigure(NOW, 1, all, vec![limited("l", 10)]);
    let names: Vec<&str> = configuration.schemas().iter().map(|schema| &*schema.schema.name).collect();
    assert_eq!(names, ["exempt", "c", "a", "b", "catch-all"]);
}

#[test]
fn removed_level_drains_and_its_seats_return_to_others() {
    let controller = Controller::new(100, NOW);
    let (old, _) =
        controller.reconfigure(NOW, 1, vec![schema("ann", "l", 5)], vec![limited("l", 0), limited("m", 95)]);
    let Start::Waiting(first) = start(&old, "ann", NOW, 1) else {
        panic!("a level without shares has no seats")
    };
    let (new, _) = controller.reconfigure(NOW, 2, Vec::new(), vec![limited("m", 95)]);
    assert_eq!(start(&old, "ann", NOW, 2), Start::Stale);
    let report = controller.reports(NOW).into_iter().find(|report| *report.name == *"l").unwrap();
    assert!(report.is_quiescing && report.waiting == 1);
    let level = Arc::clone(&old.schemas().iter().find(|one| *one.schema.name == *"ann").unwrap().level);
    level.lock().leave(NOW, first);
    assert!(controller.adjust(ADJUSTMENT_PERIOD).is_empty());
    assert!(controller.reports(NOW).iter().all(|report| *report.name != *"l"));
    assert_eq!(start(&old, "ann", NOW, 3), Start::Stale, "a removed level accepts no request");
    assert_eq!(new.schemas().len(), 2);
}

#[test]
fn busy_level_borrows_and_waiting_requests_get_the_seats() {
    let controller = Controller::new(100, NOW);
    let objects = |name: &str, lendable: i64| {
        let mut level = limited(name, 45);
        level.spec.lendable_percent = u32::try_from(lendable).unwrap();
        level
    };
    let schemas = vec![schema("ann", "busy", 5), schema("bob", "idle", 5)];
    let (configuration, _) =
        controller.reconfigure(NOW, 1, schemas, vec![objects("busy", 50), objects("idle", 50)]);
    let mut executing = 0;
    let mut ids: Vec<RequestId> = Vec::new();
    for number in 0..200 {
        match start(&configuration, "ann", NOW, number) {
            Start::Executing(id) => {
                executing += 1;
                ids.push(id);
            }
            Start::Waiting(id) => ids.push(id),
            other => panic!("{other:?}"),
        }
    }
    assert!(controller.adjust(Duration::from_secs(9)).is_empty(), "limits change every ten seconds");
    let dispatched = controller.adjust(ADJUSTMENT_PERIOD).len();
    let limits: BTreeMap<Box<str>, LevelLimits> =
        controller.reports(NOW).into_iter().map(|report| (report.name, report.limits)).collect();
    assert_eq!(executing + dispatched, limits["busy"].current as usize);
    assert!(limits["busy"].current > limits["busy"].nominal, "{limits:?}");
    assert_eq!(limits["idle"].current, limits["idle"].lower);
}

#[test]
fn dumps_show_levels_queues_and_requests() {
    let controller = Controller::new(10, NOW);
    let (configuration, _) =
        controller.reconfigure(NOW, 1, vec![schema("ann", "l", 5)], vec![limited("l", 0)]);
    let Start::Waiting(_) = start(&configuration, "ann", NOW, 1) else { panic!("a level without seats") };
    let text = dump::priority_levels(&controller, NOW);
    let row = |text: &str, prefix: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(prefix)).unwrap();
        line.split(',').map(|cell| cell.trim().to_owned()).collect()
    };
    assert_eq!(row(&text, "l,"), ["l", "1", "false", "false", "1", "0", "0", "0", "0", "0"]);
    assert_eq!(row(&text, "exempt,")[1..5], ["0", "true", "false", "0"]);
    let text = dump::queues(&controller);
    assert_eq!(text.lines().filter(|line| line.starts_with("l,")).count(), 8, "{text}");
    assert!(text.contains("0.00300000ss"), "{text}");
    let time = |uptime: Duration| format!("{}s", uptime.as_secs());
    let text = dump::requests(&controller, true, &time);
    let expected = [
        "l",
        "ann",
        "0",
        "ann",
        "0s",
        "1",
        "0",
        "0s",
        "0001-01-01T00:00:00Z",
        "ann",
        "get",
        "/some/path",
        "",
        "some",
        "",
        "",
        "",
    ];
    let mut cells = row(&text, "l,");
    cells.remove(2);
    assert_eq!(cells, expected);
    assert!(!dump::requests(&controller, false, &time).contains("/some/path"));
}

#[test]
fn strange_fields_are_read_without_a_panic() {
    let strange = ["null", "[]", "-5", "\"x\"", "{\"name\":3}", "1e300", "99999999999999", "[null,[],{}]"];
    let fields = [
        "priorityLevelConfiguration",
        "matchingPrecedence",
        "distinguisherMethod",
        "rules",
        "type",
        "limited",
        "exempt",
    ];
    for (field, value) in fields.iter().flat_map(|field| strange.iter().map(move |value| (field, value))) {
        let text = format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"{field}":{value}}}}}"#);
        let object: Value = setpoint_api::json::parse(text.as_bytes()).unwrap();
        drop((FlowSchema::read(&object), PriorityLevel::read(&object)));
    }
}
