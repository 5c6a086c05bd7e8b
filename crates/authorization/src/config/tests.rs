//! Claims about configuration files.

use proptest::prelude::*;
use setpoint_api::{Identity, RequestInfo};

use super::*;
use crate::{Attributes, SelectorRequirement};

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
const WEBHOOK_LINES: [&str; 5] = [
    "    timeout: 3s",
    "    subjectAccessReviewVersion: v1",
    "    matchConditionSubjectAccessReviewVersion: v1",
    "    failurePolicy: Deny",
    "    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /etc/kubeconfig}",
];

fn read_text(text: &str) -> Result<AuthorizationConfiguration, String> {
    let check = |file: &str| match file {
        "/missing" => Err("error loading file: stat /missing: no such file or directory".to_owned()),
        "/dir" => Err("must be a regular file".to_owned()),
        _ => Ok(()),
    };
    read(text.as_bytes(), &check).map_err(|error| error.to_string())
}

fn webhook_file(lines: &[&str]) -> String {
    format!("{HEAD}authorizers:\n- type: Webhook\n  name: w\n  webhook:\n{}\n", lines.join("\n"))
}

/// The error for a webhook with one line replaced or added.
fn webhook_error(line: &str) -> String {
    let field = line.trim_start().split(':').next().unwrap_or_default();
    let mut lines: Vec<&str> =
        WEBHOOK_LINES.into_iter().filter(|one| one.trim_start().split(':').next() != Some(field)).collect();
    lines.push(line);
    read_text(&webhook_file(&lines)).map(|_| ()).unwrap_err()
}

fn webhook(text: &str) -> WebhookConfiguration {
    let mut read = read_text(text).unwrap();
    match read.authorizers.remove(0).authorizer {
        AuthorizerType::Webhook(webhook) => *webhook,
        other => panic!("{other:?}"),
    }
}

#[test]
fn authorizers_are_read_in_order() {
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/{version}\nkind: AuthorizationConfiguration\nauthorizers:\n\
             - {{type: Node, name: node}}\n- {{type: RBAC, name: rbac}}\n- {{type: AlwaysDeny, name: alwaysdeny}}\n"
        );
        let read = read_text(&text).unwrap();
        let names: Vec<_> = read.authorizers.iter().map(|one| (&*one.name, one.authorizer.name())).collect();
        assert_eq!(names, [("node", "Node"), ("rbac", "RBAC"), ("alwaysdeny", "AlwaysDeny")]);
    }
}

#[test]
fn webhook_has_upstream_defaults() {
    let read = webhook(&webhook_file(&WEBHOOK_LINES));
    assert_eq!(read.authorized_ttl, Duration::from_secs(300));
    assert_eq!(read.unauthorized_ttl, Duration::from_secs(30));
    assert_eq!((read.timeout, read.version), (Duration::from_secs(3), ReviewVersion::V1));
    assert!(read.denies_on_error && read.match_conditions.is_empty());
    assert_eq!(&*read.kubeconfig, "/etc/kubeconfig");
    let mut lines = WEBHOOK_LINES.to_vec();
    lines.extend(["    cacheAuthorizedRequests: false", "    unauthorizedTTL: 1m"]);
    let read = webhook(&webhook_file(&lines));
    assert_eq!(read.authorized_ttl, Duration::ZERO, "not cached");
    assert_eq!(read.unauthorized_ttl, Duration::from_secs(60));
}

#[test]
fn other_documents_are_rejected_with_upstream_texts() {
    let load = "failed to load AuthorizationConfiguration from file: ";
    for (text, expected) in [
        (
            "{\"kind\":\"AuthorizationConfiguration\"}",
            "Object 'apiVersion' is missing in '{\"kind\":\"AuthorizationConfiguration\"}'",
        ),
        (
            "{\"apiVersion\":\"apiserver.config.k8s.io/v1\"}",
            "Object 'Kind' is missing in '{\"apiVersion\":\"apiserver.config.k8s.io/v1\"}'",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v99\nkind: AuthorizationConfiguration",
            "no kind \"AuthorizationConfiguration\" is registered for version \"apiserver.config.k8s.io/v99\"",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: SomeConfiguration",
            "no kind \"SomeConfiguration\" is registered for version \"apiserver.config.k8s.io/v1\"",
        ),
    ] {
        assert_eq!(read_text(text).unwrap_err(), format!("{load}{expected}"));
    }
    let unknown = format!("{HEAD}authorzers: []\nauthorizers:\n- {{type: RBAC, name: rbac, wehook: {{}}}}\n");
    let expected =
        "strict decoding error: unknown field \"authorzers\", unknown field \"authorizers[0].wehook\"";
    assert_eq!(read_text(&unknown).unwrap_err(), format!("{load}{expected}"));
    let repeated = format!("{HEAD}authorizers: []\nauthorizers: []\n");
    let expected =
        "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"authorizers\" already set in map";
    assert_eq!(read_text(&repeated).unwrap_err(), format!("{load}{expected}"));
    let mistyped = format!("{HEAD}authorizers:\n- {{type: 3, name: rbac}}\n");
    let expected = "json: cannot unmarshal number into Go struct field AuthorizerConfiguration.authorizers.type of type string";
    assert_eq!(read_text(&mistyped).unwrap_err(), format!("{load}{expected}"));
}

#[test]
fn authorizers_are_validated_with_upstream_texts() {
    let error = |items: &str| read_text(&format!("{HEAD}authorizers: [{items}]\n")).map(|_| ()).unwrap_err();
    let none = "authorizers: Required value: at least one authorization mode must be defined";
    assert_eq!(error(""), none);
    assert_eq!(read_text("").map(|_| ()).unwrap_err(), none);
    assert_eq!(error("{name: x}"), "authorizers[0].type: Required value");
    let unsupported = "authorizers[0].type: Unsupported value: \"Foo\": supported values: \"AlwaysAllow\", \
                       \"AlwaysDeny\", \"Node\", \"RBAC\", \"Webhook\"";
    assert_eq!(error("{type: Foo, name: x}"), unsupported);
    assert_eq!(error("{type: ABAC, name: abac}"), unsupported.replace("Foo", "ABAC"));
    assert_eq!(
        error("{type: RBAC, name: rbac}, {type: RBAC, name: other}"),
        "authorizers[1].type: Duplicate value: \"RBAC\""
    );
    assert_eq!(error("{type: RBAC}"), "authorizers[0].name: Required value");
    assert_eq!(
        error("{type: RBAC, name: x}, {type: Node, name: x}"),
        "authorizers[1].name: Duplicate value: \"x\""
    );
    assert!(
        error("{type: RBAC, name: X_}").starts_with(
            "authorizers[0].name: Invalid value: \"X_\": authorizer name is invalid: a lowercase RFC 1123 subdomain"
        )
    );
    assert_eq!(
        error("{type: RBAC, name: rbac, webhook: {}}"),
        "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when type=Webhook"
    );
    assert_eq!(
        error("{type: Webhook, name: w}"),
        "authorizers[0].webhook: Required value: required when type=Webhook"
    );
    assert_eq!(error("{type: RBAC, name: x}"), "expected name rbac for authorizer RBAC instead of x");
}

#[test]
fn webhook_is_validated_with_upstream_texts() {
    for (line, expected) in [
        ("timeout: 0s", "timeout: Required value"),
        ("timeout: 31s", "timeout: Invalid value: \"31s\": must be > 0s and <= 30s"),
        ("timeout: -1s", "timeout: Invalid value: \"-1s\": must be > 0s and <= 30s"),
        ("authorizedTTL: -1m", "authorizedTTL: Invalid value: \"-1m0s\": must be > 0s"),
        ("unauthorizedTTL: -1m", "unauthorizedTTL: Invalid value: \"-1m0s\": must be > 0s"),
        ("subjectAccessReviewVersion: ''", "subjectAccessReviewVersion: Required value"),
        (
            "subjectAccessReviewVersion: v2",
            "subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\"",
        ),
        (
            "matchConditionSubjectAccessReviewVersion: v1beta1",
            "matchConditionSubjectAccessReviewVersion: Unsupported value: \"v1beta1\": supported values: \"v1\"",
        ),
        ("failurePolicy: ''", "failurePolicy: Required value"),
        (
            "failurePolicy: Fail",
            "failurePolicy: Unsupported value: \"Fail\": supported values: \"NoOpinion\", \"Deny\"",
        ),
        ("connectionInfo: {}", "connectionInfo.type: Required value"),
        ("connectionInfo: {type: KubeConfigFile}", "connectionInfo.kubeConfigFile: Required value"),
        (
            "connectionInfo: {type: KubeConfigFile, kubeConfigFile: x}",
            "connectionInfo.kubeConfigFile: Invalid value: \"x\": must be an absolute path",
        ),
        (
            "connectionInfo: {type: KubeConfigFile, kubeConfigFile: /dir}",
            "connectionInfo.kubeConfigFile: Invalid value: \"/dir\": must be a regular file",
        ),
        (
            "connectionInfo: {type: KubeConfigFile, kubeConfigFile: /missing}",
            "connectionInfo.kubeConfigFile: Invalid value: \"/missing\": error loading file: stat /missing: no such file or directory",
        ),
        (
            "connectionInfo: {type: InClusterConfig}",
            "connectionInfo.type: Unsupported value: \"InClusterConfig\": supported values: \"KubeConfigFile\"",
        ),
        ("matchConditions: [{expression: ' '}]", "matchConditions[0].expression: Required value"),
        (
            "matchConditions: [{expression: 'true'}, {expression: 'true'}]",
            "matchConditions[1].expression: Duplicate value: \"true\"",
        ),
        (
            "matchConditions: [{expression: request.user}]",
            "matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string",
        ),
    ] {
        assert_eq!(webhook_error(&format!("    {line}")), format!("authorizers[0].{expected}"));
    }
    let undeclared = webhook_error("    matchConditions: [{expression: request.nope == 'x'}]");
    assert!(
        undeclared.contains("compilation failed: ERROR: <input>:1:8: undefined field 'nope'"),
        "{undeclared}"
    );
    let many = vec!["{expression: x}"; 65].join(",");
    let many = webhook_error(&format!("    matchConditions: [{many}]"));
    assert_eq!(many, "authorizers[0].matchConditions: Too many: 65: must have at most 64 items");
    let mut lines = WEBHOOK_LINES.to_vec();
    lines.remove(2);
    lines.push("    matchConditions: [{expression: 'true'}]");
    assert_eq!(
        read_text(&webhook_file(&lines)).map(|_| ()).unwrap_err(),
        "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified"
    );
    let duration = webhook_error("    timeout: soon");
    assert!(duration.ends_with("time: invalid duration \"soon\""), "{duration}");
    let number = webhook_error("    timeout: 3");
    assert!(number.ends_with("json: cannot unmarshal number into Go value of type string"), "{number}");
}

fn conditions(expressions: &[&str]) -> MatchConditions {
    let items: Vec<String> = expressions.iter().map(|one| format!("{{expression: \"{one}\"}}")).collect();
    let mut lines = WEBHOOK_LINES.to_vec();
    let line = format!("    matchConditions: [{}]", items.join(", "));
    lines.push(&line);
    webhook(&webhook_file(&lines)).match_conditions
}

#[test]
fn match_conditions_read_the_review() {
    let mut user = Identity::new("jane", vec!["dev".to_owned()]);
    user.extra.insert("k".to_owned(), vec!["v".to_owned()]);
    let request = RequestInfo {
        is_resource: true,
        verb: "list",
        group: "apps",
        version: "v1",
        resource: "deployments",
        namespace: "a",
        ..RequestInfo::default()
    };
    let selector =
        [SelectorRequirement { key: "x".to_owned(), operator: "In", values: vec!["y".to_owned()] }];
    let attributes = Attributes { user: &user, request, field_selector: &selector, label_selector: &[] };
    for (expression, expected) in [
        ("request.user == 'jane' && 'dev' in request.groups && request.uid == ''", Ok(true)),
        ("request.extra['k'] == ['v']", Ok(true)),
        ("has(request.resourceAttributes) && !has(request.nonResourceAttributes)", Ok(true)),
        ("request.resourceAttributes.namespace == 'kube-system'", Ok(false)),
        ("request.resourceAttributes.name == '' && request.resourceAttributes.subresource == ''", Ok(true)),
        ("request.resourceAttributes.fieldSelector.requirements[0].values == ['y']", Ok(true)),
        ("has(request.resourceAttributes.labelSelector)", Ok(false)),
        (
            "request.nonResourceAttributes.path == '/'",
            Err("cel evaluation error: expression 'request.nonResourceAttributes.path == '/'' resulted in error: no such key: nonResourceAttributes".to_owned()),
        ),
    ] {
        assert_eq!(conditions(&[expression]).matches(&attributes), expected, "{expression}");
    }
    let failing = "request.nonResourceAttributes.path == '/'";
    assert_eq!(
        conditions(&[failing, "false"]).matches(&attributes),
        Ok(false),
        "an exclusion wins over errors"
    );
    assert!(conditions(&[failing, "true"]).matches(&attributes).is_err());
}

#[test]
fn modes_of_flags_are_checked() {
    let configured = |list: &[&str], file| {
        let list: Vec<String> = list.iter().map(|mode| (*mode).to_owned()).collect();
        modes(&list, file, ReviewVersion::V1Beta1, (Duration::ZERO, Duration::ZERO))
            .map(|read| read.authorizers.iter().map(|one| one.name.to_string()).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.to_string())
    };
    assert_eq!(configured(&["Node", "RBAC"], None), Ok("node rbac".to_owned()));
    assert_eq!(configured(&["RBAC", "Webhook"], Some("/f")), Ok("rbac default".to_owned()));
    assert_eq!(configured(&["Foo"], None), Err("authorization-mode \"Foo\" is not a valid mode".to_owned()));
    assert_eq!(
        configured(&["RBAC", "RBAC"], None),
        Err("authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once".to_owned())
    );
    assert_eq!(
        configured(&["Webhook"], None),
        Err("authorization-mode Webhook's authorization config file not passed".to_owned())
    );
    assert_eq!(
        configured(&["RBAC"], Some("/f")),
        Err("cannot specify --authorization-webhook-config-file without mode Webhook".to_owned())
    );
}

/// A valid file with bytes replaced, removed and inserted.
fn mangled() -> impl Strategy<Value = Vec<u8>> {
    let mut lines = WEBHOOK_LINES.to_vec();
    lines.push("    matchConditions: [{expression: request.user == 'a'}]");
    let text = webhook_file(&lines).into_bytes();
    let edits = prop::collection::vec((0..text.len(), any::<u8>(), 0..3u8), 1..12);
    edits.prop_map(move |edits| {
        let mut bytes = text.clone();
        for (at, byte, kind) in edits {
            let at = at.min(bytes.len().saturating_sub(1));
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, &|_| Ok(()));
    }

    #[test]
    fn mangled_configuration_is_read_or_rejected(bytes in mangled()) {
        let _ = read(&bytes, &|_| Ok(()));
    }

    #[test]
    fn any_expression_is_compiled_or_rejected(expression in "[a-z.\\[\\](){}'=<>!&|?:+*/0-9 -]{0,60}") {
        let line = format!("    matchConditions: [{{expression: \"{expression}\"}}]");
        let mut lines = WEBHOOK_LINES.to_vec();
        lines.push(&line);
        let _ = read(webhook_file(&lines).as_bytes(), &|_| Ok(()));
    }
}
