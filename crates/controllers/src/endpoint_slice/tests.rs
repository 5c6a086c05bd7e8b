//! Tests of EndpointSlices in a control plane.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (vec![Box::new(EndpointSliceController)], crate::indexes::all()), 3);
    let node = value!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}}});
    cluster.create("nodes", "", node);
    cluster.create(
        "servicecidrs.networking.k8s.io",
        "",
        value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}}),
    );
    cluster
}

fn service(extra: &[(&str, Value)]) -> Value {
    let mut service = value!({
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    });
    for (name, value) in extra {
        service.ensure_map("spec").insert(*name, value.clone());
    }
    service
}

fn pod(cluster: &mut Cluster, number: usize) {
    let name = format!("p{number}");
    let pod = value!({
        "metadata": {"name": (name.as_str()), "labels": {"app": "web"}},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}],
        },
    });
    cluster.create("pods", "default", pod);
    set_ready(cluster, number, "True");
}

fn set_ready(cluster: &mut Cluster, number: usize, ready: &str) {
    let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    let status = value!({"status": {
        "phase": "Running", "podIP": (ip.as_str()), "podIPs": [{"ip": (ip.as_str())}],
        "conditions": [{"type": "Ready", "status": (ready), "lastTransitionTime": "2027-01-01T00:00:00Z"}],
    }});
    cluster.patch("pods", &format!("default/p{number}"), "status", status).unwrap();
}

fn slices(cluster: &Cluster) -> Vec<Value> {
    cluster.list("endpointslices.discovery.k8s.io")
}

fn endpoints(slice: &Value) -> &[Value] {
    slice.get("endpoints").and_then(Value::as_list).unwrap_or_default()
}

#[test]
fn empty_slice_is_created_first_and_filled_later() {
    let mut cluster = cluster();
    cluster.create("services", "default", service(&[]));
    cluster.settle();
    assert_eq!(slices(&cluster).len(), 1);
    assert!(endpoints(&slices(&cluster)[0]).is_empty());
    pod(&mut cluster, 1);
    cluster.settle();
    let found = slices(&cluster);
    assert_eq!(found.len(), 1, "{found:?}");
    let endpoint = &endpoints(&found[0])[0];
    assert_eq!(endpoint.str_at(&["zone"]), "z");
    assert_eq!(endpoint.at(&["conditions", "ready"]), Some(&Value::Bool(true)));
    assert_eq!(
        found[0].at(&["ports"]).and_then(Value::as_list).unwrap()[0].at(&["port"]),
        Some(&Value::Int(8080))
    );
    assert_eq!(found[0].str_at(&["metadata", "labels", "team"]), "a");
    cluster.assert_quiet();
    set_ready(&mut cluster, 1, "False");
    cluster.settle();
    let found = slices(&cluster);
    assert_eq!(endpoints(&found[0])[0].at(&["conditions", "ready"]), Some(&Value::Bool(false)));
    cluster.assert_quiet();
}

#[test]
fn slices_hold_a_hundred_endpoints_and_change_minimally() {
    let mut cluster = cluster();
    for number in 0..250 {
        pod(&mut cluster, number);
    }
    cluster.create("services", "default", service(&[]));
    cluster.settle();
    let mut sizes: Vec<usize> = slices(&cluster).iter().map(|slice| endpoints(slice).len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
    let before = cluster.store.snapshot().revision();
    pod(&mut cluster, 250);
    cluster.settle();
    let changed = slices(&cluster)
        .iter()
        .filter(|slice| {
            let revision: u64 = slice.str_at(&["metadata", "resourceVersion"]).parse().unwrap();
            revision > before.0
        })
        .count();
    assert_eq!(changed, 1, "one new pod changes one slice");
    cluster.assert_quiet();
}

#[test]
fn headless_services_terminating_pods_and_hints_are_supported() {
    let mut cluster = cluster();
    let extra = [("clusterIP", Value::from("None")), ("trafficDistribution", Value::from("PreferClose"))];
    cluster.create("services", "default", service(&extra));
    pod(&mut cluster, 1);
    cluster.settle();
    let found = &slices(&cluster)[0];
    assert_eq!(found.at(&["metadata", "labels", HEADLESS]), Some(&Value::from("")));
    let hints = endpoints(found)[0].at(&["hints", "forZones"]).and_then(Value::as_list).unwrap();
    assert_eq!(hints[0].str_at(&["name"]), "z");
    cluster.delete("pods", "default/p1", &Value::map()).unwrap();
    cluster.settle();
    let conditions = endpoints(&slices(&cluster)[0])[0].get("conditions").cloned().unwrap();
    let condition = |name: &str| conditions.get(name).and_then(Value::as_bool).unwrap();
    assert!(!condition("ready") && condition("serving") && condition("terminating"));
    cluster.assert_quiet();
}

/// UIDs of the slices, and the number of their endpoints.
fn identities(cluster: &Cluster) -> Vec<(String, usize)> {
    let uid = |slice: &Value| slice.str_at(&["metadata", "uid"]).to_owned();
    slices(cluster).iter().map(|slice| (uid(slice), endpoints(slice).len())).collect()
}

#[test]
fn empty_slice_is_refilled_and_emptied_slice_is_kept() {
    let mut cluster = cluster();
    cluster.create("services", "default", service(&[]));
    cluster.settle();
    let [(uid, 0)] = &identities(&cluster)[..] else { panic!("{:?}", identities(&cluster)) };
    pod(&mut cluster, 1);
    cluster.settle();
    assert_eq!(identities(&cluster), [(uid.clone(), 1)], "the placeholder becomes the first slice");
    cluster.delete("pods", "default/p1", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
    assert_eq!(identities(&cluster), [(uid.clone(), 0)], "the last slice becomes the placeholder");
    let ports = slices(&cluster)[0].get("ports").and_then(Value::as_list).unwrap_or_default().len();
    assert_eq!(ports, 0, "a placeholder has no ports");
    pod(&mut cluster, 2);
    cluster.settle();
    assert_eq!(identities(&cluster), [(uid.clone(), 1)]);
    cluster.assert_quiet();
}

#[test]
fn slice_of_old_ports_is_reused_for_new_ports() {
    let mut cluster = cluster();
    cluster.create("services", "default", service(&[]));
    pod(&mut cluster, 1);
    cluster.settle();
    let before = identities(&cluster);
    let ports = value!({"spec": {"ports": [{"port": 80, "targetPort": 9090}]}});
    cluster.patch("services", "default/web", "", ports).unwrap();
    cluster.settle();
    assert_eq!(identities(&cluster), before);
    let port = slices(&cluster)[0].get("ports").and_then(Value::as_list).unwrap()[0].at(&["port"]).cloned();
    assert_eq!(port, Some(Value::Int(9090)));
    cluster.assert_quiet();
}
