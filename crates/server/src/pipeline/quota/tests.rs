//! Tests of quota charges, also under concurrent writes.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use setpoint_api::quantity::{Format, Quantity};
use setpoint_api::{Time, value};
use setpoint_store::{CommitCause, CommitError, RejectReason, Retention, Snapshot, Store};

use super::*;
use crate::exchange::Identity;
use crate::pipeline::admission::testing;
use crate::pipeline::create::create;
use crate::pipeline::update::update;
use crate::pipeline::{DesiredObject, PipelineResult};

fn writer(dry_run: bool) -> WriteOrigin {
    let identity = Identity::new("ann", Vec::new());
    WriteOrigin {
        identity,
        manager: "test".to_owned(),
        dry_run,
        reconciler: String::new(),
        takes_over: false,
    }
}

fn context(snapshot: &Snapshot) -> RequestContext<'_> {
    RequestContext {
        snapshot,
        now: Time::from_seconds(1_800_000_000),
        entropy: [1, 2, 3],
        tolerations: Default::default(),
        catalog: crate::catalog::Catalog::built_in(),
        webhooks: None,
        conversions: None,
        authorization: None,
    }
}

fn quota(name: &str, extra: Value, hard: Value, used: Value) -> Value {
    let mut quota = value!({
        "kind": "ResourceQuota", "apiVersion": "v1",
        "metadata": {"name": (name), "namespace": "a"},
        "spec": {"hard": (hard.clone())},
        "status": {"hard": (hard), "used": (used)},
    });
    for (field, value) in extra.as_map().unwrap().iter() {
        quota.ensure_map("spec").insert(field, value.clone());
    }
    quota
}

/// A store with the namespace and these quotas.
fn store(quotas: &[Value]) -> Store {
    let store = Store::in_memory(Retention::default());
    let namespace = value!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}});
    put(&store, "namespaces", namespace);
    quotas.iter().for_each(|quota| put(&store, "resourcequotas", quota.clone()));
    store
}

fn put(store: &Store, plural: &str, object: Value) {
    let resource_type = resource_types::find("", "v1", plural).unwrap();
    let key = resource_type.key(metadata::namespace(&object), metadata::name(&object)).unwrap();
    let draft = codec::draft(resource_type, object, Time::EPOCH).unwrap();
    store.commit(Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Any, draft)).unwrap();
}

fn pod(name: &str, resources: Value) -> Value {
    value!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": (name), "namespace": "a"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": (resources)}]},
    })
}

/// Creates an object, or returns the error message.
fn create_object(store: &Store, plural: &str, object: Value) -> Result<(), String> {
    let resource_type = resource_types::find("", "v1", plural).unwrap();
    let object = testing::object(&json::to_text(&object));
    let snapshot = store.snapshot();
    let step = create(resource_type, "a", DesiredObject::new(object), &writer(false), &context(&snapshot));
    commit(store, step.map(|decided| decided.step))
}

fn update_object(store: &Store, plural: &str, subresource: Subresource, object: Value) -> Result<(), String> {
    let resource_type = resource_types::find("", "v1", plural).unwrap();
    let snapshot = store.snapshot();
    let key = resource_type.key("a", metadata::name(&object)).unwrap();
    let record = snapshot.get(&key).unwrap();
    let step = update(
        resource_type,
        subresource,
        DesiredObject::new(object),
        record,
        &writer(false),
        &context(&snapshot),
    );
    commit(store, step.map(|decided| decided.step))
}

fn commit(store: &Store, step: Result<PipelineResult, Status>) -> Result<(), String> {
    match step.map_err(|status| status.message.to_string())? {
        PipelineResult::Commit(proposal) => {
            store.commit(*proposal).map(drop).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    }
}

fn get(store: &Store, plural: &str, name: &str) -> Value {
    let key = resource_types::find("", "v1", plural).unwrap().key("a", name).unwrap();
    store.snapshot().get(&key).map(codec::object).unwrap()
}

fn used(store: &Store, name: &str) -> String {
    json::to_text(get(store, "resourcequotas", name).at(&["status", "used"]).unwrap())
}

#[test]
fn exceeded_quota_error_lists_all_amounts() {
    let hard = value!({"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi", "services": "0"});
    let before = value!({"pods": "1", "requests.cpu": "900m", "limits.memory": "512Mi", "services": "0"});
    let store = store(&[quota("q", value!({}), hard, before)]);
    let resources = |cpu: &str, memory: &str| {
        pod("x", value!({"requests": {"cpu": (cpu)}, "limits": {"memory": (memory), "cpu": "2"}}))
    };
    assert_eq!(
        create_object(&store, "pods", resources("200m", "1Gi")).unwrap_err(),
        "pods \"x\" is forbidden: exceeded quota: q, requested: limits.memory=1Gi,requests.cpu=200m, \
         used: limits.memory=512Mi,requests.cpu=900m, limited: limits.memory=1Gi,requests.cpu=1"
    );
    let service = value!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "a"},
        "spec": {"ports": [{"port": 80}]},
    });
    assert_eq!(
        create_object(&store, "services", service).unwrap_err(),
        "services \"s\" is forbidden: exceeded quota: q, requested: services=1, used: services=0, limited: services=0"
    );
    assert_eq!(create_object(&store, "pods", resources("100m", "512Mi")), Ok(()));
    assert_eq!(used(&store, "q"), r#"{"limits.memory":"1Gi","pods":"2","requests.cpu":"1","services":"0"}"#);
}

#[test]
fn pod_without_limited_resources_is_rejected() {
    let hard =
        value!({"cpu": "1", "requests.memory": "1Gi", "limits.cpu": "1", "requests.ephemeral-storage": "1"});
    let none =
        value!({"cpu": "0", "requests.memory": "0", "limits.cpu": "0", "requests.ephemeral-storage": "0"});
    let store = store(&[quota("q", value!({}), hard, none)]);
    let mut silent = pod("x", value!({"limits": {"cpu": "1"}}));
    let more = value!([{"name": "b", "image": "i"}, {"name": "a", "image": "i"}]);
    silent.ensure_map("spec").insert("initContainers", more);
    assert_eq!(
        create_object(&store, "pods", silent).unwrap_err(),
        "pods \"x\" is forbidden: failed quota: q: must specify cpu for: a,b; limits.cpu for: a,b; \
         requests.memory for: a,b,c"
    );
    let mut whole = pod("x", value!({}));
    let own = value!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    whole.ensure_map("spec").insert("resources", own);
    assert_eq!(
        create_object(&store, "pods", whole),
        Ok(()),
        "pod-level resources replace those of the containers"
    );
}

#[test]
fn quota_without_usage_rejects_writes() {
    let store = store(&[quota("q", value!({}), value!({"secrets": "9", "count/secrets": "9"}), value!({}))]);
    let secret = value!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "a"}});
    assert_eq!(
        create_object(&store, "secrets", secret).unwrap_err(),
        "secrets \"s\" is forbidden: status unknown for quota: q, resources: count/secrets,secrets"
    );
}

#[test]
fn unenforced_limit_makes_a_concurrent_count_conflict() {
    let mut fresh = quota("q", value!({}), value!({"configmaps": "0"}), value!({}));
    fresh.make_map().remove("status");
    let store = store(&[fresh]);
    let before = get(&store, "resourcequotas", "q");
    let map = |name: &str| value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": (name), "namespace": "a"}});
    assert_eq!(create_object(&store, "configmaps", map("m")), Ok(()));
    let after = get(&store, "resourcequotas", "q");
    assert_ne!(before.at(&["metadata", "resourceVersion"]), after.at(&["metadata", "resourceVersion"]));
    assert_eq!(before.get("status"), after.get("status"));
    // The quota does not count this pod.
    assert_eq!(create_object(&store, "pods", pod("x", value!({}))), Ok(()));
    assert_eq!(get(&store, "resourcequotas", "q"), after);
}

#[test]
fn every_quota_that_counts_an_object_is_charged_or_none() {
    let all = quota("all", value!({}), value!({"pods": "9"}), value!({"pods": "0"}));
    let best =
        quota("best", value!({"scopes": ["BestEffort"]}), value!({"pods": "1"}), value!({"pods": "0"}));
    let other =
        quota("other", value!({"scopes": ["NotBestEffort"]}), value!({"pods": "9"}), value!({"pods": "0"}));
    let count = quota("sum", value!({}), value!({"count/pods": "9"}), value!({"count/pods": "0"}));
    let store = store(&[all, best, other, count]);
    let usage = || ["all", "best", "other", "sum"].map(|name| used(&store, name)).join(" ");
    assert_eq!(create_object(&store, "pods", pod("x", value!({}))), Ok(()));
    let first = r#"{"pods":"1"} {"pods":"1"} {"pods":"0"} {"count/pods":"1"}"#;
    assert_eq!(usage(), first);
    assert_eq!(
        create_object(&store, "pods", pod("y", value!({}))).unwrap_err(),
        "pods \"y\" is forbidden: exceeded quota: best, requested: pods=1, used: pods=1, limited: pods=1"
    );
    assert_eq!(usage(), first);
    assert_eq!(create_object(&store, "pods", pod("z", value!({"requests": {"cpu": "1"}}))), Ok(()));
    assert_eq!(usage(), r#"{"pods":"2"} {"pods":"1"} {"pods":"1"} {"count/pods":"2"}"#);
}

#[test]
fn quota_can_limit_quotas() {
    let store =
        store(&[quota("q", value!({}), value!({"resourcequotas": "2"}), value!({"resourcequotas": "1"}))]);
    let another = |name: &str| quota(name, value!({}), value!({"pods": "1"}), value!({}));
    assert_eq!(create_object(&store, "resourcequotas", another("r")), Ok(()));
    let refused = create_object(&store, "resourcequotas", another("s")).unwrap_err();
    assert!(
        refused.contains("exceeded quota: q, requested: resourcequotas=1, used: resourcequotas=2"),
        "{refused}"
    );
}

#[test]
fn update_is_charged_for_its_increase() {
    let hard = value!({"services": "1", "services.nodeports": "2", "services.loadbalancers": "0"});
    let none = value!({"services": "0", "services.nodeports": "0", "services.loadbalancers": "0"});
    let store = store(&[quota("q", value!({}), hard, none)]);
    let service = value!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "a"},
        "spec": {"ports": [{"name": "a", "port": 80}]},
    });
    assert_eq!(create_object(&store, "services", service), Ok(()));
    let set_service_type = |service_type: &str| {
        let mut service = get(&store, "services", "s");
        service.ensure_map("spec").insert("type", service_type);
        update_object(&store, "services", Subresource::None, service)
    };
    assert_eq!(set_service_type("NodePort"), Ok(()));
    assert_eq!(
        used(&store, "q"),
        r#"{"services":"1","services.loadbalancers":"0","services.nodeports":"1"}"#
    );
    assert_eq!(
        set_service_type("LoadBalancer").unwrap_err(),
        "services \"s\" is forbidden: exceeded quota: q, requested: services.loadbalancers=1, \
         used: services.loadbalancers=0, limited: services.loadbalancers=0"
    );
    // Decreases are left to the controller.
    assert_eq!(set_service_type("ClusterIP"), Ok(()));
    assert_eq!(
        used(&store, "q"),
        r#"{"services":"1","services.loadbalancers":"0","services.nodeports":"1"}"#
    );
}

#[test]
fn resized_pod_is_charged_the_difference() {
    let store =
        store(&[quota("q", value!({}), value!({"requests.cpu": "1"}), value!({"requests.cpu": "0"}))]);
    assert_eq!(create_object(&store, "pods", pod("x", value!({"requests": {"cpu": "400m"}}))), Ok(()));
    let resize = |cpu: &str| {
        let mut pod = get(&store, "pods", "x");
        let Some(Value::List(containers)) = pod.at_mut(&["spec", "containers"]) else { panic!() };
        containers[0].ensure_map("resources").ensure_map("requests").insert("cpu", cpu);
        update_object(&store, "pods", Subresource::Resize, pod)
    };
    assert_eq!(resize("700m"), Ok(()));
    assert_eq!(used(&store, "q"), r#"{"requests.cpu":"700m"}"#);
    assert_eq!(
        resize("1100m").unwrap_err(),
        "pods \"x\" is forbidden: exceeded quota: q, requested: requests.cpu=400m, used: requests.cpu=700m, \
         limited: requests.cpu=1"
    );
    assert_eq!(resize("100m"), Ok(()));
    assert_eq!(used(&store, "q"), r#"{"requests.cpu":"700m"}"#);
}

#[test]
fn pod_entering_a_quota_scope_is_charged_in_full() {
    let scope = value!({"scopes": ["Terminating"]});
    let store = store(&[quota("q", scope, value!({"pods": "1"}), value!({"pods": "0"}))]);
    assert_eq!(create_object(&store, "pods", pod("x", value!({}))), Ok(()));
    assert_eq!(used(&store, "q"), r#"{"pods":"0"}"#);
    let mut soon = get(&store, "pods", "x");
    soon.ensure_map("spec").insert("activeDeadlineSeconds", 5);
    assert_eq!(update_object(&store, "pods", Subresource::None, soon), Ok(()));
    assert_eq!(used(&store, "q"), r#"{"pods":"1"}"#);
}

#[test]
fn claim_is_charged_to_its_storage_class_too() {
    let hard = value!({
        "persistentvolumeclaims": "2", "requests.storage": "10Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "4Gi",
    });
    let none = value!({
        "persistentvolumeclaims": "0", "requests.storage": "0",
        "gold.storageclass.storage.k8s.io/requests.storage": "0",
    });
    let store = store(&[quota("q", value!({}), hard, none)]);
    let claim = |name: &str, size: &str| {
        value!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": (name), "namespace": "a"},
            "spec": {
                "storageClassName": "gold", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": (size)}},
            },
        })
    };
    assert_eq!(create_object(&store, "persistentvolumeclaims", claim("v", "3Gi")), Ok(()));
    assert_eq!(
        create_object(&store, "persistentvolumeclaims", claim("w", "3Gi")).unwrap_err(),
        "persistentvolumeclaims \"w\" is forbidden: exceeded quota: q, \
         requested: gold.storageclass.storage.k8s.io/requests.storage=3Gi, \
         used: gold.storageclass.storage.k8s.io/requests.storage=3Gi, \
         limited: gold.storageclass.storage.k8s.io/requests.storage=4Gi"
    );
    // The grown volume is counted beyond the limit.
    let mut grown = get(&store, "persistentvolumeclaims", "v");
    grown.ensure_map("status").insert("allocatedResources", value!({"storage": "5Gi"}));
    assert_eq!(update_object(&store, "persistentvolumeclaims", Subresource::Status, grown), Ok(()));
    assert!(used(&store, "q").contains(r#""requests.storage":"5Gi""#), "{}", used(&store, "q"));
}

#[test]
fn dry_run_is_checked_and_not_charged() {
    let store = store(&[quota("q", value!({}), value!({"pods": "1"}), value!({"pods": "0"}))]);
    let resource_type = resource_types::find("", "v1", "pods").unwrap();
    let snapshot = store.snapshot();
    let desired = DesiredObject::new(pod("x", value!({})));
    let step = create(resource_type, "a", desired, &writer(true), &context(&snapshot)).unwrap().step;
    assert!(matches!(step, PipelineResult::DryRun(_)));
    assert_eq!(create_object(&store, "pods", pod("x", value!({}))), Ok(()));
    let snapshot = store.snapshot();
    let desired = DesiredObject::new(pod("y", value!({})));
    assert!(create(resource_type, "a", desired, &writer(true), &context(&snapshot)).is_err());
}

/// Creates a pod as a server does: decides again on each conflict.
fn create_with_retries(store: &Store, resource_type: &ResourceType, pod: &Value) -> Result<(), String> {
    loop {
        let snapshot = store.snapshot();
        let desired = DesiredObject::new(pod.clone());
        let step = create(resource_type, "a", desired, &writer(false), &context(&snapshot));
        let PipelineResult::Commit(proposal) = step.map_err(|status| status.message.to_string())?.step else {
            panic!()
        };
        drop(snapshot);
        match store.commit(*proposal) {
            Ok(_) => return Ok(()),
            Err(CommitError::Rejected(RejectReason::Conflict(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn concurrent_creates_never_exceed_a_quota() {
    const HARD: usize = 100;
    let hard = HARD.to_string();
    let quota_of_pods = quota("one", value!({}), value!({"pods": (hard.as_str())}), value!({"pods": "0"}));
    let two = quota("two", value!({}), value!({"requests.cpu": "50"}), value!({"requests.cpu": "0"}));
    let store = store(&[quota_of_pods, two]);
    let resource_type = resource_types::find("", "v1", "pods").unwrap();
    let (admitted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, admitted, refused) = (&store, &admitted, &refused);
            scope.spawn(move || {
                for n in 0..20 {
                    let pod = pod(&format!("x-{thread}-{n}"), value!({"requests": {"cpu": "500m"}}));
                    match create_with_retries(store, resource_type, &pod) {
                        Ok(()) => admitted.fetch_add(1, Ordering::Relaxed),
                        Err(why) => {
                            assert!(
                                why.contains("exceeded quota: one, requested: pods=1, used: pods=100"),
                                "{why}"
                            );
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
        // At every snapshot the usage equals the number of pods.
        let pods = &resource_type.resource;
        loop {
            let snapshot = store.snapshot();
            let pod_count = snapshot.table(pods).map_or(0, setpoint_store::Table::len);
            let key = resource_types::find("", "v1", "resourcequotas").unwrap().key("a", "one").unwrap();
            let quota = codec::object(snapshot.get(&key).unwrap());
            assert_eq!(quota.str_at(&["status", "used", "pods"]), pod_count.to_string());
            if pod_count == HARD {
                break;
            }
        }
    });
    assert_eq!((admitted.into_inner(), refused.into_inner()), (HARD, 60));
    assert_eq!(used(&store, "two"), r#"{"requests.cpu":"50"}"#);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn used_is_the_sum_of_admitted_usage(
        cpus in proptest::collection::vec(1_u32..900, 1..20), hard in 100_u32..4000,
    ) {
        let limit = Quantity::milli(i64::from(hard), Format::DecimalSi).to_string();
        let limits = value!({"requests.cpu": (limit.as_str()), "pods": "12"});
        let store = store(&[quota("q", value!({}), limits, value!({"requests.cpu": "0", "pods": "0"}))]);
        let (mut sum, mut count) = (0, 0);
        for (n, cpu) in cpus.iter().enumerate() {
            let amount = format!("{cpu}m");
            let created = create_object(&store, "pods", pod(&format!("x{n}"), value!({"requests": {"cpu": (amount.as_str())}})));
            prop_assert_eq!(created.is_ok(), sum + cpu <= hard && count < 12);
            if created.is_ok() {
                sum += cpu;
                count += 1;
            }
        }
        let usage = get(&store, "resourcequotas", "q");
        let usage = |name: &str| {
            Quantity::parse(usage.str_at(&["status", "used", name])).unwrap().milli_value()
        };
        prop_assert_eq!(usage("requests.cpu"), i64::from(sum));
        prop_assert_eq!(usage("pods"), 1000 * count);
    }
}
