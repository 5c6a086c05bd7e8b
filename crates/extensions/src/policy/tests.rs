//! Admission policies: verdicts, messages and errors as upstream's.

use setpoint_api::field_error::ErrorList;
use setpoint_api::{Value as Json, json};
use setpoint_cel::{AuthorizationCheck, AuthorizationDecision, Authorizer, ResourceCheck};

use super::*;

fn parse(text: &str) -> Json {
    json::parse(text.as_bytes()).unwrap()
}

/// Policy with a spec of these fields.
fn policy(fields: &str) -> Json {
    parse(&format!(r#"{{"metadata": {{"name": "p"}}, "spec": {{{fields}}}}}"#))
}

struct Request {
    object: Json,
    old: Json,
    request: Json,
    params: Json,
    namespace: Json,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            object: parse(r#"{"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 3}}"#),
            old: Json::Null,
            request: parse(r#"{"operation": "CREATE", "name": "d", "userInfo": {"username": "alice"}}"#),
            params: Json::Null,
            namespace: parse(r#"{"metadata": {"name": "default", "labels": {"env": "test"}}}"#),
        }
    }
}

#[derive(Debug)]
struct Allow;

impl Authorizer for Allow {
    fn authorize(&self, check: &AuthorizationCheck<'_>) -> AuthorizationDecision {
        AuthorizationDecision { is_allowed: check.verb == "get", ..AuthorizationDecision::default() }
    }
}

impl Request {
    fn with<T>(&self, run: impl FnOnce(&PolicyInput<'_>) -> T) -> T {
        run(&PolicyInput {
            object: &self.object,
            old_object: &self.old,
            request: &self.request,
            params: &self.params,
            namespace: &self.namespace,
            authorizer: Some(&Allow),
            resource: &ResourceCheck::default(),
        })
    }

    fn validate(&self, fields: &str) -> ValidationOutcome {
        let policy = ValidatingPolicy::compile(&policy(fields));
        self.with(|input| policy.validate(input))
    }

    /// Messages of the denials.
    fn messages(&self, fields: &str) -> Vec<String> {
        self.validate(fields).denials.into_iter().map(|denial| denial.message).collect()
    }

    fn mutate(&self, fields: &str) -> Result<Mutation, String> {
        let policy = MutatingPolicy::compile(&policy(fields));
        self.with(|input| policy.evaluate(&policy.mutators()[0], input)).map_err(|error| error.0)
    }
}

#[test]
fn failed_validations_deny_with_their_messages() {
    let cases: &[(&str, &[&str])] = &[
        (r#""validations": [{"expression": "object.spec.replicas > 1"}]"#, &[]),
        (
            r#""validations": [{"expression": " object.spec.replicas > 100 "}]"#,
            &["failed expression: object.spec.replicas > 100"],
        ),
        (
            r#""validations": [{"expression": "object.spec.replicas > 100", "message": "wants 100 replicas"}]"#,
            &["wants 100 replicas"],
        ),
        (
            r#""validations": [{"expression": "object.spec.replicas > 100", "message": "wants 100 replicas",
               "messageExpression": "'wants 100 replicas, got ' + string(object.spec.replicas)"}]"#,
            &["wants 100 replicas, got 3"],
        ),
        // A message expression that fails, or has no usable result, gives way to the message.
        (
            r#""validations": [{"expression": "false", "message": "m", "messageExpression": "object.spec.missing"}]"#,
            &["m"],
        ),
        (
            r#""validations": [{"expression": "false", "message": "m", "messageExpression": "'a\\nb'"}]"#,
            &["m"],
        ),
        (r#""validations": [{"expression": "false", "message": "m", "messageExpression": "'  '"}]"#, &["m"]),
        (
            r#""validations": [{"expression": "object.spec.missing > 0"}]"#,
            &["expression 'object.spec.missing > 0' resulted in error: no such key: missing"],
        ),
        (
            r#""failurePolicy": "Ignore", "validations": [{"expression": "object.spec.missing > 0"},
               {"expression": "false"}]"#,
            &["failed expression: false"],
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(Request::default().messages(fields), *expected, "{fields}");
    }
}

#[test]
fn variables_are_composed_and_see_earlier_ones() {
    let fields = r#""variables": [
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "doubled", "expression": "int(variables.replicas) * 2"},
            {"name": "broken", "expression": "object.spec.missing"}
        ], "validations": [
            {"expression": "variables.doubled == 6"},
            {"expression": "variables.doubled == 7", "messageExpression": "'got ' + string(variables.doubled)"},
            {"expression": "variables.broken == 1"}
        ]"#;
    assert_eq!(
        Request::default().messages(fields),
        [
            "got 6",
            "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: \
             no such key: missing"
        ]
    );
}

#[test]
fn every_variable_of_the_request_is_bound() {
    let request = Request { params: parse(r#"{"data": {"max": "2"}}"#), ..Request::default() };
    let fields = r#""paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
            {"expression": "oldObject == null"},
            {"expression": "request.operation == 'CREATE' && request.userInfo.username == 'alice'"},
            {"expression": "params.data.max == '2'"},
            {"expression": "namespaceObject.metadata.labels['env'] == 'test'"},
            {"expression": "authorizer.group('').resource('pods').check('get').allowed()"},
            {"expression": "!authorizer.requestResource.check('delete').allowed()"}
        ]"#;
    assert_eq!(request.messages(fields), [""; 0]);
}

#[test]
fn unmet_match_conditions_skip_the_policy() {
    let deny = r#""validations": [{"expression": "false", "message": "denied"}]"#;
    let cases: &[(&str, &str, &[&str])] = &[
        ("object.spec.replicas == 3", "Fail", &["denied"]),
        ("object.spec.replicas == 4", "Fail", &[]),
        ("object.spec.missing", "Fail", &["compilation error: must evaluate to bool but got dyn"]),
        (
            "object.spec.missing == 1",
            "Fail",
            &["expression 'object.spec.missing == 1' resulted in error: no such key: missing"],
        ),
        ("object.spec.missing == 1", "Ignore", &[]),
    ];
    for (condition, failure_policy, expected) in cases {
        let fields = format!(
            r#""failurePolicy": "{failure_policy}", "matchConditions": [{{"name": "c", "expression": "{condition}"}}],
               {deny}"#
        );
        assert_eq!(Request::default().messages(&fields), *expected, "{condition} {failure_policy}");
    }
}

#[test]
fn a_false_condition_skips_the_policy_despite_errors_of_others() {
    let fields = r#""matchConditions": [{"name": "a", "expression": "object.missing == 1"},
        {"name": "b", "expression": "false"}], "validations": [{"expression": "false"}]"#;
    assert_eq!(Request::default().messages(fields), [""; 0]);
}

#[test]
fn exhausted_budget_fails_the_policy() {
    let list = vec!["1"; 1000].join(",");
    let request = Request { object: parse(&format!(r#"{{"list": [{list}]}}"#)), ..Request::default() };
    let expensive = r#"{"expression": "object.list.all(x, object.list.exists(y, y == 1 && x == 1)) && object.list.all(x, object.list.all(y, true))"}"#;
    let fields = format!(r#""validations": [{expensive}]"#);
    let [message] = &request.messages(&fields)[..] else { panic!("one denial") };
    assert!(
        message.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"),
        "{message}"
    );
    let fields = format!(r#""validations": [{}]"#, [expensive; 12].join(","));
    assert_eq!(
        request.messages(&fields),
        ["validation failed due to running out of cost budget, no further validation rules will be run"]
    );
}

#[test]
fn reasons_default_to_invalid() {
    let fields =
        r#""validations": [{"expression": "false"}, {"expression": "false", "reason": "Forbidden"}]"#;
    let reasons: Vec<String> =
        Request::default().validate(fields).denials.into_iter().map(|denial| denial.reason).collect();
    assert_eq!(reasons, ["Invalid", "Forbidden"]);
}

#[test]
fn audit_annotations_are_published_unless_null_or_empty() {
    let fields = r#""auditAnnotations": [
            {"key": "name", "valueExpression": "' ' + object.metadata.name"},
            {"key": "none", "valueExpression": "null"},
            {"key": "empty", "valueExpression": "''"},
            {"key": "error", "valueExpression": "string(object.missing)"}
        ]"#;
    let outcome = Request::default().validate(fields);
    assert_eq!(outcome.annotations, [("name".to_owned(), "d".to_owned())]);
    assert_eq!(
        outcome.denials,
        [Denial {
            index: None,
            message: "expression 'string(object.missing)' resulted in error: no such key: missing".to_owned(),
            reason: String::new()
        }]
    );
}

#[test]
fn mutations_are_configurations_or_patches() {
    let apply = |expression: &str| {
        let fields = format!(
            r#""mutations": [{{"patchType": "ApplyConfiguration", "applyConfiguration": {{"expression": "{expression}"}}}}]"#
        );
        Request::default().mutate(&fields)
    };
    assert_eq!(
        apply("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"),
        Ok(Mutation::Apply(parse(r#"{"spec": {"replicas": 4}}"#)))
    );
    assert_eq!(
        apply("Object{spec: Object.wrong{replicas: 1}}"),
        Err("type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec\", which matches field name \
             path from root Object type"
            .to_owned())
    );
    let fields = r#""mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}]"}}]"#;
    assert_eq!(
        Request::default().mutate(fields),
        Ok(Mutation::Patch(parse(r#"[{"op": "add", "path": "/metadata/labels/a~1b", "value": "x"}]"#)))
    );
}

#[test]
fn expressions_are_compiled_when_written() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("ValidatingAdmissionPolicy", r#""validations": [{"expression": "object.x > 1"}]"#, &[]),
        (
            "ValidatingAdmissionPolicy",
            r#""validations": [{"expression": "object.x + missing > 1"}]"#,
            &[
                "spec.validations[0].expression: Invalid value: \"object.x + missing > 1\": compilation failed: ERROR: \
               <input>:1:12: undeclared reference to 'missing' (in container '')\n | object.x + missing > 1\n | \
               ...........^",
            ],
        ),
        (
            "ValidatingAdmissionPolicy",
            r#""validations": [{"expression": "object.x + 1", "messageExpression": "authorizer == null"}]"#,
            &[
                "spec.validations[0].expression: Invalid value: \"object.x + 1\": must evaluate to bool but got int",
                "spec.validations[0].messageExpression: Invalid value: \"authorizer == null\": compilation failed: \
                 ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | authorizer == null\n \
                 | ^",
            ],
        ),
        (
            "ValidatingAdmissionPolicy",
            r#""auditAnnotations": [{"key": "k", "valueExpression": "true"}]"#,
            &[
                "spec.auditAnnotations[0].valueExpression: Invalid value: \"true\": must evaluate to one of [string \
               null_type] but got bool",
            ],
        ),
        (
            "MutatingAdmissionPolicy",
            r#""mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "true"}}]"#,
            &[
                "spec.mutations[0].applyConfiguration.expression: Invalid value: \"true\": must evaluate to Object but \
               got bool",
            ],
        ),
    ];
    for (kind, fields, expected) in cases {
        let mut errors = ErrorList::new();
        validate_policy(kind, &policy(fields), None, &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, *expected, "{fields}");
    }
}

#[test]
fn unchanged_match_conditions_of_webhooks_are_not_compiled_again() {
    let hooks = parse(r#"{"webhooks": [{"matchConditions": [{"name": "c", "expression": "1 +"}]}]}"#);
    let mut errors = ErrorList::new();
    validate_policy("ValidatingWebhookConfiguration", &hooks, Some(&hooks), &mut errors);
    assert!(errors.is_empty());
    validate_policy("ValidatingWebhookConfiguration", &hooks, None, &mut errors);
    assert_eq!(errors.len(), 1);
}

#[test]
fn policies_that_would_compile_without_bound_are_rejected() {
    let error = |fields: &str| {
        let mut errors = ErrorList::new();
        validate_policy("ValidatingAdmissionPolicy", &policy(fields), None, &mut errors);
        errors.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("; ")
    };
    let list = |count: usize, item: &dyn Fn(usize) -> String| {
        (0..count).map(|at| format!("{{{}}}", item(at))).collect::<Vec<_>>().join(",")
    };
    let variables = |count| list(count, &|at| format!(r#""name": "v{at}", "expression": "1""#));
    let found = error(&format!(r#""variables": [{}]"#, variables(5_001)));
    assert_eq!(found, "spec.variables: Forbidden: must have at most 5000 items");
    assert_eq!(error(&format!(r#""variables": [{}]"#, variables(10))), "");
    let pattern = |at| format!(r#""expression": "object.name.matches('{at}((a{{1000}}){{10}}){{3}}')""#);
    let found = error(&format!(r#""validations": [{}]"#, list(300, &pattern)));
    assert!(found.contains("the patterns of the expressions are too large together"), "{found}");
    assert_eq!(error(&format!(r#""validations": [{}]"#, list(3, &pattern))), "");
}
