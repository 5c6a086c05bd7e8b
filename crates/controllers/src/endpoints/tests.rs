//! Tests of Endpoints in a control plane.

use setpoint_sim::cluster::Cluster;

use super::*;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (vec![Box::new(EndpointsController)], crate::indexes::all()), 3);
    let range = value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}});
    cluster.create("servicecidrs.networking.k8s.io", "", range);
    let service = value!({
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    cluster.create("services", "default", service);
    cluster
}

fn pod(cluster: &mut Cluster, number: usize, ready: &str) {
    let name = format!("p{number}");
    let pod = value!({
        "metadata": {"name": (name.as_str()), "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let _ = cluster.try_create("pods", "default", pod);
    let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    let status = value!({"status": {
        "phase": "Running", "podIP": (ip.as_str()), "podIPs": [{"ip": (ip.as_str())}],
        "conditions": [{"type": "Ready", "status": (ready), "lastTransitionTime": "2027-01-01T00:00:00Z"}],
    }});
    cluster.patch("pods", &format!("default/{name}"), "status", status).unwrap();
}

fn counts(cluster: &Cluster) -> (usize, usize) {
    let endpoints = cluster.get("endpoints", "default/web").unwrap();
    let subsets = endpoints.get("subsets").and_then(Value::as_list).unwrap_or_default();
    let count = |field: &str| {
        subsets.iter().filter_map(|subset| subset.get(field)?.as_list()).map(<[Value]>::len).sum()
    };
    (count("addresses"), count("notReadyAddresses"))
}

#[test]
fn ready_and_unready_addresses_are_listed_separately() {
    let mut cluster = cluster();
    cluster.settle();
    assert_eq!(counts(&cluster), (0, 0));
    pod(&mut cluster, 1, "True");
    pod(&mut cluster, 2, "False");
    cluster.settle();
    assert_eq!(counts(&cluster), (1, 1));
    let endpoints = cluster.get("endpoints", "default/web").unwrap();
    assert_eq!(endpoints.str_at(&["metadata", "labels", "team"]), "a");
    cluster.assert_quiet();
    pod(&mut cluster, 1, "False");
    cluster.settle();
    assert_eq!(counts(&cluster), (0, 2));
    cluster.assert_quiet();
}

#[test]
fn endpoints_of_a_new_service_are_written_once_with_their_trigger_time() {
    let mut cluster = cluster();
    cluster.settle();
    let writes = cluster.history.iter().filter(|line| line.starts_with("endpoint-controller")).count();
    assert_eq!(writes, 1, "{:#?}", cluster.history);
    let endpoints = cluster.get("endpoints", "default/web").unwrap();
    let service = cluster.get("services", "default/web").unwrap();
    let created = service.str_at(&["metadata", "creationTimestamp"]);
    let expected = value!({"endpoints.kubernetes.io/last-change-trigger-time": (created)});
    assert_eq!(endpoints.at(&["metadata", "annotations"]), Some(&expected));
}

#[test]
fn addresses_are_truncated_at_a_thousand_with_an_annotation() {
    let mut cluster = cluster();
    for number in 0..1005 {
        pod(&mut cluster, number, if number < 990 { "True" } else { "False" });
    }
    cluster.settle();
    assert_eq!(counts(&cluster), (990, 10));
    let endpoints = cluster.get("endpoints", "default/web").unwrap();
    assert_eq!(endpoints.str_at(&["metadata", "annotations", OVER_CAPACITY]), "truncated");
    cluster.assert_quiet();
}

#[test]
fn endpoints_of_a_deleted_service_are_deleted_and_foreign_ones_stay() {
    let mut cluster = cluster();
    cluster.create("endpoints", "default", value!({"metadata": {"name": "mine"}}));
    cluster.settle();
    cluster.delete("services", "default/web", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("endpoints", "default/web").is_none());
    assert!(cluster.get("endpoints", "default/mine").is_some());
    cluster.assert_quiet();
}
