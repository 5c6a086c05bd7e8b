//! Writes that nodes may make, rule by rule.

use setpoint_api::{Identity, json, resource_types};

use super::super::testing::snapshot_with;
use super::*;
use crate::pipeline::WriteOrigin;

/// Objects of the store: nodes n and m, a pod on each, with claim, volume, driver and account.
fn stored() -> Snapshot {
    snapshot_with(&[
        ("", "v1", "nodes", r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","uid":"un"}}"#),
        ("", "v1", "nodes", r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"m","uid":"um"}}"#),
        ("", "v1", "pods", &pod_text("p", "n", "")),
        ("", "v1", "pods", &pod_text("other", "m", "")),
        ("", "v1", "pods", &pod_text("mirror", "n", r#","annotations":{"kubernetes.io/config.mirror":"x"}"#)),
        (
            "",
            "v1",
            "serviceaccounts",
            r#"{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"sa","namespace":"a","uid":"usa"}}"#,
        ),
        (
            "",
            "v1",
            "persistentvolumeclaims",
            r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"c","namespace":"a"},
                "spec":{"volumeName":"v"}}"#,
        ),
        (
            "",
            "v1",
            "persistentvolumes",
            r#"{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"v"},
                "spec":{"csi":{"driver":"d","volumeHandle":"h"}}}"#,
        ),
        (
            "storage.k8s.io",
            "v1",
            "csidrivers",
            r#"{"kind":"CSIDriver","apiVersion":"storage.k8s.io/v1","metadata":{"name":"d"},
                "spec":{"tokenRequests":[{"audience":"csi"}]}}"#,
        ),
    ])
}

fn pod_text(name: &str, node: &str, more: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1",
        "metadata":{{"name":"{name}","namespace":"a","uid":"u-{name}"{more}}},
        "spec":{{"nodeName":"{node}","serviceAccountName":"sa","volumes":[
            {{"name":"t","projected":{{"sources":[{{"serviceAccountToken":{{"path":"t","audience":"vault"}}}},
                {{"podCertificate":{{"signerName":"x.org/signer"}}}}]}}}},
            {{"name":"c","persistentVolumeClaim":{{"claimName":"c"}}}}]}},
        "status":{{"resourceClaimStatuses":[{{"name":"r","resourceClaimName":"rc"}}]}}}}"#
    )
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// Write of `resource`, such as `pods/status` or `storage.k8s.io|csinodes`, by the node n.
struct Case<'a> {
    operation: Operation,
    resource: &'a str,
    at: (&'a str, &'a str),
    new: Value,
    old: Option<Value>,
    permission: &'a str,
}

impl<'a> Case<'a> {
    fn new(operation: Operation, resource: &'a str, at: (&'a str, &'a str), new: Value) -> Case<'a> {
        Case { operation, resource, at, new, old: None, permission: "" }
    }

    fn with_old(self, old: Value) -> Case<'a> {
        Case { old: Some(old), ..self }
    }

    fn result_for(&self, user: &str) -> Result<(), Status> {
        let (group, resource) = self.resource.split_once('|').unwrap_or(("", self.resource));
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let resource_type = resource_types::find(group, "v1", plural).unwrap();
        let writer = WriteOrigin {
            identity: Identity::new(user, vec!["system:nodes".to_owned()]),
            manager: "kubelet".into(),
            dry_run: false,
            reconciler: String::new(),
            takes_over: false,
        };
        let request = AdmissionRequest::new(self.operation, resource_type, self.at, &writer)
            .for_subresource(subresource);
        let permits = |attributes: &Attributes<'_>| {
            let request = &attributes.request;
            let text =
                format!("{} {} {}/{}", request.verb, request.resource, request.namespace, request.name);
            if text == self.permission {
                Decision::Allowed(String::new())
            } else {
                Decision::NoOpinion(String::new())
            }
        };
        check(&request, &self.new, self.old.as_ref(), &stored(), &permits)
    }

    #[track_caller]
    fn allowed(&self) {
        assert_eq!(self.result_for("system:node:n"), Ok(()));
    }

    #[track_caller]
    fn forbidden(&self, why: &str) {
        let status = self.result_for("system:node:n").unwrap_err();
        let message = status.message.to_string();
        let (_, found) = message.split_once(" is forbidden: ").unwrap_or(("", &message));
        assert_eq!((found, status.http_code()), (why, 403));
    }

    #[track_caller]
    fn fails(&self, code: u16, message: &str) {
        let status = self.result_for("system:node:n").unwrap_err();
        assert_eq!((status.http_code(), &*status.message), (code, message));
    }
}

use Operation::{Create, Delete, Update};

#[test]
fn other_users_are_not_restricted_and_nameless_nodes_write_nothing() {
    let case =
        Case::new(Delete, "pods", ("a", "other"), Value::Null).with_old(parse(&pod_text("other", "m", "")));
    assert_eq!(case.result_for("jane"), Ok(()));
    let message = case.result_for("system:node:").unwrap_err().message.to_string();
    assert_eq!(message, r#"pods "other" is forbidden: could not determine node from user "system:node:""#);
}

fn mirror(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = parse(
        r#"{"metadata":{"name":"x","namespace":"a","annotations":{"kubernetes.io/config.mirror":"h"},
            "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"un","controller":true}]},
            "spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#,
    );
    change(&mut pod);
    pod
}

#[test]
fn node_creates_mirror_pods_of_its_own_that_refer_to_nothing() {
    let create = |pod: Value| Case::new(Create, "pods", ("a", "x"), pod);
    let owner = |pod: &mut Value, field: &str, value: Value| {
        let owners = pod.at_mut(&["metadata", "ownerReferences"]).unwrap().as_list_mut().unwrap();
        owners[0].make_map().insert(field, value);
    };
    create(mirror(|_| {})).allowed();
    create(mirror(|pod| drop(pod.ensure_map("metadata").remove("annotations")))).forbidden(
        "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n\" can only create mirror pods",
    );
    create(mirror(|pod| drop(pod.ensure_map("spec").insert("nodeName", "m"))))
        .forbidden("node \"n\" can only create pods with spec.nodeName set to itself");
    create(mirror(|pod| drop(pod.ensure_map("metadata").remove("ownerReferences"))))
        .forbidden("node \"n\" can only create pods with an owner reference set to itself");
    create(mirror(|pod| {
        let owners = pod.at_mut(&["metadata", "ownerReferences"]).unwrap().as_list_mut().unwrap();
        owners.push(owners[0].clone());
    }))
    .forbidden("node \"n\" can only create pods with a single owner reference set to itself");
    for (field, value, why) in [
        ("name", Value::from("m"), "node \"n\" can only create pods with an owner reference set to itself"),
        (
            "controller",
            Value::Bool(false),
            "node \"n\" can only create pods with a controller owner reference set to itself",
        ),
        (
            "blockOwnerDeletion",
            Value::Bool(true),
            "node \"n\" must not set blockOwnerDeletion on an owner reference",
        ),
        ("uid", Value::from("x"), "node n UID mismatch: expected x got un"),
    ] {
        create(mirror(|pod| owner(pod, field, value))).forbidden(why);
    }
    create(mirror(|pod| drop(pod.ensure_map("spec").insert("serviceAccountName", "sa"))))
        .forbidden("node \"n\" can not create pods that reference serviceaccounts");
    create(mirror(|pod| {
        pod.ensure_map("spec").insert("volumes", vec![parse(r#"{"name":"v","secret":{"secretName":"s"}}"#)]);
    }))
    .forbidden("node \"n\" can not create pods that reference secrets");
    create(mirror(|pod| {
        pod.ensure_map("spec").insert("volumes", vec![parse(r#"{"name":"v","new":{}}"#)]);
    }))
    .forbidden("error checking mirror pod for API references: unknown volume type for volume  \"v\"");
}

#[test]
fn node_deletes_its_own_pods_and_updates_none() {
    let delete = |name: &'static str, node: &str| {
        Case::new(Delete, "pods", ("a", name), Value::Null).with_old(parse(&pod_text(name, node, "")))
    };
    delete("p", "n").allowed();
    delete("other", "m").forbidden("node \"n\" can only delete pods with spec.nodeName set to itself");
    let pod = parse(&pod_text("p", "n", ""));
    Case::new(Update, "pods", ("a", "p"), pod.clone())
        .with_old(pod.clone())
        .forbidden("unexpected operation \"UPDATE\", node \"n\" can only create and delete mirror pods");
    Case::new(Create, "pods/binding", ("a", "p"), pod)
        .forbidden("unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed");
}

#[test]
fn node_updates_the_status_of_its_own_pods() {
    let update = |node: &str, change: &dyn Fn(&mut Value)| {
        let old = parse(&pod_text("p", node, ""));
        let mut new = old.clone();
        change(&mut new);
        Case::new(Update, "pods/status", ("a", "p"), new).with_old(old)
    };
    update("n", &|pod| drop(pod.ensure_map("status").insert("phase", "Running"))).allowed();
    update("m", &|_| {})
        .forbidden("node \"n\" can only update pod status for pods with spec.nodeName set to itself");
    update("n", &|pod| drop(pod.ensure_map("metadata").ensure_map("labels").insert("a", "b")))
        .forbidden("node \"n\" cannot update labels through pod status");
    update("n", &|pod| drop(pod.ensure_map("metadata").insert("labels", Value::map()))).allowed();
    update("n", &|pod| drop(pod.ensure_map("status").remove("resourceClaimStatuses")))
        .forbidden("node \"n\" cannot update resource claim statues");
    update("n", &|pod| {
        pod.ensure_map("status").ensure_map("extendedResourceClaimStatus").insert("resourceClaimName", "x");
    })
    .forbidden("node \"n\" cannot update extended resource claim status");
    update("n", &|pod| {
        let one = parse(r#"{"resourceClaimName":"x"}"#);
        pod.ensure_map("status").insert("nodeAllocatableResourceClaimStatuses", vec![one]);
    })
    .forbidden("node \"n\" cannot update node allocatable resource claim statuses");
    Case::new(Create, "pods/status", ("a", "p"), Value::Null).forbidden("unexpected operation \"CREATE\"");
}

#[test]
fn node_evicts_its_own_pods() {
    let evict = |name| Case::new(Create, "pods/eviction", ("a", name), Value::map());
    evict("p").allowed();
    evict("other").forbidden("node n can only evict pods with spec.nodeName set to itself");
    evict("gone").fails(404, "pods \"gone\" not found");
    evict("").forbidden("could not determine pod from request data");
}

#[test]
fn node_updates_sizes_and_conditions_of_claims() {
    let claim = r#"{"metadata":{"name":"c","namespace":"a","resourceVersion":"3"},
        "spec":{"volumeName":"v"},"status":{"phase":"Bound"}}"#;
    let update = |change: &dyn Fn(&mut Value)| {
        let mut new = parse(claim);
        change(&mut new);
        Case::new(Update, "persistentvolumeclaims/status", ("a", "c"), new).with_old(parse(claim))
    };
    update(&|claim| {
        let status = claim.ensure_map("status");
        status.ensure_map("capacity").insert("storage", "2Gi");
        status.insert("conditions", vec![parse(r#"{"type":"FileSystemResizePending"}"#)]);
        status.ensure_map("allocatedResources").insert("storage", "2Gi");
        status.ensure_map("allocatedResourceStatuses").insert("storage", "NodeResizePending");
        claim.ensure_map("metadata").remove("resourceVersion");
        claim.ensure_map("metadata").ensure_map("labels");
    })
    .allowed();
    let words =
        "node \"n\" is not allowed to update fields other than status.quantity and status.conditions: ";
    update(&|claim| drop(claim.ensure_map("status").insert("phase", "Lost")))
        .forbidden(&format!("{words}status.phase"));
    update(&|claim| {
        claim.ensure_map("metadata").ensure_map("labels").insert("a", "b");
        claim.ensure_map("spec").insert("volumeName", "w");
    })
    .forbidden(&format!("{words}metadata.labels, spec.volumeName"));
    Case::new(Update, "persistentvolumeclaims", ("a", "c"), parse(claim))
        .with_old(parse(claim))
        .forbidden("may only update PVC status");
}

fn node(name: &str, labels: &str, spec: &str) -> Value {
    parse(&format!(r#"{{"metadata":{{"name":"{name}","labels":{labels}}},"spec":{spec}}}"#))
}

#[test]
fn node_registers_itself_with_its_own_labels() {
    let create = |name: &'static str, labels: &str, spec: &str| {
        Case::new(Create, "nodes", ("", name), node(name, labels, spec))
    };
    create(
        "n",
        r#"{"kubernetes.io/hostname":"n","example.com/x":"y","node.kubernetes.io/simulated":""}"#,
        "{}",
    )
    .allowed();
    create("n", "{}", r#"{"taints":[{"key":"a","effect":"NoSchedule"}]}"#).allowed();
    create("m", "{}", "{}").forbidden("node \"n\" is not allowed to modify node \"m\"");
    create("n", "{}", r#"{"configSource":{}}"#)
        .forbidden("node \"n\" is not allowed to create pods with a non-nil configSource");
    create("n", r#"{"node-role.kubernetes.io/x":"","node-restriction.kubernetes.io/a":""}"#, "{}").forbidden(
        "node \"n\" is not allowed to set the following labels: node-restriction.kubernetes.io/a, node-role.kubernetes.io/x",
    );
}

#[test]
fn node_changes_neither_its_taints_nor_its_owners_nor_restricted_labels() {
    let old = || {
        let mut old = node(
            "n",
            r#"{"node-role.kubernetes.io/x":"","a":"b"}"#,
            r#"{"taints":[{"key":"a","effect":"NoSchedule"}]}"#,
        );
        old.ensure_map("metadata").insert("ownerReferences", vec![parse(r#"{"name":"o"}"#)]);
        old
    };
    for resource in ["nodes", "nodes/status"] {
        let update = |change: &dyn Fn(&mut Value)| {
            let mut new = old();
            change(&mut new);
            Case::new(Update, resource, ("", "n"), new).with_old(old())
        };
        update(&|node| drop(node.ensure_map("metadata").ensure_map("labels").insert("a", "c"))).allowed();
        update(&|node| drop(node.ensure_map("status").insert("phase", "x"))).allowed();
        update(&|node| drop(node.ensure_map("spec").remove("taints")))
            .forbidden("node \"n\" is not allowed to modify taints");
        update(&|node| drop(node.ensure_map("metadata").remove("ownerReferences")))
            .forbidden("node \"n\" is not allowed to modify ownerReferences");
        update(&|node| {
            drop(node.ensure_map("metadata").ensure_map("labels").remove("node-role.kubernetes.io/x"))
        })
        .forbidden("is not allowed to modify labels: node-role.kubernetes.io/x");
        update(&|node| _ = node.ensure_map("spec").ensure_map("configSource"))
            .forbidden("node \"n\" is not allowed to update configSource to a new non-nil configSource");
    }
    Case::new(Delete, "nodes", ("", "n"), Value::Null).with_old(old()).allowed();
    Case::new(Delete, "nodes", ("", "m"), Value::Null)
        .with_old(node("m", "{}", "{}"))
        .forbidden("node \"n\" is not allowed to modify node \"m\"");
}

#[test]
fn lease_csi_node_and_slices_belong_to_the_node() {
    let named = |name: &str| parse(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
    let leases = "coordination.k8s.io|leases";
    for operation in [Create, Update, Delete] {
        Case::new(operation, leases, ("kube-node-lease", "n"), named("n")).allowed();
        Case::new(operation, leases, ("kube-node-lease", "m"), named("m"))
            .forbidden("can only access node lease with the same name as the requesting node");
        Case::new(operation, leases, ("a", "n"), named("n"))
            .forbidden("can only access leases in the \"kube-node-lease\" system namespace");
        Case::new(operation, "storage.k8s.io|csinodes", ("", "n"), named("n")).allowed();
        Case::new(operation, "storage.k8s.io|csinodes", ("", "m"), named("m"))
            .forbidden("can only access CSINode with the same name as the requesting node");
    }
    let slices = "resource.k8s.io|resourceslices";
    let slice =
        |node: &str| parse(&format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"nodeName":"{node}"}}}}"#));
    Case::new(Create, slices, ("", "s"), slice("n")).allowed();
    Case::new(Create, slices, ("", "s"), slice("m"))
        .forbidden("can only create ResourceSlice with the same NodeName as the requesting node");
    Case::new(Create, slices, ("", "s"), named("s"))
        .forbidden("can only create ResourceSlice with the same NodeName as the requesting node");
    Case::new(Delete, slices, ("", "s"), Value::Null).with_old(slice("n")).allowed();
    Case::new(Delete, slices, ("", "s"), Value::Null)
        .with_old(slice("m"))
        .forbidden("can only delete ResourceSlice with the same NodeName as the requesting node");
}

#[test]
fn token_is_bound_to_a_pod_on_the_node() {
    let token = |reference: &str, audiences: &str| {
        let text = format!(r#"{{"spec":{{"boundObjectRef":{reference},"audiences":{audiences}}}}}"#);
        Case::new(Create, "serviceaccounts/token", ("a", "sa"), parse(&text))
    };
    let bound = |name: &str, uid: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"{name}","uid":"{uid}"}}"#)
    };
    token(&bound("p", "u-p"), r#"["vault"]"#).allowed();
    token(&bound("p", "u-p"), r#"["csi"]"#).allowed();
    token("null", "[]").forbidden("node requested token not bound to a pod");
    token(r#"{"apiVersion":"v1","kind":"Secret","name":"s","uid":"u"}"#, "[]")
        .forbidden("node requested token not bound to a pod");
    token(&bound("p", ""), "[]").forbidden("node requested token with a pod binding without a uid");
    token(&bound("gone", "u"), "[]").fails(404, "pods \"gone\" not found");
    token(&bound("p", "x"), "[]").forbidden(
        "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
    );
    token(&bound("other", "u-other"), "[]")
        .forbidden("node requested token bound to a pod scheduled on a different node");
    token(&bound("p", "u-p"), r#"["a","b"]"#).forbidden("node may only request 0 or 1 audiences");
    token(&bound("p", "u-p"), "[]")
        .forbidden("system:node:n is not authorized to request tokens for audience \"\"");
    let other = token(&bound("p", "u-p"), r#"["x"]"#);
    other.forbidden("system:node:n is not authorized to request tokens for audience \"x\"");
    Case { permission: "request-serviceaccounts-token-audience x a/sa", ..other }.allowed();
    Case::new(Create, "serviceaccounts", ("a", "sa"), Value::map()).allowed();
}

#[test]
fn pod_certificate_is_requested_for_a_pod_on_the_node() {
    let request = |change: &[(&str, &str)]| {
        let mut request = parse(
            r#"{"spec":{"signerName":"x.org/signer","nodeName":"n","nodeUID":"un","podName":"p","podUID":"u-p",
                "serviceAccountName":"sa","serviceAccountUID":"usa"}}"#,
        );
        change.iter().for_each(|(field, text)| drop(request.ensure_map("spec").insert(*field, *text)));
        Case::new(Create, "certificates.k8s.io|podcertificaterequests", ("a", "r"), request)
    };
    request(&[]).allowed();
    request(&[("nodeName", "m")])
        .forbidden("PodCertificateRequest.Spec.NodeName=\"m\", which is not the requesting node \"n\"");
    request(&[("nodeUID", "x")]).fails(
        500,
        "PodCertificateRequest for pod \"a/p\" names node UID \"x\", inconsistent with the running node (\"un\")",
    );
    request(&[("podName", "gone")]).fails(
        500,
        "while retrieving pod \"a/gone\" named in the PodCertificateRequest: pods \"gone\" not found",
    );
    request(&[("podUID", "x")]).fails(
        500,
        "PodCertificateRequest for pod \"a/p\" contains pod UID (\"x\") which differs from running pod \"u-p\"",
    );
    request(&[("podName", "other"), ("podUID", "u-other")])
        .forbidden("pod \"a/other\" is not running on node \"n\" named in the PodCertificateRequest");
    request(&[("podName", "mirror"), ("podUID", "u-mirror")]).forbidden("pod \"a/mirror\" is a mirror pod");
    request(&[("serviceAccountName", "x")]).forbidden(
        "PodCertificateRequest for pod \"a/p\" contains serviceAccountName (\"x\") that differs from running pod (\"sa\")",
    );
    request(&[("serviceAccountUID", "x")]).fails(
        500,
        "PodCertificateRequest for pod \"a/p\" names service account UID \"x\", which differs from the running service account (\"usa\")",
    );
    let other = request(&[("signerName", "x.org/other")]);
    other
        .forbidden("pod \"a/p\" does not mount a podCertificate projected volume for signer \"x.org/other\"");
    Case { permission: "request-serviceaccounts-podcertificate-signer x.org:other a/sa", ..other }.allowed();
}

#[test]
fn signing_request_of_a_kubelet_names_the_node() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, DnType, KeyPair};

    let create = |name: &str, signer: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let text = format!(r#"{{"spec":{{"signerName":"{signer}","request":"{}"}}}}"#, STANDARD.encode(pem));
        Case::new(Create, "certificates.k8s.io|certificatesigningrequests", ("", "r"), parse(&text))
    };
    for signer in KUBELET_SIGNERS_OF_TESTS {
        create("system:node:n", signer).allowed();
        create("system:node:m", signer).forbidden("can only create a node CSR with CN=system:node:n");
    }
    create("system:node:m", "example.com/s").allowed();
    let mut broken = create("system:node:n", KUBELET_SIGNERS_OF_TESTS[0]);
    broken.new.ensure_map("spec").insert("request", "AAAA");
    let message = broken.result_for("system:node:n").unwrap_err().message.to_string();
    assert!(message.contains("is forbidden: unable to parse csr: "), "{message}");
}

const KUBELET_SIGNERS_OF_TESTS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];
