//! kube-rs: typed and dynamic, with its watcher.

use std::pin::pin;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GetParams, ListParams, Patch, PatchParams, PostParams,
    Preconditions, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::discovery::{Discovery, Scope, verbs};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Config, ResourceExt};
use serde_json::json;

use crate::server::Server;

const NAMESPACE: &str = "rust";

async fn client(server: &Server) -> Client {
    // Several crates of the test may install a default provider; choose one for all.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    client
}

/// Runs a test against its own server.
fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F) {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { test(client(&server).await).await });
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let parity = if value.len().is_multiple_of(2) { "even" } else { "odd" };
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"parity": parity}},
        "data": {"value": value},
    }))
    .unwrap()
}

fn deployment() -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    }))
    .unwrap()
}

/// Returns the status of a call that must fail.
#[track_caller]
fn api_error<T: std::fmt::Debug>(result: Result<T, kube::Error>, code: u16, reason: &str) -> Status {
    match result {
        Err(kube::Error::Api(status)) if status.code == code && status.reason == reason => *status,
        other => panic!("expected {code} {reason}: {other:?}"),
    }
}

#[test]
fn kube_rs_discovers_everything_both_ways() {
    with_client(|client| async move {
        assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.37.0");
        let legacy = Discovery::new(client.clone()).run().await.unwrap();
        let aggregated = Discovery::new(client).run_aggregated().await.unwrap();
        for discovery in [legacy, aggregated] {
            let apps = discovery.get("apps").unwrap();
            let (resource, capabilities) = apps.recommended_kind("Deployment").unwrap();
            assert_eq!(resource.plural, "deployments");
            assert_eq!(capabilities.scope, Scope::Namespaced);
            assert!(capabilities.supports_operation(verbs::WATCH));
            let subresources: Vec<_> = capabilities.subresources.iter().map(|(one, _)| &one.plural).collect();
            assert!(subresources.iter().any(|name| name.ends_with("scale")), "{subresources:?}");
        }
    });
}

#[test]
fn kube_rs_creates_lists_pages_and_parses_errors() {
    with_client(|client| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let post = PostParams::default();
        for number in 0..25 {
            maps.create(&post, &config_map(&format!("m-{number:02}"), &"x".repeat(number))).await.unwrap();
        }
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        maps.create(&dry, &config_map("dry", "")).await.unwrap();
        assert!(maps.get_opt("dry").await.unwrap().is_none());
        let even = maps.list(&ListParams::default().labels("parity in (even)")).await.unwrap();
        assert_eq!(even.items.len(), 13);
        let one = maps.list(&ListParams::default().fields("metadata.name=m-07")).await.unwrap();
        assert_eq!(one.items.len(), 1);
        let mut names = Vec::new();
        let mut page = ListParams::default().limit(10);
        loop {
            let list = maps.list(&page).await.unwrap();
            names.extend(list.items.iter().map(ResourceExt::name_any));
            match list.metadata.continue_ {
                Some(token) if !token.is_empty() => page = page.continue_token(&token),
                _ => break,
            }
        }
        assert_eq!(names, (0..25).map(|number| format!("m-{number:02}")).collect::<Vec<_>>());
        assert_eq!(maps.get_metadata("m-03").await.unwrap().name_any(), "m-03");
        assert_eq!(maps.list_metadata(&ListParams::default()).await.unwrap().items.len(), 25);
        assert!(maps.get_with("m-03", &GetParams::any()).await.is_ok());

        api_error(maps.get("none").await, 404, "NotFound");
        api_error(maps.create(&post, &config_map("m-01", "")).await, 409, "AlreadyExists");
        let mut old = maps.get("m-01").await.unwrap();
        old.data.get_or_insert_default().insert("more".into(), "1".into());
        maps.replace("m-01", &post, &old).await.unwrap();
        api_error(maps.replace("m-01", &post, &old).await, 409, "Conflict");
        let invalid = api_error(maps.create(&post, &config_map("Bad_Name", "")).await, 422, "Invalid");
        assert_eq!(invalid.details.unwrap().causes[0].field, "metadata.name");
        let other = Preconditions { uid: Some("another".into()), resource_version: None };
        api_error(maps.delete("m-01", &DeleteParams::default().preconditions(other)).await, 409, "Conflict");
        maps.delete("m-01", &DeleteParams::background().dry_run()).await.unwrap();
        assert!(maps.delete("m-01", &DeleteParams::background()).await.unwrap().is_right());
        let odd = ListParams::default().labels("parity=odd");
        maps.delete_collection(&DeleteParams::default(), &odd).await.unwrap();
        assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 13);
    });
}

#[test]
fn kube_rs_patches_applies_scales_and_writes_status() {
    with_client(|client| async move {
        let deployments: Api<Deployment> = Api::namespaced(client, NAMESPACE);
        deployments.create(&PostParams::default(), &deployment()).await.unwrap();
        let plain = PatchParams::default();
        let side =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}});
        let containers = |one: &Deployment| {
            let spec = one.spec.template.spec.as_ref().unwrap();
            spec.containers.iter().map(|container| container.name.clone()).collect::<Vec<_>>()
        };
        let after = deployments.patch("web", &plain, &Patch::Strategic(&side)).await.unwrap();
        assert_eq!(containers(&after).len(), 2);
        let after = deployments.patch("web", &plain, &Patch::Merge(&side)).await.unwrap();
        assert_eq!(containers(&after), ["side"]);
        let steps = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
        let steps: Patch<()> = Patch::Json(serde_json::from_value(steps).unwrap());
        let after = deployments.patch("web", &plain, &steps).await.unwrap();
        assert_eq!(after.spec.replicas, Some(5));
        let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 7}});
        let apply = PatchParams::apply("rust");
        let conflict =
            api_error(deployments.patch("web", &apply, &Patch::Apply(&scaled)).await, 409, "Conflict");
        assert_eq!(conflict.details.unwrap().causes[0].field, ".spec.replicas");
        let after = deployments.patch("web", &apply.force(), &Patch::Apply(&scaled)).await.unwrap();
        assert_eq!(after.spec.replicas, Some(7));

        let mut scale = deployments.get_scale("web").await.unwrap();
        assert_eq!(scale.status.as_ref().unwrap().selector.as_deref(), Some("app=web"));
        scale.spec.as_mut().unwrap().replicas = Some(3);
        deployments.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
        let four = json!({"spec": {"replicas": 4}});
        deployments.patch_scale("web", &plain, &Patch::Merge(&four)).await.unwrap();
        let status = json!({"status": {"replicas": 4}, "spec": {"replicas": 9}});
        let after = deployments.patch_status("web", &plain, &Patch::Merge(&status)).await.unwrap();
        assert_eq!(after.spec.replicas, Some(4), "a write of status writes nothing else");
        assert_eq!(after.status.unwrap().replicas, Some(4));
        let held = deployments.delete("web", &DeleteParams::foreground()).await.unwrap().left().unwrap();
        assert_eq!(held.metadata.finalizers.unwrap(), ["foregroundDeletion"]);
    });
}

#[test]
fn kube_rs_watches_resumes_and_gets_410() {
    with_client(|client| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        for number in 0..3 {
            maps.create(&PostParams::default(), &config_map(&format!("w-{number}"), "")).await.unwrap();
        }
        let params = WatchParams::default().timeout(20);
        let added = |event: WatchEvent<ConfigMap>| match event {
            WatchEvent::Added(object) => object,
            other => panic!("{other:?}"),
        };
        let mut seen = Vec::new();
        let mut stream = pin!(maps.watch(&params, &start).await.unwrap());
        while seen.len() < 3 {
            seen.push(added(stream.try_next().await.unwrap().unwrap()));
        }
        let names: Vec<_> = seen.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["w-0", "w-1", "w-2"]);
        let first = seen[0].resource_version().unwrap();
        let mut resumed = pin!(maps.watch(&params, &first).await.unwrap());
        assert_eq!(added(resumed.try_next().await.unwrap().unwrap()).name_any(), "w-1");

        let mut gone = pin!(maps.watch(&params, "1").await.unwrap());
        match gone.try_next().await.unwrap().unwrap() {
            WatchEvent::Error(status) => assert_eq!((status.code, &*status.reason), (410, "Expired")),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn kube_rs_watcher_works_with_list_and_streaming_list() {
    with_client(|client| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        for (round, config) in
            [watcher::Config::default(), watcher::Config::default().streaming_lists()].into_iter().enumerate()
        {
            let name = format!("followed-{round}");
            let fields = format!("metadata.name={name}");
            maps.create(&PostParams::default(), &config_map(&name, "1")).await.unwrap();
            let mut events = pin!(watcher(maps.clone(), config.fields(&fields)));
            assert!(matches!(events.next().await.unwrap().unwrap(), Event::Init));
            assert!(
                matches!(events.next().await.unwrap().unwrap(), Event::InitApply(map) if map.name_any() == name)
            );
            assert!(matches!(events.next().await.unwrap().unwrap(), Event::InitDone));
            let change = json!({"data": {"value": "22"}});
            maps.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
            assert!(matches!(events.next().await.unwrap().unwrap(), Event::Apply(_)));
            maps.delete(&name, &DeleteParams::default()).await.unwrap();
            assert!(matches!(events.next().await.unwrap().unwrap(), Event::Delete(_)));
        }
    });
}

#[test]
fn kube_rs_works_without_types() {
    with_client(|client| async move {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".into(),
            api_version: "v1".into(),
            kind: "Service".into(),
            plural: "services".into(),
        };
        let services: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
        let spec = json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        let service = DynamicObject::new("front", &resource).data(spec);
        let made = services.create(&PostParams::default(), &service).await.unwrap();
        assert_eq!(made.data["spec"]["ports"][0]["targetPort"], 80);
        assert!(made.data["spec"]["clusterIP"].is_string());
        let labels = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"labels": {"a": "b"}}});
        services.patch("front", &PatchParams::apply("dynamic"), &Patch::Apply(&labels)).await.unwrap();
        let found = services.list(&ListParams::default().labels("a=b")).await.unwrap();
        assert_eq!(found.items.len(), 1);
        services.delete("front", &DeleteParams::default()).await.unwrap();
        api_error(services.get("front").await, 404, "NotFound");
    });
}
