//! Validation of ConfigMap, Secret, ServiceAccount, Namespace, Endpoints and Binding.

use super::*;
use crate::kinds::core::namespace;
use crate::metadata::delete::Deletion;
use crate::metadata::options::DeleteOptions;
use crate::time::Time;

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn keys_and_size_of_config_maps_are_validated() {
    let bad_key = format!("data[a/b]: Invalid value: \"a/b\": {CONFIG_KEY}");
    let bad_binary = format!("binaryData[c d]: Invalid value: \"c d\": {CONFIG_KEY}");
    check_all(
        "ConfigMap",
        &[
            ("{}", &[]),
            ("{data: {a: b, .c: '', A_b-c: x}}", &[]),
            ("{data: {a: b}, binaryData: {b: AAEC}}", &[]),
            ("{data: {a/b: x}}", &[&bad_key]),
            ("{binaryData: {c d: AAEC}}", &[&bad_binary]),
            ("{data: {..: x}}", &["data[..]: Invalid value: \"..\": must not be '..'"]),
            ("{data: {..a: x}}", &["data[..a]: Invalid value: \"..a\": must not start with '..'"]),
            (
                "{data: {a: b}, binaryData: {a: AAEC}}",
                &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
            ),
        ],
    );
    let most = "x".repeat((1 << 20) - 3);
    assert!(faults("ConfigMap", &format!("{{data: {{a: {most}}}, binaryData: {{b: AAEC}}}}")).is_empty());
    assert_eq!(
        faults("ConfigMap", &format!("{{data: {{a: {most}, c: z}}, binaryData: {{b: AAEC}}}}")),
        ["[]: Too long: may not be more than 1048576 bytes"]
    );
}

#[test]
fn immutable_config_map_cannot_change() {
    let immutable = "field is immutable when `immutable` is set";
    let (flag, data, binary) = (
        format!("immutable: Forbidden: {immutable}"),
        format!("data: Forbidden: {immutable}"),
        format!("binaryData: Forbidden: {immutable}"),
    );
    check_updates(
        "ConfigMap",
        &[
            ("{data: {a: b}}", "{data: {a: c}, immutable: true}", &[]),
            ("{data: {a: b}, immutable: false}", "{data: {a: c}}", &[]),
            ("{data: {a: b, c: d}, immutable: true}", "{immutable: true, data: {c: d, a: b}}", &[]),
            ("{data: {a: b}, immutable: true}", "{data: {a: b}}", &[&flag]),
            ("{data: {a: b}, immutable: true}", "{data: {a: c}, immutable: true}", &[&data]),
            (
                "{binaryData: {a: AAEC}, immutable: true}",
                "{data: {a: x}, immutable: false}",
                &[&flag, &data, &binary],
            ),
        ],
    );
}

#[test]
fn secrets_have_the_data_of_their_type() {
    let bad_key = format!("data[a b]: Invalid value: \"a b\": {CONFIG_KEY}");
    check_all(
        "Secret",
        &[
            ("{}", &[]),
            ("{type: whatever/i-like, data: {a: YQ==}}", &[]),
            ("{data: {a b: YQ==}}", &[&bad_key]),
            (
                "{type: kubernetes.io/service-account-token}",
                &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
            (
                "{type: kubernetes.io/service-account-token, metadata: {annotations: {kubernetes.io/service-account.name: x}}}",
                &[],
            ),
            ("{type: kubernetes.io/dockercfg}", &["data[.dockercfg]: Required value"]),
            ("{type: kubernetes.io/dockercfg, stringData: {.dockercfg: '{}'}}", &[]),
            (
                "{type: kubernetes.io/dockercfg, stringData: {.dockercfg: '{'}}",
                &[
                    "data[.dockercfg]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input",
                ],
            ),
            ("{type: kubernetes.io/dockerconfigjson}", &["data[.dockerconfigjson]: Required value"]),
            (
                "{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '[]'}}",
                &[
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into Go value of type map[string]interface {}",
                ],
            ),
            (
                "{type: kubernetes.io/basic-auth}",
                &["data[username]: Required value", "data[password]: Required value"],
            ),
            ("{type: kubernetes.io/basic-auth, stringData: {password: x}}", &[]),
            ("{type: kubernetes.io/ssh-auth}", &["data[ssh-privatekey]: Required value"]),
            (
                "{type: kubernetes.io/ssh-auth, data: {ssh-privatekey: ''}}",
                &["data[ssh-privatekey]: Required value"],
            ),
            ("{type: kubernetes.io/ssh-auth, stringData: {ssh-privatekey: x}}", &[]),
            (
                "{type: kubernetes.io/tls}",
                &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
            ),
            ("{type: kubernetes.io/tls, data: {tls.crt: '', tls.key: ''}}", &[]),
        ],
    );
    let large = "A".repeat((1 << 20) / 3 * 4 + 8);
    assert_eq!(
        faults("Secret", &format!("{{data: {{a: {large}}}}}")),
        ["data: Too long: may not be more than 1048576 bytes"]
    );
}

#[test]
fn string_data_is_merged_into_data() {
    let secret = object("Secret", "{data: {a: YQ==, b: Yg==}, stringData: {b: hello, c: ''}}");
    assert_eq!(at(&secret, &["data"]), r#"{"a":"YQ==","b":"aGVsbG8=","c":""}"#);
    assert_eq!(at(&secret, &["stringData"]), "");
    assert_eq!(at(&secret, &["type"]), r#""Opaque""#);
}

#[test]
fn secret_type_and_immutable_data_cannot_change() {
    let immutable = "field is immutable when `immutable` is set";
    let (flag, data) =
        (format!("immutable: Forbidden: {immutable}"), format!("data: Forbidden: {immutable}"));
    check_updates(
        "Secret",
        &[
            ("{data: {a: YQ==}}", "{data: {a: Yg==}}", &[]),
            ("{type: a}", "{type: b}", &["type: Invalid value: \"b\": field is immutable"]),
            ("{type: a}", "{}", &["type: Invalid value: \"Opaque\": field is immutable"]),
            ("{data: {a: YQ==}, immutable: true}", "{data: {a: YQ==}, immutable: true}", &[]),
            ("{data: {a: YQ==}, immutable: true}", "{stringData: {a: b}}", &[&flag, &data]),
        ],
    );
    assert_eq!(of("Secret").fields(&object("Secret", "{}")), [("type", "Opaque".into())]);
    assert_eq!(
        warnings("Secret", "{type: kubernetes.io/tls, stringData: {tls.crt: x, tls.key: z}}"),
        ["tls: failed to find any PEM data in certificate input"]
    );
}

#[test]
fn service_account_keeps_only_names_of_secrets() {
    let text = "{secrets: [{name: a, namespace: other, kind: Secret}, {}]}";
    assert_eq!(at(&created("ServiceAccount", text), &["secrets"]), r#"[{"name":"a"},{}]"#);
    let text = "{metadata: {annotations: {kubernetes.io/enforce-mountable-secrets: 'true'}}}";
    let new = object("ServiceAccount", text);
    assert_eq!(
        of("ServiceAccount").warnings(&new, None),
        [
            "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ]
    );
    assert!(of("ServiceAccount").warnings(&new, Some(&new)).is_empty());
}

#[test]
fn new_namespace_is_active_with_label_and_finalizer() {
    let namespace = created("Namespace", "{metadata: {name: web}, status: {phase: Terminating}}");
    assert_eq!(at(&namespace, &["status"]), r#"{"phase":"Active"}"#);
    assert_eq!(at(&namespace, &["spec"]), r#"{"finalizers":["kubernetes"]}"#);
    assert_eq!(at(&namespace, &["metadata", "labels"]), r#"{"kubernetes.io/metadata.name":"web"}"#);
    let namespace = created("Namespace", "{metadata: {name: web}, spec: {finalizers: [a.b/c]}}");
    assert_eq!(at(&namespace, &["spec", "finalizers"]), r#"["a.b/c","kubernetes"]"#);
    assert_eq!(of("Namespace").fields(&namespace), [("status.phase", "Active".into())]);
}

#[test]
fn namespace_finalizers_change_only_through_finalize() {
    let standard = "name is neither a standard finalizer name nor is it fully qualified";
    let bad = format!("spec.finalizers: Invalid value: \"nope\": {standard}");
    check_all(
        "Namespace",
        &[("{spec: {finalizers: [nope]}}", &[&bad]), ("{spec: {finalizers: [orphan]}}", &[])],
    );
    let old = created("Namespace", "{metadata: {name: a}}");
    let mut new = object("Namespace", "{metadata: {name: a, labels: {x: z}}, status: {phase: Odd}}");
    of("Namespace").prepare_update(&mut new, &old);
    assert_eq!(at(&new, &["spec", "finalizers"]), r#"["kubernetes"]"#);
    assert_eq!(at(&new, &["status", "phase"]), r#""Active""#);
    let mut new =
        object("Namespace", "{metadata: {name: a}, spec: {finalizers: [nope, a/b]}, status: {phase: Odd}}");
    namespace::prepare_finalize(&mut new, &old);
    assert_eq!(at(&new, &["status", "phase"]), r#""Active""#);
    let mut errors = ErrorList::new();
    namespace::validate_finalize(&new, &mut errors);
    assert_eq!(texts(errors), [format!("spec.finalizers[0]: Invalid value: \"nope\": {standard}")]);
}

#[test]
fn phase_of_a_namespace_follows_its_deletion() {
    let deleted = "{metadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: PHASE}}";
    let alive = "{metadata: {name: a}, status: {phase: PHASE}}";
    for (text, phase, expected) in [
        (alive, "Active", None),
        (deleted, "Terminating", None),
        (
            alive,
            "Terminating",
            Some(
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
            ),
        ),
        (
            deleted,
            "Active",
            Some(
                "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty",
            ),
        ),
    ] {
        let text = text.replace("PHASE", phase);
        assert_eq!(status_faults("Namespace", &text, &text), expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn namespace_is_marked_before_it_is_removed() {
    let now = Time::from_seconds(1_767_225_600);
    let delete =
        |object: &Value, options: &DeleteOptions<'_>| namespace::delete(object.clone(), options, now);
    let options = DeleteOptions::default();
    let live = created("Namespace", "{metadata: {name: a, uid: u}}");
    let Ok(Deletion::Mark(marked)) = delete(&live, &options) else {
        panic!("expected a deletion timestamp first")
    };
    assert_eq!(at(&marked, &["metadata", "deletionTimestamp"]), r#""2026-01-01T00:00:00Z""#);
    assert_eq!(at(&marked, &["status", "phase"]), r#""Terminating""#);
    assert_eq!(delete(&marked, &options), Ok(Deletion::Pending));
    let mut empty = marked.clone();
    empty.ensure_map("spec").remove("finalizers");
    assert!(namespace::is_released(&empty, &marked));
    assert!(!namespace::is_released(&marked, &marked));
    assert!(matches!(delete(&empty, &options), Ok(Deletion::Remove(_))));
    assert!(delete(&live, &DeleteOptions { uid: Some("v"), ..DeleteOptions::default() }).is_err());
    for (options, finalizers) in [
        (
            DeleteOptions { propagation_policy: Some("Foreground"), ..DeleteOptions::default() },
            r#"["foregroundDeletion"]"#,
        ),
        (DeleteOptions { propagation_policy: Some("Background"), ..DeleteOptions::default() }, ""),
        (DeleteOptions { orphan_dependents: Some(true), ..DeleteOptions::default() }, r#"["orphan"]"#),
        (
            DeleteOptions { orphan_dependents: Some(false), ..DeleteOptions::default() },
            r#"["foregroundDeletion"]"#,
        ),
    ] {
        let Ok(Deletion::Mark(marked)) = delete(&live, &options) else {
            panic!("expected a deletion timestamp first")
        };
        assert_eq!(at(&marked, &["metadata", "finalizers"]), finalizers);
    }
}

#[test]
fn addresses_and_ports_of_endpoints_are_validated() {
    let host = format!("subsets[0].addresses[0].hostname: Invalid value: \"A\": {LABEL}");
    check_all(
        "Endpoints",
        &[
            ("{}", &[]),
            ("{subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]}", &[]),
            ("{subsets: [{notReadyAddresses: [{ip: '2001:db8::1', hostname: a, nodeName: m}]}]}", &[]),
            (
                "{subsets: [{}]}",
                &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
            ),
            (
                "{subsets: [{addresses: [{ip: x}]}]}",
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                ],
            ),
            (
                "{subsets: [{addresses: [{ip: 127.0.0.1}]}]}",
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                ],
            ),
            (
                "{subsets: [{addresses: [{ip: 0.0.0.0}]}]}",
                &["subsets[0].addresses[0].ip: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)"],
            ),
            (
                "{subsets: [{addresses: [{ip: 'fe80::1'}]}]}",
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"fe80::1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
                ],
            ),
            (
                "{subsets: [{addresses: [{ip: 224.0.0.5}]}]}",
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"224.0.0.5\": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
                ],
            ),
            ("{subsets: [{addresses: [{ip: 10.0.0.1, hostname: A}]}]}", &[&host]),
            (
                "{subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 0}, {name: a, port: 70000, protocol: X}]}]}",
                &[
                    "subsets[0].ports[0].name: Required value",
                    "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "subsets[0].ports[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
                    "subsets[0].ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                ],
            ),
        ],
    );
    check_updates(
        "Endpoints",
        &[
            ("{subsets: [{}]}", "{metadata: {labels: {a: b}}, subsets: [{}]}", &[]),
            (
                "{}",
                "{subsets: [{}]}",
                &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
            ),
        ],
    );
    assert_eq!(
        warnings("Endpoints", "{subsets: [{addresses: [{ip: '2001:DB8::1'}]}]}"),
        [
            "subsets[0].addresses[0].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"
        ]
    );
}

#[test]
fn binding_requires_a_node() {
    check_all(
        "Binding",
        &[
            ("{target: {name: m}}", &[]),
            ("{target: {kind: Node, name: n.example.com}}", &[]),
            ("{target: {kind: Node}}", &["target.name: Required value"]),
            (
                "{target: {kind: Pod, name: m}}",
                &["target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\""],
            ),
        ],
    );
    assert_eq!(faults("Binding", "{target: {name: M}}").len(), 1);
}
