//! Worlds of objects that concern many others: roles, quotas, budgets, autoscalers, owners, namespaces,
//! tokens.

use setpoint_api::{Value, value};
use setpoint_reconcile::Object;

use super::Case;
use crate::objects::*;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// Aggregating role with many selectors, and many other roles.
fn aggregation(
    len: usize,
    selector: impl Fn(usize) -> Value,
    labels: impl Fn(usize) -> Value,
) -> Vec<Object> {
    let rule = |at| value!({"verbs": [(name("v", at))], "apiGroups": [""], "resources": ["pods"]});
    let others =
        many(len, ROLES, "r", |at| value!({"metadata": {"labels": (labels(at))}, "rules": [(rule(at))]}));
    let all = value!({"aggregationRule": {"clusterRoleSelectors": (list(len, selector))}, "rules": []});
    others.chain([object(ROLES, "all", all)]).collect()
}

/// Selector with an expression about the label `to`, and a second one that makes it unique.
fn expression(at: usize, operator: &str, values: Value) -> Value {
    let first = value!({"key": "to", "operator": (operator), "values": (values)});
    let second = value!({"key": (name("k", at)), "operator": "DoesNotExist"});
    value!({"matchExpressions": [(first), (second)]})
}

fn no_values() -> Value {
    Value::List(Vec::new())
}

/// Certificate in base64 of PEM, without padding, so that repetitions are valid too.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJjakNDQVJtZ0F3SUJBZ0lVYmVHMy8rL3pvWFB1bVhOOEVZRnUxb2JQZi80d0NnWUlLb1pJemowRUF3SXcKRGpFTU1Bb0dBMVVFQXd3RFlXNXVNQ0FYRFRJMk1URXhOakF6TVRNd05sb1lEekl4TWpZeE1ESXpNRE14TXpBMgpXakFPTVF3d0NnWURWUVFEREFOaGJtNHdXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBVDBGVHFyCkZyQTVvS2U4L2NQbVM4bk1NaE5lRCtTdkVBRWpoaTI5T2hxSWthTFFhdUk1T3JyQ1FSdUp2VEpOME10d3hxNksKZHByTVNSWHl0SGZlZ3MzaG8xTXdVVEFkQmdOVkhRNEVGZ1FVanF0MEdCYy96SUFnWFJVZkxFcFNhUk1UWURzdwpId1lEVlIwakJCZ3dGb0FVanF0MEdCYy96SUFnWFJVZkxFcFNhUk1UWURzd0R3WURWUjBUQVFIL0JBVXdBd0VCCi96QUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQUIwMi9CTWpVVytLNnRmZ2FTMVZpa0RtRktpMXIxdlVobEp4UTUKVk5XL3FBSWdJamQ5V2tHelp1T1VTLzdxLzdWbkNEV2MzYWVVOXNYN0gyQ3RnanozMEVjPQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCgoK";

/// Configuration of webhooks with this CA bundle.
fn webhooks(len: usize, bundle: &str) -> Object {
    let webhook = |at| value!({"name": (name("w", at)), "clientConfig": {"caBundle": (bundle)}});
    let resource = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    object(resource, "w", value!({"webhooks": (list(len, webhook))}))
}

const BUDGETS: &str = "poddisruptionbudgets.policy";

fn budget() -> Value {
    value!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}})
}

const AUTOSCALERS: &str = "horizontalpodautoscalers.autoscaling";

fn autoscaler(target: &str) -> Value {
    let metric = value!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    value!({"spec": {
        "minReplicas": 1, "maxReplicas": 1_000_000, "metrics": [(metric)],
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": (target)},
    }})
}

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

fn request(len: usize, conditions: Value) -> Value {
    value!({
        "spec": {
            "request": "", "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": (list(len, |at| name("u", at).into())), "groups": (list(len, |at| name("g", at).into())),
        },
        "status": {"conditions": (conditions)},
    })
}

fn approved() -> Value {
    value!([{"type": "Approved", "status": "True", "lastUpdateTime": "2027-01-15T07:59:00Z"}])
}

fn token(at: usize, end: &str) -> Value {
    use base64::Engine as _;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    value!({"type": "bootstrap.kubernetes.io/token", "data": {
        "token-id": (encoded(&format!("{at:06}"))), "token-secret": (encoded("0123456789abcdef")),
        "usage-bootstrap-signing": (encoded("true")), "expiration": (encoded(end)),
    }})
}

fn map(at: usize) -> Value {
    value!({"data": {"a": (name("b", at))}})
}

/// Owner reference to a ConfigMap.
fn by_map(name: &str) -> Value {
    owner("v1", "ConfigMap", "configmaps", name)
}

fn quota(spec: Value) -> Object {
    object("resourcequotas", "default/q", value!({"spec": (spec)}))
}

const SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";

/// A policy with as many validations.
fn policy(len: usize) -> Vec<Object> {
    let validations: Vec<Value> = (0..len).map(|_| value!({"expression": "true"})).collect();
    let body = value!({"spec": {"validations": (validations)}});
    vec![object("validatingadmissionpolicies.admissionregistration.k8s.io", "p", body)]
}

pub const CASES: &[Case] = &[
    Case::new(
        "validatingadmissionpolicy-status-controller",
        "validations of a policy",
        "validatingadmissionpolicies.admissionregistration.k8s.io p",
        policy,
    ),
    Case::new(
        "clusterrole-aggregation-controller",
        "roles and selectors of one label",
        "clusterroles.rbac.authorization.k8s.io all",
        |len| {
            aggregation(
                len,
                |at| value!({"matchLabels": {"to": (name("x", at))}}),
                |at| value!({"to": (name("x", at))}),
            )
        },
    ),
    Case::new(
        "clusterrole-aggregation-controller",
        "roles and selectors of several values",
        "clusterroles.rbac.authorization.k8s.io all",
        |len| {
            let selector = |at| expression(at, "In", value!([(name("x", at)), (name("y", at))]));
            aggregation(len, selector, |at| value!({"to": (name("x", at))}))
        },
    ),
    Case::new(
        "clusterrole-aggregation-controller",
        "roles and selectors of a label that is there",
        "clusterroles.rbac.authorization.k8s.io all",
        |len| {
            let selector =
                |at| value!({"matchExpressions": [{"key": (name("k", at)), "operator": "Exists"}]});
            aggregation(len, selector, |_| value!({"to": "x"}))
        },
    ),
    Case::new(
        "clusterrole-aggregation-controller",
        "roles and selectors of what is not there",
        "clusterroles.rbac.authorization.k8s.io all",
        |len| {
            aggregation(
                len,
                |at| expression(at, "DoesNotExist", no_values()),
                |at| value!({"to": (name("x", at))}),
            )
        },
    ),
    Case::new(
        "clusterrole-aggregation-controller",
        "rules of a role",
        "clusterroles.rbac.authorization.k8s.io all",
        |len| {
            let rule = |at| value!({"verbs": [(name("v", at))], "apiGroups": [""], "resources": ["pods"]});
            let selector = value!([{"matchLabels": {"to": "x"}}]);
            let all =
                value!({"aggregationRule": {"clusterRoleSelectors": (selector)}, "rules": (list(len, rule))});
            let one = value!({"metadata": {"labels": {"to": "x"}}, "rules": (list(len, |at| rule(at + 1)))});
            vec![object(ROLES, "all", all), object(ROLES, "one", one)]
        },
    ),
    Case::new(
        "disruption-controller",
        "pods with owners of their own",
        "poddisruptionbudgets.policy default/b",
        |len| {
            let sets = many(len, "replicasets.apps", "default/s", |_| workload(1));
            let pods = many(len, "pods", "default/p", |at| {
                owned(pod("n0"), &owner("apps/v1", "ReplicaSet", "replicasets.apps", &name("s", at)))
            });
            sets.chain(pods).chain([object(BUDGETS, "default/b", budget())]).collect()
        },
    ),
    Case::new(
        "disruption-controller",
        "pods whose eviction was granted",
        "poddisruptionbudgets.policy default/b",
        |len| {
            let since = (0..2 * len).map(|at| (name("p", at), Value::from("2027-01-15T07:00:00Z")));
            let budget = with(budget(), "minAvailable", 1);
            let mut budget = saying(budget, "disruptedPods", Value::Map(since.collect()));
            budget.ensure_map("spec").remove("maxUnavailable");
            many(len, "pods", "default/p", |_| pod("n0"))
                .chain([object(BUDGETS, "default/b", budget)])
                .collect()
        },
    ),
    Case::new(
        "disruption-controller",
        "budgets beside a pod",
        "poddisruptionbudgets.policy default/b000000",
        |len| {
            many(len, BUDGETS, "default/b", |_| budget())
                .chain([object("pods", "default/p", pod("n0"))])
                .collect()
        },
    ),
    Case::new(
        "generic-garbage-collector",
        "objects that an owner waits for",
        "configmaps default/owner",
        |len| {
            many(len, "configmaps", "default/m", |at| owned(map(at), &by_map("other")))
                .chain(many(len, "configmaps", "default/n", |at| owned(map(at), &by_map("owner"))))
                .chain([object("configmaps", "default/owner", deleted(map(0), "foregroundDeletion"))])
                .collect()
        },
    ),
    Case::new(
        "generic-garbage-collector",
        "objects that an owner leaves behind",
        "configmaps default/owner",
        |len| {
            many(len, "configmaps", "default/m", |at| owned(map(at), &by_map("owner")))
                .chain([object("configmaps", "default/owner", deleted(map(0), "orphan"))])
                .collect()
        },
    ),
    Case::new("generic-garbage-collector", "owners of an object", "configmaps default/dependent", |len| {
        let mut dependent = map(0);
        let owners = list(2 * len, |at| by_map(&name("m", at)));
        dependent.ensure_map("metadata").insert("ownerReferences", owners);
        many(len, "configmaps", "default/m", map)
            .chain([object("configmaps", "default/dependent", dependent)])
            .collect()
    }),
    Case::new(
        "generic-garbage-collector",
        "a chain of owners that wait",
        "configmaps default/m000000",
        |len| {
            let link =
                |at| deleted(owned(map(at), &by_map(&name("m", (at + 1) % len))), "foregroundDeletion");
            many(len, "configmaps", "default/m", link).collect()
        },
    ),
    Case::new("horizontal-pod-autoscaler", "pods", "horizontalpodautoscalers.autoscaling default/a", |len| {
        let pods = many(len, "pods", "default/p", |_| pod("n0"));
        let fixed = [
            object("deployments.apps", "default/web", workload(len)),
            object(AUTOSCALERS, "default/a", autoscaler("web")),
        ];
        pods.chain(fixed).collect()
    }),
    Case::new(
        "horizontal-pod-autoscaler",
        "autoscalers and pods with labels of their own",
        "horizontalpodautoscalers.autoscaling default/a",
        |len| {
            let pods = many(len, "pods", "default/p", |at| labeled(pod("n0"), "number", name("x", at)));
            let targets = many(len, "deployments.apps", "default/d", |at| {
                with(workload(1), "selector", value!({"matchLabels": {"app": (name("x", at))}}))
            });
            let others = many(len, AUTOSCALERS, "default/b", |at| autoscaler(&name("d", at)));
            let fixed = [
                object("deployments.apps", "default/web", workload(len)),
                object(AUTOSCALERS, "default/a", autoscaler("web")),
            ];
            pods.chain(targets).chain(others).chain(fixed).collect()
        },
    ),
    Case::new("resourcequota-controller", "pods", "resourcequotas default/q", |len| {
        let pods = many(len, "pods", "default/p", |_| pod("n0"));
        pods.chain([quota(value!({"hard": {"pods": "9", "requests.cpu": "9"}}))]).collect()
    }),
    Case::new("resourcequota-controller", "limits", "resourcequotas default/q", |len| {
        let limits = (0..len).map(|at| (format!("requests.example.com/{}", name("r", at)), Value::from("9")));
        vec![quota(value!({"hard": (Value::Map(limits.collect()))})), object("pods", "default/p", pod("n0"))]
    }),
    Case::new("resourcequota-controller", "pods and values of a scope", "resourcequotas default/q", |len| {
        let values = list(len, |at| name("c", at).into());
        let scope = value!({"scopeName": "PriorityClass", "operator": "NotIn", "values": (values)});
        let selector = value!({"matchExpressions": [(scope)]});
        let pods = many(len, "pods", "default/p", |_| with(pod("n0"), "priorityClassName", "other"));
        pods.chain([quota(value!({"hard": {"pods": "9"}, "scopeSelector": (selector)}))]).collect()
    }),
    Case::new("resourcequota-controller", "quotas", "resourcequotas default/q", |len| {
        let hard = value!({"hard": {"pods": "9"}});
        many(len, "resourcequotas", "default/r", |_| value!({"spec": (hard.clone())}))
            .chain([object("pods", "default/p", pod("n0")), quota(hard.clone())])
            .collect()
    }),
    Case::new("namespace-controller", "objects", "namespaces default", |len| {
        let namespace = deleted(value!({"spec": {"finalizers": ["kubernetes"]}}), "x");
        many(len, "configmaps", "default/m", map)
            .chain([object("namespaces", "default", namespace)])
            .collect()
    }),
    Case::new("namespace-controller", "objects that have finalizers", "namespaces default", |len| {
        let namespace = deleted(value!({"spec": {"finalizers": ["kubernetes"]}}), "x");
        let held = many(len, "configmaps", "default/m", |at| deleted(map(at), &format!("example.com/{at}")));
        held.chain([object("namespaces", "default", namespace)]).collect()
    }),
    Case::new("serviceaccount-controller", "accounts", "namespaces default", |len| {
        let namespace = object("namespaces", "default", value!({"status": {"phase": "Active"}}));
        many(len, "serviceaccounts", "default/a", |_| value!({})).chain([namespace]).collect()
    }),
    Case::new("root-ca-certificate-publisher-controller", "entries", "namespaces default", |len| {
        let entries = (0..len).map(|at| (name("e", at), Value::from("x")));
        let map = value!({"data": (Value::Map(entries.collect()))});
        let namespace = object("namespaces", "default", value!({"status": {"phase": "Active"}}));
        vec![namespace, object("configmaps", "default/kube-root-ca.crt", map)]
    }),
    Case::new(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "bundles",
        "namespaces kube-system",
        |len| {
            let bundle =
                value!({"spec": {"signerName": "kubernetes.io/kube-apiserver-serving", "trustBundle": "x"}});
            many(len, "clustertrustbundles.certificates.k8s.io", "b", |_| bundle.clone())
                .chain([object("namespaces", "kube-system", value!({}))])
                .collect()
        },
    ),
    Case::new(
        "legacy-serviceaccount-token-cleaner-controller",
        "pods, and tokens of an account",
        "secrets default/t000000",
        |len| {
            let secrets = list(len, |at| value!({"name": (name("t", len - 1 - at))}));
            let since = value!({"data": {"since": "2020-01-01"}});
            let tracking = "kube-system/kube-apiserver-legacy-service-account-token-tracking";
            let mut token = value!({"type": "kubernetes.io/service-account-token"});
            token.ensure_map("metadata").insert("creationTimestamp", "2020-01-01T00:00:00Z");
            let token = annotated(token, "kubernetes.io/service-account.name", "a");
            let fixed = [
                object("serviceaccounts", "default/a", value!({"secrets": (secrets)})),
                object("secrets", "default/t000000", token),
                object("configmaps", tracking, since),
            ];
            many(len, "pods", "default/p", |_| pod("n0")).chain(fixed).collect()
        },
    ),
    Case::new(
        "serviceaccount-token-controller",
        "secrets, and references of the account",
        "secrets default/t000000",
        |len| {
            let references = list(len, |at| value!({"name": (name("t", at))}));
            let token = value!({"type": "kubernetes.io/service-account-token"});
            let token = annotated(token, "kubernetes.io/service-account.name", "a");
            many(len, "secrets", "default/t", |_| token.clone())
                .chain([object("serviceaccounts", "default/a", value!({"secrets": (references)}))])
                .collect()
        },
    ),
    Case::new(
        "storage-version-migrator-controller",
        "objects",
        "storageversionmigrations.storagemigration.k8s.io m",
        |len| {
            let running = value!([{"type": "Running", "status": "True"}]);
            let migration = value!({
                "spec": {"resource": {"resource": "configmaps"}},
                "status": {"resourceVersion": "100", "conditions": (running)},
            });
            many(len, "configmaps", "default/m", map)
                .chain([object("storageversionmigrations.storagemigration.k8s.io", "m", migration)])
                .collect()
        },
    ),
    Case::new(
        "storage-version-migrator-controller",
        "migrations",
        "storageversionmigrations.storagemigration.k8s.io m000000",
        |len| {
            let migration = value!({"spec": {"resource": {"resource": "configmaps"}}});
            many(len, "storageversionmigrations.storagemigration.k8s.io", "m", |_| migration.clone())
                .collect()
        },
    ),
    Case::new("bootstrap-signer-controller", "tokens", "configmaps kube-public/cluster-info", |len| {
        let tokens = (0..len)
            .map(|at| object("secrets", &format!("kube-system/bootstrap-token-{at:06}"), token(at, "")));
        let old = (0..len).map(|at| (format!("jws-kubeconfig-{:06}", at + 500_000), Value::from("x")));
        let data: setpoint_api::Map = old.chain([("kubeconfig".to_owned(), Value::from("k"))]).collect();
        tokens.chain([object("configmaps", "kube-public/cluster-info", value!({"data": (data)}))]).collect()
    }),
    Case::new("token-cleaner-controller", "tokens", "secrets kube-system/t000000", |len| {
        many(len, "secrets", "kube-system/t", |at| token(at, "2027-01-01T00:00:00Z")).collect()
    }),
    Case::new(
        "certificatesigningrequest-approving-controller",
        "usages and groups",
        "certificatesigningrequests.certificates.k8s.io r",
        |len| vec![object(REQUESTS, "r", request(len, no_values()))],
    ),
    Case::new(
        "certificatesigningrequest-signing-controller",
        "usages and groups",
        "certificatesigningrequests.certificates.k8s.io r",
        |len| vec![object(REQUESTS, "r", request(len, approved()))],
    ),
    Case::new(
        "certificatesigningrequest-cleaner-controller",
        "conditions",
        "certificatesigningrequests.certificates.k8s.io r",
        |len| {
            let condition = |at| value!({"type": (name("T", at)), "status": "True", "lastUpdateTime": "2027-01-15T07:59:00Z"});
            let conditions =
                list(
                    len,
                    |at| if at == 0 { approved().as_list().unwrap()[0].clone() } else { condition(at) },
                );
            vec![object(REQUESTS, "r", request(1, conditions))]
        },
    ),
    Case::new(
        "leader-lease",
        "leases",
        "leases.coordination.k8s.io kube-system/kube-controller-manager",
        |len| {
            many(len, "leases.coordination.k8s.io", "kube-system/l", |_| value!({}))
                .chain([object("namespaces", "kube-system", value!({}))])
                .collect()
        },
    ),
    Case::new("autoregister", "nodes", "apiservices.apiregistration.k8s.io v1beta1.metrics.k8s.io", |len| {
        many(len, "nodes", "n", |_| node()).collect()
    }),
    Case::new(
        "crd-registration",
        "definitions",
        "apiservices.apiregistration.k8s.io v1.example.com",
        |len| {
            let spec = value!({"group": "example.com", "versions": [{"name": "v1", "served": true}]});
            let definitions = "customresourcedefinitions.apiextensions.k8s.io";
            many(len, definitions, "d", |_| value!({"spec": (spec.clone())})).collect()
        },
    ),
    Case::new(
        "crd-condition-controller",
        "definitions",
        "customresourcedefinitions.apiextensions.k8s.io d000000",
        |len| {
            let spec =
                value!({"group": "example.com", "preserveUnknownFields": true, "versions": [{"name": "v1"}]});
            many(len, DEFINITIONS, "d", |_| value!({"spec": (spec.clone())})).collect()
        },
    ),
    Case::new(
        "crd-finalizer",
        "definitions",
        "customresourcedefinitions.apiextensions.k8s.io d000000",
        |len| {
            let deleted = value!({
                "deletionTimestamp": "2027-01-15T08:00:00Z",
                "finalizers": ["customresourcecleanup.apiextensions.k8s.io"],
            });
            let spec = value!({"group": "example.com", "versions": [{"name": "v1"}]});
            many(len, DEFINITIONS, "d", |_| value!({"metadata": (deleted.clone()), "spec": (spec.clone())}))
                .collect()
        },
    ),
    Case::new(
        "crd-naming-condition-controller",
        "definitions",
        "customresourcedefinitions.apiextensions.k8s.io example.com",
        |len| {
            let definition = |at| {
                let names =
                    value!({"plural": (name("d", at)), "kind": (name("D", at)), "listKind": (name("L", at))});
                value!({"spec": {"group": "example.com", "names": (names), "versions": [{"name": "v1", "served": true}]}})
            };
            many(len, DEFINITIONS, "d", definition).collect()
        },
    ),
    Case::new(
        "remote-available-controller",
        "services",
        "apiservices.apiregistration.k8s.io a000000",
        |len| {
            let service = value!({"namespace": "default", "name": "s"});
            many(
                len,
                "apiservices.apiregistration.k8s.io",
                "a",
                |_| value!({"spec": {"service": (service.clone())}}),
            )
            .collect()
        },
    ),
    Case::new(
        "cluster_authentication_trust_controller",
        "configmaps",
        "configmaps kube-system/extension-apiserver-authentication",
        |len| many(len, "configmaps", "c", |_| value!({})).collect(),
    ),
    Case::new(
        "legacy_token_tracking_controller",
        "configmaps",
        "configmaps kube-system/kube-apiserver-legacy-service-account-token-tracking",
        |len| {
            let namespace = object("namespaces", "kube-system", value!({"status": {"phase": "Active"}}));
            many(len, "configmaps", "c", |_| value!({})).chain([namespace]).collect()
        },
    ),
    Case::new(
        "certificate-expiry-controller",
        "webhooks",
        "validatingwebhookconfigurations.admissionregistration.k8s.io w",
        |len| vec![webhooks(len, CERTIFICATE)],
    ),
    Case::new(
        "certificate-expiry-controller",
        "certificates",
        "validatingwebhookconfigurations.admissionregistration.k8s.io w",
        |len| vec![webhooks(1, &CERTIFICATE.repeat(len))],
    ),
    Case::new(
        "priority-and-fairness-config-producer",
        "schemas",
        "flowschemas.flowcontrol.apiserver.k8s.io catch-all",
        |len| many(len, SCHEMAS, "s", |_| value!({"spec": {}})).collect(),
    ),
    Case::new(
        "priority-and-fairness-config-consumer",
        "schemas",
        "flowschemas.flowcontrol.apiserver.k8s.io s000000",
        |len| {
            many(len, SCHEMAS, "s", |_| value!({"spec": {"priorityLevelConfiguration": {"name": "x"}}}))
                .collect()
        },
    ),
];
