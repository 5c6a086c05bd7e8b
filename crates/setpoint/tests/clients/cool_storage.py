"""CoolStorage, an operator on kopf, and the test that drives it.

The backend of the operator is a directory with one file for each object. Nothing watches it: if it drifts, only the
operator's timer heals it. As a module this file is the operator; as a program it starts the operator and tests it.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import kopf
import kubernetes

GROUP, VERSION, PLURAL = "storage.example.com", "v1", "coolstorages"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "coolstorage", "kind": "CoolStorage"},
        "versions": [{
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }},
        }],
    },
}


def backend(name):
    return pathlib.Path(os.environ["COOL_STORAGE"]) / name


@kopf.on.create(PLURAL)
@kopf.on.update(PLURAL)
@kopf.on.resume(PLURAL)
@kopf.timer(PLURAL, interval=0.2)
def reconcile(name, spec, patch, **_):
    wanted = str(spec["size"])
    if not backend(name).exists() or backend(name).read_text() != wanted:
        backend(name).write_text(wanted)
    patch.status["phase"] = "Ready"


@kopf.on.delete(PLURAL)
def remove(name, **_):
    backend(name).unlink(missing_ok=True)


def wait(what, check):
    """Waits until `check` holds, at most a minute."""
    for _ in range(600):
        if check():
            return
        time.sleep(0.1)
    raise AssertionError(f"not in time: {what}")


def stored(name):
    return backend(name).read_text() if backend(name).exists() else None


def test(objects):
    def get(name):
        return objects.get_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, name)

    def patch(name, size):
        body = {"spec": {"size": size}}
        objects.patch_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, name, body)

    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "CoolStorage", "metadata": {"name": "a"}, "spec": {"size": 5}}
    objects.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, body)
    wait("the object is reconciled", lambda: stored("a") == "5" and get("a").get("status", {}).get("phase") == "Ready")
    patch("a", 7)
    wait("a change is applied", lambda: stored("a") == "7")
    backend("a").write_text("1")
    wait("a drifted backend is healed", lambda: stored("a") == "7")
    backend("a").unlink()
    wait("a lost backend is healed", lambda: stored("a") == "7")
    try:
        patch("a", 0)
        raise AssertionError("an invalid size was accepted")
    except kubernetes.client.ApiException as error:
        assert error.status == 422 and "spec.size" in error.body, error
    objects.delete_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "a")

    def is_gone():
        try:
            get("a")
            return False
        except kubernetes.client.ApiException as error:
            return error.status == 404

    wait("the finalizer removes the backend, then the object", lambda: stored("a") is None and is_gone())


def main():
    kubernetes.config.load_kube_config()
    definitions = kubernetes.client.ApiextensionsV1Api()
    definitions.create_custom_resource_definition(DEFINITION)

    def is_established():
        conditions = definitions.read_custom_resource_definition(f"{PLURAL}.{GROUP}").status.conditions or []
        return any(one.type == "Established" and one.status == "True" for one in conditions)

    wait("the definition is established", is_established)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["COOL_STORAGE"] = directory
        command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone", __file__]
        operator = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            test(kubernetes.client.CustomObjectsApi())
        finally:
            operator.terminate()
            operator.wait(30)
    print("ok: an operator on kopf")


if __name__ == "__main__":
    main()
