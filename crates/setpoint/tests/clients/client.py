"""Python client: typed and dynamic, against the server of KUBECONFIG.

Every step asserts its results; the last line has the number of steps.
"""

import json
import threading

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core, apps, batch = client.CoreV1Api(), client.AppsV1Api(), client.BatchV1Api()
custom = client.CustomObjectsApi()
NAMESPACE = "python"
STEPS = []


def step(function):
    """Runs a step and records its name."""
    print(function.__name__, flush=True)
    function()
    STEPS.append(function.__name__)
    return function


def fails(status, reason, call, *arguments, **options):
    """Checks code and reason of a call that must fail. Returns its Status."""
    try:
        call(*arguments, **options)
    except ApiException as error:
        body = json.loads(error.body)
        assert (error.status, body["kind"], body["reason"]) == (status, "Status", reason), error.body
        assert body["code"] == status, error.body
        return body
    raise AssertionError(f"{call.__name__} did not fail with {status}")


def config_map(name, data=None, **metadata):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data)


def deployment(name, replicas=2):
    container = client.V1Container(
        name="c", image="nginx", ports=[client.V1ContainerPort(container_port=80)]
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels={"app": name}),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels={"app": name}),
                spec=client.V1PodSpec(containers=[container]),
            ),
        ),
    )


@step
def discovers():
    assert client.VersionApi().get_code().git_version == "v1.37.0"
    assert client.CoreApi().get_api_versions().versions == ["v1"]
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    assert {"apps", "batch", "autoscaling", "networking.k8s.io"} <= groups, groups
    resources = {resource.name: resource for resource in apps.get_api_resources().resources}
    assert resources["deployments"].short_names == ["deploy"]
    assert "deployments/scale" in resources


@step
def creates_and_gets():
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    made = core.create_namespaced_config_map(NAMESPACE, config_map("one", {"a": "1"}))
    assert made.metadata.uid and made.metadata.resource_version
    assert made.metadata.creation_timestamp.tzinfo is not None
    read = core.read_namespaced_config_map("one", NAMESPACE)
    assert read.data == {"a": "1"} and read.metadata.uid == made.metadata.uid
    named = core.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="made-"))
    )
    assert named.metadata.name.startswith("made-") and len(named.metadata.name) == 10
    dry = core.create_namespaced_config_map(NAMESPACE, config_map("dry"), dry_run="All")
    assert dry.metadata.uid
    fails(404, "NotFound", core.read_namespaced_config_map, "dry", NAMESPACE)
    core.delete_namespaced_config_map(named.metadata.name, NAMESPACE)


@step
def parses_errors():
    body = fails(404, "NotFound", core.read_namespaced_config_map, "none", NAMESPACE)
    assert body["message"] == 'configmaps "none" not found'
    assert body["details"] == {"name": "none", "kind": "configmaps"}
    body = fails(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, config_map("one"))
    assert body["message"] == 'configmaps "one" already exists'
    old = core.read_namespaced_config_map("one", NAMESPACE)
    old.metadata.labels = {"tier": "first"}
    core.replace_namespaced_config_map("one", NAMESPACE, old)
    body = fails(409, "Conflict", core.replace_namespaced_config_map, "one", NAMESPACE, old)
    assert "the object has been modified" in body["message"]
    body = fails(422, "Invalid", core.create_namespaced_config_map, NAMESPACE, config_map("Bad_Name"))
    assert body["details"]["causes"][0]["field"] == "metadata.name", body
    wrong = deployment("wrong")
    wrong.spec.template.metadata.labels = {"app": "other"}
    body = fails(422, "Invalid", apps.create_namespaced_deployment, NAMESPACE, wrong)
    assert body["details"]["causes"][0]["field"] == "spec.template.metadata.labels", body
    fails(404, "NotFound", core.create_namespaced_config_map, "nowhere", config_map("x"))
    fails(
        400, "BadRequest", core.list_namespaced_config_map, NAMESPACE, label_selector="a in (b"
    )
    fails(400, "BadRequest", core.list_namespaced_config_map, NAMESPACE, field_selector="spec.x=1")


@step
def lists_with_selectors_and_pages():
    for number in range(25):
        labels = {"parity": "even" if number % 2 == 0 else "odd", "number": str(number)}
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number:02}", labels=labels))
    listed = core.list_namespaced_config_map
    assert len(listed(NAMESPACE, label_selector="parity=even").items) == 13
    assert len(listed(NAMESPACE, label_selector="number in (1,2,3),parity!=odd").items) == 1
    assert len(listed(NAMESPACE, label_selector="!parity").items) == 1
    assert len(listed(NAMESPACE, field_selector="metadata.name=page-07").items) == 1
    everywhere = core.list_config_map_for_all_namespaces(label_selector="parity")
    assert len(everywhere.items) == 25

    first = listed(NAMESPACE, limit=10, label_selector="parity")
    assert first.metadata._continue and len(first.items) == 10
    # Objects created between two pages are not on the next one.
    core.create_namespaced_config_map(NAMESPACE, config_map("page-99", labels={"parity": "odd"}))
    names, page = [item.metadata.name for item in first.items], first
    while page.metadata._continue:
        page = listed(NAMESPACE, limit=10, label_selector="parity", _continue=page.metadata._continue)
        assert page.metadata.resource_version == first.metadata.resource_version
        names += [item.metadata.name for item in page.items]
    assert names == [f"page-{number:02}" for number in range(25)], names
    fails(400, "BadRequest", listed, NAMESPACE, limit=10, _continue="nonsense")


@step
def watches_and_resumes():
    def change(value):
        core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"a": value}})

    def events(version, count):
        watcher, seen = watch.Watch(), []
        stream = watcher.stream(
            core.list_namespaced_config_map,
            NAMESPACE,
            field_selector="metadata.name=one",
            resource_version=version,
            timeout_seconds=20,
        )
        for event in stream:
            seen.append((event["type"], event["object"].data["a"], event["object"].metadata.resource_version))
            if len(seen) == count:
                watcher.stop()
        return seen

    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    for value in ("2", "3", "4"):
        change(value)
    seen = events(start, 3)
    assert [event[:2] for event in seen] == [("MODIFIED", "2"), ("MODIFIED", "3"), ("MODIFIED", "4")]
    assert [event[1] for event in events(seen[0][2], 2)] == ["3", "4"], "a resumed watch goes on"

    live = []
    reader = threading.Thread(target=lambda: live.extend(events(seen[2][2], 2)))
    reader.start()
    change("5")
    change("6")
    reader.join(timeout=30)
    assert [event[1] for event in live] == ["5", "6"], live
    # Without a resourceVersion, existing objects come first, as ADDED.
    assert events(None, 1)[0][:2] == ("ADDED", "6")


@step
def is_told_when_a_version_is_gone():
    body = fails(
        504,
        "Timeout",
        core.list_namespaced_config_map,
        NAMESPACE,
        resource_version="99999999",
        resource_version_match="NotOlderThan",
    )
    assert "Too large resource version" in body["message"], body
    # The first commit has been compacted.
    stream = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=5)
    try:
        events = list(stream)
    except ApiException as error:
        assert error.status == 410 and "too old resource version" in error.reason, error
    else:
        raise AssertionError(events)


@step
def patches_in_every_form():
    apps.create_namespaced_deployment(NAMESPACE, deployment("web"))

    def patch(media, body, **options):
        return apps.patch_namespaced_deployment("web", NAMESPACE, body, _content_type=media, **options)

    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}
    both = patch("application/strategic-merge-patch+json", sidecar)
    assert {c.name for c in both.spec.template.spec.containers} == {"c", "side"}
    one = patch("application/merge-patch+json", sidecar)
    assert [c.name for c in one.spec.template.spec.containers] == ["side"]
    scaled = patch("application/json-patch+json", [{"op": "replace", "path": "/spec/replicas", "value": 5}])
    assert scaled.spec.replicas == 5
    applied = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"applied": "yes"}},
    }
    after = patch("application/apply-patch+yaml", applied, field_manager="python", force=True)
    assert after.metadata.labels["applied"] == "yes"
    assert any(f.manager == "python" and f.operation == "Apply" for f in after.metadata.managed_fields)
    applied["spec"] = {"replicas": 7}
    body = fails(409, "Conflict", patch, "application/apply-patch+yaml", applied, field_manager="second")
    assert any(cause["field"] == ".spec.replicas" for cause in body["details"]["causes"]), body
    fails(422, "Invalid", patch, "application/json-patch+json", [{"op": "test", "path": "/spec/replicas", "value": 1}])
    typed = apps.patch_namespaced_deployment("web", NAMESPACE, {"spec": {"paused": True}})
    assert typed.spec.paused is True


@step
def scales():
    scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
    assert scale.spec.replicas == 5 and scale.status.selector == "app=web"
    scale.spec.replicas = 3
    assert apps.replace_namespaced_deployment_scale("web", NAMESPACE, scale).spec.replicas == 3
    assert apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 4}}).spec.replicas == 4
    assert apps.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 4


@step
def writes_status_apart():
    job = client.V1Job(
        metadata=client.V1ObjectMeta(name="job"),
        spec=client.V1JobSpec(
            template=client.V1PodTemplateSpec(
                spec=client.V1PodSpec(
                    restart_policy="Never", containers=[client.V1Container(name="c", image="busybox")]
                )
            )
        ),
    )
    made = batch.create_namespaced_job(NAMESPACE, job)
    changed = batch.patch_namespaced_job_status("job", NAMESPACE, {"status": {"active": 1}})
    assert changed.status.active == 1 and changed.metadata.generation == made.metadata.generation
    ignored = batch.patch_namespaced_job("job", NAMESPACE, {"status": {"active": 2}})
    assert ignored.status.active == 1, "the main resource does not write status"
    assert batch.read_namespaced_job_status("job", NAMESPACE).status.active == 1


@step
def deletes_with_options():
    current = core.read_namespaced_config_map("one", NAMESPACE)
    stale = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    fails(409, "Conflict", core.delete_namespaced_config_map, "one", NAMESPACE, body=stale)
    exact = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=current.metadata.uid))
    trial = client.V1DeleteOptions(dry_run=["All"], preconditions=exact.preconditions)
    assert core.delete_namespaced_config_map("one", NAMESPACE, body=trial)["status"] == "Success"
    assert core.read_namespaced_config_map("one", NAMESPACE).metadata.uid == current.metadata.uid
    answer = core.delete_namespaced_config_map("one", NAMESPACE, body=exact)
    assert answer["status"] == "Success" and answer["details"]["uid"] == current.metadata.uid
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Foreground")
    held = apps.read_namespaced_deployment("web", NAMESPACE)
    assert held.metadata.finalizers == ["foregroundDeletion"] and held.metadata.deletion_timestamp
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="parity=odd")
    assert len(core.list_namespaced_config_map(NAMESPACE, label_selector="parity").items) == 13
    batch.delete_namespaced_job("job", NAMESPACE, propagation_policy="Background")


@step
def works_without_types():
    dynamic_client = dynamic.DynamicClient(client.ApiClient())
    services = dynamic_client.resources.get(api_version="v1", kind="Service")
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    made = services.create(body=body, namespace=NAMESPACE)
    assert made.spec.clusterIP and made.spec.ports[0].targetPort == 80
    patched = services.patch(
        body={"metadata": {"labels": {"a": "b"}}},
        name="front",
        namespace=NAMESPACE,
        content_type="application/merge-patch+json",
    )
    assert patched.metadata.labels.a == "b"
    applied = dict(body, metadata={"name": "front", "annotations": {"by": "apply"}})
    result = services.server_side_apply(
        body=applied, name="front", namespace=NAMESPACE, field_manager="dynamic", force_conflicts=True
    )
    assert result.metadata.annotations.by == "apply"
    assert [item.metadata.name for item in services.get(namespace=NAMESPACE, label_selector="a=b").items] == ["front"]
    for event in services.watch(namespace=NAMESPACE, timeout=5):
        assert event["type"] == "ADDED" and event["object"].metadata.name == "front"
        break
    services.delete(name="front", namespace=NAMESPACE)
    fails(404, "NotFound", services.get, name="front", namespace=NAMESPACE)
    listed = custom.list_namespaced_custom_object("apps", "v1", NAMESPACE, "deployments")
    assert listed["kind"] == "DeploymentList"


@step
def creates_from_a_manifest():
    manifest = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "deny"},
                "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "reader"},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            },
        ],
    }
    utils.create_from_dict(client.ApiClient(), manifest, namespace=NAMESPACE)
    policy = client.NetworkingV1Api().read_namespaced_network_policy("deny", NAMESPACE)
    assert policy.spec.policy_types == ["Ingress"]
    role = client.RbacAuthorizationV1Api().read_namespaced_role("reader", NAMESPACE)
    assert role.rules[0].verbs == ["get"]


print(f"ok: {len(STEPS)} steps")
