//! Storage controllers under faults: volumes, claims, classes and pods are created and deleted at random
//! moments, while writes are lost, watches break and the loop crashes.
//!
//! `SETPOINT_SIM_SEEDS` is the number of histories (default 400); `SETPOINT_SIM_SEED` replays one and prints
//! it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Value, value};
use setpoint_controllers::attach_detach::AttachDetach;
use setpoint_controllers::ephemeral_volume::EphemeralVolumes;
use setpoint_controllers::expand::Expander;
use setpoint_controllers::garbage_collector::GarbageCollector;
use setpoint_controllers::volume_binder::VolumeBinder;
use setpoint_controllers::volume_binder::host_path::{DIRECTORY, DefaultStorageClass};
use setpoint_controllers::volume_protection::{AttributesClassProtection, ClaimProtection, VolumeProtection};
use setpoint_reconcile::Controller;
use setpoint_sim::campaign::path;
use setpoint_sim::cluster::{Cluster, Controllers};
use setpoint_sim::scenario::{self, Marks, Scenario};

const STEPS: usize = 300;
const VOLUMES: &str = "persistentvolumes";
const CLAIMS: &str = "persistentvolumeclaims";
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";
const CLASSES: &str = "storageclasses.storage.k8s.io";
const ATTRIBUTES: &str = "volumeattributesclasses.storage.k8s.io";
const NODES: [&str; 2] = ["n", "m"];

const CONTROLLERS: Controllers = || {
    let list: Vec<Box<dyn Controller>> = vec![
        Box::new(AttachDetach),
        Box::new(AttributesClassProtection),
        Box::new(ClaimProtection),
        Box::new(DefaultStorageClass),
        Box::new(EphemeralVolumes),
        Box::new(Expander),
        Box::new(GarbageCollector),
        Box::new(VolumeBinder::new(DIRECTORY)),
        Box::new(VolumeProtection),
    ];
    (list, setpoint_controllers::indexes::all())
};

/// Scenario: users that edit storage objects at random.
#[derive(Default)]
struct Storage {
    /// Observed pairs of bound pods and claims, by UID: while such a pod exists and is not finished, its
    /// claim must exist.
    uses: RefCell<BTreeMap<(String, String), String>>,
    /// Number of moments at which each interesting state was observed.
    sometimes: RefCell<BTreeMap<&'static str, usize>>,
}

/// States that must have been observed, or the histories prove nothing.
const SOMETIMES: [&str; 6] = [
    "a claim is bound",
    "a claim has grown",
    "a claim that is used is to go",
    "a volume that is bound is to go",
    "a volume is attached",
    "a class of attributes that is used is to go",
];

fn volume(name: &str, kind: u8, claim: Option<&str>) -> Value {
    let mut volume = value!({
        "metadata": {"name": (name), "labels": {"name": (name)}},
        "spec": {
            "capacity": {"storage": (if kind.is_multiple_of(2) { "1Gi" } else { "2Gi" })},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": (if kind < 4 { "Retain" } else { "Delete" }),
        },
    });
    let spec = volume.ensure_map("spec");
    if kind.is_multiple_of(3) {
        spec.insert("nfs", value!({"server": "s", "path": "/"}));
    } else {
        spec.insert("csi", value!({"driver": "d.example.com", "volumeHandle": (name)}));
    }
    if let Some(claim) = claim {
        spec.insert("claimRef", value!({"namespace": "default", "name": (claim)}));
    }
    volume
}

fn claim(name: &str, class: Option<&str>, volume: Option<&str>, attributes: bool) -> Value {
    let mut claim = value!({
        "metadata": {"name": (name)},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let spec = claim.ensure_map("spec");
    if let Some(class) = class {
        spec.insert("storageClassName", class);
    }
    if let Some(volume) = volume {
        spec.insert("volumeName", volume);
    }
    if attributes {
        spec.insert("volumeAttributesClassName", "gold");
    }
    claim
}

fn pod(name: &str, claim: &str, node: Option<&str>) -> Value {
    let mut pod = value!({
        "metadata": {"name": (name)},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": (claim)}}],
        },
    });
    if let Some(node) = node {
        pod.ensure_map("spec").insert("nodeName", node);
    }
    pod
}

impl Scenario for Storage {
    fn begin(&self, cluster: &mut Cluster) {
        self.uses.borrow_mut().clear();
        for node in NODES {
            cluster.create("nodes", "", value!({"metadata": {"name": (node)}}));
        }
    }

    fn edit(&self, cluster: &mut Cluster) {
        let number = |cluster: &mut Cluster, most: u8| cluster.rng.u8(..most);
        let (v, c, p) = (number(cluster, 4), number(cluster, 4), number(cluster, 4));
        let (v, c, p) = (format!("v{v}"), format!("c{c}"), format!("p{p}"));
        let node = *cluster.rng.choice(NODES.iter()).unwrap();
        let (coin, kind) = (cluster.rng.bool(), cluster.rng.u8(..6));
        let now = value!({"gracePeriodSeconds": 0});
        // The driver is quicker than users, or an attachment is gone before it is attached.
        if cluster.rng.bool() {
            let _ = handle_attachment(cluster);
        }
        // Edits may be rejected.
        let _ = match cluster.rng.u8(..18) {
            0 | 1 => cluster.try_create(VOLUMES, "", volume(&v, kind, coin.then_some(&*c))),
            2..5 => {
                let class = *cluster.rng.choice(&[None, Some(""), Some("standard")]).unwrap();
                let named = (kind == 0).then_some(&*v);
                cluster.try_create(CLAIMS, "default", claim(&c, class, named, kind == 1))
            }
            5..8 => cluster.try_create("pods", "default", pod(&p, &c, coin.then_some(node))),
            8 => cluster.bind(&format!("default/{p}"), node),
            9 | 10 => cluster.delete("pods", &format!("default/{p}"), if coin { &now } else { &Value::Null }),
            11 | 12 => cluster.delete(CLAIMS, &format!("default/{c}"), &Value::Null),
            13 => cluster.delete(VOLUMES, &v, &Value::Null),
            14 => {
                let size = format!("{}Gi", number(cluster, 4) + 1);
                let patch = value!({"spec": {"resources": {"requests": {"storage": (size)}}}});
                cluster.patch(CLAIMS, &format!("default/{c}"), "", patch)
            }
            15 => make_volume_available(cluster),
            16 => {
                let class =
                    value!({"metadata": {"name": "gold"}, "driverName": "d", "parameters": {"a": "b"}});
                if coin {
                    cluster.try_create(ATTRIBUTES, "", class)
                } else {
                    cluster.delete(ATTRIBUTES, "gold", &Value::Null)
                }
            }
            _ => {
                let patch = value!({"metadata": {"annotations": {
                    "storageclass.kubernetes.io/is-default-class": (if coin { "true" } else { "false" }),
                }}});
                cluster.patch(CLASSES, "standard", "", patch)
            }
        };
    }

    fn always(&self, cluster: &Cluster) -> Result<(), String> {
        let (volumes, claims) = (cluster.list(VOLUMES), cluster.list(CLAIMS));
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for claim in claims.iter().filter(|claim| claim.str_at(&["status", "phase"]) == "Bound") {
            let name = claim.str_at(&["spec", "volumeName"]);
            if let Some(other) = owners.insert(name, claim.str_at(&["metadata", "name"])) {
                return Err(format!("{name} is bound to {other} and to {}", path(claim)));
            }
            if !volumes.iter().any(|volume| volume.str_at(&["metadata", "name"]) == name) {
                return Err(format!("{} has {name}, which is gone", path(claim)));
            }
        }
        self.note_sometimes(cluster, &volumes, &claims);
        self.check_uses(cluster, &claims)?;
        check_attachments(cluster)?;
        check_attributes(cluster, &claims)
    }

    fn finally(&self, cluster: &Cluster) -> Result<(), String> {
        let volumes = cluster.list(VOLUMES);
        for claim in cluster.list(CLAIMS) {
            let uid = claim.str_at(&["metadata", "uid"]);
            let bound: Vec<&Value> = volumes
                .iter()
                .filter(|volume| volume.str_at(&["spec", "claimRef", "uid"]) == uid)
                .filter(|volume| volume.str_at(&["status", "phase"]) == "Bound")
                .collect();
            match (claim.str_at(&["status", "phase"]), bound.as_slice()) {
                ("Bound", [volume]) => check_size(&claim, volume)?,
                ("Pending", []) => {}
                (phase, bound) => return Err(format!("{} is {phase} and has {bound:?}", path(&claim))),
            }
        }
        check_nothing_is_left(cluster)
    }

    fn contested(&self) -> &'static [&'static str] {
        &[VOLUMES, CLAIMS, "pods", ATTACHMENTS]
    }
}

impl Storage {
    fn note_sometimes(&self, cluster: &Cluster, volumes: &[Value], claims: &[Value]) {
        let going = |object: &Value| object.at(&["metadata", "deletionTimestamp"]).is_some();
        let phase = |object: &Value, phase: &str| object.str_at(&["status", "phase"]) == phase;
        let uses = self.uses.borrow();
        let used = |claim: &Value| uses.keys().any(|(_, uid)| claim.str_at(&["metadata", "uid"]) == uid);
        let grown =
            |claim: &Value| amount(claim, &["status", "allocatedResources", "storage"]) > Quantity::default();
        let gold = |claim: &Value| claim.str_at(&["spec", "volumeAttributesClassName"]) == "gold";
        let attached =
            |node: &Value| node.at(&["status", "volumesAttached"]).is_some_and(|list| !list.is_empty());
        let so = [
            claims.iter().any(|claim| phase(claim, "Bound")),
            claims.iter().any(grown),
            claims.iter().any(|claim| going(claim) && used(claim)),
            volumes.iter().any(|volume| going(volume) && phase(volume, "Bound")),
            cluster.list("nodes").iter().any(attached),
            cluster.get(ATTRIBUTES, "gold").is_some_and(|class| going(&class)) && claims.iter().any(gold),
        ];
        let mut sometimes = self.sometimes.borrow_mut();
        for (mark, _) in SOMETIMES.iter().zip(so).filter(|(_, so)| *so) {
            *sometimes.entry(mark).or_default() += 1;
        }
    }

    /// Checks that no claim vanishes while a bound pod uses it.
    fn check_uses(&self, cluster: &Cluster, claims: &[Value]) -> Result<(), String> {
        let mut uses = self.uses.borrow_mut();
        let pods = cluster.list("pods");
        let is_on = |pod: &&Value| {
            !pod.str_at(&["spec", "nodeName"]).is_empty()
                && !matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded")
        };
        let on: BTreeMap<&str, &Value> =
            pods.iter().filter(is_on).map(|pod| (pod.str_at(&["metadata", "uid"]), pod)).collect();
        uses.retain(|(pod, _), _| on.contains_key(pod.as_str()));
        for ((pod, claim), name) in &*uses {
            if !claims.iter().any(|object| object.str_at(&["metadata", "uid"]) == claim) {
                return Err(format!("{name} is gone, which {} uses", path(on[pod.as_str()])));
            }
        }
        for pod in on.values() {
            let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
            let named: Vec<&str> =
                volumes.iter().map(|volume| volume.str_at(&["persistentVolumeClaim", "claimName"])).collect();
            for claim in claims.iter().filter(|claim| claim.at(&["metadata", "deletionTimestamp"]).is_none())
            {
                if named.contains(&claim.str_at(&["metadata", "name"])) {
                    let uid = |object: &Value| object.str_at(&["metadata", "uid"]).to_owned();
                    uses.insert((uid(pod), uid(claim)), path(claim));
                }
            }
        }
        Ok(())
    }
}

/// Checks that a single-node volume is never requested on two nodes.
fn check_attachments(cluster: &Cluster) -> Result<(), String> {
    let mut nodes: BTreeMap<String, String> = BTreeMap::new();
    for attachment in cluster.list(ATTACHMENTS) {
        let volume = attachment.str_at(&["spec", "source", "persistentVolumeName"]).to_owned();
        let node = attachment.str_at(&["spec", "nodeName"]).to_owned();
        if let Some(other) = nodes.insert(volume.clone(), node.clone()) {
            return Err(format!("{volume} is asked for on {other} and on {node}"));
        }
    }
    Ok(())
}

/// Checks that the VolumeAttributesClass of a claim exists, if it existed before and the claim is older than
/// its deletion.
fn check_attributes(cluster: &Cluster, claims: &[Value]) -> Result<(), String> {
    let Some(class) = cluster.get(ATTRIBUTES, "gold") else { return Ok(()) };
    let has = |claim: &Value| claim.str_at(&["spec", "volumeAttributesClassName"]) == "gold";
    let finalizers = class.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    let is_going = class.at(&["metadata", "deletionTimestamp"]).is_some();
    if is_going && claims.iter().any(has) && finalizers.is_empty() {
        return Err("a class of attributes goes while a claim has it".to_owned());
    }
    Ok(())
}

fn amount(object: &Value, path: &[&str]) -> Quantity {
    Quantity::parse(object.str_at(path)).unwrap_or_default()
}

/// Checks that a bound volume is large enough, and that volumes of the built-in provisioner have grown.
fn check_size(claim: &Value, volume: &Value) -> Result<(), String> {
    let has = amount(claim, &["status", "capacity", "storage"]);
    let wants = amount(claim, &["spec", "resources", "requests", "storage"]);
    let is_ours = volume.at(&["spec", "hostPath"]).is_some();
    if is_ours && (has < wants || has != amount(volume, &["spec", "capacity", "storage"])) {
        return Err(format!("{} has {has:?} and wants {wants:?}", path(claim)));
    }
    Ok(())
}

/// Checks that no unused attachment, and no deleted and unused object, is left.
fn check_nothing_is_left(cluster: &Cluster) -> Result<(), String> {
    let pods = cluster.list("pods");
    let uses = |pod: &Value, claim: &str| {
        let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default().to_vec();
        volumes.iter().any(|volume| volume.str_at(&["persistentVolumeClaim", "claimName"]) == claim)
    };
    for attachment in cluster.list(ATTACHMENTS) {
        let node = attachment.str_at(&["spec", "nodeName"]);
        let volume = cluster.get(VOLUMES, attachment.str_at(&["spec", "source", "persistentVolumeName"]));
        let claim = volume.map(|volume| volume.str_at(&["spec", "claimRef", "name"]).to_owned());
        let is_used = claim.is_some_and(|claim| {
            pods.iter().any(|pod| pod.str_at(&["spec", "nodeName"]) == node && uses(pod, &claim))
        });
        if !is_used && attachment.at(&["metadata", "deletionTimestamp"]).is_none() {
            return Err(format!("{} is attached to {node}, where no pod uses it", path(&attachment)));
        }
    }
    for claim in cluster.list(CLAIMS) {
        let is_going = claim.at(&["metadata", "deletionTimestamp"]).is_some();
        let name = claim.str_at(&["metadata", "name"]);
        if is_going && !pods.iter().any(|pod| uses(pod, name)) {
            return Err(format!("{} was deleted and has no users, but still exists", path(&claim)));
        }
    }
    Ok(())
}

type Done = Result<setpoint_api::Revision, setpoint_api::status::Status>;

/// User: makes a released volume available again.
fn make_volume_available(cluster: &mut Cluster) -> Done {
    let volumes = cluster.list(VOLUMES);
    let released = volumes.iter().find(|volume| volume.str_at(&["status", "phase"]) == "Released");
    match released {
        Some(volume) => cluster.patch(VOLUMES, &path(volume), "", value!({"spec": {"claimRef": null}})),
        None => Ok(setpoint_api::Revision::ZERO),
    }
}

/// CSI driver: handles one attachment.
fn handle_attachment(cluster: &mut Cluster) -> Done {
    let attachments = cluster.list(ATTACHMENTS);
    let Some(one) = cluster.rng.choice(&attachments) else { return Ok(setpoint_api::Revision::ZERO) };
    let name = path(one);
    if one.at(&["metadata", "deletionTimestamp"]).is_some() {
        return cluster.patch(ATTACHMENTS, &name, "", value!({"metadata": {"finalizers": []}}));
    }
    let _ =
        cluster.patch(ATTACHMENTS, &name, "", value!({"metadata": {"finalizers": ["external-attacher/d"]}}));
    cluster.patch(ATTACHMENTS, &name, "status", value!({"status": {"attached": true}}))
}

#[test]
fn storage_converges_under_faults_and_nothing_in_use_is_lost() {
    let scenario = Storage::default();
    if let Ok(seed) = std::env::var("SETPOINT_SIM_SEED") {
        println!("{:#?}", scenario::run(CONTROLLERS, &scenario, seed.parse().unwrap(), STEPS).unwrap());
        return;
    }
    let seeds = std::env::var("SETPOINT_SIM_SEEDS").map_or(400, |text| text.parse().unwrap());
    let mut marks = Marks::new();
    for seed in 0..seeds {
        let report =
            scenario::run(CONTROLLERS, &scenario, seed, STEPS).unwrap_or_else(|error| panic!("{error}"));
        for (mark, count) in report.marks {
            *marks.entry(mark).or_default() += count;
        }
    }
    for mark in ["crash", "lost write", "broken watch", "rival", "conflict"] {
        assert!(marks.get(mark).copied().unwrap_or(0) > 0, "never happened: {mark} ({marks:?})");
    }
    let sometimes = scenario.sometimes.borrow();
    for mark in SOMETIMES {
        assert!(sometimes.contains_key(mark), "never in {seeds} histories: {mark} ({sometimes:?})");
    }
}
