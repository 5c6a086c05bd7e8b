//! Tests of the cells of every kind, and of tables.

use super::table::{
    IncludeObject, ListMeta, MetaVersion, TableObject, TableOptions, partial, partial_list,
    write_object_table, write_partial, write_partial_list, write_table,
};
use super::*;
use crate::json::{parse, to_text};
use crate::{resources, rfc3339};

fn value(text: &str) -> Value {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn now() -> Time {
    rfc3339::parse("2026-11-15T21:00:00Z").unwrap()
}

/// An object named `x` and five minutes old, with further metadata and fields.
fn object_with(metadata: &str, fields: &str) -> Value {
    let comma = |text: &str| if text.is_empty() { String::new() } else { format!(",{text}") };
    value(&format!(
        r#"{{"metadata":{{"name":"x","creationTimestamp":"2026-11-15T20:55:00Z"{}}}{}}}"#,
        comma(metadata),
        comma(fields)
    ))
}

fn cells_of(group: &str, kind: &str, object: &Value) -> String {
    to_text(&Value::List(row(group, kind, object, now())))
}

/// Asserts the cells of an object with these fields; `x` and `5m` stand for its name and age.
#[track_caller]
fn check(group: &str, kind: &str, fields: &str, expected: &str) {
    assert_eq!(cells_of(group, kind, &object_with("", fields)), expected, "{kind}: {fields}");
}

#[test]
fn durations_have_two_or_three_digits() {
    let cases = [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (201, "3m21s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_060, "3h21m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (190_800, "2d5h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ];
    for (seconds, text) in cases {
        assert_eq!(human_duration(Time::EPOCH, Time::from_seconds(seconds)), text);
    }
}

#[test]
fn every_resource_has_described_columns_and_a_cell_for_each() {
    let mut by_default = Vec::new();
    for resource in resources::all() {
        let columns = columns(&resource.group, &resource.kind);
        for column in columns {
            assert!(!column.description().is_empty(), "{}: {}", resource.kind, column.name);
        }
        let names = columns.iter().filter(|column| column.name == "Name").count();
        assert_eq!(names, 1, "{}", resource.kind);
        // One kind has a cell more than columns, as upstream.
        let extra = usize::from(resource.kind == "IPAddress");
        let cells = row(&resource.group, &resource.kind, &Value::map(), now());
        assert_eq!(cells.len(), columns.len() + extra, "{}", resource.kind);
        if std::ptr::eq(printer(&resource.group, &resource.kind), &DEFAULT)
            && resource.verbs.contains(resources::Verb::List)
        {
            by_default.push(&*resource.kind);
        }
    }
    assert_eq!(by_default, ["LimitRange", "ClusterRole", "Role", "CSIStorageCapacity"]);
    assert_eq!(columns("apps", "Deployment").iter().filter(|column| column.priority == 1).count(), 3);
}

#[test]
fn kind_without_printer_shows_name_and_creation_time() {
    check("example.org", "Widget", "", r#"["x","2026-11-15T20:55:00Z"]"#);
    assert_eq!(cells_of("example.org", "Widget", &Value::map()), r#"["","0001-01-01T00:00:00Z"]"#);
    assert_eq!(cells_of("", "ServiceAccount", &Value::map()), escaped(r#"["","<unknown>"]"#));
}

/// Asserts the ready, status and restart cells of a pod.
#[track_caller]
fn check_pod(metadata: &str, spec: &str, status: &str, expected: [&str; 3]) {
    let pod = object_with(metadata, &format!(r#""spec":{spec},"status":{status}"#));
    let cells = row("", "Pod", &pod, now());
    let found = [&cells[1], &cells[2], &cells[3]].map(|cell| cell.as_str().unwrap());
    assert_eq!(found, expected, "{spec} {status}");
}

const TWO: &str = r#"{"containers":[{"name":"a"},{"name":"b"}]}"#;
const ONE: &str = r#"{"containers":[{"name":"a"}]}"#;

#[test]
fn pod_status_summarizes_its_containers() {
    check_pod("", ONE, r#"{"phase":"Pending"}"#, ["0/1", "Pending", "0"]);
    check_pod("", ONE, r#"{"phase":"Failed","reason":"Evicted"}"#, ["0/1", "Evicted", "0"]);
    let gated = r#"{"phase":"Pending","conditions":[{"type":"PodScheduled","reason":"SchedulingGated"}]}"#;
    check_pod("", ONE, gated, ["0/1", "SchedulingGated", "0"]);
    let running = r#"{"phase":"Running","containerStatuses":[
        {"name":"a","ready":true,"restartCount":2,"state":{"running":{}},
            "lastState":{"terminated":{"finishedAt":"2026-11-15T20:55:00Z"}}},
        {"name":"b","ready":true,"restartCount":1,"state":{"running":{}},
            "lastState":{"terminated":{"finishedAt":"2026-11-15T20:59:00Z"}}}]}"#;
    check_pod("", TWO, running, ["2/2", "Running", "3 (60s ago)"]);
    let crashing = r#"{"phase":"Running","containerStatuses":[
        {"name":"a","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}"#;
    check_pod("", ONE, crashing, ["0/1", "CrashLoopBackOff", "4"]);
    for (end, reason) in [
        (r#"{"exitCode":0,"reason":"Completed"}"#, "Completed"),
        (r#"{"exitCode":1,"reason":"Error"}"#, "Error"),
        (r#"{"exitCode":137,"signal":9}"#, "Signal:9"),
        (r#"{"exitCode":3}"#, "ExitCode:3"),
    ] {
        let status = format!(
            r#"{{"phase":"Running","containerStatuses":[{{"name":"a","state":{{"terminated":{end}}}}}]}}"#
        );
        check_pod("", ONE, &status, ["0/1", reason, "0"]);
    }
}

#[test]
fn pod_with_one_completed_container_is_not_completed() {
    let half = |second: &str, conditions: &str| {
        format!(
            r#"{{"phase":"Running","conditions":{conditions},"containerStatuses":[
                {{"name":"a","state":{{"terminated":{{"exitCode":0,"reason":"Completed"}}}}}},{second}]}}"#
        )
    };
    let running = r#"{"name":"b","ready":true,"state":{"running":{}}}"#;
    let failed = r#"{"name":"b","state":{"terminated":{"exitCode":1,"reason":"Error"}}}"#;
    let is_ready = r#"[{"type":"Ready","status":"True"}]"#;
    check_pod("", TWO, &half(running, is_ready), ["1/2", "Running", "0"]);
    check_pod("", TWO, &half(running, "[]"), ["1/2", "NotReady", "0"]);
    check_pod("", TWO, &half(failed, "[]"), ["0/2", "Error", "0"]);
}

#[test]
fn pod_status_shows_the_progress_of_init_containers() {
    let spec = r#"{"containers":[{"name":"m"}],"initContainers":[{"name":"a"},{"name":"b"}]}"#;
    let status = |second: &str| {
        format!(
            r#"{{"phase":"Pending","initContainerStatuses":[
                {{"name":"a","state":{{"terminated":{{"exitCode":0}}}}}},{{"name":"b","restartCount":1,"state":{second}}}]}}"#
        )
    };
    for (state, reason) in [
        (r#"{"running":{}}"#, "Init:1/2"),
        (r#"{"waiting":{"reason":"PodInitializing"}}"#, "Init:1/2"),
        (r#"{"waiting":{"reason":"ImagePullBackOff"}}"#, "Init:ImagePullBackOff"),
        (r#"{"terminated":{"exitCode":2}}"#, "Init:ExitCode:2"),
        (r#"{"terminated":{"exitCode":2,"signal":9}}"#, "Init:Signal:9"),
        (r#"{"terminated":{"exitCode":2,"reason":"Error"}}"#, "Init:Error"),
    ] {
        check_pod("", spec, &status(state), ["0/1", reason, "1"]);
    }
    // A sidecar counts with the main containers.
    let spec = r#"{"containers":[{"name":"m"}],"initContainers":[{"name":"a","restartPolicy":"Always"}]}"#;
    let status = r#"{"phase":"Running","initContainerStatuses":[
            {"name":"a","started":true,"ready":true,"restartCount":3,"state":{"running":{}}}],
        "containerStatuses":[{"name":"m","ready":true,"restartCount":1,"state":{"running":{}}}]}"#;
    check_pod("", spec, status, ["2/2", "Running", "4"]);
}

#[test]
fn deleted_pod_is_terminating_until_it_has_finished() {
    let deleted = r#""deletionTimestamp":"2026-11-15T20:59:00Z""#;
    check_pod(deleted, ONE, r#"{"phase":"Running"}"#, ["0/1", "Terminating", "0"]);
    check_pod(deleted, ONE, r#"{"phase":"Running","reason":"NodeLost"}"#, ["0/1", "Unknown", "0"]);
    check_pod(deleted, ONE, r#"{"phase":"Succeeded"}"#, ["0/1", "Succeeded", "0"]);
}

#[test]
fn wide_columns_of_pods_show_ip_and_node() {
    let fields = r#""spec":{"nodeName":"n","readinessGates":[{"conditionType":"p"},{"conditionType":"q"}]},
        "status":{"phase":"Running","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd00::1"}],"nominatedNodeName":"m",
            "conditions":[{"type":"p","status":"True"},{"type":"q","status":"False"}]}"#;
    check("", "Pod", fields, r#"["x","0/0","Running","0","5m","10.0.0.1","n","m","1/2"]"#);
}

#[test]
fn core_kinds_print_as_upstream() {
    check("", "ConfigMap", r#""data":{"a":"1"},"binaryData":{"b":"","c":""}"#, r#"["x",3,"5m"]"#);
    check("", "Secret", r#""type":"Opaque","data":{"a":""}"#, r#"["x","Opaque",1,"5m"]"#);
    check("", "Namespace", r#""status":{"phase":"Active"}"#, r#"["x","Active","5m"]"#);
    check("", "ServiceAccount", "", r#"["x","5m"]"#);
    check("", "LimitRange", "", r#"["x","2026-11-15T20:55:00Z"]"#);
    check(
        "",
        "ResourceQuota",
        r#""status":{"hard":{"pods":"10","limits.cpu":"2","cpu":"1"},"used":{"pods":"3"}}"#,
        r#"["x","cpu: 0/1, pods: 3/10","limits.cpu: 0/2","5m"]"#,
    );
    check(
        "",
        "ReplicationController",
        r#""spec":{"replicas":2,"selector":{"b":"2","a":"1"},"template":{"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}},"status":{"replicas":1}"#,
        r#"["x",2,1,0,"5m","c,d","i,j","a=1,b=2"]"#,
    );
    check(
        "",
        "PodTemplate",
        r#""template":{"metadata":{"labels":{"a":"1"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        r#"["x","c","i","a=1"]"#,
    );
    check(
        "",
        "ComponentStatus",
        r#""conditions":[{"type":"Healthy","status":"False","message":"m","error":"e"}]"#,
        r#"["x","Unhealthy","m","e"]"#,
    );
}

#[test]
fn services_and_endpoints_show_addresses_and_ports() {
    let service = |spec: &str, status: &str| {
        let object = object_with("", &format!(r#""spec":{spec},"status":{status}"#));
        let cells = row("", "Service", &object, now());
        to_text(&Value::List(cells[1..5].to_vec()))
    };
    let ports = r#""ports":[{"port":80,"protocol":"TCP","nodePort":30080},{"port":53,"protocol":"UDP"}]"#;
    assert_eq!(
        service(&format!(r#"{{"type":"NodePort","clusterIPs":["10.0.0.1"],{ports}}}"#), "{}"),
        escaped(r#"["NodePort","10.0.0.1","<none>","80:30080/TCP,53/UDP"]"#),
    );
    let external = |spec: &str, status: &str| {
        let object = object_with("", &format!(r#""spec":{spec},"status":{status}"#));
        row("", "Service", &object, now())[3].as_str().unwrap().to_owned()
    };
    let balanced =
        r#"{"loadBalancer":{"ingress":[{"ip":"2.2.2.2"},{"hostname":"a.example"},{"ip":"1.1.1.1"}]}}"#;
    assert_eq!(external(r#"{"type":"ClusterIP"}"#, "{}"), "<none>");
    assert_eq!(
        external(r#"{"type":"ClusterIP","externalIPs":["1.2.3.4","5.6.7.8"]}"#, "{}"),
        "1.2.3.4,5.6.7.8"
    );
    assert_eq!(external(r#"{"type":"LoadBalancer"}"#, "{}"), "<pending>");
    assert_eq!(external(r#"{"type":"LoadBalancer"}"#, balanced), "1.1.1.1,2.2.2.2,a.example");
    let both = external(r#"{"type":"LoadBalancer","externalIPs":["9.9.9.9"]}"#, balanced);
    assert_eq!(both, "1.1.1.1,2.2.2.2,a.example,9.9.9.9");
    assert_eq!(external(r#"{"type":"ExternalName","externalName":"e.example"}"#, "{}"), "e.example");
    let endpoints = |subsets: &str| {
        let object = object_with("", &format!(r#""subsets":{subsets}"#));
        row("", "Endpoints", &object, now())[1].as_str().unwrap().to_owned()
    };
    let addresses = r#""addresses":[{"ip":"1.1.1.1"},{"ip":"fd00::2"}]"#;
    assert_eq!(endpoints("[]"), "<none>");
    assert_eq!(endpoints(&format!("[{{{addresses}}}]")), "1.1.1.1,fd00::2");
    assert_eq!(
        endpoints(&format!(r#"[{{{addresses},"ports":[{{"port":80}},{{"port":81}}]}}]"#)),
        "1.1.1.1:80,[fd00::2]:80,1.1.1.1:81 + 1 more..."
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        r#""addressType":"IPv4","ports":[{"port":80},{"name":"n"},{}],"endpoints":[{"addresses":["1.1.1.1"]},{"addresses":["2.2.2.2"]},{"addresses":["3.3.3.3","4.4.4.4"]}]"#,
        r#"["x","IPv4","80,n,*","1.1.1.1,2.2.2.2,3.3.3.3 + 1 more...","5m"]"#,
    );
    let empty = row("discovery.k8s.io", "EndpointSlice", &Value::map(), now());
    assert_eq!((empty[2].as_str(), empty[3].as_str()), (Some("<unset>"), Some("<unset>")));
}

#[test]
fn nodes_show_status_roles_and_system_info() {
    let node = object_with(
        r#""labels":{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/control-plane":"","kubernetes.io/role":"db","a":"b"}"#,
        r#""spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],
            "addresses":[{"type":"InternalIP","address":"10.0.0.1"}],
            "nodeInfo":{"kubeletVersion":"v1.37.0","osImage":"Debian","kernelVersion":"6.1","architecture":"amd64"}}"#,
    );
    let cells = row("", "Node", &node, now());
    let texts: Vec<&str> = cells.iter().map(|cell| cell.as_str().unwrap()).collect();
    assert_eq!(
        texts,
        [
            "x",
            "Ready,SchedulingDisabled",
            "control-plane,db,worker",
            "5m",
            "v1.37.0",
            "10.0.0.1",
            "<none>",
            "Debian",
            "6.1 (amd64)",
            "<unknown>",
        ]
    );
    let broken = object_with("", r#""status":{"conditions":[{"type":"Ready","status":"Unknown"}]}"#);
    assert_eq!(row("", "Node", &broken, now())[1].as_str(), Some("NotReady"));
}

#[test]
fn volumes_and_claims_show_capacity_modes_and_class() {
    check(
        "",
        "PersistentVolume",
        r#""spec":{"capacity":{"storage":"5Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce","ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"n","name":"c"},"storageClassName":"fast","volumeMode":"Block"},"status":{"phase":"Bound","reason":"r"}"#,
        &escaped(r#"["x","5Gi","RWO,RWX","Retain","Bound","n/c","fast","<unset>","r","5m","Block"]"#),
    );
    let spec = r#""storageClassName":"fast","volumeMode":"Filesystem""#;
    let status = r#""status":{"phase":"Bound","capacity":{"storage":"1Gi"},"accessModes":["ReadOnlyMany"]}"#;
    check(
        "",
        "PersistentVolumeClaim",
        &format!(r#""spec":{{{spec},"volumeName":"v"}},{status}"#),
        &escaped(r#"["x","Bound","v","1Gi","ROX","fast","<unset>","5m","Filesystem"]"#),
    );
    check(
        "",
        "PersistentVolumeClaim",
        &format!(r#""spec":{{{spec}}},{status}"#),
        &escaped(r#"["x","Bound","","","","fast","<unset>","5m","Filesystem"]"#),
    );
    let deleted = object_with(
        r#""deletionTimestamp":"2026-11-15T20:59:00Z","annotations":{"volume.beta.kubernetes.io/storage-class":"old"}"#,
        &format!(r#""spec":{{{spec}}}"#),
    );
    let cells = row("", "PersistentVolumeClaim", &deleted, now());
    assert_eq!((cells[1].as_str(), cells[5].as_str()), (Some("Terminating"), Some("old")));
}

/// JSON with the angle brackets of `<none>` escaped as the writer does.
fn escaped(text: &str) -> String {
    text.replace('<', r"\u003c").replace('>', r"\u003e")
}

#[test]
fn events_of_both_groups_show_time_message_and_count() {
    let old = r#""type":"Warning","reason":"Failed","message":" text\n","involvedObject":{"kind":"Pod","name":"p","fieldPath":"f"},
        "source":{"component":"kubelet","host":"n"},"firstTimestamp":"2026-11-15T20:50:00Z","lastTimestamp":"2026-11-15T20:59:30Z","count":4"#;
    let expected = r#"["30s","Warning","Failed","pod/p","f","kubelet, n","text","10m",4,"x"]"#;
    check("", "Event", old, expected);
    let new = r#""type":"Warning","reason":"Failed","note":"text","regarding":{"kind":"Pod","name":"p","fieldPath":"f"},
        "deprecatedSource":{"component":"kubelet","host":"n"},"deprecatedFirstTimestamp":"2026-11-15T20:50:00Z","deprecatedLastTimestamp":"2026-11-15T20:59:30Z","deprecatedCount":4"#;
    check("events.k8s.io", "Event", new, expected);
    let series = r#""eventTime":"2026-11-15T20:58:00.000000Z","series":{"count":7,"lastObservedTime":"2026-11-15T20:59:59.000000Z"},"reportingComponent":"c","involvedObject":{"kind":"Node"}"#;
    check("", "Event", series, r#"["1s","","","node","","c","","2m",7,"x"]"#);
    let once = r#""eventTime":"2026-11-15T20:58:00.000000Z","firstTimestamp":null,"lastTimestamp":null"#;
    check("", "Event", once, r#"["2m","","","","","","","2m",1,"x"]"#);
}

const TEMPLATE: &str = r#""template":{"spec":{"nodeSelector":{"d":"s"},"containers":[{"name":"c","image":"i"}]}},"selector":{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"In","values":["z","y"]}]}"#;

#[test]
fn workloads_show_counts_containers_and_selector() {
    let selector = "a=1,b in (y,z)";
    check(
        "apps",
        "Deployment",
        &format!(
            r#""spec":{{"replicas":3,{TEMPLATE}}},"status":{{"readyReplicas":2,"updatedReplicas":1,"availableReplicas":2}}"#
        ),
        &format!(r#"["x","2/3",1,2,"5m","c","i","{selector}"]"#),
    );
    check(
        "apps",
        "ReplicaSet",
        &format!(r#""spec":{{"replicas":3,{TEMPLATE}}},"status":{{"replicas":2,"readyReplicas":1}}"#),
        &format!(r#"["x",3,2,1,"5m","c","i","{selector}"]"#),
    );
    check(
        "apps",
        "StatefulSet",
        &format!(r#""spec":{{"replicas":3,{TEMPLATE}}},"status":{{"readyReplicas":1}}"#),
        r#"["x","1/3","5m","c","i"]"#,
    );
    check(
        "apps",
        "DaemonSet",
        &format!(
            r#""spec":{{{TEMPLATE}}},"status":{{"desiredNumberScheduled":5,"currentNumberScheduled":4,"numberReady":3,"updatedNumberScheduled":2,"numberAvailable":1}}"#
        ),
        &format!(r#"["x",5,4,3,2,1,"d=s","5m","c","i","{selector}"]"#),
    );
    let owned = object_with(
        r#""ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n"},{"apiVersion":"apps/v1","kind":"StatefulSet","name":"s","controller":true}]"#,
        r#""revision":7"#,
    );
    assert_eq!(cells_of("apps", "ControllerRevision", &owned), r#"["x","statefulset.apps/s",7,"5m"]"#);
}

#[test]
fn jobs_show_status_completions_and_duration() {
    let job = |spec: &str, status: &str| {
        let object = object_with("", &format!(r#""spec":{spec},"status":{status}"#));
        let cells = row("batch", "Job", &object, now());
        [1, 2, 3].map(|at| cells[at].as_str().unwrap().to_owned()).join(" ")
    };
    assert_eq!(job(r#"{"completions":3}"#, "{}"), "Running 0/3 ");
    assert_eq!(job(r#"{"parallelism":4}"#, r#"{"succeeded":1}"#), "Running 1/1 of 4 ");
    assert_eq!(job("{}", r#"{"startTime":"2026-11-15T20:59:00Z"}"#), "Running 0/1 60s");
    let done = r#"{"succeeded":1,"startTime":"2026-11-15T20:00:00Z","completionTime":"2026-11-15T20:03:20Z","conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}"#;
    assert_eq!(job(r#"{"completions":1}"#, done), "Complete 1/1 3m20s");
    for kind in ["Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        let status = format!(r#"{{"conditions":[{{"type":"{kind}","status":"True"}}]}}"#);
        assert_eq!(job("{}", &status), format!("{kind} 0/1 "));
    }
    check(
        "batch",
        "CronJob",
        &format!(
            r#""spec":{{"schedule":"* * * * *","suspend":false,"timeZone":"Etc/UTC","jobTemplate":{{"spec":{{{TEMPLATE}}}}}}},"status":{{"active":[{{}},{{}}],"lastScheduleTime":"2026-11-15T20:59:00Z"}}"#
        ),
        r#"["x","* * * * *","Etc/UTC","False",2,"60s","5m","c","i","a=1,b in (y,z)"]"#,
    );
    check("batch", "CronJob", "", &escaped(r#"["x","","<none>","<unset>",0,"<none>","5m","","","<none>"]"#));
}

#[test]
fn autoscalers_show_current_and_target_metrics() {
    let targets = |specs: &str, statuses: &str| {
        let fields = format!(r#""spec":{{"metrics":{specs}}},"status":{{"currentMetrics":{statuses}}}"#);
        let object = object_with("", &fields);
        row("autoscaling", "HorizontalPodAutoscaler", &object, now())[2].as_str().unwrap().to_owned()
    };
    let cpu = r#"{"type":"Resource","resource":{"name":"cpu","target":{"averageUtilization":80}}}"#;
    let cpu_now = r#"{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":20,"averageValue":"5m"}}}"#;
    assert_eq!(targets("[]", "[]"), "<none>");
    assert_eq!(targets(&format!("[{cpu}]"), "[]"), "cpu: <unknown>/80%");
    assert_eq!(targets(&format!("[{cpu}]"), &format!("[{cpu_now}]")), "cpu: 20%/80%");
    assert_eq!(
        targets(&format!("[{cpu},{cpu},{cpu}]"), "[]"),
        "cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more..."
    );
    let cases = [
        (
            r#"{"type":"Pods","pods":{"target":{"averageValue":"10"}}}"#,
            r#"{"pods":{"current":{"averageValue":"4"}}}"#,
            "4/10",
        ),
        (
            r#"{"type":"Object","object":{"target":{"value":"10"}}}"#,
            r#"{"object":{"current":{"value":"4"}}}"#,
            "4/10",
        ),
        (
            r#"{"type":"External","external":{"target":{"averageValue":"10"}}}"#,
            r#"{"external":{"current":{"value":"4"}}}"#,
            "<unknown>/10 (avg)",
        ),
        (
            r#"{"type":"ContainerResource","containerResource":{"name":"memory","target":{"averageValue":"1Gi"}}}"#,
            r#"{"containerResource":{"current":{"averageValue":"512Mi"}}}"#,
            "memory: 512Mi/1Gi",
        ),
        (r#"{"type":"Resource","resource":{"name":"cpu","target":{}}}"#, "{}", "cpu: <unknown>/<auto>"),
        (r#"{"type":"Other"}"#, "{}", "<unknown type>"),
    ];
    for (spec, status, expected) in cases {
        assert_eq!(targets(&format!("[{spec}]"), &format!("[{status}]")), expected);
    }
    check(
        "autoscaling",
        "HorizontalPodAutoscaler",
        r#""spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"minReplicas":2,"maxReplicas":9},"status":{"currentReplicas":3}"#,
        &escaped(r#"["x","Deployment/d","<none>","2",9,3,"5m"]"#),
    );
    check("autoscaling", "Scale", r#""spec":{"replicas":3},"status":{"replicas":2}"#, r#"["x",3,2,"5m"]"#);
}

#[test]
fn networking_kinds_print_as_upstream() {
    let group = "networking.k8s.io";
    check(
        group,
        "Ingress",
        r#""spec":{"ingressClassName":"c","tls":[{}],"rules":[{"host":"a"},{"host":"b"},{},{"host":"d"},{"host":"e"}]},"status":{"loadBalancer":{"ingress":[{"ip":"1.1.1.1"}]}}"#,
        r#"["x","c","a,b,d + 2 more...","1.1.1.1","80, 443","5m"]"#,
    );
    check(group, "Ingress", r#""spec":{"rules":[{}]}"#, &escaped(r#"["x","<none>","*","","80","5m"]"#));
    let class = object_with(
        r#""annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}"#,
        r#""spec":{"controller":"c","parameters":{"apiGroup":"g","kind":"K","name":"p"}}"#,
    );
    assert_eq!(cells_of(group, "IngressClass", &class), r#"["x (default)","c","K.g/p","5m"]"#);
    check(group, "NetworkPolicy", r#""spec":{"podSelector":{}}"#, &escaped(r#"["x","<none>","5m"]"#));
    check(
        group,
        "ServiceCIDR",
        r#""spec":{"cidrs":["10.0.0.0/16","fd00::/108"]}"#,
        r#"["x","10.0.0.0/16,fd00::/108","5m"]"#,
    );
    check(
        group,
        "IPAddress",
        r#""spec":{"parentRef":{"resource":"services","namespace":"default","name":"kubernetes"}}"#,
        r#"["x","services/default/kubernetes","5m"]"#,
    );
}

#[test]
fn storage_kinds_print_as_upstream() {
    let group = "storage.k8s.io";
    check(
        group,
        "StorageClass",
        r#""provisioner":"p","allowVolumeExpansion":true"#,
        r#"["x","p","Delete","Immediate",true,"5m"]"#,
    );
    check(
        group,
        "CSIDriver",
        r#""spec":{"attachRequired":false,"tokenRequests":[{"audience":"a"},{"audience":"b"}],"volumeLifecycleModes":["Persistent","Ephemeral"]}"#,
        r#"["x",false,false,false,"a,b",false,"Persistent,Ephemeral","5m"]"#,
    );
    check(group, "CSINode", r#""spec":{"drivers":[{},{}]}"#, r#"["x",2,"5m"]"#);
    check(
        group,
        "VolumeAttachment",
        r#""spec":{"attacher":"a","nodeName":"n","source":{"persistentVolumeName":"p"}},"status":{"attached":true}"#,
        r#"["x","a","p","n",true,"5m"]"#,
    );
    check(group, "VolumeAttributesClass", r#""driverName":"d""#, r#"["x","d","5m"]"#);
    check(
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        r#""spec":{"resource":{"group":"apps","resource":"deployments"}},"status":{"conditions":[{"type":"Running","status":"False"},{"type":"Succeeded","status":"True"}]}"#,
        r#"["x","deployments.apps","Succeeded"]"#,
    );
}

#[test]
fn bindings_policies_and_classes_print_as_upstream() {
    let subjects = r#""roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"},{"kind":"User","name":"v"},{"kind":"Group","name":"g"},{"kind":"ServiceAccount","namespace":"n","name":"s"}]"#;
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        check("rbac.authorization.k8s.io", kind, subjects, r#"["x","Role/r","5m","u, v","g","n/s"]"#);
    }
    check(
        "policy",
        "PodDisruptionBudget",
        r#""spec":{"minAvailable":"50%"},"status":{"disruptionsAllowed":1}"#,
        r#"["x","50%","N/A",1,"5m"]"#,
    );
    check("coordination.k8s.io", "Lease", r#""spec":{"holderIdentity":"me"}"#, r#"["x","me","5m"]"#);
    check("node.k8s.io", "RuntimeClass", r#""handler":"runc""#, r#"["x","runc","5m"]"#);
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        r#""value":1000,"globalDefault":true,"preemptionPolicy":"Never""#,
        r#"["x",1000,true,"5m","Never"]"#,
    );
    let group = "admissionregistration.k8s.io";
    check(group, "ValidatingWebhookConfiguration", r#""webhooks":[{},{}]"#, r#"["x",2,"5m"]"#);
    check(
        group,
        "ValidatingAdmissionPolicy",
        r#""spec":{"validations":[{}],"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}}"#,
        r#"["x",1,"v1/ConfigMap","5m"]"#,
    );
    let binding = |param: &str, shown: &str| {
        let fields = format!(r#""spec":{{"policyName":"p","paramRef":{param}}}"#);
        check(
            group,
            "ValidatingAdmissionPolicyBinding",
            &fields,
            &escaped(&format!(r#"["x","p","{shown}","5m"]"#)),
        );
    };
    binding("null", "<unset>");
    binding(r#"{"name":"n"}"#, "*/n");
    binding(r#"{"namespace":"s","name":"n"}"#, "s/n");
}

#[test]
fn extension_and_flow_control_kinds_print_as_upstream() {
    check("resource.k8s.io", "ResourceClaim", "", r#"["x","pending","5m"]"#);
    check(
        "resource.k8s.io",
        "ResourceClaim",
        r#""status":{"allocation":{},"reservedFor":[{}]}"#,
        r#"["x","allocated,reserved","5m"]"#,
    );
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        r#""spec":{"signerName":"s","username":"u","expirationSeconds":3600},"status":{"conditions":[{"type":"Approved"}],"certificate":"Y2VydA=="}"#,
        r#"["x","5m","s","u","60m","Approved,Issued"]"#,
    );
    check(
        "apiregistration.k8s.io",
        "APIService",
        r#""spec":{"service":{"namespace":"n","name":"s"}},"status":{"conditions":[{"type":"Available","status":"False","reason":"R"}]}"#,
        r#"["x","n/s","False (R)","5m"]"#,
    );
    check("apiregistration.k8s.io", "APIService", "", r#"["x","Local","Unknown","5m"]"#);
    check(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        r#""spec":{"group":"g","scope":"Namespaced","names":{"kind":"K","shortNames":["a","b"]},"versions":[{"name":"v2","served":true,"storage":true},{"name":"v1","served":true},{"name":"v0"}]},"status":{"conditions":[{"type":"Established","status":"True"}]}"#,
        r#"["x","Namespaced","v1,v2(storage)","2026-11-15T20:55:00Z","g","K","a,b",true]"#,
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        r#""spec":{"type":"Limited","limited":{"nominalConcurrencyShares":5,"limitResponse":{"type":"Reject"}}}"#,
        &escaped(r#"["x","Limited",5,"<none>","<none>","<none>","5m"]"#),
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        r#""spec":{"priorityLevelConfiguration":{"name":"p"},"matchingPrecedence":9}"#,
        &escaped(r#"["x","p",9,"<none>","5m","?"]"#),
    );
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn table_rows_embed_the_requested_part_of_the_object() {
    let secret = value(
        r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","resourceVersion":"7"},"type":"Opaque"}"#,
    );
    let kind = ("", "Secret");
    let table = |include| {
        let options = TableOptions { include, ..TableOptions::default() };
        value(&text(|out| write_object_table(kind.into(), (&secret).into(), options, now(), out)))
    };
    let full = table(IncludeObject::Metadata);
    assert_eq!(
        full.as_map().unwrap().keys().collect::<Vec<_>>(),
        ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    );
    assert_eq!(to_text(full.get("metadata").unwrap()), r#"{"resourceVersion":"7"}"#);
    let columns = full.get("columnDefinitions").unwrap().as_list().unwrap();
    assert_eq!(columns.len(), 4);
    assert_eq!(
        columns[0].as_map().unwrap().keys().collect::<Vec<_>>(),
        ["name", "type", "format", "description", "priority"]
    );
    let object =
        |table: &Value| to_text(table.get("rows").unwrap().as_list().unwrap()[0].get("object").unwrap());
    assert_eq!(
        object(&full),
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"s","resourceVersion":"7"}}"#
    );
    assert_eq!(object(&table(IncludeObject::None)), "null");
    assert_eq!(object(&table(IncludeObject::Object)), to_text(&secret));
    let later =
        TableOptions { with_columns: false, version: MetaVersion::V1Beta1, ..TableOptions::default() };
    let later = text(|out| write_table(kind.into(), &[], ListMeta::default(), later, now(), out));
    let expected = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1","metadata":{},"columnDefinitions":null,"rows":[]}"#;
    assert_eq!(later, expected);
    let roles = ("rbac.authorization.k8s.io", "Role");
    let empty =
        text(|out| write_table(roles.into(), &[], ListMeta::default(), TableOptions::default(), now(), out));
    assert!(empty.ends_with(r#""rows":null}"#));
    assert_eq!(IncludeObject::parse(""), Some(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse("All"), None);
}

#[test]
fn row_of_a_finished_pod_has_a_completed_condition() {
    let conditions = |phase: &str| {
        let pod = object_with("", &format!(r#""status":{{"phase":"{phase}"}}"#));
        let table = value(&text(|out| {
            write_object_table(("", "Pod").into(), (&pod).into(), TableOptions::default(), now(), out);
        }));
        table.get("rows").unwrap().as_list().unwrap()[0].get("conditions").map(to_text)
    };
    assert_eq!(conditions("Running"), None);
    assert_eq!(
        conditions("Failed").unwrap(),
        r#"[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#
    );
    assert!(conditions("Succeeded").unwrap().contains(r#""reason":"Succeeded""#));
}

#[test]
fn list_of_storage_classes_marks_the_newest_default() {
    let class = |name: &str, created: &str, default: &str| {
        value(&format!(
            r#"{{"metadata":{{"name":"{name}","creationTimestamp":"{created}","annotations":{{"storageclass.kubernetes.io/is-default-class":"{default}"}}}}}}"#
        ))
    };
    let classes = [
        class("old", "2026-11-14T00:00:00Z", "true"),
        class("b", "2026-11-15T00:00:00Z", "true"),
        class("a", "2026-11-15T00:00:00Z", "true"),
        class("newest", "2026-11-15T01:00:00Z", "false"),
    ];
    let kind = ("storage.k8s.io", "StorageClass");
    let all: Vec<TableObject<'_>> = classes.iter().map(Into::into).collect();
    let list =
        text(|out| write_table(kind.into(), &all, ListMeta::default(), TableOptions::default(), now(), out));
    let list = value(&list);
    let names: Vec<&str> = list
        .get("rows")
        .unwrap()
        .as_list()
        .unwrap()
        .iter()
        .map(|row| row.get("cells").unwrap().as_list().unwrap()[0].as_str().unwrap())
        .collect();
    assert_eq!(names, ["old", "b", "a (default)", "newest"]);
    let one = text(|out| {
        write_object_table(kind.into(), (&classes[2]).into(), TableOptions::default(), now(), out)
    });
    assert!(one.contains(r#""cells":["a","#));
}

#[test]
fn partial_metadata_is_equal_as_bytes_and_as_value() {
    let objects = [object_with(r#""labels":{"a":"1"}"#, r#""spec":{}"#), Value::map()];
    let meta = ListMeta { resource_version: "9", continue_token: "c", remaining_item_count: Some(3) };
    for object in &objects {
        let bytes = text(|out| write_partial(object, MetaVersion::V1, out));
        assert_eq!(bytes, to_text(&partial(object, MetaVersion::V1)));
    }
    let list = text(|out| write_partial_list(&objects, meta, MetaVersion::V1, out));
    assert_eq!(list, to_text(&partial_list(&objects, meta, MetaVersion::V1)));
    assert!(list.starts_with(
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":3},"items":[{"kind":"PartialObjectMetadata","#
    ));
    let empty = text(|out| write_partial_list([], ListMeta::default(), MetaVersion::V1, out));
    assert_eq!(empty, to_text(&partial_list([], ListMeta::default(), MetaVersion::V1)));
    assert!(empty.ends_with(r#""items":null}"#));
}
