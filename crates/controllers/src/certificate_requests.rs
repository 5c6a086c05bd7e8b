//! CertificateSigningRequest controllers: approve requests of nodes for themselves, sign approved ones,
//! delete old ones.
//!
//! Decoding a request, access reviews and signatures are queries; the rules are here.

pub mod rules;
pub mod signer;

use std::time::Duration;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Object, Plan, Planner, Query, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::certificate_signing_request::CertificateSigningRequest;
use setpoint_views::condition;

use crate::conditions::new_updated_condition;

/// Time after which an approved or denied request is deleted.
const DECIDED_TTL: Duration = Duration::from_secs(60 * 60);
/// Time after which a pending request is deleted.
const PENDING_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Signer of kubelet client certificates.
const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

const WATCHES: [Watch; 1] = [Watch::primary(CertificateSigningRequest::RESOURCE)];
const USER: &str = "system:serviceaccount:kube-system:certificate-controller";

/// Cleaner: deletes expired requests.
pub struct RequestCleaner;

impl Planner for RequestCleaner {
    type Memo = ();

    fn name(&self) -> &'static str {
        "certificatesigningrequest-cleaner-controller"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|object| !object.meta().is_deleted()) else { return plan };
        let Some(request) = object.view::<CertificateSigningRequest>() else { return plan };
        match expires_at(object, request) {
            Some(end) if now > end => plan.stage([Write::delete(object).into()]),
            Some(end) => plan.requeue_at(end.after(Duration::from_micros(1))),
            None => {}
        }
        plan
    }
}

/// Time at which a request is deleted.
fn expires_at(object: &Object, request: &CertificateSigningRequest) -> Option<Time> {
    let status = &request.status;
    if status.conditions.is_empty() {
        return Some(object.meta().created().after(PENDING_TTL));
    }
    let ttl = |kind: &str| match kind {
        "Denied" | "Failed" => Some(DECIDED_TTL),
        "Approved" if status.certificate.is_empty() => Some(PENDING_TTL),
        "Approved" => Some(DECIDED_TTL),
        _ => None,
    };
    let ends = status
        .conditions
        .iter()
        .filter_map(|condition| Some(condition.last_update_time?.after(ttl(&condition.kind)?)));
    ends.min()
}

/// Approver of kubelet client certificates.
pub struct RequestApprover;

/// Recognized requests: `true` if the node makes the request for itself, the subresource of the access
/// review, and the message of the approval.
const RECOGNIZED: [(bool, &str, &str); 2] = [
    (true, "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
    (false, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
];

impl Planner for RequestApprover {
    type Memo = ();

    fn name(&self) -> &'static str {
        "certificatesigningrequest-approving-controller"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(request) = object.view::<CertificateSigningRequest>() else { return plan };
        let decided = |kind: &str| condition(&request.status.conditions, kind).is_some();
        let is_pending = request.status.certificate.is_empty() && !decided("Approved") && !decided("Denied");
        if !is_pending || request.spec.signer_name != KUBELET_CLIENT_SIGNER {
            return plan;
        }
        let id = |purpose: &str| query_id(object, purpose);
        let Some(csr) = decoded_csr(object, request, seen, &mut plan) else { return plan };
        if rules::validate_kubelet_client(csr, &request.spec.usages).is_err() {
            return plan;
        }
        let is_self = csr.str_at(&["commonName"]) == request.spec.username;
        for (_, subresource, message) in RECOGNIZED.into_iter().filter(|(own, _, _)| is_self || !own) {
            match seen.answers.get(&id(subresource)).map(|answered| &answered.answer) {
                // A failed query is repeated after its backoff.
                None | Some(Err(_)) => {
                    let question = access_review(request, subresource);
                    plan.queries.push(Query { target: "access", id: id(subresource), question });
                    return plan;
                }
                Some(Ok(answer)) if answer.get("allowed") == Some(&Value::from(true)) => {
                    let mut conditions = request.status.conditions.clone();
                    conditions.push(new_updated_condition("Approved", "True", "AutoApproved", message, now));
                    let patch = value!({"status": {"conditions": (value_of(&conditions))}});
                    plan.stage([Write::merge(object, "approval", patch).into()]);
                    return plan;
                }
                Some(Ok(_)) => {}
            }
        }
        plan
    }
}

/// ID of a query about a request: a recreated request of the same name has another one.
fn query_id(object: &Object, purpose: &str) -> String {
    format!("{purpose} {}", object.meta().uid)
}

/// Decoded content of a request; `None` if the query is pending, or the request cannot be decoded.
fn decoded_csr<'a>(
    object: &Object,
    request: &CertificateSigningRequest,
    seen: &Seen<'a, ()>,
    plan: &mut Plan,
) -> Option<&'a Value> {
    match seen.answers.get(&query_id(object, "request")) {
        // Invalid bytes stay invalid.
        Some(csr) => csr.answer.as_ref().ok(),
        None => {
            let question = value!({"request": (request.spec.request.as_str())});
            plan.queries.push(Query {
                target: "certificate-request",
                id: query_id(object, "request"),
                question,
            });
            None
        }
    }
}

/// Access review of the requester.
fn access_review(request: &CertificateSigningRequest, subresource: &str) -> Value {
    let spec = &request.spec;
    value!({
        "user": (spec.username.as_str()),
        "uid": (spec.uid.as_str()),
        "groups": (spec.groups.clone()),
        "extra": (spec.extra.clone()),
        "resourceAttributes": {
            "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
            "subresource": (subresource), "version": "*",
        },
    })
}

#[cfg(test)]
mod tests {
    use setpoint_reconcile::Controller;
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;
    use crate::testing;

    const REQUESTS: &str = CertificateSigningRequest::RESOURCE;
    fn cluster() -> Cluster {
        let controllers: Controllers = || {
            let list: Vec<Box<dyn Controller>> = vec![Box::new(RequestCleaner), Box::new(RequestApprover)];
            (list, crate::indexes::all())
        };
        Cluster::new(controllers, 7)
    }

    fn create_request(cluster: &mut Cluster, name: &str) {
        let spec = value!({
            "signerName": (KUBELET_CLIENT_SIGNER), "request": (testing::REQUEST), "usages": ["digital signature", "client auth"],
        });
        cluster.create(REQUESTS, "", value!({"metadata": {"name": (name)}, "spec": (spec)}));
    }

    /// Answers all pending queries, and returns their number.
    fn answer_queries(cluster: &mut Cluster, common_name: &str, allowed: bool) -> usize {
        let mut queries = 0;
        cluster.settle();
        loop {
            let now = cluster.reply(|query| match query.target {
                "access" => Ok(value!({"allowed": (allowed)})),
                _ => Ok(value!({"commonName": (common_name), "organizations": ["system:nodes"]})),
            });
            if now == 0 {
                return queries;
            }
            queries += now;
            cluster.settle();
        }
    }

    fn is_approved(cluster: &Cluster, name: &str) -> bool {
        let request = cluster.get(REQUESTS, name).unwrap();
        let conditions = request.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        conditions.iter().any(|condition| condition.str_at(&["reason"]) == "AutoApproved")
    }

    #[test]
    fn node_requests_are_approved_if_access_is_allowed() {
        let mut cluster = cluster();
        create_request(&mut cluster, "r");
        assert_eq!(answer_queries(&mut cluster, "system:node:n", true), 2);
        assert!(is_approved(&cluster, "r"));
        cluster.assert_quiet();
        let mut cluster = self::cluster();
        create_request(&mut cluster, "r");
        answer_queries(&mut cluster, "system:node:n", false);
        assert!(!is_approved(&cluster, "r"), "denied access is not approved");
        let mut cluster = self::cluster();
        create_request(&mut cluster, "r");
        assert_eq!(answer_queries(&mut cluster, "admin", true), 1, "no node");
        assert!(!is_approved(&cluster, "r"));
    }

    #[test]
    fn pending_requests_are_deleted_after_a_day() {
        let mut cluster = cluster();
        create_request(&mut cluster, "r");
        cluster.settle();
        for (hours, left) in [(23, 1), (2, 0)] {
            cluster.now = cluster.now.after(Duration::from_secs(hours * 60 * 60));
            cluster.settle();
            assert_eq!(cluster.list(REQUESTS).len(), left);
        }
        cluster.assert_quiet();
    }

    #[test]
    fn lifetime_of_a_request_depends_on_its_decision() {
        let at = Time::from_seconds(1000);
        let key = setpoint_reconcile::planner::key_of(REQUESTS, "", "r").unwrap();
        let text = r#"{"metadata":{"name":"r","creationTimestamp":"1970-01-01T00:16:40Z"}}"#;
        let object = Object::read(key, setpoint_api::Revision(1), at, text.as_bytes().to_vec()).unwrap();
        let with = |kind: &str, certificate: &str| {
            let mut request = CertificateSigningRequest::default();
            request.status.conditions.push(new_updated_condition(kind, "True", "r", "m", at));
            certificate.clone_into(&mut request.status.certificate);
            expires_at(&object, &request)
        };
        assert_eq!(expires_at(&object, &CertificateSigningRequest::default()), Some(at.after(PENDING_TTL)));
        assert_eq!(with("Denied", ""), Some(at.after(DECIDED_TTL)));
        assert_eq!(with("Approved", ""), Some(at.after(PENDING_TTL)));
        assert_eq!(with("Approved", "c"), Some(at.after(DECIDED_TTL)));
    }
}
