"""Dask's operator (dask-kubernetes, on kopf and kr8s) with its own CRDs and examples.

The operator is an unmodified package, in the environment that is given as argument.
"""

import pathlib
import sys

import yaml
from kubernetes import client, config, utils

import driver

GROUP, VERSION, NAMESPACE = "kubernetes.dask.org", "v1", "default"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
WORKERS = "dask.org/cluster-name=simple,dask.org/component=worker"
DELETE = {"propagationPolicy": "Background"}

config.load_kube_config()
api = client.ApiClient()
core, apps, custom = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi()
definitions, discovery = client.ApiextensionsV1Api(), client.DiscoveryV1Api()


def get(plural, name):
    return custom.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, plural, name)


def create(file, plural):
    """Creates an object from one of the operator's own examples."""
    body = yaml.safe_load(file.read_text())
    custom.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, plural, body)


def install(directory):
    """Creates the definitions in a directory of the operator's chart. Returns their names."""
    files = sorted(directory.glob("*.yaml"))
    names = [one["metadata"]["name"] for file in files for one in yaml.safe_load_all(file.read_text())]
    assert f"daskclusters.{GROUP}" in names, names
    for file in files:
        utils.create_from_yaml(api, str(file))

    def is_established(name):
        conditions = definitions.read_custom_resource_definition(name).status.conditions or []
        return any(one.type == "Established" and one.status == "True" for one in conditions)

    driver.wait("the definitions are established", lambda: all(map(is_established, names)))
    return names


def is_owned_by(owner, metadata):
    """`true` if an object is owned by another, given as its kind and name."""
    return owner in [(one["kind"], one["name"]) for one in metadata.get("ownerReferences", [])]


def is_available(deployment):
    conditions = deployment.status.conditions or []
    return any(one.type == "Available" and one.status == "True" for one in conditions)


def deployments(labels):
    return apps.list_namespaced_deployment(NAMESPACE, label_selector=labels).items


def endpoints(service):
    """Returns the addresses of the ready endpoints of a Service."""
    labels = f"kubernetes.io/service-name={service}"
    slices = discovery.list_namespaced_endpoint_slice(NAMESPACE, label_selector=labels).items
    ready = [one for each in slices for one in each.endpoints or [] if one.conditions.ready]
    return [address for one in ready for address in one.addresses]


def cluster_starts(operator):
    """The operator creates the children of a DaskCluster, and they become available."""
    metadata = operator.wait(
        "the operator holds the cluster by its finalizer",
        lambda: FINALIZER in get("daskclusters", "simple")["metadata"].get("finalizers", [])
        and get("daskclusters", "simple")["metadata"],
    )
    assert metadata["annotations"]["test-annotation"] == "annotation-value", metadata
    scheduler = "dask.org/cluster-name=simple,dask.org/component=scheduler"
    operator.wait("the scheduler is available", lambda: [is_available(one) for one in deployments(scheduler)] == [True])
    services = operator.wait(
        "the scheduler has a Service", lambda: core.list_namespaced_service(NAMESPACE, label_selector=scheduler).items
    )
    ports = [port.port for port in services[0].spec.ports]
    assert (services[0].metadata.name, ports) == ("simple-scheduler", [8786, 8787]), services
    (pod,) = core.list_namespaced_pod(NAMESPACE, label_selector=scheduler).items
    address = pod.status.pod_ip
    operator.wait("the pod is the endpoint of the Service", lambda: endpoints("simple-scheduler") == [address])
    operator.wait("two workers are available", lambda: workers_are_available(2))
    group = get("daskworkergroups", "simple-default")["metadata"]
    assert is_owned_by(("DaskCluster", "simple"), group), group
    operator.wait("the cluster has a phase", lambda: get("daskclusters", "simple").get("status", {}).get("phase"))


def workers_are_available(count):
    return [is_available(one) for one in deployments(WORKERS)] == [True] * count


def workers_scale(operator):
    """The operator follows the scale subresource of its own kind."""
    scaled = (GROUP, VERSION, NAMESPACE, "daskworkergroups", "simple-default")
    scale = custom.get_namespaced_custom_object_scale(*scaled)
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 2), scale
    custom.patch_namespaced_custom_object_scale(*scaled, {"spec": {"replicas": 4}})
    assert get("daskworkergroups", "simple-default")["spec"]["worker"]["replicas"] == 4
    operator.wait("four workers are available", lambda: workers_are_available(4))
    pods = core.list_namespaced_pod(NAMESPACE, label_selector=WORKERS).items
    assert [pod.status.phase for pod in pods] == ["Running"] * 4, pods
    variables = [variable for pod in pods for variable in pod.spec.containers[0].env]
    names = {variable.value for variable in variables if variable.name == "DASK_WORKER_NAME"}
    assert len(names) == 4, names


def job_runs(operator):
    """The operator runs the pod of a DaskJob beside a cluster of its own."""

    def status():
        return get("daskjobs", "simple-job").get("status", {}).get("jobStatus")

    operator.wait("the job runs", lambda: status() == "Running")
    assert core.read_namespaced_pod("simple-job-runner", NAMESPACE).status.phase == "Running"


def children():
    """Names of all objects of Dask clusters."""
    labels = "dask.org/cluster-name"
    groups = custom.list_namespaced_custom_object(GROUP, VERSION, NAMESPACE, "daskworkergroups")["items"]
    clusters = custom.list_namespaced_custom_object(GROUP, VERSION, NAMESPACE, "daskclusters")["items"]
    lists = [apps.list_namespaced_deployment, apps.list_namespaced_replica_set, core.list_namespaced_pod]
    lists += [core.list_namespaced_service, discovery.list_namespaced_endpoint_slice]
    typed = [one for list_all in lists for one in list_all(NAMESPACE, label_selector=labels).items]
    return [one["metadata"]["name"] for one in groups + clusters] + [one.metadata.name for one in typed]


def is_deleted(name):
    try:
        definitions.read_custom_resource_definition(name)
        return False
    except client.ApiException as error:
        return error.status == 404


def main(environment):
    (package,) = environment.glob("lib/python3*/site-packages/dask_kubernetes/operator")
    names = install(package / "deployment/helm/dask-kubernetes-operator/crds")
    driver.wait("pods can be created", lambda: core.list_namespaced_service_account(NAMESPACE).items)
    # The command of the project's image, without its port for probes.
    command = ["run", "-m", "dask_kubernetes.operator.controller", "--verbose", "--all-namespaces"]
    with driver.Operator(environment / "bin/kopf", *command) as operator:
        examples = package / "controller/tests/resources"
        create(examples / "simplecluster.yaml", "daskclusters")
        create(examples / "simplejob.yaml", "daskjobs")
        cluster_starts(operator)
        workers_scale(operator)
        job_runs(operator)
        for plural, name in [("daskjobs", "simple-job"), ("daskclusters", "simple")]:
            custom.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, plural, name, body=DELETE)
        operator.wait("all objects are collected", lambda: children() == [])
    for name in names:
        definitions.delete_custom_resource_definition(name)
    driver.wait("the definitions are deleted", lambda: all(map(is_deleted, names)))
    print("ok: dask-kubernetes")


if __name__ == "__main__":
    driver.limit_run_time()
    main(pathlib.Path(sys.argv[1]))
