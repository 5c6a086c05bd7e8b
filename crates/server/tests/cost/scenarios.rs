//! Requests whose cost depends on more than one list, or on an object that is stored: patches, apply, owners, selectors.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::Method;
use setpoint_api::{json, protobuf};
use setpoint_sim::cost::callgrind::Shard;
use setpoint_sim::cost::{PLAIN, measure_growth, report};

use crate::meter::{Call, Meter};

/// A request whose size is a parameter.
struct Scenario {
    name: &'static str,
    /// Path and body of the object to store first, if there is one.
    store: Option<fn(usize) -> (String, String)>,
    request: fn(usize) -> ScenarioRequest,
}

struct ScenarioRequest {
    method: Method,
    path: String,
    content_type: &'static str,
    accept: &'static str,
    body: Vec<u8>,
}

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn request(
    method: Method,
    path: impl Into<String>,
    content_type: &'static str,
    body: String,
) -> ScenarioRequest {
    ScenarioRequest { method, path: path.into(), content_type, accept: JSON, body: body.into_bytes() }
}

/// Measures the scenarios of a shard.
pub fn run(meter: &mut Meter, shard: Shard) {
    for number in 0..64 {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m{number:03}","labels":{{"a":"b","c":"{number}"}}}}}}"#
        );
        let (code, _) = meter.call(Call::new(Method::POST, MAPS, body.into_bytes()));
        assert_eq!(code, 201);
    }
    let only = std::env::var("SETPOINT_COST_ONLY").unwrap_or_default();
    let scenarios = patches().into_iter().chain(bodies()).chain(selectors()).chain(crosses()).chain(faults());
    for (_, scenario) in
        scenarios.enumerate().filter(|(at, scenario)| shard.contains(*at) && scenario.name.contains(&only))
    {
        let mut codes = BTreeSet::new();
        let growth = measure_growth(PLAIN, meter, &mut |meter, len| {
            if let Some(store) = scenario.store {
                let (path, body) = store(len);
                let (code, text) = meter.call(Call::new(Method::POST, &path, body.into_bytes()));
                assert!(code == 201, "{}: {}", scenario.name, String::from_utf8_lossy(&text));
            }
            let ScenarioRequest { method, path, content_type, accept, body } = (scenario.request)(len);
            let (code, count) = meter.count(Call { method, path: &path, content_type, accept, body });
            codes.insert(code);
            count
        });
        report(&format!("{} {codes:?}", scenario.name), &growth);
        assert!(codes.iter().all(|code| *code < 500), "{}: {codes:?}", scenario.name);
    }
}

/// Items with their numbers, between commas.
fn items(len: usize, item: impl Fn(usize) -> String) -> String {
    (0..len).map(item).collect::<Vec<_>>().join(",")
}

fn deployment(name: &str, container: &str, more: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}"}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},
        "template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c","image":"i",{container}}}]{more}}}}}}}}}"#
    )
}

fn args(len: usize) -> (String, String) {
    let args = items(len, |at| format!("\"a{at:06}\""));
    (DEPLOYMENTS.into(), deployment(&format!("args-{len}"), &format!(r#""args":[{args}]"#), ""))
}

fn env(len: usize, value: &str) -> String {
    format!(r#""env":[{}]"#, items(len, |at| format!(r#"{{"name":"N{at:06}","value":"{value}"}}"#)))
}

fn data(len: usize) -> (String, String) {
    let data = items(len, |at| format!(r#""k{at:06}":"v""#));
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"data-{len}"}},"data":{{{data}}}}}"#
    );
    (MAPS.into(), body)
}

/// A JSON patch with one operation for each item.
fn operations(path: String, len: usize, operation: impl Fn(usize) -> String) -> ScenarioRequest {
    request(Method::PATCH, path + "?dryRun=All", JSON_PATCH, format!("[{}]", items(len, operation)))
}

const ARGS: &str = "/spec/template/spec/containers/0/args";

#[expect(clippy::too_many_lines, reason = "a table of scenarios")]
fn patches() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "json patch moves list items",
            store: Some(args),
            request: |len| {
                operations(format!("{DEPLOYMENTS}/args-{len}"), len, |at| {
                    format!(r#"{{"op":"move","from":"{ARGS}/{at}","path":"{ARGS}/{}"}}"#, (at * 7_919) % len)
                })
            },
        },
        Scenario {
            name: "json patch adds to and removes from the front of a list",
            store: Some(|len| {
                let (path, body) = args(len);
                (path, body.replacen("args-", "front-", 1))
            }),
            request: |len| {
                operations(format!("{DEPLOYMENTS}/front-{len}"), len, |at| {
                    let (op, value) = if at % 2 == 0 { ("add", r#","value":"x""#) } else { ("remove", "") };
                    format!(r#"{{"op":"{op}","path":"{ARGS}/0"{value}}}"#)
                })
            },
        },
        Scenario {
            name: "json patch adds, tests and removes fields",
            store: Some(data),
            request: |len| {
                operations(format!("{MAPS}/data-{len}"), len, |at| match at % 3 {
                    0 => format!(r#"{{"op":"add","path":"/data/n{at:06}","value":"x"}}"#),
                    1 => format!(r#"{{"op":"test","path":"/data/k{at:06}","value":"v"}}"#),
                    _ => format!(r#"{{"op":"remove","path":"/data/k{at:06}"}}"#),
                })
            },
        },
        Scenario {
            name: "json patch that makes an object which is refused",
            store: Some(|len| {
                let (path, body) = data(len);
                (path, body.replacen("data-", "bad-", 1))
            }),
            request: |len| {
                operations(format!("{MAPS}/bad-{len}"), len, |at| {
                    format!(r#"{{"op":"replace","path":"/data/k{at:06}","value":7}}"#)
                })
            },
        },
        Scenario {
            name: "json patch copies",
            store: Some(|len| {
                let (path, body) = args(len);
                (path, body.replacen("args-", "copies-", 1))
            }),
            request: |len| {
                operations(format!("{DEPLOYMENTS}/copies-{len}"), len, |at| {
                    format!(r#"{{"op":"copy","from":"{ARGS}/{at}","path":"{ARGS}/-"}}"#)
                })
            },
        },
        Scenario {
            name: "merge patch of many fields",
            store: Some(|len| {
                let (path, body) = data(len);
                (path, body.replacen("data-", "merge-", 1))
            }),
            request: |len| {
                let fields = items(len, |at| match at % 2 {
                    0 => format!(r#""k{at:06}":null"#),
                    _ => format!(r#""n{at:06}":"w""#),
                });
                let path = format!("{MAPS}/merge-{len}?dryRun=All");
                request(Method::PATCH, path, MERGE_PATCH, format!(r#"{{"data":{{{fields}}}}}"#))
            },
        },
        Scenario {
            name: "strategic merge patch of a list with keys",
            store: Some(|len| (DEPLOYMENTS.into(), deployment(&format!("env-{len}"), &env(len, "v"), ""))),
            request: |len| {
                let list = items(len, |at| match at % 3 {
                    0 => format!(r#"{{"name":"N{at:06}","value":"w"}}"#),
                    1 => format!(r#"{{"name":"N{at:06}","$patch":"delete"}}"#),
                    _ => format!(r#"{{"name":"X{at:06}","value":"w"}}"#),
                });
                strategic(len, "env-", &format!(r#""env":[{list}]"#))
            },
        },
        Scenario {
            name: "strategic merge patch with the order of its elements",
            store: Some(|len| (DEPLOYMENTS.into(), deployment(&format!("order-{len}"), &env(len, "v"), ""))),
            request: |len| {
                let order = items(len, |at| format!(r#"{{"name":"N{:06}"}}"#, len - 1 - at));
                let list = items(len, |at| format!(r#"{{"name":"N{:06}","value":"w"}}"#, len - 1 - at));
                strategic(len, "order-", &format!(r#""$setElementOrder/env":[{order}],"env":[{list}]"#))
            },
        },
        Scenario {
            name: "strategic merge patch that removes fields of one element, again and again",
            store: Some(|len| (DEPLOYMENTS.into(), deployment(&format!("gone-{len}"), &env(1, "v"), ""))),
            request: |len| {
                let fields = items(len, |at| format!(r#""u{at:06}":"w""#));
                let gone = items(len, |at| format!(r#"{{"name":"N000000","u{at:06}":null}}"#));
                strategic(len, "gone-", &format!(r#""env":[{{"name":"N000000",{fields}}},{gone}]"#))
            },
        },
        Scenario {
            name: "strategic merge patch that removes fields of a map in one element, again and again",
            store: Some(|len| (DEPLOYMENTS.into(), deployment(&format!("deep-{len}"), &env(1, "v"), ""))),
            request: |len| {
                let fields = items(len, |at| format!(r#""u{at:06}":"w""#));
                let gone =
                    items(len, |at| format!(r#"{{"name":"N000000","valueFrom":{{"u{at:06}":null}}}}"#));
                strategic(
                    len,
                    "deep-",
                    &format!(r#""env":[{{"name":"N000000","valueFrom":{{{fields}}}}},{gone}]"#),
                )
            },
        },
        Scenario {
            name: "strategic merge patch of one element, again and again",
            store: Some(|len| (DEPLOYMENTS.into(), deployment(&format!("again-{len}"), &env(1, "v"), ""))),
            request: |len| {
                let list = items(len, |at| format!(r#"{{"name":"N000000","u{at:06}":"w"}}"#));
                strategic(len, "again-", &format!(r#""env":[{list}]"#))
            },
        },
    ]
}

fn strategic(len: usize, name: &str, container: &str) -> ScenarioRequest {
    let body =
        format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"c",{container}}}]}}}}}}}}"#);
    request(Method::PATCH, format!("{DEPLOYMENTS}/{name}{len}?dryRun=All"), STRATEGIC_PATCH, body)
}

#[expect(clippy::too_many_lines, reason = "a table of scenarios")]
fn bodies() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "apply over what another manager owns",
            store: Some(|len| {
                (DEPLOYMENTS.into(), deployment(&format!("applied-{len}"), &env(len, "v"), ""))
            }),
            request: |len| {
                let path = format!("{DEPLOYMENTS}/applied-{len}?dryRun=All&fieldManager=other&force=true");
                let body = deployment(&format!("applied-{len}"), &env(len, "w"), "");
                request(Method::PATCH, path, APPLY, body)
            },
        },
        Scenario {
            name: "apply with conflicts",
            store: Some(|len| {
                (DEPLOYMENTS.into(), deployment(&format!("conflict-{len}"), &env(len, "v"), ""))
            }),
            request: |len| {
                let path = format!("{DEPLOYMENTS}/conflict-{len}?dryRun=All&fieldManager=other");
                let body = deployment(&format!("conflict-{len}"), &env(len, "w"), "");
                request(Method::PATCH, path, APPLY, body)
            },
        },
        Scenario {
            name: "many managers",
            store: Some(|len| {
                let (path, body) = data(4);
                (path, body.replacen("data-4", &format!("managed-{len}"), 1))
            }),
            request: |len| {
                let managers = items(len, |at| {
                    format!(
                        r#"{{"manager":"m{at:06}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"f:k{at:06}":{{}}}}}}}}"#
                    )
                });
                let body = format!(
                    r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"managed-{len}","managedFields":[{managers}]}},"data":{{"k":"v"}}}}"#
                );
                request(Method::PUT, format!("{MAPS}/managed-{len}?dryRun=All"), JSON, body)
            },
        },
        Scenario {
            name: "yaml with aliases",
            store: None,
            request: |len| {
                let mut body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\n  annotations:\n    a: &x value\n".to_owned();
                for at in 0..len {
                    writeln!(body, "    k{at:06}: *x").unwrap();
                }
                let path = format!("{MAPS}/yaml?dryRun=All&fieldManager=other");
                request(Method::PATCH, path, APPLY, body)
            },
        },
        Scenario {
            name: "protobuf",
            store: None,
            request: |len| {
                let value = json::parse(data(len).1.as_bytes()).unwrap();
                let body = protobuf::to_vec(&value, protobuf::find_definition("v1", "ConfigMap").unwrap());
                ScenarioRequest {
                    method: Method::POST,
                    path: format!("{MAPS}?dryRun=All"),
                    content_type: "application/vnd.kubernetes.protobuf",
                    accept: "application/vnd.kubernetes.protobuf",
                    body,
                }
            },
        },
        Scenario {
            name: "strict decoding of unknown fields",
            store: None,
            request: |len| {
                let fields = items(len, |at| format!(r#""u{at:06}":1"#));
                let body =
                    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"x"}},{fields}}}"#);
                request(Method::POST, format!("{MAPS}?dryRun=All&fieldValidation=Warn"), JSON, body)
            },
        },
        Scenario {
            name: "table of a pod with many containers",
            store: Some(|len| {
                let containers = items(len, |at| format!(r#"{{"name":"c{at:06}","image":"i"}}"#));
                let body = format!(
                    r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"table-{len}"}},"spec":{{"containers":[{containers}]}}}}"#
                );
                (PODS.into(), body)
            }),
            request: |len| ScenarioRequest {
                accept: TABLE,
                ..request(Method::GET, format!("{PODS}/table-{len}"), JSON, String::new())
            },
        },
    ]
}

fn selectors() -> Vec<Scenario> {
    fn list(parameter: &str, terms: String) -> ScenarioRequest {
        request(Method::GET, format!("{MAPS}?{parameter}={}", terms.replace('=', "%3D")), JSON, String::new())
    }
    vec![
        Scenario {
            name: "label selector of many terms on one key",
            store: None,
            request: |len| list("labelSelector", items(len, |at| format!("a!=v{at:06}"))),
        },
        Scenario {
            name: "label selector of many keys",
            store: None,
            request: |len| list("labelSelector", items(len, |at| format!("!k{at:06}"))),
        },
        Scenario {
            name: "label selector of many values",
            store: None,
            request: |len| {
                let values = items(len, |at| format!("v{at:06}"));
                list("labelSelector", format!("a%20notin%20({values})"))
            },
        },
        Scenario {
            name: "field selector of many terms",
            store: None,
            request: |len| list("fieldSelector", items(len, |at| format!("metadata.name!=v{at:06}"))),
        },
    ]
}

fn pod(name: &str, metadata: &str, spec: &str) -> ScenarioRequest {
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"{metadata}}},"spec":{{{spec}}}}}"#
    );
    request(Method::POST, format!("{PODS}?dryRun=All"), JSON, body)
}

/// One list that is looked up for each element of another.
#[expect(clippy::too_many_lines, reason = "a table of scenarios")]
fn crosses() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "containers with equal ports",
            store: None,
            request: |len| {
                let port = r#""ports":[{"containerPort":80,"name":"p"}]"#;
                let containers = items(len, |at| format!(r#"{{"name":"c{at:06}","image":"i",{port}}}"#));
                pod("ports", "", &format!(r#""containers":[{containers}]"#))
            },
        },
        Scenario {
            name: "equal ports with other host ports",
            store: None,
            request: |len| {
                let ports = items(len, |at| format!(r#"{{"containerPort":80,"hostPort":{}}}"#, at + 1));
                pod("ports", "", &format!(r#""containers":[{{"name":"c","image":"i","ports":[{ports}]}}]"#))
            },
        },
        Scenario {
            name: "containers and annotations",
            store: None,
            request: |len| {
                let key = "container.apparmor.security.beta.kubernetes.io";
                let annotations = items(len, |at| format!(r#""{key}/c{at:06}":"unconfined""#));
                let containers = items(len, |at| format!(r#"{{"name":"c{at:06}","image":"i"}}"#));
                pod(
                    "annotated",
                    &format!(r#","annotations":{{{annotations}}}"#),
                    &format!(r#""containers":[{containers}]"#),
                )
            },
        },
        Scenario {
            name: "volumes, mounts and devices",
            store: None,
            request: |len| {
                let claim =
                    |at| format!(r#"{{"name":"d{at:06}","persistentVolumeClaim":{{"claimName":"x"}}}}"#);
                let volumes =
                    items(len, |at| format!(r#"{{"name":"v{at:06}","emptyDir":{{}}}},{}"#, claim(at)));
                let mounts = items(len, |at| format!(r#"{{"name":"v{at:06}","mountPath":"/v{at:06}"}}"#));
                let devices = items(len, |at| format!(r#"{{"name":"d{at:06}","devicePath":"/d{at:06}"}}"#));
                let container = format!(
                    r#"{{"name":"c","image":"i","volumeMounts":[{mounts}],"volumeDevices":[{devices}]}}"#
                );
                pod("mounts", "", &format!(r#""containers":[{container}],"volumes":[{volumes}]"#))
            },
        },
        Scenario {
            name: "overlapping paths of a projected volume",
            store: None,
            request: |len| {
                let items = items(len, |at| format!(r#"{{"key":"k","path":"p/{}"}}"#, at % (len / 2)));
                let volume = format!(
                    r#"{{"name":"v","projected":{{"sources":[{{"configMap":{{"name":"m","items":[{items}]}}}}]}}}}"#
                );
                pod(
                    "paths",
                    "",
                    &format!(r#""containers":[{{"name":"c","image":"i"}}],"volumes":[{volume}]"#),
                )
            },
        },
        Scenario {
            name: "selector and labels of a template",
            store: None,
            request: |len| {
                let labels = items(len, |at| format!(r#""k{at:06}":"v""#));
                let body = format!(
                    r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"labels"}},"spec":{{"selector":{{"matchLabels":{{{labels}}}}},
                    "template":{{"metadata":{{"labels":{{{labels}}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
                );
                request(Method::POST, format!("{DEPLOYMENTS}?dryRun=All"), JSON, body)
            },
        },
        Scenario {
            name: "requests and limits",
            store: None,
            request: |len| {
                let amounts = items(len, |at| format!(r#""example.com/r{at:06}":"1""#));
                pod(
                    "amounts",
                    "",
                    &format!(
                        r#""containers":[{{"name":"c","image":"i","resources":{{"requests":{{{amounts}}},"limits":{{{amounts}}}}}}}]"#
                    ),
                )
            },
        },
        Scenario {
            name: "forbidden update of a pod",
            store: Some(|len| {
                let ScenarioRequest { body, .. } = pod(
                    &format!("update-{len}"),
                    "",
                    &format!(r#""containers":[{{"name":"c","image":"i",{}}}]"#, env(len, "v")),
                );
                (PODS.into(), String::from_utf8(body).unwrap())
            }),
            request: |len| {
                let spec = format!(r#""containers":[{{"name":"c","image":"i",{}}}]"#, env(len, "w"));
                let ScenarioRequest { body, .. } = pod(&format!("update-{len}"), "", &spec);
                let path = format!("{PODS}/update-{len}?dryRun=All");
                request(Method::PUT, path, JSON, String::from_utf8(body).unwrap())
            },
        },
    ]
}

fn create(path: &str, body: String) -> ScenarioRequest {
    request(Method::POST, format!("{path}?dryRun=All"), JSON, body)
}

/// An object of which every element is at fault, or is looked up in another list.
/// Texts are long where every error shows the whole list: such errors are bounded by their bytes, and the cost of
/// short ones grows with the square of the list until the bound is reached.
#[expect(clippy::too_many_lines, reason = "a table of scenarios")]
fn faults() -> Vec<Scenario> {
    const GATED: &str = r#""containers":[{"name":"c","image":"i"}]"#;
    fn gated(len: usize, gate: &str, key: &str) -> (String, String) {
        let gates = items(len, |at| format!(r#"{{"name":"{gate}{at:06}"}}"#));
        let tolerations = items(len, |at| format!(r#"{{"key":"{key}{at:06}","operator":"Exists"}}"#));
        let spec = format!(r#"{GATED},"schedulingGates":[{gates}],"tolerations":[{tolerations}]"#);
        let ScenarioRequest { body, .. } = pod(&format!("gated-{len}"), "", &spec);
        (PODS.into(), String::from_utf8(body).unwrap())
    }
    fn csi_node(len: usize, id: &str) -> String {
        let drivers =
            items(len, |at| format!(r#"{{"name":"d{at:06}","nodeID":"{id}","topologyKeys":["z"]}}"#));
        format!(
            r#"{{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{{"name":"n-{len}"}},"spec":{{"drivers":[{drivers}]}}}}"#
        )
    }
    fn quota(spec: &str) -> ScenarioRequest {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ResourceQuota","metadata":{{"name":"q"}},"spec":{{"hard":{{"services":"1"}},{spec}}}}}"#
        );
        create("/api/v1/namespaces/default/resourcequotas", body)
    }
    vec![
        Scenario {
            name: "scopes of a quota",
            store: None,
            request: |len| quota(&format!(r#""scopes":[{}]"#, items(len, |at| format!("\"{at:04000}\"")))),
        },
        Scenario {
            name: "scope selector of a quota",
            store: None,
            request: |len| {
                let term =
                    |at| format!(r#"{{"scopeName":"BestEffort","operator":"In","values":["{at:04000}"]}}"#);
                let terms = items(len, term);
                quota(&format!(r#""scopeSelector":{{"matchExpressions":[{terms}]}}"#))
            },
        },
        Scenario {
            name: "topologies of a storage class",
            store: None,
            request: |len| {
                let terms = items(len, |at| {
                    let value = format!(r#"{{"key":"k","values":["v{:06}"]}}"#, at % (len / 2));
                    format!(r#"{{"matchLabelExpressions":[{value}]}}"#)
                });
                let body = format!(
                    r#"{{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{{"name":"c"}},"provisioner":"p","allowedTopologies":[{terms}]}}"#
                );
                create("/apis/storage.k8s.io/v1/storageclasses", body)
            },
        },
        Scenario {
            name: "update of the drivers of a node",
            store: Some(|len| ("/apis/storage.k8s.io/v1/csinodes".into(), csi_node(len, "a"))),
            request: |len| {
                let path = format!("/apis/storage.k8s.io/v1/csinodes/n-{len}?dryRun=All");
                request(Method::PUT, path, JSON, csi_node(len, "b"))
            },
        },
        Scenario {
            name: "update of the gates and tolerations of a pod",
            store: Some(|len| gated(len, "example.com/g", "k")),
            request: |len| {
                let (_, body) = gated(len, "example.com/g", "k");
                request(Method::PUT, format!("{PODS}/gated-{len}?dryRun=All"), JSON, body)
            },
        },
        Scenario {
            name: "containers with claims that are not known",
            store: None,
            request: |len| {
                let claims =
                    items(len, |at| format!(r#"{{"name":"x{at:06}","request":"r"}},{{"name":"x{at:06}"}}"#));
                let known = items(len, |at| format!(r#"{{"name":"k{at:06}","resourceClaimName":"c"}}"#));
                let container = format!(r#"{{"name":"c","image":"i","resources":{{"claims":[{claims}]}}}}"#);
                pod("claims", "", &format!(r#""containers":[{container}],"resourceClaims":[{known}]"#))
            },
        },
        Scenario {
            name: "request for a certificate of many first lines",
            store: None,
            request: |len| {
                let request = "LS0tLS1CRUdJTiBBLS0tLS0K".repeat(len);
                let body = format!(
                    r#"{{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{{"name":"r"}},"spec":{{"request":"{request}","signerName":"example.com/s","usages":["client auth"]}}}}"#
                );
                create("/apis/certificates.k8s.io/v1/certificatesigningrequests", body)
            },
        },
        Scenario {
            name: "containers without anything",
            store: None,
            request: |len| {
                pod("empty", "", &format!(r#""containers":[{}]"#, items(len, |_| "{}".to_owned())))
            },
        },
        Scenario {
            name: "strict decoding below a long key",
            store: None,
            request: |len| {
                let fields = items(len.min(100), |at| format!(r#""u{at:06}":1"#));
                let key = "k".repeat(len * 16);
                let body = format!(
                    r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{{"name":"s"}},"spec":{{"driver":"d","pool":{{"name":"p","generation":1,"resourceSliceCount":1}},"nodeName":"n","devices":[{{"name":"d","attributes":{{"{key}":{{{fields}}}}}}}]}}}}"#
                );
                create("/apis/resource.k8s.io/v1/resourceslices", body)
            },
        },
    ]
}
