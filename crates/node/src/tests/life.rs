//! The life of a pod, as people see it from outside: states, events and their order.

use super::*;

fn annotated(cluster: &mut Cluster, name: &str, annotations: Value, spec: &str) {
    let mut spec = setpoint_sim::cluster::parsed(spec);
    spec.make_map().insert("nodeName", "node-0");
    let metadata = value!({"name": (name), "annotations": (annotations)});
    cluster.create("pods", "default", value!({"metadata": (metadata), "spec": (spec)}));
    cluster.settle();
}

/// What each tenth of a second shows, without repetitions.
fn seen(cluster: &mut Cluster, name: &str, tenths: u32) -> Vec<String> {
    let mut seen = vec![shown(cluster, name)];
    for _ in 0..tenths {
        cluster.run(Duration::from_millis(100));
        let now = shown(cluster, name);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    seen
}

#[test]
fn a_pull_that_fails_does_not_begin_anew_whenever_the_pod_is_written() {
    let mut cluster = cluster(slowly);
    for part in [10, 310, 990] {
        cluster.run(Duration::from_millis(part));
        let name = format!("p{part}");
        pod(&mut cluster, &name, r#"{"containers":[{"name":"c","image":"web:404"}]}"#);
        cluster.run(Duration::from_millis(300));
        let patch = value!({"metadata": {"labels": {"a": "b"}}});
        cluster.patch("pods", &format!("default/{name}"), "", patch).unwrap();
        let seen = seen(&mut cluster, &name, 60);
        let expected = ["ContainerCreating", "ErrImagePull", "ImagePullBackOff"];
        assert_eq!(seen, expected.map(|state| format!("Pending | {state}")), "{part}");
    }
}
