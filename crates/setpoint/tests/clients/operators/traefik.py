"""Traefik as an ingress controller: informers of client-go in an unmodified program.

The program is in the environment that is given as argument. Its API shows the routes that it derives from objects.
"""

import pathlib
import sys

from kubernetes import client, config

import driver

NAMESPACE = "default"
ADDRESS = "127.0.0.1"
# Maximum number of starts: another process may take a free port first.
STARTS_MAX = 5

CLASS = {
    "metadata": {"name": "traefik", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
    "spec": {"controller": "traefik.io/ingress-controller"},
}
DEPLOYMENT = {
    "metadata": {"name": "shop"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"containers": [{"name": "c", "image": "shop:1", "ports": [{"containerPort": 8080}]}]},
        },
    },
}
SERVICE = {
    "metadata": {"name": "shop"},
    "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


def ingress(host):
    """An Ingress without a class."""
    backend = {"service": {"name": "shop", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    return {"metadata": {"name": "shop"}, "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]}}


config.load_kube_config()
core, apps, networking = client.CoreV1Api(), client.AppsV1Api(), client.NetworkingV1Api()


def start(program):
    """Starts Traefik. Returns it, and the address of its API."""
    for _ in range(STARTS_MAX):
        web, internal = driver.free_ports(2)
        operator = driver.Operator(
            program,
            "--global.checknewversion=false",
            "--global.sendanonymoususage=false",
            "--log.nocolor=true",
            f"--entrypoints.web.address={ADDRESS}:{web}",
            f"--entrypoints.traefik.address={ADDRESS}:{internal}",
            "--api.insecure=true",
            "--ping=true",
            "--providers.kubernetesingress=true",
            f"--providers.kubernetesingress.ingressendpoint.ip={ADDRESS}",
        )
        url = f"http://{ADDRESS}:{internal}"
        try:
            driver.wait("Traefik answers or ends", lambda: operator.has_ended() or driver.get(f"{url}/ping") == "OK")
        except BaseException:
            operator.stop()
            raise
        if not operator.has_ended():
            return operator, url
    raise AssertionError(f"Traefik did not start {STARTS_MAX} times")


def own(url, kind):
    """Returns the routers or services of Traefik that come from the cluster."""
    return [one for one in driver.get_json(f"{url}/api/http/{kind}") if one["provider"] == "kubernetes"]


def has_route(url, host):
    """`true` if the only route is the one of the Ingress with this host."""
    routes = [(router["rule"], router["status"]) for router in own(url, "routers")]
    return routes == [(f'Host("{host}") && PathPrefix("/")', "enabled")]


def servers(url):
    """Returns the addresses to which Traefik routes."""
    balancers = [service.get("loadBalancer", {}) for service in own(url, "services")]
    return sorted(server["url"] for balancer in balancers for server in balancer.get("servers", []))


def ready_pods():
    """Returns the addresses of the ready pods."""
    pods = core.list_namespaced_pod(NAMESPACE, label_selector="app=shop").items
    ready = [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or [])
    ]
    return sorted(f"http://{pod.status.pod_ip}:8080" for pod in ready)


def follows(operator, url, count):
    """Waits until Traefik routes to all pods of the Deployment."""

    def check():
        found = servers(url)
        return len(found) == count and found == ready_pods()

    operator.wait(f"Traefik routes to {count} pods", check)


def scale(replicas):
    apps.patch_namespaced_deployment_scale("shop", NAMESPACE, {"spec": {"replicas": replicas}})


def has_status():
    """Checks that the status of the Ingress has the address of Traefik, and that Traefik owns it."""
    found = networking.read_namespaced_ingress("shop", NAMESPACE)
    addresses = [one.ip for one in found.status.load_balancer.ingress or []]
    owners = [(one.manager, one.subresource) for one in found.metadata.managed_fields]
    return addresses == [ADDRESS] and ("traefik", "status") in owners


def test(operator, url):
    networking.create_ingress_class(CLASS)
    apps.create_namespaced_deployment(NAMESPACE, DEPLOYMENT)
    core.create_namespaced_service(NAMESPACE, SERVICE)
    made = networking.create_namespaced_ingress(NAMESPACE, ingress("shop.example"))
    assert made.spec.ingress_class_name == "traefik", "the default class is set"
    operator.wait("the Ingress has a status", has_status)
    operator.wait("the Ingress is a route", lambda: has_route(url, "shop.example"))
    for count in [2, 4, 1]:
        scale(count)
        follows(operator, url, count)
    networking.patch_namespaced_ingress("shop", NAMESPACE, ingress("new.example"))
    operator.wait("the route has the new host", lambda: has_route(url, "new.example"))
    networking.delete_namespaced_ingress("shop", NAMESPACE)
    operator.wait("the route is removed", lambda: own(url, "routers") == [])


def main(environment):
    operator, url = start(environment / "bin/traefik")
    with operator:
        test(operator, url)
    print("ok: Traefik")


if __name__ == "__main__":
    driver.limit_run_time()
    main(pathlib.Path(sys.argv[1]))
