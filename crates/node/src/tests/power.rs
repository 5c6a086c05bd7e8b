//! Nodes that people switch off, cut off and start again.

use super::*;

fn set(cluster: &mut Cluster, power: &str, booted: bool) {
    let mut annotations = value!({"simulate.setpoint.dev/power": (power)});
    if booted {
        let now = setpoint_api::rfc3339::Micros(cluster.now).to_string();
        annotations.make_map().insert("simulate.setpoint.dev/booted", now);
    }
    cluster.patch("nodes", "node-0", "", value!({"metadata": {"annotations": (annotations)}})).unwrap();
    cluster.settle();
}

fn ready(cluster: &Cluster) -> String {
    condition(&cluster.get("nodes", "node-0").unwrap(), "Ready")
}

#[test]
fn a_node_without_power_falls_silent_and_loses_its_containers() {
    let mut cluster = cluster(at_once);
    pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    let boot = cluster.get("nodes", "node-0").unwrap().str_at(&["status", "nodeInfo", "bootID"]).to_owned();
    set(&mut cluster, "off", false);
    seconds(&mut cluster, 90);
    assert_eq!(ready(&cluster), "Unknown NodeStatusUnknown");
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "False");
    set(&mut cluster, "on", true);
    seconds(&mut cluster, 5);
    assert_eq!(ready(&cluster), "True KubeletReady");
    assert_eq!(shown(&cluster, "a"), "Running | ready x1");
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "True");
    let after = cluster.get("nodes", "node-0").unwrap().str_at(&["status", "nodeInfo", "bootID"]).to_owned();
    assert_ne!(boot, after);
    assert_eq!(events(&cluster, "Rebooted").len(), 1);
    cluster.assert_quiet();
}

#[test]
fn a_node_that_is_cut_off_runs_on_and_tells_later() {
    let mut cluster = cluster(at_once);
    pod(
        &mut cluster,
        "a",
        r#"{"restartPolicy":"Never","containers":[{"name":"c","image":"b","command":["sleep","100"]}]}"#,
    );
    pod(&mut cluster, "b", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    set(&mut cluster, "partitioned", false);
    cluster.delete("pods", "default/b", &value!({})).unwrap();
    seconds(&mut cluster, 200);
    assert_eq!(ready(&cluster), "Unknown NodeStatusUnknown");
    assert_eq!(shown(&cluster, "a"), "Running | ready");
    assert!(cluster.get("pods", "default/b").is_some(), "nobody knows whether it still runs");
    set(&mut cluster, "on", false);
    seconds(&mut cluster, 5);
    assert_eq!(shown(&cluster, "a"), "Succeeded | Completed 0");
    assert!(cluster.get("pods", "default/b").is_none());
    cluster.assert_quiet();
}
