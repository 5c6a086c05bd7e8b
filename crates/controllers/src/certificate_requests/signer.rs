//! Certificate signer: signs approved requests that satisfy the rules of their signer.

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Plan, Planner, Query, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::certificate_signing_request::CertificateSigningRequest;
use setpoint_views::condition;

use super::{KUBELET_CLIENT_SIGNER, USER, WATCHES, decoded_csr, query_id, rules};
use crate::conditions::new_updated_condition;

/// Signer of client certificates.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Signer of kubelet serving certificates.
const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Signer without rules.
const LEGACY_UNKNOWN_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// The certificate signer.
pub struct RequestSigner;

impl Planner for RequestSigner {
    type Memo = ();

    fn name(&self) -> &'static str {
        "certificatesigningrequest-signing-controller"
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
        let (spec, status) = (&request.spec, &request.status);
        let is = |kind: &str| condition(&status.conditions, kind).is_some();
        let is_due = status.certificate.is_empty() && is("Approved") && !is("Denied") && !is("Failed");
        if !is_due
            || ![CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_UNKNOWN_SIGNER]
                .contains(&spec.signer_name.as_str())
        {
            return plan;
        }
        let Some(csr) = decoded_csr(object, request, seen, &mut plan) else { return plan };
        if let Err(message) = validate(request, csr) {
            let mut conditions = status.conditions.clone();
            conditions.push(new_updated_condition(
                "Failed",
                "True",
                "SignerValidationFailure",
                &message,
                now,
            ));
            plan.stage([Write::status(object, value!({"conditions": (value_of(&conditions))})).into()]);
            return plan;
        }
        let id = query_id(object, "sign");
        match seen.answers.get(&id).map(|answered| &answered.answer) {
            Some(Ok(certificate)) => {
                plan.stage([Write::status(object, value!({"certificate": (certificate.clone())})).into()]);
            }
            // A failed query is repeated after its backoff.
            None | Some(Err(_)) => {
                let question = value!({
                    "request": (spec.request.as_str()),
                    "usages": (spec.usages.clone()),
                    "expirationSeconds": (spec.expiration_seconds),
                });
                plan.queries.push(Query { target: "sign", id, question });
            }
        }
        plan
    }
}

/// Checks a request against the rules of its signer.
fn validate(request: &CertificateSigningRequest, csr: &Value) -> Result<(), String> {
    let usages = &request.spec.usages;
    match request.spec.signer_name.as_str() {
        CLIENT_SIGNER => rules::validate_client(usages),
        KUBELET_CLIENT_SIGNER => rules::validate_kubelet_client(csr, usages),
        KUBELET_SERVING_SIGNER => rules::validate_kubelet_serving(csr, usages),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_reconcile::{Controller, View};
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;
    use crate::testing;

    const REQUESTS: &str = CertificateSigningRequest::RESOURCE;
    /// Certificate in base64 of PEM.
    const CERTIFICATE: &str = testing::CERTIFICATE;

    fn cluster() -> Cluster {
        let controllers: Controllers = || {
            let list: Vec<Box<dyn Controller>> = vec![Box::new(RequestSigner)];
            (list, crate::indexes::all())
        };
        Cluster::new(controllers, 7)
    }

    fn create_request(cluster: &mut Cluster, signer: &str, usage: &str) {
        let spec = value!({
            "signerName": (signer), "request": (testing::REQUEST), "usages": [(usage)], "expirationSeconds": 3600,
        });
        cluster.create(REQUESTS, "", value!({"metadata": {"name": "r"}, "spec": (spec)}));
    }

    fn decide(cluster: &mut Cluster, kind: &str) {
        let decision = value!({"type": (kind), "status": "True", "reason": "ByHand"});
        let patch = value!({"status": {"conditions": [(decision)]}});
        cluster.patch(REQUESTS, "r", "approval", patch).unwrap();
    }

    /// Answers all pending queries, and returns them.
    fn answer_queries(cluster: &mut Cluster, signed: &Result<Value, String>) -> Vec<Value> {
        let mut queries = Vec::new();
        loop {
            cluster.settle();
            queries.extend(cluster.queries.iter().map(|(_, _, query)| query.question.clone()));
            let now = cluster.reply(|query| match query.target {
                "sign" => signed.clone(),
                _ => Ok(value!({"commonName": "ann", "organizations": []})),
            });
            if now == 0 {
                return queries;
            }
        }
    }

    fn status(cluster: &Cluster) -> Value {
        cluster.get(REQUESTS, "r").unwrap().get("status").cloned().unwrap_or_default()
    }

    #[test]
    fn approved_request_is_signed() {
        let mut cluster = cluster();
        create_request(&mut cluster, CLIENT_SIGNER, "client auth");
        assert!(
            answer_queries(&mut cluster, &Ok(CERTIFICATE.into())).is_empty(),
            "signed before it was approved"
        );
        decide(&mut cluster, "Approved");
        let queries = answer_queries(&mut cluster, &Ok(CERTIFICATE.into()));
        assert_eq!(queries.len(), 2);
        assert_eq!(queries[1].get("expirationSeconds"), Some(&Value::from(3600i64)));
        assert_eq!(status(&cluster).str_at(&["certificate"]), CERTIFICATE);
        assert!(answer_queries(&mut cluster, &Ok(CERTIFICATE.into())).is_empty());
        cluster.assert_quiet();
    }

    #[test]
    fn denied_requests_and_those_of_other_signers_are_left_alone() {
        for (signer, decision) in [(CLIENT_SIGNER, "Denied"), ("example.org/s", "Approved")] {
            let mut cluster = cluster();
            create_request(&mut cluster, signer, "client auth");
            decide(&mut cluster, decision);
            assert!(answer_queries(&mut cluster, &Ok(CERTIFICATE.into())).is_empty(), "{signer}");
            assert_eq!(status(&cluster).str_at(&["certificate"]), "");
        }
    }

    #[test]
    fn request_that_violates_the_signer_rules_fails_with_the_reason() {
        for (signer, message) in [
            (CLIENT_SIGNER, "invalid usage for client certificate: server auth"),
            (KUBELET_CLIENT_SIGNER, "subject organization is not system:nodes"),
            (KUBELET_SERVING_SIGNER, "subject organization is not system:nodes"),
        ] {
            let mut cluster = cluster();
            create_request(&mut cluster, signer, "server auth");
            decide(&mut cluster, "Approved");
            assert_eq!(answer_queries(&mut cluster, &Ok(CERTIFICATE.into())).len(), 1, "nothing is signed");
            let status = status(&cluster);
            let conditions = status.get("conditions").and_then(Value::as_list).unwrap();
            assert_eq!(conditions.len(), 2);
            assert_eq!(conditions[1].str_at(&["type"]), "Failed");
            assert_eq!(conditions[1].str_at(&["reason"]), "SignerValidationFailure");
            assert_eq!(conditions[1].str_at(&["message"]), message);
            cluster.assert_quiet();
        }
    }

    #[test]
    fn failed_signing_query_is_repeated_until_it_succeeds() {
        let mut cluster = cluster();
        create_request(&mut cluster, CLIENT_SIGNER, "client auth");
        decide(&mut cluster, "Approved");
        assert_eq!(answer_queries(&mut cluster, &Err("no key".to_owned())).len(), 2);
        for _ in 0..20 {
            cluster.run(std::time::Duration::from_secs(1));
            cluster.reply(|_| Err("no key".to_owned()));
        }
        cluster.run(std::time::Duration::from_secs(11));
        assert_eq!(answer_queries(&mut cluster, &Ok(CERTIFICATE.into())).len(), 1);
        assert_eq!(status(&cluster).str_at(&["certificate"]), CERTIFICATE);
    }

    #[test]
    fn signed_certificate_survives_a_conflict_and_a_crash() {
        let mut cluster = cluster();
        create_request(&mut cluster, CLIENT_SIGNER, "client auth");
        decide(&mut cluster, "Approved");
        cluster.settle();
        cluster.crash();
        cluster.queries.clear();
        assert_eq!(
            answer_queries(&mut cluster, &Ok(CERTIFICATE.into())).len(),
            2,
            "queried again after a crash"
        );
        assert_eq!(status(&cluster).str_at(&["certificate"]), CERTIFICATE);
    }
}
