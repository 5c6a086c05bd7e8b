// JavaScript client: typed and dynamic, against the server of KUBECONFIG.
// Every step asserts its results; the last line has the number of steps.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The client is in the directory of the test setup, not beside this file.
const require = createRequire(`${process.env.CLIENT_MODULES}/`);
const k8s = await import(pathToFileURL(require.resolve("@kubernetes/client-node")));

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = "javascript";
let steps = 0;

async function step(name, run) {
  console.log(name);
  await run();
  steps += 1;
}

/** The Status of a call that must fail, after its code and reason are checked. */
async function fails(code, reason, call) {
  const error = await call.then(
    () => assert.fail(`did not fail with ${code}`),
    (error) => error,
  );
  assert(error instanceof k8s.ApiException, `${error}`);
  const body = typeof error.body === "string" ? JSON.parse(error.body) : error.body;
  assert.deepEqual([error.code, body.kind, body.reason, body.code], [code, "Status", reason, code], `${error}`);
  return body;
}

const configMap = (name, metadata = {}, data = {}) => ({ metadata: { name, ...metadata }, data });

const deployment = (name) => ({
  metadata: { name },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { containers: [{ name: "c", image: "nginx", ports: [{ containerPort: 80 }] }] },
    },
  },
});

/** Collects events of ConfigMaps from a version on, until there are so many. */
async function events(resourceVersion, count, query = {}) {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const seen = [];
  let controller;
  const ended = new Promise((resolve, reject) => {
    const onEvent = (type, object) => {
      seen.push([type, object]);
      if (seen.length === count) controller.then((one) => one.abort());
    };
    const onEnd = (error) => (error && error.name !== "AbortError" ? reject(error) : resolve());
    controller = new k8s.Watch(config).watch(path, { resourceVersion, timeoutSeconds: 20, ...query }, onEvent, onEnd);
    controller.catch(reject);
  });
  await ended;
  return seen;
}

await step("discovers", async () => {
  assert.equal((await config.makeApiClient(k8s.VersionApi).getCode()).gitVersion, "v1.37.0");
  const groups = (await config.makeApiClient(k8s.ApisApi).getAPIVersions()).groups.map((group) => group.name);
  for (const name of ["apps", "batch", "autoscaling", "networking.k8s.io"]) assert(groups.includes(name), name);
  const deployments = (await apps.getAPIResources()).resources.find((resource) => resource.name === "deployments");
  assert.deepEqual(deployments.shortNames, ["deploy"]);
});

await step("creates and gets", async () => {
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  const made = await core.createNamespacedConfigMap({ namespace, body: configMap("one", {}, { a: "1" }) });
  assert(made.metadata.uid && made.metadata.creationTimestamp instanceof Date);
  const read = await core.readNamespacedConfigMap({ namespace, name: "one" });
  assert.deepEqual([read.data, read.metadata.uid], [{ a: "1" }, made.metadata.uid]);
  await core.createNamespacedConfigMap({ namespace, body: configMap("dry"), dryRun: "All" });
  await fails(404, "NotFound", core.readNamespacedConfigMap({ namespace, name: "dry" }));
});

await step("parses errors", async () => {
  const missing = await fails(404, "NotFound", core.readNamespacedConfigMap({ namespace, name: "none" }));
  assert.equal(missing.message, 'configmaps "none" not found');
  await fails(409, "AlreadyExists", core.createNamespacedConfigMap({ namespace, body: configMap("one") }));
  const old = await core.readNamespacedConfigMap({ namespace, name: "one" });
  old.metadata.labels = { tier: "first" };
  await core.replaceNamespacedConfigMap({ namespace, name: "one", body: old });
  await fails(409, "Conflict", core.replaceNamespacedConfigMap({ namespace, name: "one", body: old }));
  const bad = await fails(422, "Invalid", core.createNamespacedConfigMap({ namespace, body: configMap("Bad_Name") }));
  assert.equal(bad.details.causes[0].field, "metadata.name");
  await fails(400, "BadRequest", core.listNamespacedConfigMap({ namespace, labelSelector: "a in (b" }));
});

await step("lists with selectors and pages", async () => {
  for (let number = 0; number < 25; number += 1) {
    const labels = { parity: number % 2 ? "odd" : "even" };
    const name = `page-${String(number).padStart(2, "0")}`;
    await core.createNamespacedConfigMap({ namespace, body: configMap(name, { labels }) });
  }
  const list = (options) => core.listNamespacedConfigMap({ namespace, ...options });
  assert.equal((await list({ labelSelector: "parity=even" })).items.length, 13);
  assert.equal((await list({ labelSelector: "parity notin (even)", fieldSelector: "metadata.name!=one" })).items.length, 12);
  const names = [];
  let page;
  do {
    page = await list({ limit: 10, labelSelector: "parity", _continue: page?.metadata._continue });
    names.push(...page.items.map((item) => item.metadata.name));
  } while (page.metadata._continue);
  assert.equal(names.length, 25);
  assert.deepEqual(names, [...names].sort());
});

await step("watches and resumes", async () => {
  const start = (await core.listNamespacedConfigMap({ namespace })).metadata.resourceVersion;
  for (const a of ["2", "3", "4"]) {
    const body = configMap("one", {}, { a });
    await core.replaceNamespacedConfigMap({ namespace, name: "one", body });
  }
  const seen = await events(start, 3);
  assert.deepEqual(seen.map(([type, object]) => [type, object.data.a]), [["MODIFIED", "2"], ["MODIFIED", "3"], ["MODIFIED", "4"]]);
  const resumed = await events(seen[0][1].metadata.resourceVersion, 2);
  assert.deepEqual(resumed.map(([, object]) => object.data.a), ["3", "4"]);
});

await step("follows with an informer", async () => {
  const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: "informed" });
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const informer = k8s.makeInformer(config, path, list, "informed");
  const next = (verb) => new Promise((resolve) => informer.on(verb, resolve));
  const failed = new Promise((_, reject) => informer.on("error", reject));
  const connected = next("connect");
  const [added, updated, deleted] = ["add", "update", "delete"].map(next);
  await informer.start();
  await Promise.race([connected, failed]);
  await core.createNamespacedConfigMap({ namespace, body: configMap("informed", { labels: { informed: "yes" } }) });
  assert.equal((await Promise.race([added, failed])).metadata.name, "informed");
  const body = [{ op: "add", path: "/data", value: { b: "2" } }];
  await core.patchNamespacedConfigMap({ namespace, name: "informed", body });
  assert.deepEqual((await Promise.race([updated, failed])).data, { b: "2" });
  await core.deleteNamespacedConfigMap({ namespace, name: "informed" });
  assert.equal((await Promise.race([deleted, failed])).metadata.name, "informed");
  await informer.stop();
});

await step("gets 410 for a compacted version", async () => {
  // The first commit has been compacted.
  const seen = await events("1", 1);
  assert.deepEqual([seen[0][0], seen[0][1].code, seen[0][1].reason], ["ERROR", 410, "Expired"]);
});

await step("patches in every form", async () => {
  await apps.createNamespacedDeployment({ namespace, body: deployment("web") });
  const patch = (strategy, body, options) =>
    apps.patchNamespacedDeployment({ namespace, name: "web", body, ...options }, k8s.setHeaderOptions("Content-Type", strategy));
  const names = (one) => one.spec.template.spec.containers.map((container) => container.name).sort();
  const sidecar = { spec: { template: { spec: { containers: [{ name: "side", image: "busybox" }] } } } };
  assert.deepEqual(names(await patch(k8s.PatchStrategy.StrategicMergePatch, sidecar)), ["c", "side"]);
  assert.deepEqual(names(await patch(k8s.PatchStrategy.MergePatch, sidecar)), ["side"]);
  const replicas = [{ op: "replace", path: "/spec/replicas", value: 5 }];
  assert.equal((await patch(k8s.PatchStrategy.JsonPatch, replicas)).spec.replicas, 5);
  const applied = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", labels: { applied: "yes" } } };
  const after = await patch(k8s.PatchStrategy.ServerSideApply, applied, { fieldManager: "javascript", force: true });
  assert.equal(after.metadata.labels.applied, "yes");
  assert(after.metadata.managedFields.some((entry) => entry.manager === "javascript" && entry.operation === "Apply"));
  const rival = { ...applied, spec: { replicas: 7 } };
  const conflict = await fails(409, "Conflict", patch(k8s.PatchStrategy.ServerSideApply, rival, { fieldManager: "rival" }));
  assert(conflict.details.causes.some((cause) => cause.field === ".spec.replicas"), JSON.stringify(conflict));
  const test = [{ op: "test", path: "/spec/replicas", value: 1 }];
  await fails(422, "Invalid", patch(k8s.PatchStrategy.JsonPatch, test));
});

await step("scales and writes status apart", async () => {
  const scale = await apps.readNamespacedDeploymentScale({ namespace, name: "web" });
  assert.deepEqual([scale.spec.replicas, scale.status.selector], [5, "app=web"]);
  scale.spec.replicas = 3;
  await apps.replaceNamespacedDeploymentScale({ namespace, name: "web", body: scale });
  const current = await apps.readNamespacedDeployment({ namespace, name: "web" });
  assert.equal(current.spec.replicas, 3);
  current.status = { replicas: 3, observedGeneration: current.metadata.generation };
  const written = await apps.replaceNamespacedDeploymentStatus({ namespace, name: "web", body: current });
  assert.deepEqual([written.status.replicas, written.metadata.generation], [3, current.metadata.generation]);
  written.status = {};
  const ignored = await apps.replaceNamespacedDeployment({ namespace, name: "web", body: written });
  assert.equal(ignored.status.replicas, 3);
});

await step("deletes with options", async () => {
  const { metadata } = await core.readNamespacedConfigMap({ namespace, name: "one" });
  const remove = (uid) => core.deleteNamespacedConfigMap({ namespace, name: "one", body: { preconditions: { uid } } });
  await fails(409, "Conflict", remove("another"));
  assert.equal((await remove(metadata.uid)).status, "Success");
  await apps.deleteNamespacedDeployment({ namespace, name: "web", propagationPolicy: "Foreground" });
  const held = await apps.readNamespacedDeployment({ namespace, name: "web" });
  assert.deepEqual(held.metadata.finalizers, ["foregroundDeletion"]);
  await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: "parity=odd" });
  assert.equal((await core.listNamespacedConfigMap({ namespace, labelSelector: "parity" })).items.length, 13);
});

await step("works without types", async () => {
  const objects = k8s.KubernetesObjectApi.makeApiClient(config);
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "front", namespace },
    spec: { selector: { app: "web" }, ports: [{ port: 80 }] },
  };
  const made = await objects.create(service);
  assert(made.spec.clusterIP && made.spec.ports[0].targetPort === 80);
  const header = { apiVersion: "v1", kind: "Service", metadata: { name: "front", namespace } };
  const labelled = { ...header, metadata: { ...header.metadata, labels: { a: "b" } } };
  assert.equal((await objects.patch(labelled)).metadata.labels.a, "b");
  const applied = { ...header, metadata: { ...header.metadata, annotations: { by: "apply" } } };
  const apply = k8s.PatchStrategy.ServerSideApply;
  const after = await objects.patch(applied, undefined, undefined, "dynamic", true, apply);
  assert.equal(after.metadata.annotations.by, "apply");
  const listed = await objects.list("v1", "Service", namespace, undefined, undefined, undefined, undefined, "a=b");
  assert.deepEqual(listed.items.map((item) => item.metadata.name), ["front"]);
  await objects.delete(header);
  await fails(404, "NotFound", objects.read(header));
});

console.log(`ok: ${steps} steps`);
process.exit(0);
