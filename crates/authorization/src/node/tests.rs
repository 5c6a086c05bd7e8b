//! Decisions on requests of nodes, rule by rule.

mod references;

use setpoint_api::RequestInfo;

use super::*;
use crate::SelectorRequirement;

fn node(name: &str) -> Identity {
    Identity::new(format!("system:node:{name}"), vec![GROUP.to_owned(), "system:authenticated".to_owned()])
}

fn graph() -> NodeGraph {
    let mut graph = NodeGraph::default();
    let objects = [
        (VertexType::Secret, "s"),
        (VertexType::ConfigMap, "c"),
        (VertexType::Claim, "pvc"),
        (VertexType::ResourceClaim, "rc"),
        (VertexType::ServiceAccount, "sa"),
    ];
    let objects = objects.map(|(vertex_type, name)| (vertex_type, Box::from(name))).into();
    graph.set_pod("a/p", Some(&PodReferences { node: "n".into(), objects }));
    let secrets = [("x".into(), "vs".into())].into();
    graph.set_volume("pv", Some(&VolumeReferences { claim: ("a".into(), "pvc".into()), secrets }));
    graph.set_owned(VertexType::VolumeAttachment, "va", Some("n"));
    graph.set_owned(VertexType::ResourceSlice, "slice", Some("n"));
    graph.set_owned(VertexType::PodCertificateRequest, "a/pcr", Some("n"));
    graph
}

/// Resource `group/plural/subresource`, as `pods`, `pods/status` or `apps|deployments`.
fn decide(user: &Identity, verb: &str, resource: &str, at: &str, selected: Option<&str>) -> Decision {
    let (group, resource) = resource.split_once('|').unwrap_or(("", resource));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (namespace, name) = at.split_once('/').unwrap_or(("", at));
    let request = RequestInfo {
        is_resource: true,
        verb,
        group,
        version: "v1",
        resource,
        subresource,
        namespace,
        name,
        path: "",
    };
    let requirement = selected.map(|value| SelectorRequirement {
        key: "spec.nodeName".to_owned(),
        operator: "In",
        values: vec![value.to_owned()],
    });
    let selector: Vec<SelectorRequirement> = requirement.into_iter().collect();
    let attributes = Attributes { user, request, field_selector: &selector, label_selector: &[] };
    authorize(&graph(), &attributes)
}

fn assert_allowed(verbs: &[&str], resource: &str, at: &str) {
    for verb in verbs {
        let decided = decide(&node("n"), verb, resource, at, None);
        assert_eq!(decided, Decision::Allowed(String::new()), "{verb} {resource} {at}");
    }
}

fn assert_no_opinion(verbs: &[&str], resource: &str, at: &str, reason: &str) {
    for verb in verbs {
        let decided = decide(&node("n"), verb, resource, at, None);
        assert_eq!(decided, Decision::NoOpinion(reason.to_owned()), "{verb} {resource} {at}");
    }
}

const UNRELATED: &str = "no relationship found between node 'n' and this object";
const ALL_VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

#[test]
fn only_members_of_the_group_with_a_name_are_nodes() {
    let stranger = Identity::new("system:node:n", vec!["system:authenticated".to_owned()]);
    let person = Identity::new("n", vec![GROUP.to_owned()]);
    for user in [stranger, person] {
        assert_eq!(node_name(&user), None);
        assert_eq!(decide(&user, "get", "secrets", "a/s", None), Decision::NoOpinion(String::new()));
    }
    let unnamed = decide(&node(""), "get", "secrets", "a/s", None);
    assert_eq!(unnamed, Decision::NoOpinion("unknown node for user \"system:node:\"".to_owned()));
}

#[test]
fn secrets_and_config_maps_are_read_one_by_one() {
    for (resource, name) in [("secrets", "a/s"), ("configmaps", "a/c"), ("secrets", "x/vs")] {
        assert_allowed(&["get", "list", "watch"], resource, name);
        let reason = "can only read resources of this type";
        assert_no_opinion(
            &["create", "update", "patch", "delete", "deletecollection"],
            resource,
            name,
            reason,
        );
        assert_no_opinion(&["get", "list", "watch"], resource, "a/other", UNRELATED);
        assert_no_opinion(&["get", "list", "watch"], resource, "b/s", UNRELATED);
        assert_no_opinion(&["list", "watch"], resource, "a/", "No Object name found");
        let reason = "can only read namespaced object of this type";
        assert_no_opinion(&["list", "watch"], resource, "", reason);
    }
    assert_no_opinion(&["get"], "secrets/x", "a/s", "cannot read subresource");
    let other = decide(&node("m"), "get", "secrets", "a/s", None);
    assert_eq!(
        other,
        Decision::NoOpinion("no relationship found between node 'm' and this object".to_owned())
    );
}

#[test]
fn volumes_claims_and_attachments_are_got_one_by_one() {
    for (resource, name) in [
        ("persistentvolumeclaims", "a/pvc"),
        ("persistentvolumes", "pv"),
        ("resource.k8s.io|resourceclaims", "a/rc"),
        ("storage.k8s.io|volumeattachments", "va"),
    ] {
        assert_allowed(&["get"], resource, name);
        let reason = "can only get individual resources of this type";
        assert_no_opinion(&ALL_VERBS[1..], resource, name, reason);
        assert_no_opinion(&["get"], resource, &name.replace(|c| c != 'a' && c != '/', "o"), UNRELATED);
        assert_no_opinion(&["get"], &format!("{resource}/x"), name, "cannot get subresource");
    }
}

#[test]
fn claim_status_is_updated_by_nodes_that_use_the_claim() {
    assert_allowed(&["update", "patch"], "persistentvolumeclaims/status", "a/pvc");
    assert_no_opinion(&["update"], "persistentvolumeclaims/status", "a/other", UNRELATED);
    let reason = "can only get/update/patch this type";
    assert_no_opinion(&["get", "create", "delete"], "persistentvolumeclaims/status", "a/pvc", reason);
}

#[test]
fn tokens_are_created_for_accounts_of_pods_on_the_node() {
    assert_allowed(&["create"], "serviceaccounts/token", "a/sa");
    assert_allowed(&["get"], "serviceaccounts", "a/sa");
    assert_no_opinion(&["create"], "serviceaccounts/token", "a/other", UNRELATED);
    assert_no_opinion(&["get"], "serviceaccounts", "a/other", UNRELATED);
    let reason = "can only create tokens for individual service accounts";
    assert_no_opinion(&["list", "watch", "update", "delete"], "serviceaccounts", "a/sa", reason);
    assert_no_opinion(&["create"], "serviceaccounts/token", "a/", reason);
    let reason = "can only create token subresource of serviceaccount";
    assert_no_opinion(&["create"], "serviceaccounts", "a/sa", reason);
}

#[test]
fn lease_and_csi_node_are_those_of_the_node() {
    let own = ["get", "create", "update", "patch", "delete"];
    let leases = "coordination.k8s.io|leases";
    assert_allowed(&own, leases, "kube-node-lease/n");
    assert_allowed(&["create"], leases, "kube-node-lease/");
    let reason = "can only get, create, update, patch, or delete a node lease";
    assert_no_opinion(&["list", "watch", "deletecollection"], leases, "kube-node-lease/n", reason);
    let reason = "can only access leases in the \"kube-node-lease\" system namespace";
    assert_no_opinion(&own, leases, "kube-system/n", reason);
    let reason = "can only access node lease with the same name as the requesting node";
    assert_no_opinion(&["get", "update", "patch", "delete"], leases, "kube-node-lease/m", reason);
    let csi = "storage.k8s.io|csinodes";
    assert_allowed(&own, csi, "n");
    let reason = "can only get, create, update, patch, or delete a CSINode";
    assert_no_opinion(&["list", "watch", "deletecollection"], csi, "n", reason);
    let reason = "can only access CSINode with the same name as the requesting node";
    assert_no_opinion(&["get", "update", "patch", "delete"], csi, "m", reason);
    let reason = "CSINode status access requires CSIVolumeHealth feature";
    assert_no_opinion(&own, &format!("{csi}/status"), "n", reason);
    assert_no_opinion(&own, &format!("{csi}/x"), "n", "cannot authorize CSINode subresources");
}

#[test]
fn slices_and_certificate_requests_are_selected_by_node() {
    let slices = "resource.k8s.io|resourceslices";
    assert_allowed(&["get", "update", "patch", "delete"], slices, "slice");
    assert_allowed(&["create"], slices, "");
    assert_no_opinion(&["get", "update", "patch", "delete"], slices, "other", UNRELATED);
    let reason = "can only list/watch/deletecollection resourceslices with nodeName field selector";
    assert_no_opinion(&["list", "watch", "deletecollection"], slices, "", reason);
    assert_no_opinion(
        &["get"],
        &format!("{slices}/x"),
        "slice",
        "cannot authorize ResourceSlice subresources",
    );
    let requests = "certificates.k8s.io|podcertificaterequests";
    assert_allowed(&["get"], requests, "a/pcr");
    assert_allowed(&["create"], requests, "a/");
    assert_no_opinion(&["get"], requests, "a/other", UNRELATED);
    let reason = "can only list/watch podcertificaterequests with nodeName field selector";
    assert_no_opinion(&["list", "watch"], requests, "a/", reason);
    assert_no_opinion(&["delete"], requests, "a/pcr", "nodes may not delete podcertificaterequests");
    let reason = "nodes may not access the status subresource of PodCertificateRequests";
    assert_no_opinion(&["update"], &format!("{requests}/status"), "a/pcr", reason);
    for (verb, resource) in [("list", slices), ("deletecollection", slices), ("watch", requests)] {
        let decided = |selected| decide(&node("n"), verb, resource, "", Some(selected));
        assert_eq!(decided("n"), Decision::Allowed(String::new()));
        assert!(matches!(decided("m"), Decision::NoOpinion(_)));
    }
}

#[test]
fn pods_are_those_on_the_node() {
    assert_allowed(&["get", "list", "watch"], "pods", "a/p");
    assert_allowed(&["create", "delete"], "pods", "a/p");
    assert_allowed(&["update", "patch"], "pods/status", "a/any");
    assert_allowed(&["create"], "pods/eviction", "a/any");
    assert_no_opinion(&["get", "list", "watch"], "pods", "a/other", UNRELATED);
    let reason = "can only list/watch pods with spec.nodeName field selector";
    assert_no_opinion(&["list", "watch"], "pods", "a/", reason);
    assert_no_opinion(&["list", "watch"], "pods", "", reason);
    assert_no_opinion(&["update", "patch", "deletecollection"], "pods", "a/p", "");
    assert_no_opinion(&["get", "create"], "pods/log", "a/p", "");
    assert_no_opinion(&["create"], "pods/exec", "a/p", "");
    assert_no_opinion(&["create"], "pods/binding", "a/p", "");
    for verb in ["list", "watch"] {
        assert_eq!(decide(&node("n"), verb, "pods", "", Some("n")), Decision::Allowed(String::new()));
        assert_eq!(decide(&node("n"), verb, "pods", "", Some("m")), Decision::NoOpinion(reason.to_owned()));
    }
}

#[test]
fn field_selector_must_be_one_equality() {
    let user = node("n");
    let decided = |operator, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let selector = [SelectorRequirement { key: "spec.nodeName".to_owned(), operator, values }];
        let request =
            RequestInfo { is_resource: true, verb: "list", resource: "pods", ..RequestInfo::default() };
        let attributes = Attributes { user: &user, request, field_selector: &selector, label_selector: &[] };
        matches!(authorize(&graph(), &attributes), Decision::Allowed(_))
    };
    assert!(decided("In", &["n"]));
    assert!(!decided("NotIn", &["n"]) && !decided("In", &["n", "m"]) && !decided("In", &[]));
    assert!(!decided("Exists", &[]));
}

#[test]
fn node_reads_its_own_node() {
    assert_allowed(&["get", "list", "watch"], "nodes", "n");
    assert_allowed(&["create", "update", "patch"], "nodes", "other");
    assert_allowed(&["update", "patch"], "nodes/status", "other");
    let reason = "node 'n' cannot read all nodes, only its own Node object";
    assert_no_opinion(&["get", "list", "watch"], "nodes", "", reason);
    let reason = "node 'n' cannot read 'm', only its own Node object";
    assert_no_opinion(&["get", "list", "watch"], "nodes", "m", reason);
    assert_no_opinion(&["delete", "deletecollection"], "nodes", "n", "");
    assert_no_opinion(&["get"], "nodes/proxy", "n", "");
}

#[test]
fn other_resources_follow_the_rules_of_all_nodes() {
    let read = ["get", "list", "watch"];
    assert_allowed(&["create"], "authentication.k8s.io|tokenreviews", "");
    assert_allowed(&["create"], "authorization.k8s.io|subjectaccessreviews", "");
    assert_allowed(&["create"], "authorization.k8s.io|localsubjectaccessreviews", "a/");
    assert_allowed(&read, "services", "");
    assert_allowed(&["get"], "endpoints", "a/e");
    assert_allowed(&["create", "update", "patch"], "events", "a/e");
    assert_allowed(&["create", "update", "patch"], "events.k8s.io|events", "a/e");
    assert_allowed(
        &["create", "get", "list", "watch"],
        "certificates.k8s.io|certificatesigningrequests",
        "x",
    );
    assert_allowed(&read, "storage.k8s.io|csidrivers", "x");
    assert_allowed(&read, "node.k8s.io|runtimeclasses", "x");
    assert_allowed(&read, "certificates.k8s.io|clustertrustbundles", "x");
    assert_no_opinion(&ALL_VERBS, "namespaces", "a", "");
    assert_no_opinion(&ALL_VERBS, "apps|deployments", "a/d", "");
    assert_no_opinion(&["create", "update", "patch", "delete"], "services", "a/s", "");
    assert_no_opinion(&["list", "delete"], "endpoints", "a/e", "");
    assert_no_opinion(&["get", "list"], "events", "a/e", "");
    assert_no_opinion(&["update"], "certificates.k8s.io|certificatesigningrequests/approval", "x", "");
    assert_no_opinion(&["get"], "services/proxy", "a/s", "");
}

#[test]
fn paths_outside_of_the_api_are_not_decided() {
    let user = node("n");
    let request = RequestInfo { verb: "get", path: "/metrics", ..RequestInfo::default() };
    let attributes = Attributes { user: &user, request, field_selector: &[], label_selector: &[] };
    assert_eq!(authorize(&graph(), &attributes), Decision::NoOpinion(String::new()));
}
