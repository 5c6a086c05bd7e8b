//! A small valid object of each kind, whose lists have one element where there is one that is worth copying.

use setpoint_api::resources::ResourceInfo;
use setpoint_api::{Value, json, yaml};

const POD_SPEC: &str = r#"{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx","ports":[{"name":"p","containerPort":80,
"hostPort":8080,"protocol":"TCP"}],"env":[{"name":"A","value":"b"}],"envFrom":[{"configMapRef":{"name":"m"}}],"resources":{"requests":
{"cpu":"100m"},"limits":{"memory":"1Gi"}},"livenessProbe":{"httpGet":{"port":80,"path":"/","httpHeaders":[{"name":"h","value":"v"}]}},
"volumeMounts":[{"name":"v","mountPath":"/v"}],"args":["a"],"command":["a"]}],"volumes":[{"name":"v","configMap":{"name":"m","items":
[{"key":"a","path":"b"}]}}],"imagePullSecrets":[{"name":"s"}],"tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute"}],
"hostAliases":[{"ip":"10.0.0.1","hostnames":["h"]}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":
"ScheduleAnyway","labelSelector":{"matchLabels":{"a":"b"}}}],"affinity":{"nodeAffinity":
{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":
["b"]}]}]}},"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"z","labelSelector":{"matchLabels":
{"a":"b"}},"namespaces":["n"]}]}},"securityContext":{"sysctls":[{"name":"net.ipv4.ip_local_port_range","value":"1 2"}],
"supplementalGroups":[1]}}"#;

/// Kinds whose groups have no table of cases beside their rules: group, kind, and all but the name.
const BASES: [(&str, &str, &str); 32] = [
    ("", "Pod", r#"{"spec":POD}"#),
    ("", "PodTemplate", r#"{"template":{"metadata":{"labels":{"a":"b"}},"spec":ALWAYS}}"#),
    (
        "",
        "ReplicationController",
        r#"{"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":ALWAYS}}}"#,
    ),
    ("", "ConfigMap", r#"{"data":{"k":"v"}}"#),
    ("", "Secret", r#"{"data":{"k":"AAAA"}}"#),
    ("", "ServiceAccount", r#"{"secrets":[{"name":"s"}],"imagePullSecrets":[{"name":"s"}]}"#),
    (
        "",
        "Service",
        r#"{"spec":{"selector":{"a":"b"},"externalIPs":["1.2.3.4"],"ports":[{"name":"p","port":80,"protocol":"TCP"}]}}"#,
    ),
    (
        "",
        "Endpoints",
        r#"{"subsets":[{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"name":"p","port":80,"protocol":"TCP"}]}]}"#,
    ),
    (
        "",
        "PersistentVolumeClaim",
        r#"{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#,
    ),
    (
        "",
        "PersistentVolume",
        r#"{"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/a"}}}"#,
    ),
    (
        "",
        "Node",
        r#"{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"taints":[{"key":"a","effect":"NoSchedule"}]}}"#,
    ),
    ("", "Namespace", r#"{"spec":{"finalizers":["kubernetes"]}}"#),
    ("", "LimitRange", r#"{"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}"#),
    ("", "ResourceQuota", r#"{"spec":{"hard":{"pods":"1"},"scopes":["BestEffort"]}}"#),
    (
        "",
        "Event",
        r#"{"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"reason":"r","message":"m","type":"Normal"}"#,
    ),
    ("", "Binding", r#"{"target":{"kind":"Node","name":"n"}}"#),
    (
        "events.k8s.io",
        "Event",
        r#"{"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"a.example/b","reportingInstance":"i","action":"Do",
        "reason":"Why","type":"Normal","note":"so","regarding":{"kind":"Pod","namespace":"default","name":"p"}}"#,
    ),
    ("apps", "ControllerRevision", r#"{"data":{},"revision":1}"#),
    (
        "apps",
        "Deployment",
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},
        "template":{"metadata":{"labels":{"a":"b"}},"spec":ALWAYS}}}"#,
    ),
    (
        "apps",
        "DaemonSet",
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":ALWAYS}}}"#,
    ),
    (
        "apps",
        "ReplicaSet",
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":ALWAYS}}}"#,
    ),
    (
        "apps",
        "StatefulSet",
        r#"{"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":ALWAYS},
        "volumeClaimTemplates":[{"metadata":{"name":"w"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":
        "1Gi"}}}}]}}"#,
    ),
    ("batch", "Job", r#"{"spec":{"template":{"spec":POD}}}"#),
    (
        "batch",
        "CronJob",
        r#"{"spec":{"schedule":"*/5 * * * *","jobTemplate":{"spec":{"template":{"spec":POD}}}}}"#,
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        r#"{"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"x"}}}"#,
    ),
    ("policy", "PodDisruptionBudget", r#"{"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}"#),
    ("policy", "Eviction", r"{}"),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        r#"{"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
        "operations":["CREATE"],"resources":["pods"]}]},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/x'}]"}}]}}"#,
    ),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", r#"{"spec":{"policyName":"p"}}"#),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        r#"{"spec":{"signerName":"example.com/s","usages":["client auth"],"request":"REQUEST"}}"#,
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u",
        "apiGroup":"rbac.authorization.k8s.io"}]}"#,
    ),
    (
        "resource.k8s.io",
        "DeviceTaintRule",
        r#"{"spec":{"deviceSelector":{"driver":"d"},"taint":{"key":"k","value":"v","effect":"NoExecute"}}}"#,
    ),
];

/// A request for a certificate in PEM, in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISU1IQUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFlXNXVNRmt3RXdZSEtvWkl6ajBDQVFZSUtvWkl6ajBEQVFjRApRZ0FFOUJVNnF4YXdPYUNudlAzRDVrdkp6RElUWGcva3J4QUJJNFl0dlRvYWlKR2kwR3JpT1RxNndrRWJpYjB5ClRkRExjTWF1aW5hYXpFa1Y4clIzM29MTjRhQUFNQW9HQ0NxR1NNNDlCQU1DQTBnQU1FVUNJRkJvQXpyWldlVUIKSEtnbTZZeGpXa3o5YVdWSExLaFFlVXpSdFpIelFBWitBaUVBOUJjWmpFMUk3MDBLb01WVlhpV0ZPUVBsMDh2SgpOTmt0dVltazJ1cE5CSjQ9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

/// The name under which the base object of a kind is stored.
pub fn stored_name(info: &ResourceInfo) -> &'static str {
    match &*info.kind {
        "APIService" => "v1.a.b",
        "ClusterTrustBundle" => "a.b:c:stored",
        "IPAddress" => "10.9.8.7",
        _ => "stored",
    }
}

/// The base object of a kind.
pub fn base(info: &ResourceInfo) -> Value {
    let mut object = written(info).unwrap_or_else(|| case(info));
    let map = object.make_map();
    let version = if info.group.is_empty() {
        info.version.to_string()
    } else {
        format!("{}/{}", info.group, info.version)
    };
    map.insert("apiVersion", version);
    map.insert("kind", &*info.kind);
    let metadata = map.ensure_map("metadata");
    metadata.ensure("name", || "base".into());
    object
}

fn written(info: &ResourceInfo) -> Option<Value> {
    let (.., text) = BASES.iter().find(|(group, kind, _)| (*group, *kind) == (&*info.group, &*info.kind))?;
    let always = POD_SPEC.replace("Never", "Always");
    let text = text.replace("POD", POD_SPEC).replace("ALWAYS", &always).replace("REQUEST", REQUEST);
    Some(json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", info.kind)))
}

/// The first object of the kind that its table of cases calls good.
fn case(info: &ResourceInfo) -> Value {
    let group = info.group.split('.').next().unwrap_or_default();
    let path = format!("{}/../api/src/kinds/cases/{group}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let verb = format!("create {}", info.kind);
    let is_good = |block: &&str| {
        block.lines().nth(1) == Some(&*verb) && !block.lines().any(|line| line.starts_with('!'))
    };
    let object = text.split("\n\n").map(str::trim).find(is_good).and_then(|block| {
        let line = block.lines().find(|line| line.starts_with('{'))?;
        yaml::parse_strict(line.as_bytes()).ok()
    });
    object.map_or_else(Value::map, |(object, _)| object)
}
