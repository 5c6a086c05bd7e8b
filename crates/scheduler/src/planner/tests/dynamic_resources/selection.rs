//! Choice of devices and nodes: selectors, constraints, alternatives, taints, counters.

use super::*;

const RUN: Duration = Duration::from_secs(30);

/// Device with the attributes `model` and `numa`.
fn device_of(name: &str, model: &str, numa: i64) -> Value {
    value!({"name": (name), "attributes": {"model": {"string": (model)}, "numa": {"int": (numa)}}})
}

fn selector(expression: &str) -> Value {
    value!([{"cel": {"expression": (expression)}}])
}

fn is_model(model: &str) -> Value {
    selector(&format!("device.attributes['{DRIVER}'].model == '{model}'"))
}

/// Runs a pod with a claim for these devices; returns its condition if it gets no node.
fn run(cluster: &mut Cluster, devices: Value) -> Result<Vec<String>, String> {
    add_claim(cluster, "c", devices);
    add_pod(cluster, "p", "c");
    cluster.run(RUN);
    if node_of(cluster, "p").is_empty() { Err(condition(cluster, "p")) } else { Ok(devices_of(cluster, "c")) }
}

fn with_selectors(count: i64, selectors: Value) -> Value {
    let exactly = value!({"deviceClassName": "k", "count": (count), "selectors": (selectors)});
    value!({"requests": [{"name": "q", "exactly": (exactly)}]})
}

#[test]
fn selectors_of_class_and_request_choose_the_devices() {
    let mut cluster = device_cluster();
    let class = value!({"selectors": (selector("device.driver == 'x.example.com' && device.attributes[device.driver].numa == 1"))});
    cluster.create(CLASSES, "", value!({"metadata": {"name": "numa1"}, "spec": (class)}));
    let devices = vec![device_of("a", "big", 0), device_of("b", "small", 1), device_of("c", "big", 1)];
    add_pool(&mut cluster, "net", None, devices);
    let exactly = value!({"deviceClassName": "numa1", "selectors": (is_model("big"))});
    let found = run(&mut cluster, value!({"requests": [{"name": "q", "exactly": (exactly)}]}));
    assert_eq!(found.unwrap(), ["q=net/c"]);
}

#[test]
fn all_devices_that_match_are_allocated_or_none() {
    let mut cluster = device_cluster();
    add_pool(
        &mut cluster,
        "net",
        None,
        vec![device_of("a", "big", 0), device_of("b", "small", 0), device_of("c", "big", 0)],
    );
    let exactly = value!({"deviceClassName": "k", "allocationMode": "All", "selectors": (is_model("big"))});
    let all = value!({"requests": [{"name": "q", "exactly": (exactly)}]});
    assert_eq!(run(&mut cluster, all.clone()).unwrap(), ["q=net/a", "q=net/c"]);
    add_claim(&mut cluster, "c2", all);
    add_pod(&mut cluster, "p2", "c2");
    cluster.run(RUN);
    assert!(
        condition(&cluster, "p2").contains("2 cannot allocate all claims"),
        "{}",
        condition(&cluster, "p2")
    );
}

#[test]
fn constraints_hold_for_all_devices_of_the_claim() {
    for (field, expected) in
        [("matchAttribute", ["q=net/b", "q=net/c"]), ("distinctAttribute", ["q=net/a", "q=net/b"])]
    {
        let mut cluster = device_cluster();
        add_pool(
            &mut cluster,
            "net",
            None,
            vec![device_of("a", "m", 0), device_of("b", "m", 1), device_of("c", "m", 1)],
        );
        let constraint = Value::Map([(field, Value::from("x.example.com/numa"))].into_iter().collect());
        let devices = value!({"requests": [(request("q", 2))], "constraints": [(constraint)]});
        assert_eq!(run(&mut cluster, devices).unwrap(), expected);
    }
}

#[test]
fn node_with_the_preferred_alternative_is_selected() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "n1", Some("n1"), vec![device_of("a", "small", 0)]);
    add_pool(&mut cluster, "n2", Some("n2"), vec![device_of("b", "big", 0)]);
    let choice = |name: &str| value!({"name": (name), "deviceClassName": "k", "selectors": (is_model(name))});
    let choices = vec![choice("huge"), choice("big"), choice("small")];
    let devices = value!({"requests": [{"name": "q", "firstAvailable": (choices)}]});
    assert_eq!(run(&mut cluster, devices).unwrap(), ["q/big=n2/b"]);
}

#[test]
fn taints_keep_devices_from_requests_that_do_not_tolerate_them() {
    let mut cluster = device_cluster();
    let mut tainted = device("a");
    tainted.make_map().insert("taints", vec![value!({"key": "broken", "effect": "NoExecute"})]);
    add_pool(&mut cluster, "net", None, vec![tainted]);
    let error = run(&mut cluster, value!({"requests": [(request("q", 1))]})).unwrap_err();
    assert!(error.contains("2 cannot allocate all claims"), "{error}");
    let tolerations = value!([{"key": "broken", "operator": "Exists"}]);
    let exactly = value!({"deviceClassName": "k", "tolerations": (tolerations)});
    add_claim(&mut cluster, "c2", value!({"requests": [{"name": "q", "exactly": (exactly)}]}));
    add_pod(&mut cluster, "p2", "c2");
    cluster.run(RUN);
    assert_eq!(devices_of(&cluster, "c2"), ["q=net/a"]);
}

#[test]
fn partitions_of_a_device_share_its_counters() {
    let mut cluster = device_cluster();
    let pool = |slice: &str, spec: Value| {
        let mut all = value!({
            "driver": (DRIVER), "pool": {"name": "net", "generation": 1, "resourceSliceCount": 2}, "allNodes": true,
        });
        for (name, value) in spec.as_map().unwrap().iter() {
            all.make_map().insert(name, value.clone());
        }
        value!({"metadata": {"name": (slice)}, "spec": (all)})
    };
    let counters = |amount: &str| value!({"memory": {"value": (amount)}});
    let set = value!({"name": "gpu", "counters": (counters("10Gi"))});
    cluster.create(SLICES, "", pool("counters", value!({"sharedCounters": [(set)]})));
    let partition = |name: &str, amount: &str| {
        let consumed = value!({"counterSet": "gpu", "counters": (counters(amount))});
        value!({"name": (name), "consumesCounters": [(consumed)]})
    };
    let devices = vec![partition("whole", "10Gi"), partition("half1", "5Gi"), partition("half2", "5Gi")];
    cluster.create(SLICES, "", pool("devices", value!({"devices": (devices)})));
    assert_eq!(
        run(&mut cluster, value!({"requests": [(request("q", 2))]})).unwrap(),
        ["q=net/half1", "q=net/half2"]
    );
    add_claim(&mut cluster, "c2", value!({"requests": [(request("q", 1))]}));
    add_pod(&mut cluster, "p2", "c2");
    cluster.run(RUN);
    assert!(
        condition(&cluster, "p2").contains("2 cannot allocate all claims"),
        "{}",
        condition(&cluster, "p2")
    );
}

#[test]
fn administrative_access_uses_devices_of_other_claims() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "net", None, vec![device("a")]);
    assert_eq!(run(&mut cluster, value!({"requests": [(request("q", 1))]})).unwrap(), ["q=net/a"]);
    let exactly = value!({"deviceClassName": "k", "allocationMode": "All", "adminAccess": true});
    add_claim(&mut cluster, "admin", value!({"requests": [{"name": "q", "exactly": (exactly)}]}));
    add_pod(&mut cluster, "admin", "admin");
    cluster.run(RUN);
    assert_eq!(devices_of(&cluster, "admin"), ["q=net/a"], "{}", condition(&cluster, "admin"));
    let claim = cluster.get(CLAIMS, "default/admin").unwrap();
    let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_list).unwrap();
    assert_eq!(results[0].get("adminAccess"), Some(&Value::from(true)));
}

#[test]
fn runtime_error_of_a_selector_fails_the_pod() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "net", None, vec![device("a")]);
    let error = run(&mut cluster, with_selectors(1, is_model("big"))).unwrap_err();
    let expected = "SchedulerError running \"DynamicResources\" filter plugin: claim default/c: selector #0 on device x.example.com/net/a: CEL runtime error: no such key: model. consider using";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(devices_of(&cluster, "c"), [""; 0]);
}

#[test]
fn selector_beyond_its_cost_limit_fails_the_pod() {
    let mut cluster = device_cluster();
    add_pool(&mut cluster, "net", None, vec![device("a")]);
    let list = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let mut expensive = "true".to_owned();
    for name in ["a", "b", "c", "d", "e", "f"] {
        expensive = format!("{list}.all({name}, {expensive})");
    }
    let claim = value!({
        "metadata": {"name": "c"}, "spec": {"devices": (with_selectors(1, selector(&expensive)))},
    });
    let status = cluster.try_create(CLAIMS, "default", claim).unwrap_err();
    let expected = "spec.devices.requests[0].exactly.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit";
    assert!(format!("{status:?}").contains(expected), "{status:?}");
    // A selector that was stored before it was checked.
    add_claim(&mut cluster, "c", with_selectors(1, selector("true")));
    let mut stored = cluster.get(CLAIMS, "default/c").unwrap();
    let devices = stored.at_mut(&["spec", "devices"]).unwrap();
    let exactly = devices.get_mut("requests").unwrap().as_list_mut().unwrap()[0].get_mut("exactly").unwrap();
    exactly.make_map().insert("selectors", selector(&expensive));
    cluster.put_stored(CLAIMS, "default/c", Some(&stored));
    add_pod(&mut cluster, "p", "c");
    cluster.run(RUN);
    let expected = "claim default/c: selector #0 on device x.example.com/net/a: CEL runtime error: operation cancelled: actual cost limit exceeded";
    assert!(condition(&cluster, "p").ends_with(expected), "{}", condition(&cluster, "p"));
}
