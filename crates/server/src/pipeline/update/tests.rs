//! Tests of status updates over partly decoded objects.

use setpoint_api::patch::PatchType;
use setpoint_api::resource_types;
use setpoint_api::{Key, Time, value};
use setpoint_sim::sim_sealer::SimSealer;
use setpoint_store::disk::OsDisk;
use setpoint_store::log::DiskLog;
use setpoint_store::log::disk::DiskOptions;
use setpoint_store::{Retention, Store};

use super::*;
use crate::codec;
use crate::exchange::Identity;
use crate::pipeline::admission::AdmissionContext;
use crate::pipeline::create::create;

struct Cluster {
    store: Store,
    writer: WriteOrigin,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster::with_store(Store::in_memory(Retention::default()))
    }

    fn with_store(store: Store) -> Cluster {
        let identity = Identity::new("u", Vec::new());
        let writer = WriteOrigin {
            identity,
            manager: "m".into(),
            dry_run: false,
            reconciler: String::new(),
            takes_over: false,
        };
        let cluster = Cluster { store, writer };
        let namespace = value!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}});
        cluster.create_object(resource_types::find("", "v1", "namespaces").unwrap(), "", namespace);
        let account = value!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": "a"}});
        cluster.create_object(resource_types::find("", "v1", "serviceaccounts").unwrap(), "a", account);
        cluster
    }

    fn decide_and_commit(
        &self,
        decide: impl FnOnce(&RequestContext<'_>) -> Result<Decision, Status>,
    ) -> Record {
        match self.decide(decide) {
            PipelineResult::Commit(proposal) => self.store.commit(*proposal).unwrap().records[0].clone(),
            _ => panic!("the decision must be a commit"),
        }
    }

    fn decide(&self, decide: impl FnOnce(&RequestContext<'_>) -> Result<Decision, Status>) -> PipelineResult {
        let snapshot = self.store.snapshot();
        let context = RequestContext {
            snapshot: &snapshot,
            now: Time::from_seconds(1_800_000_000),
            entropy: [7; 3],
            tolerations: Default::default(),
            catalog: crate::catalog::Catalog::built_in(),
            admission: AdmissionContext::standard(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        decide(&context).unwrap_or_else(|status| panic!("{}", status.message)).step
    }

    fn create_object(&self, resource_type: &ResourceType, namespace: &str, object: Value) -> Record {
        let object = resource_type.stored_schema.decode(object, &[]).unwrap().value;
        self.decide_and_commit(|context| {
            create(resource_type, namespace, DesiredObject::new(object), &self.writer, context)
        })
    }

    /// Writes a status over the object that `read` decodes.
    fn update_status(
        &self,
        resource_type: &ResourceType,
        key: &Key,
        status: &Value,
        read: impl FnOnce(&Record) -> Value,
    ) -> Record {
        let patch = value!({"status": (status.clone())});
        self.decide_and_commit(|context| {
            let record = context.snapshot.get(key).unwrap();
            let live = read(record);
            let desired =
                PatchType::Merge.apply(&patch, live.clone(), resource_type.stored_schema.built_in()).unwrap();
            update_live(
                resource_type,
                Subresource::Status,
                DesiredObject::new(desired),
                (record, live),
                &self.writer,
                context,
            )
        })
    }
}

fn pod_spec() -> Value {
    value!({
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        ]}}},
        "securityContext": {"runAsUser": 7, "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [{"name": "i", "image": "busybox", "command": ["sh", "-c", "echo \"]}\""]}],
        "containers": [{
            "name": "c",
            "image": "nginx",
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "env": [{"name": "E", "value": "a\\b\u{1F600}<&>"}],
        }],
    })
}

#[test]
fn status_update_of_a_partly_decoded_object_stores_the_same_bytes() {
    let template = value!({"metadata": {"labels": {"a": "b"}}, "spec": (pod_spec())});
    let set = value!({"selector": {"matchLabels": {"a": "b"}}, "template": (template)});
    let counts = value!({"replicas": 3, "readyReplicas": 2, "observedGeneration": 1});
    let running = value!({
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [
            {"name": "c", "image": "nginx", "ready": true, "state": {"terminated": {"exitCode": 0}}},
        ],
    });
    for (group, plural, kind, spec, status) in [
        ("", "pods", "Pod", pod_spec(), running),
        ("apps", "replicasets", "ReplicaSet", set.clone(), counts.clone()),
        ("apps", "deployments", "Deployment", set, counts),
    ] {
        let resource_type = resource_types::find(group, "v1", plural).unwrap();
        assert!(!resource_type.rules.raw_spec_fields().is_empty());
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let object = value!({
            "kind": (kind), "apiVersion": (api_version), "metadata": {"name": "x", "namespace": "a"}, "spec": (spec),
        });
        let key = resource_type.key("a", "x").unwrap();
        let written = [false, true].map(|is_partial| {
            let cluster = Cluster::new();
            let created = cluster.create_object(resource_type, "a", object.clone());
            let read = |record: &Record| {
                if is_partial { codec::partial(resource_type, record) } else { codec::object(record) }
            };
            let first = cluster.update_status(resource_type, &key, &status, read);
            let second = cluster.update_status(
                resource_type,
                &key,
                &value!({"observedGeneration": 1, "reason": null}),
                |record| {
                    let mut live = read(record);
                    live.ensure_map("status").remove("observedGeneration");
                    live
                },
            );
            [created, first, second].map(|record| String::from_utf8(record.value().to_vec()).unwrap())
        });
        assert_eq!(written[0], written[1], "{plural}");
        assert_ne!(written[0][0], written[0][1]);
    }
}

#[test]
fn response_objects_are_fully_decoded() {
    let resource_type = resource_types::find("", "v1", "pods").unwrap();
    let mut cluster = Cluster::new();
    let object = value!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x", "namespace": "a"}, "spec": (pod_spec()),
    });
    let record = cluster.create_object(resource_type, "a", object);
    cluster.writer.dry_run = true;
    let snapshot = cluster.store.snapshot();
    let context = RequestContext {
        snapshot: &snapshot,
        now: Time::from_seconds(1_800_000_000),
        entropy: [7; 3],
        tolerations: Default::default(),
        catalog: crate::catalog::Catalog::built_in(),
        admission: AdmissionContext::standard(),
        webhooks: None,
        conversions: None,
        authorization: None,
    };
    let live = codec::partial(resource_type, &record);
    let mut desired = live.clone();
    desired.ensure_map("status").insert("phase", "Running");
    let decided = update_live(
        resource_type,
        Subresource::Status,
        DesiredObject::new(desired),
        (&record, live),
        &cluster.writer,
        &context,
    );
    let Ok(Decision { step: PipelineResult::DryRun(object), .. }) = decided else {
        panic!("a dry run says what would be")
    };
    assert_eq!(object.get("spec"), codec::object(&record).get("spec"));
    assert_eq!(object.str_at(&["status", "phase"]), "Running");
}

#[test]
fn unchanged_object_is_rewritten_only_if_it_is_stored_with_an_old_key() {
    let (dir, sealer) = (tempfile::tempdir().unwrap(), SimSealer::new(None, &["k1"]));
    let options = DiskOptions { sealer: Some(sealer.clone()), ..DiskOptions::default() };
    let log = DiskLog::new(std::sync::Arc::new(OsDisk::exclusive(dir.path()).unwrap()), options);
    let cluster = Cluster::with_store(Store::open(Box::new(log), Retention::default(), |_| ()).unwrap());
    let resource_type = resource_types::find("", "v1", "configmaps").unwrap();
    let map = value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m", "namespace": "a"}, "data": {"k": "v"}});
    let key = cluster.create_object(resource_type, "a", map).key(&resource_type.resource);
    let replace = || {
        cluster.decide(|context| {
            let record = context.snapshot.get(&key).unwrap();
            let live = codec::live(resource_type, record);
            let same = DesiredObject::new(live.clone());
            update_live(resource_type, Subresource::None, same, (record, live), &cluster.writer, context)
        })
    };
    assert!(matches!(replace(), PipelineResult::Unchanged(_)));
    sealer.rotate(&["k2", "k1"]);
    let PipelineResult::Commit(proposal) = replace() else { panic!("the decision must be a commit") };
    cluster.store.commit(*proposal).unwrap();
    assert!(matches!(replace(), PipelineResult::Unchanged(_)), "it is stored with the new key");
}
