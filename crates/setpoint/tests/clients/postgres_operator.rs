//! An operator on kube-rs: `PostgresCluster` keeps a StatefulSet, a Service, a ConfigMap and a Secret, reports its status,
//! and cleans up under a finalizer. Its webhook converts between `v1beta1`, where `replicas` is called `instances`, and
//! `v1`, and forbids clusters to shrink.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};
use setpoint_api::{Value as Review, value};

use crate::server::Server;
use crate::webhook_server::{HookReply, HookServer, allow, convert_objects, respond};

const FINALIZER: &str = "db.example.com/cleanup";
const MANAGER: &str = "postgres-operator";

/// A version of the definition, in which `field` has the number of replicas.
fn version(name: &str, field: &str) -> Value {
    json!({
        "name": name, "served": true, "storage": name == "v1",
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "spec": {"type": "object", "properties": {
                    field: {"type": "integer", "minimum": 1, "default": 1},
                    "image": {"type": "string", "default": "postgres:17"},
                }},
                "status": {"type": "object", "properties": {
                    "ready": {"type": "integer"}, "observedGeneration": {"type": "integer"},
                }},
            },
        }},
    })
}

fn definition(hook: &HookServer) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "postgresclusters.db.example.com"},
        "spec": {
            "group": "db.example.com",
            "scope": "Namespaced",
            "names": {"plural": "postgresclusters", "singular": "postgrescluster", "kind": "PostgresCluster"},
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle},
            }},
            "versions": [version("v1", "replicas"), version("v1beta1", "instances")],
        },
    }))
    .unwrap()
}

fn validation(hook: &HookServer) -> ValidatingWebhookConfiguration {
    serde_json::from_value(json!({
        "metadata": {"name": "postgres-operator"},
        "webhooks": [{
            "name": "shrink.db.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle},
            "rules": [{"operations": ["UPDATE"], "apiGroups": ["db.example.com"], "apiVersions": ["v1"],
                "resources": ["postgresclusters"]}],
        }],
    }))
    .unwrap()
}

/// The webhook of the operator: converts, and validates updates.
fn webhook(review: &Review) -> HookReply {
    if review.str_at(&["kind"]) == "ConversionReview" {
        return convert_objects(review, converted);
    }
    let replicas = |object| review.at(&["request", object, "spec", "replicas"]).and_then(Review::as_i64);
    if replicas("object") < replicas("oldObject") {
        return respond(review, value!({"allowed": false, "status": {"message": "a cluster cannot shrink"}}));
    }
    allow(review)
}

fn converted(cluster: &Review, api_version: &str) -> Review {
    let (from, to) = match api_version {
        "db.example.com/v1" => ("instances", "replicas"),
        _ => ("replicas", "instances"),
    };
    let mut cluster = cluster.clone();
    cluster.make_map().insert("apiVersion", api_version);
    let spec = cluster.ensure_map("spec");
    if let Some(replicas) = spec.remove(from) {
        spec.insert(to, replicas);
    }
    cluster
}

fn resource_in(version: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("db.example.com", version, "PostgresCluster"),
        "postgresclusters",
    )
}

fn resource() -> ApiResource {
    resource_in("v1")
}

fn cluster(name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &resource()).within("default").data(json!({"spec": spec}))
}

/// Objects of a cluster, all owned by it.
fn children(cluster: &DynamicObject) -> Vec<(ApiResource, Value)> {
    let name = cluster.name_any();
    let owner = json!([{
        "apiVersion": "db.example.com/v1", "kind": "PostgresCluster", "name": name, "uid": cluster.uid().unwrap(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let labels = json!({"cluster": name});
    let metadata = json!({"name": name, "ownerReferences": owner, "labels": labels});
    let replicas = cluster.data["spec"]["replicas"].clone();
    let image = cluster.data["spec"]["image"].clone();
    vec![
        (
            ApiResource::erase::<ConfigMap>(&()),
            json!({"metadata": metadata, "data": {"postgresql.conf": "max_connections = 100"}}),
        ),
        (
            ApiResource::erase::<Secret>(&()),
            json!({"metadata": metadata, "stringData": {"password": "secret"}}),
        ),
        (
            ApiResource::erase::<Service>(&()),
            json!({"metadata": metadata, "spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 5432}]}}),
        ),
        (
            ApiResource::erase::<StatefulSet>(&()),
            json!({"metadata": metadata, "spec": {
                "serviceName": name, "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "postgres", "image": image}]}},
            }}),
        ),
    ]
}

#[derive(Debug)]
struct OperatorError(String);

impl std::fmt::Display for OperatorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OperatorError {}

fn failure(error: impl std::fmt::Display) -> OperatorError {
    OperatorError(error.to_string())
}

async fn apply(client: &Client, cluster: &DynamicObject) -> Result<Action, OperatorError> {
    let params = PatchParams::apply(MANAGER).force();
    for (kind, mut object) in children(cluster) {
        object["apiVersion"] = json!(kind.api_version);
        object["kind"] = json!(kind.kind);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
        api.patch(&cluster.name_any(), &params, &Patch::Apply(object)).await.map_err(failure)?;
    }
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), "default");
    let set = sets.get(&cluster.name_any()).await.map_err(failure)?;
    let ready = set.status.and_then(|status| status.ready_replicas).unwrap_or(0);
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource());
    let status = json!({"status": {"ready": ready, "observedGeneration": cluster.metadata.generation}});
    let params = PatchParams::default();
    clusters.patch_status(&cluster.name_any(), &params, &Patch::Merge(status)).await.map_err(failure)?;
    Ok(Action::await_change())
}

/// Leaves a note in a ConfigMap, as a backup before the deletion would.
async fn clean_up(client: &Client, cluster: &DynamicObject) -> Result<Action, OperatorError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last-backup"},
        "data": {"cluster": cluster.name_any()}});
    let params = PatchParams::apply(MANAGER).force();
    maps.patch("last-backup", &params, &Patch::Apply(note)).await.map_err(failure)?;
    Ok(Action::await_change())
}

async fn reconcile(cluster: Arc<DynamicObject>, client: Arc<Client>) -> Result<Action, OperatorError> {
    let clusters: Api<DynamicObject> = Api::namespaced_with((*client).clone(), "default", &resource());
    finalizer(&clusters, FINALIZER, cluster, |event| async {
        match event {
            Event::Apply(cluster) => apply(&client, &cluster).await,
            Event::Cleanup(cluster) => clean_up(&client, &cluster).await,
        }
    })
    .await
    .map_err(failure)
}

/// Waits until a cluster is in a state, at most a minute.
async fn wait(clusters: &Api<DynamicObject>, name: &str, is_done: impl Fn(Option<&DynamicObject>) -> bool) {
    let done = await_condition(clusters.clone(), name, |object: Option<&DynamicObject>| is_done(object));
    tokio::time::timeout(Duration::from_secs(60), done).await.expect("not in time").unwrap();
}

fn is_ready(replicas: i64) -> impl Fn(Option<&DynamicObject>) -> bool {
    move |cluster| {
        cluster.is_some_and(|cluster| {
            cluster.data["status"]["ready"] == json!(replicas)
                && cluster.data["status"]["observedGeneration"] == json!(cluster.metadata.generation)
        })
    }
}

async fn run(client: Client, hook: &HookServer) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let post = PostParams::default();
    definitions.create(&post, &definition(hook)).await.unwrap();
    let name = "postgresclusters.db.example.com";
    await_condition(definitions, name, conditions::is_crd_established()).await.unwrap();
    let validations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    validations.create(&post, &validation(hook)).await.unwrap();
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource());
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), "default");
    let operator = Controller::new_with(clusters.clone(), watcher::Config::default(), resource())
        .owns(sets.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client.clone()));
    let operator = tokio::spawn(operator.for_each(|_| async {}));

    clusters.create(&post, &cluster("main", json!({"replicas": 2}))).await.unwrap();
    wait(&clusters, "main", is_ready(2)).await;
    assert_eq!(clusters.get("main").await.unwrap().data["spec"]["image"], "postgres:17", "defaults are set");
    sets.delete("main", &DeleteParams::default()).await.unwrap();
    wait(&clusters, "main", |cluster| !is_ready(2)(cluster)).await;
    wait(&clusters, "main", is_ready(2)).await;
    let grow = Patch::Merge(json!({"spec": {"replicas": 3}}));
    clusters.patch("main", &PatchParams::default(), &grow).await.unwrap();
    wait(&clusters, "main", is_ready(3)).await;
    let older: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource_in("v1beta1"));
    assert_eq!(older.get("main").await.unwrap().data["spec"]["instances"], 3, "the webhook converts");
    let grow = Patch::Merge(json!({"spec": {"instances": 4}}));
    older.patch("main", &PatchParams::default(), &grow).await.unwrap();
    wait(&clusters, "main", is_ready(4)).await;
    let shrink = Patch::Merge(json!({"spec": {"instances": 1}}));
    let denied = older.patch("main", &PatchParams::default(), &shrink).await.unwrap_err();
    assert!(denied.to_string().contains("a cluster cannot shrink"), "{denied}");
    let bad = clusters.create(&post, &cluster("bad", json!({"replicas": 0}))).await.unwrap_err();
    assert!(bad.to_string().contains("spec.replicas"), "{bad}");

    clusters.delete("main", &DeleteParams::default()).await.unwrap();
    wait(&clusters, "main", |cluster| cluster.is_none()).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    assert_eq!(maps.get("last-backup").await.unwrap().data.unwrap()["cluster"], "main");
    let gone = await_condition(sets, "main", |set: Option<&StatefulSet>| set.is_none());
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("not collected").unwrap();
    operator.abort();
}

#[test]
fn operator_on_kube_rs_keeps_its_objects_and_cleans_up() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let server = Server::start_with(&["--nodes=1", "--pod-start=0"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let hook = HookServer::start(webhook);
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        run(Client::try_from(config).unwrap(), &hook).await;
    });
}
