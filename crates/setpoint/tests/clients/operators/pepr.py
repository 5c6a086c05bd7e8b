"""Pepr, a controller framework, with its demo module: a definition of its own, admission webhooks and watches.

The demo module is the one that `pepr init` writes, and `pepr dev` runs it, as the documentation of Pepr says. The
environment with the unmodified package is given as argument. Pepr always listens on port 3000.
"""

import json
import os
import pathlib
import shutil
import sys

from kubernetes import client, config, utils

import driver

SYSTEM, DEMO, OTHER = "pepr-system", "pepr-demo", "pepr-demo-2"
GROUP, VERSION = "pepr.dev", "v1"

config.load_kube_config()
api = client.ApiClient()
core, custom = client.CoreV1Api(), client.CustomObjectsApi()
definitions = client.ApiextensionsV1Api()


def write_module(templates, directory):
    """Copies the demo module from the templates of the package. Returns the samples, in order."""
    shutil.copytree(templates / "capabilities", directory / "capabilities")
    for name in ["pepr.ts", "package.json"]:
        shutil.copy(templates / name, directory)
    shutil.copy(templates / "tsconfig.module.json", directory / "tsconfig.json")
    return json.loads((directory / "capabilities/hello-pepr.samples.json").read_text())


def stored(suffix):
    """Returns the data of one of Pepr's own objects; `None` if there is no such object."""
    try:
        stores = custom.list_namespaced_custom_object(GROUP, VERSION, SYSTEM, "peprstores")["items"]
    except client.ApiException as error:
        assert error.status == 404, error
        return None
    found = [store["data"] for store in stores if store["metadata"]["name"].endswith(suffix)]
    return found[0] if found else None


def is_established(name):
    conditions = definitions.read_custom_resource_definition(name).status.conditions or []
    return any(one.type == "Established" and one.status == "True" for one in conditions)


def is_admitting(namespace):
    """`true` if the webhook changes a namespace, which is not stored."""
    labels = core.create_namespace(namespace, dry_run="All").metadata.labels
    return "remove-me" not in labels


def create_samples(samples):
    """Creates the samples. The webhook denies one of them. Another one would fetch data from the internet."""
    for sample in samples:
        name = sample["metadata"]["name"]
        if name == "example-5":
            continue
        try:
            utils.create_from_dict(api, sample)
            assert name != "example-evil-cm", "the webhook denies it"
        except utils.FailToCreateError as failure:
            (error,) = failure.api_exceptions
            assert name == "example-evil-cm" and "No evil CM annotations allowed." in error.body, error


def config_map(name, namespace=DEMO):
    return core.read_namespaced_config_map(name, namespace)


def samples_are_changed():
    """Checks what the mutating webhook made of the samples."""
    labels = core.read_namespace(DEMO).metadata.labels
    assert labels["keep-me"] == "please" and "remove-me" not in labels, labels
    for name in ["example-1", "example-2"]:
        metadata = config_map(name).metadata
        assert metadata.labels == {"pepr": "was-here"}, metadata
        assert metadata.annotations["pepr.dev"] == "annotations-work-too", metadata
    assert config_map("example-3").data["username"] == "kubernetes-admin"
    assert "pepr.dev/third" in config_map("example-4").metadata.labels
    assert "pepr.dev/third" in config_map("example-4a", OTHER).metadata.labels
    secret = core.read_namespaced_secret("secret-1", DEMO).data
    assert secret["magic"] == "Y2hhbmdlLXdpdGhvdXQtZW5jb2Rpbmc=", secret


def watches_act(operator):
    """Pepr applies a ConfigMap for a namespace, and keeps data in objects of its own definition."""

    def applied():
        maps = core.list_namespaced_config_map(OTHER).items
        return [one for one in maps if one.metadata.name == "pepr-ssa-demo"]

    (found,) = operator.wait("the ConfigMap is applied", applied)
    assert found.data == {"ns-uid": core.read_namespace(OTHER).metadata.uid}, found
    assert [one.operation for one in found.metadata.managed_fields] == ["Apply"], found

    def is_kept():
        data = stored("-store") or {}
        return data.get("hello-pepr-example-1") == "was-here" and "hello-pepr-watch-data" in data

    operator.wait("the data is kept", is_kept)


def unicorns_are_changed(operator):
    """The webhook changes objects of the definition among the samples."""
    operator.wait("the definition of the samples is established", lambda: is_established(f"unicorns.{GROUP}"))
    for name, message in [("example-1", "without"), ("example-2", "with")]:
        unicorn = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Unicorn",
            "metadata": {"name": name},
            "spec": {"message": "replace-me", "counter": 0},
        }
        made = custom.create_namespaced_custom_object(GROUP, VERSION, DEMO, "unicorns", unicorn)
        assert made["spec"]["message"] == f"Hello Pepr {message} type data!", made


def main(environment):
    directory = pathlib.Path(os.environ["HOME"]) / "module"
    directory.mkdir()
    samples = write_module(environment / "node_modules/pepr/src/templates", directory)
    (directory / "node_modules").symlink_to(environment / "node_modules")
    command = ["node", environment / "node_modules/pepr/dist/cli.js", "dev", "--confirm", "--host", "localhost"]
    # The command has no end of its own, so SIGTERM ends it.
    with driver.Operator(*command, directory=directory, ends_with=-15) as operator:
        operator.wait("Pepr has its definition and an object of it", lambda: stored("-store") is not None)
        # Until then, requests are admitted without the webhook.
        operator.wait("the webhook answers", lambda: is_admitting(samples[0]))
        create_samples(samples)
        samples_are_changed()
        unicorns_are_changed(operator)
        watches_act(operator)
    print("ok: Pepr")


if __name__ == "__main__":
    driver.limit_run_time()
    main(pathlib.Path(sys.argv[1]))
