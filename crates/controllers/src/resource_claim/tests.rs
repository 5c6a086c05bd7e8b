//! Tests of ResourceClaims in a control plane. The tests act as the scheduler.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::garbage_collector::GarbageCollector;
use crate::testing::{has_event, names};

const CLAIMS: &str = "resourceclaims.resource.k8s.io";

fn cluster(seed: u64) -> Cluster {
    let controllers = || {
        let list: Vec<Box<dyn setpoint_reconcile::Controller>> =
            vec![Box::new(ResourceClaimController), Box::new(GarbageCollector)];
        (list, crate::indexes::all())
    };
    Cluster::new(controllers, seed)
}

fn spec() -> Value {
    value!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}})
}

fn template(name: &str) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {
            "metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}},
            "spec": (spec()),
        },
    })
}

fn pod(name: &str, claims: &[Value]) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": (claims.to_vec())},
    })
}

fn template_reference() -> Value {
    value!({"name": "dev", "resourceClaimTemplateName": "t"})
}

/// Scheduler: allocates a device for a claim.
fn allocate(cluster: &mut Cluster, name: &str, users: &[&str]) {
    let path = format!("default/{name}");
    let finalizer = value!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
    let _ = cluster.patch(CLAIMS, &path, "", finalizer);
    let users: Vec<Value> = users.iter().map(|user| consumer(cluster, user)).collect();
    let device = value!({"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"});
    let status = value!({"allocation": {"devices": {"results": [(device)]}}, "reservedFor": (users)});
    let _ = cluster.patch(CLAIMS, &path, "status", value!({"status": (status)}));
}

fn consumer(cluster: &Cluster, pod: &str) -> Value {
    let uid = cluster
        .get("pods", &format!("default/{pod}"))
        .map_or("gone".to_owned(), |pod| pod.str_at(&["metadata", "uid"]).to_owned());
    value!({"resource": "pods", "name": (pod), "uid": (uid)})
}

fn claim_names(cluster: &Cluster, pod: &str) -> Vec<String> {
    let pod = cluster.get("pods", &format!("default/{pod}")).unwrap();
    let statuses = pod.at(&["status", "resourceClaimStatuses"]).and_then(Value::as_list).unwrap_or_default();
    statuses.iter().map(|status| status.str_at(&["resourceClaimName"]).to_owned()).collect()
}

fn reserved_for(cluster: &Cluster, claim: &str) -> Vec<String> {
    let claim = cluster.get(CLAIMS, &format!("default/{claim}")).unwrap();
    let consumers = claim.at(&["status", "reservedFor"]).and_then(Value::as_list).unwrap_or_default();
    consumers.iter().map(|consumer| consumer.str_at(&["name"]).to_owned()).collect()
}

fn is_allocated(cluster: &Cluster, claim: &str) -> bool {
    let claim = cluster.get(CLAIMS, &format!("default/{claim}")).unwrap();
    claim.at(&["status", "allocation"]).is_some()
}

fn finish_pod(cluster: &mut Cluster, pod: &str) {
    let done = value!({"status": {"phase": "Succeeded"}});
    cluster.patch("pods", &format!("default/{pod}"), "status", done).unwrap();
    cluster.settle();
}

#[test]
fn generated_claim_is_reserved_and_deleted_after_its_pod() {
    let mut cluster = cluster(1);
    cluster.create("pods", "default", pod("p", &[template_reference()]));
    cluster.settle();
    let message = "PodResourceClaim dev: resource claim template \"t\": resourceclaimtemplate.resource.k8s.io \"t\" \
                   not found";
    assert!(has_event(&cluster, "FailedResourceClaimCreation", message));
    cluster.assert_quiet();
    cluster.create(CLAIM_TEMPLATES, "default", template("t"));
    cluster.settle();
    let name = names(&cluster, CLAIMS).remove(0);
    assert!(name.starts_with("p-dev-") && name.len() == "p-dev-".len() + 5, "{name}");
    assert_eq!(claim_names(&cluster, "p"), std::slice::from_ref(&name));
    let claim = cluster.get(CLAIMS, &format!("default/{name}")).unwrap();
    assert_eq!(claim.str_at(&["metadata", "annotations", POD_CLAIM_NAME]), "dev");
    assert_eq!(claim.str_at(&["metadata", "annotations", "a"]), "2");
    assert_eq!(claim.str_at(&["metadata", "labels", "l"]), "1");
    cluster.assert_quiet();
    allocate(&mut cluster, &name, &["p"]);
    cluster.bind("default/p", "n").unwrap();
    cluster.settle();
    assert_eq!(reserved_for(&cluster, &name), ["p"]);
    cluster.assert_quiet();
    finish_pod(&mut cluster, "p");
    assert!(names(&cluster, CLAIMS).is_empty(), "a finished pod does not keep its generated claim");
    assert_eq!(claim_names(&cluster, "p"), [name], "it is not recreated");
    cluster.assert_quiet();
}

#[test]
fn user_claim_is_reserved_and_deallocated_after_its_last_pod() {
    let mut cluster = cluster(2);
    cluster.create(CLAIMS, "default", value!({"metadata": {"name": "mine"}, "spec": (spec())}));
    let named = value!({"name": "dev", "resourceClaimName": "mine"});
    for name in ["p", "q"] {
        cluster.create("pods", "default", pod(name, std::slice::from_ref(&named)));
    }
    allocate(&mut cluster, "mine", &[]);
    cluster.settle();
    assert!(is_allocated(&cluster, "mine"), "an unreserved claim stays allocated");
    cluster.bind("default/p", "n").unwrap();
    cluster.bind("default/q", "n").unwrap();
    cluster.settle();
    let mut consumers = reserved_for(&cluster, "mine");
    consumers.sort();
    assert_eq!(consumers, ["p", "q"], "bound pods get a reservation, whichever scheduler bound them");
    cluster.assert_quiet();
    finish_pod(&mut cluster, "p");
    assert_eq!(reserved_for(&cluster, "mine"), ["q"]);
    assert!(is_allocated(&cluster, "mine"));
    cluster.delete("pods", "default/q", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
    assert!(reserved_for(&cluster, "mine").is_empty() && !is_allocated(&cluster, "mine"));
    let claim = cluster.get(CLAIMS, "default/mine").unwrap();
    assert!(claim.at(&["metadata", "finalizers"]).is_none_or(Value::is_empty));
    cluster.assert_quiet();
}

#[test]
fn deleted_claim_is_removed_after_its_last_consumer() {
    let mut cluster = cluster(3);
    cluster.create(CLAIMS, "default", value!({"metadata": {"name": "mine"}, "spec": (spec())}));
    cluster.create("pods", "default", pod("p", &[value!({"name": "dev", "resourceClaimName": "mine"})]));
    allocate(&mut cluster, "mine", &["p"]);
    cluster.bind("default/p", "n").unwrap();
    cluster.delete(CLAIMS, "default/mine", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get(CLAIMS, "default/mine").is_some());
    cluster.assert_quiet();
    // A later pod gets no reservation, and no Event.
    cluster.create("pods", "default", pod("q", &[value!({"name": "dev", "resourceClaimName": "mine"})]));
    cluster.bind("default/q", "n").unwrap();
    cluster.settle();
    assert_eq!(reserved_for(&cluster, "mine"), ["p"]);
    cluster.assert_quiet();
    finish_pod(&mut cluster, "p");
    assert!(cluster.get(CLAIMS, "default/mine").is_none());
    // The same without consumers, but with a device.
    cluster.create(CLAIMS, "default", value!({"metadata": {"name": "idle"}, "spec": (spec())}));
    allocate(&mut cluster, "idle", &[]);
    cluster.delete(CLAIMS, "default/idle", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get(CLAIMS, "default/idle").is_none());
}

#[test]
fn consumers_other_than_pods_stay_and_pods_are_matched_by_uid() {
    let mut cluster = cluster(4);
    cluster.create(CLAIMS, "default", value!({"metadata": {"name": "mine"}, "spec": (spec())}));
    allocate(&mut cluster, "mine", &[]);
    let group = value!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "1"});
    let stale = value!({"resource": "pods", "name": "p", "uid": "old"});
    cluster.create("pods", "default", pod("p", &[]));
    let status = value!({"status": {"reservedFor": [(group), (stale)]}});
    cluster.patch(CLAIMS, "default/mine", "status", status).unwrap();
    cluster.settle();
    assert_eq!(reserved_for(&cluster, "mine"), ["g"]);
    assert!(is_allocated(&cluster, "mine"));
    cluster.assert_quiet();
}

#[test]
fn deleted_claim_is_recreated_and_an_unlisted_one_is_reused() {
    let mut cluster = cluster(5);
    cluster.create(CLAIM_TEMPLATES, "default", template("t"));
    cluster.create(
        "pods",
        "default",
        pod("p", &[template_reference(), value!({"name": "b", "resourceClaimTemplateName": "t"})]),
    );
    cluster.settle();
    let first = claim_names(&cluster, "p");
    assert_eq!((first.len(), names(&cluster, CLAIMS).len()), (2, 2));
    cluster.delete(CLAIMS, &format!("default/{}", first[0]), &Value::map()).unwrap();
    cluster.settle();
    let second = claim_names(&cluster, "p");
    assert!(second.len() == 2 && second[0] != first[0] && names(&cluster, CLAIMS).contains(&second[0]));
    cluster.assert_quiet();
}

#[test]
fn long_names_are_truncated_in_proportion() {
    assert_eq!(name_base("p", "c"), "p-c-");
    let name = name_base(&"p".repeat(100), &"c".repeat(50));
    assert!(name.len() < NAME_BASE_MAX && name.contains("p-c") && name.ends_with('c'), "{name}");
    assert_eq!(name.matches('c').count(), 50 * NAME_BASE_MAX / 152);
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..11 {
        let mut cluster = cluster(crash_after as u64);
        let step = |cluster: &mut Cluster| {
            cluster.crash_after(crash_after);
            cluster.settle();
        };
        cluster.create(CLAIM_TEMPLATES, "default", template("t"));
        cluster.create("pods", "default", pod("p", &[template_reference()]));
        step(&mut cluster);
        assert_eq!(
            names(&cluster, CLAIMS),
            claim_names(&cluster, "p"),
            "one claim was created, and the status lists it"
        );
        let name = claim_names(&cluster, "p").remove(0);
        allocate(&mut cluster, &name, &[]);
        cluster.bind("default/p", "n").unwrap();
        step(&mut cluster);
        assert_eq!(reserved_for(&cluster, &name), ["p"]);
        cluster.patch("pods", "default/p", "status", value!({"status": {"phase": "Failed"}})).unwrap();
        step(&mut cluster);
        assert!(names(&cluster, CLAIMS).is_empty(), "crash after {crash_after}");
        cluster.assert_quiet();
    }
}

/// Random states converge: no pod has two claims of one template, and no finished pod holds a reservation.
#[test]
fn random_edits_converge_and_no_finished_pod_holds_devices() {
    for seed in 0..40 {
        let mut cluster = cluster(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        cluster.create(CLAIMS, "default", value!({"metadata": {"name": "shared"}, "spec": (spec())}));
        for _ in 0..50 {
            let name = format!("p{}", rng.u8(..3));
            let at = format!("default/{name}");
            match rng.u8(..12) {
                0..3 => {
                    let claim_ref = if rng.bool() {
                        template_reference()
                    } else {
                        value!({"name": "dev", "resourceClaimName": "shared"})
                    };
                    drop(cluster.try_create("pods", "default", pod(&name, &[claim_ref])));
                }
                3 => drop(cluster.try_create(CLAIM_TEMPLATES, "default", template("t"))),
                4 => drop(cluster.delete("pods", &at, &value!({"gracePeriodSeconds": 0}))),
                5 => drop(cluster.bind(&at, "n")),
                6 => drop(cluster.patch("pods", &at, "status", value!({"status": {"phase": "Failed"}}))),
                7 | 8 => {
                    let all = names(&cluster, CLAIMS);
                    if let Some(claim) = rng.choice(&all) {
                        let users: &[&str] = if rng.bool() { &[name.as_str()] } else { &[] };
                        allocate(&mut cluster, claim, users);
                    }
                }
                9 => {
                    let all = names(&cluster, CLAIMS);
                    if let Some(claim) = rng.choice(&all) {
                        let _ = cluster.delete(CLAIMS, &format!("default/{claim}"), &Value::map());
                    }
                }
                10 => drop(cluster.delete(CLAIM_TEMPLATES, "default/t", &Value::map())),
                _ => cluster.crash(),
            }
            cluster.observe_some();
            cluster.plan();
            for _ in 0..rng.u8(..4) {
                cluster.perform();
            }
        }
        cluster.mend_watches();
        cluster.run(Duration::from_secs(700));
        cluster.assert_quiet();
        for claim in names(&cluster, CLAIMS) {
            for user in reserved_for(&cluster, &claim) {
                let pod = cluster.get("pods", &format!("default/{user}")).unwrap();
                assert_ne!(pod.str_at(&["status", "phase"]), "Failed", "seed {seed}");
            }
        }
        let owners: Vec<String> = cluster
            .list(CLAIMS)
            .iter()
            .flat_map(|claim| {
                claim
                    .at(&["metadata", "ownerReferences"])
                    .and_then(Value::as_list)
                    .unwrap_or_default()
                    .to_vec()
            })
            .map(|owner| owner.str_at(&["uid"]).to_owned())
            .collect();
        let mut unique = owners.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), owners.len(), "seed {seed}: a pod with two claims of one template");
    }
}
