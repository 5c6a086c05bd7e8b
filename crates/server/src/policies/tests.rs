//! Policies in the write pipeline.

use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::status::Status;
use setpoint_api::{Time, Value, json, resource_types};
use setpoint_store::{Retention, Store};

use crate::catalog::Catalogs;
use crate::exchange::Identity;
use crate::pipeline::create::create;
use crate::pipeline::delete::delete;
use crate::pipeline::update::{Subresource, update};
use crate::pipeline::{DesiredObject, PipelineResult, RequestContext, WriteOrigin};
use crate::webhooks::WebhookContext;
use crate::webhooks::answers::WebhookAnswers;
use crate::webhooks::config::WebhookRegistry;

const ADMISSION: &str = "admissionregistration.k8s.io";

struct Cluster {
    store: Store,
    catalogs: Catalogs,
    registry: WebhookRegistry,
    /// Warnings of the last write.
    warnings: Vec<String>,
}

fn writer() -> WriteOrigin {
    let identity = Identity::new("alice", vec!["system:masters".into()]);
    WriteOrigin {
        identity,
        manager: "m".into(),
        dry_run: false,
        reconciler: String::new(),
        takes_over: false,
    }
}

impl Cluster {
    fn new() -> Cluster {
        let mut cluster = Cluster {
            store: Store::in_memory(Retention::default()),
            catalogs: Catalogs::default(),
            registry: WebhookRegistry::default(),
            warnings: Vec::new(),
        };
        cluster
            .write("", "namespaces", "", r#"{"metadata": {"name": "ns", "labels": {"env": "test"}}}"#)
            .unwrap();
        cluster.write("", "namespaces", "", r#"{"metadata": {"name": "other"}}"#).unwrap();
        cluster
    }

    /// Decides with the current policies, and commits the decision.
    fn decide(
        &mut self,
        decide: impl FnOnce(&RequestContext<'_>) -> Result<PipelineResult, Status>,
    ) -> Result<Value, Status> {
        let snapshot = self.store.snapshot();
        let answers = WebhookAnswers::default();
        let context = RequestContext {
            snapshot: &snapshot,
            now: Time::from_seconds(1_800_000_000),
            entropy: [snapshot.revision().0, 7, 7],
            tolerations: Default::default(),
            catalog: &self.catalogs.of(&snapshot),
            webhooks: Some(WebhookContext { registry: &self.registry, answers: &answers }),
            conversions: None,
            authorization: None,
        };
        let step = decide(&context);
        self.warnings = answers.warnings();
        match step? {
            PipelineResult::Commit(proposal) => {
                Ok(crate::codec::object(&self.store.commit(*proposal).unwrap().records[0]))
            }
            PipelineResult::Remove(proposal, object) => {
                self.store.commit(*proposal).unwrap();
                Ok(object)
            }
            PipelineResult::Unchanged(record) => Ok(crate::codec::object(&record)),
            _ => panic!("neither a dry run nor a call of a webhook"),
        }
    }

    /// Creates an object, or updates it if it exists. Its version is v1, its type is filled in.
    fn write(&mut self, group: &str, plural: &str, namespace: &str, text: &str) -> Result<Value, Status> {
        let resource_type = resource_types::find(group, "v1", plural).unwrap();
        let mut object = json::parse(text.as_bytes()).unwrap();
        object.make_map().insert("kind", &*resource_type.info.kind);
        object.make_map().insert("apiVersion", resource_type.api_version());
        let name = object.str_at(&["metadata", "name"]).to_owned();
        if !namespace.is_empty() {
            object.ensure_map("metadata").insert("namespace", namespace);
        }
        let decoded = resource_type.schema.view().decode_request(object, &[]).unwrap();
        let object = resource_type.to_stored(decoded.value);
        let desired = DesiredObject { object, has_omitted_empty: decoded.has_omitted_empty, owners: None };
        self.decide(|context| {
            let key = resource_type.key(namespace, &name).unwrap();
            let decision = match context.snapshot.get(&key) {
                Some(record) => update(resource_type, Subresource::None, desired, record, &writer(), context),
                None => create(resource_type, namespace, desired, &writer(), context),
            };
            decision.map(|decision| decision.step)
        })
    }

    fn config_map(&mut self, name: &str, data: &str) -> Result<Value, Status> {
        let text = format!(r#"{{"metadata": {{"name": "{name}"}}, "data": {data}}}"#);
        self.write("", "configmaps", "ns", &text)
    }

    /// Creates a validating policy for config maps with these fields, and a binding with these.
    fn policy(&mut self, fields: &str, binding: &str) {
        let text = format!(
            r#"{{"metadata": {{"name": "p"}}, "spec": {{"matchConstraints": {{"resourceRules": [{{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE", "DELETE"]}}]}}, {fields}}}}}"#
        );
        self.write(ADMISSION, "validatingadmissionpolicies", "", &text).unwrap();
        let text = format!(r#"{{"metadata": {{"name": "b"}}, "spec": {{"policyName": "p", {binding}}}}}"#);
        self.write(ADMISSION, "validatingadmissionpolicybindings", "", &text).unwrap();
    }

    /// Creates a mutating policy for config maps with one mutation, and a binding.
    fn mutating_policy(&mut self, name: &str, reinvocation: &str, mutation: &str) {
        let text = format!(
            r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"reinvocationPolicy": "{reinvocation}",
                "matchConstraints": {{"resourceRules": [{{"apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}}]}}, "mutations": [{mutation}]}}}}"#
        );
        self.write(ADMISSION, "mutatingadmissionpolicies", "", &text).unwrap();
        let text = format!(r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"policyName": "{name}"}}}}"#);
        self.write(ADMISSION, "mutatingadmissionpolicybindings", "", &text).unwrap();
    }
}

const WANTS_A: &str =
    r#""validations": [{"expression": "object == null || 'a' in object.data", "message": "wants a"}]"#;
const DENY: &str = r#""validationActions": ["Deny"]"#;

#[test]
fn denied_request_has_upstreams_status() {
    let mut cluster = Cluster::new();
    cluster.policy(WANTS_A, DENY);
    let status = cluster.config_map("c", r#"{"b": "1"}"#).unwrap_err();
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: wants a";
    assert_eq!(status.message, format!("configmaps \"c\" is forbidden: {why}"));
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(&*status.details.unwrap().causes[0].message, why);
    cluster.config_map("c", r#"{"a": "1"}"#).unwrap();
    let status = cluster.config_map("c", r#"{"b": "1"}"#).unwrap_err();
    assert!(status.message.ends_with(why), "{}", status.message);
}

#[test]
fn reason_of_the_validation_determines_the_code() {
    for (reason, code) in [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)] {
        let mut cluster = Cluster::new();
        cluster.policy(&format!(r#""validations": [{{"expression": "false", "reason": "{reason}"}}]"#), DENY);
        let status = cluster.config_map("c", "{}").unwrap_err();
        assert_eq!((status.code, status.reason.as_str()), (code, reason));
    }
}

#[test]
fn warn_action_admits_with_a_warning() {
    let mut cluster = Cluster::new();
    cluster.policy(WANTS_A, r#""validationActions": ["Warn", "Audit"]"#);
    cluster.config_map("c", r#"{"b": "1"}"#).unwrap();
    assert_eq!(
        cluster.warnings,
        ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': wants a"]
    );
    cluster.config_map("d", r#"{"a": "1"}"#).unwrap();
    assert_eq!(cluster.warnings, [""; 0]);
}

#[test]
fn policy_without_binding_has_no_effect() {
    let mut cluster = Cluster::new();
    cluster.policy(r#""validations": [{"expression": "false"}]"#, DENY);
    cluster.config_map("c", "{}").unwrap_err();
    let bindings = resource_types::find(ADMISSION, "v1", "validatingadmissionpolicybindings").unwrap();
    cluster
        .decide(|context| {
            let record = context.snapshot.get(&bindings.key("", "b").unwrap()).unwrap();
            delete(bindings, record, &DeleteOptions::default(), &writer(), context)
        })
        .unwrap();
    cluster.config_map("c", "{}").unwrap();
}

#[test]
fn deletes_are_validated_with_the_old_object() {
    let mut cluster = Cluster::new();
    cluster.policy(
        r#""validations": [{"expression": "request.operation != 'DELETE' || oldObject.data.keep != 'yes'"}]"#,
        DENY,
    );
    cluster.config_map("c", r#"{"keep": "yes"}"#).unwrap();
    let config_maps = resource_types::find("", "v1", "configmaps").unwrap();
    let remove = |cluster: &mut Cluster| {
        cluster.decide(|context| {
            let record = context.snapshot.get(&config_maps.key("ns", "c").unwrap()).unwrap();
            delete(config_maps, record, &DeleteOptions::default(), &writer(), context)
        })
    };
    let status = remove(&mut cluster).unwrap_err();
    assert_eq!(status.code, 422);
    cluster.config_map("c", r#"{"keep": "no"}"#).unwrap();
    remove(&mut cluster).unwrap();
}

#[test]
fn bindings_restrict_the_policy_by_their_own_rules() {
    let cases = [
        (r#""namespaceSelector": {"matchLabels": {"env": "test"}}"#, true),
        (r#""namespaceSelector": {"matchLabels": {"env": "prod"}}"#, false),
        (r#""objectSelector": {"matchLabels": {"app": "x"}}"#, false),
        (
            r#""excludeResourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
               "operations": ["*"]}]"#,
            false,
        ),
        (
            r#""resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
               "operations": ["*"], "resourceNames": ["c"]}]"#,
            true,
        ),
        (
            r#""resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
               "operations": ["*"], "resourceNames": ["d"]}]"#,
            false,
        ),
    ];
    for (resources, is_denied) in cases {
        let mut cluster = Cluster::new();
        let binding = format!(r#"{DENY}, "matchResources": {{{resources}}}"#);
        cluster.policy(r#""validations": [{"expression": "false"}]"#, &binding);
        assert_eq!(cluster.config_map("c", "{}").is_err(), is_denied, "{resources}");
    }
}

#[test]
fn params_come_from_the_binding() {
    const BY_PARAMS: &str = r#""paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "not-params", "expression": "object.metadata.name != 'params'"}],
        "validations": [{"expression": "object.data.a == params.data.wanted",
        "messageExpression": "'wants ' + params.data.wanted"}]"#;
    let by_name = |action: &str| {
        format!(
            r#"{DENY}, "paramRef": {{"name": "params", "namespace": "ns", "parameterNotFoundAction": "{action}"}}"#
        )
    };
    let denied =
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    let mut cluster = Cluster::new();
    cluster.policy(BY_PARAMS, &by_name("Deny"));
    let status = cluster.config_map("c", r#"{"a": "1"}"#).unwrap_err();
    assert_eq!(
        status.message,
        format!(
            "{denied}failed to configure binding: no params found for policy binding with `Deny` \
             parameterNotFoundAction"
        )
    );
    let mut cluster = Cluster::new();
    cluster.policy(BY_PARAMS, &by_name("Allow"));
    cluster.config_map("params", r#"{"wanted": "2"}"#).unwrap();
    let status = cluster.config_map("c", r#"{"a": "1"}"#).unwrap_err();
    assert_eq!(status.message, format!("{denied}wants 2"));
    cluster.config_map("c", r#"{"a": "2"}"#).unwrap();

    let mut cluster = Cluster::new();
    let selected = format!(
        r#"{DENY}, "paramRef": {{"selector": {{"matchLabels": {{"is": "params"}}}},
            "parameterNotFoundAction": "Allow"}}"#
    );
    cluster.policy(BY_PARAMS, &selected);
    cluster.config_map("c", r#"{"a": "1"}"#).unwrap();
    let params = r#"{"metadata": {"name": "params", "labels": {"is": "params"}}, "data": {"wanted": "3"}}"#;
    cluster.write("", "configmaps", "ns", params).unwrap();
    let status = cluster.config_map("c", r#"{"a": "2"}"#).unwrap_err();
    assert_eq!(status.message, format!("{denied}wants 3"));
}

#[test]
fn policies_are_exempt_from_policies() {
    let mut cluster = Cluster::new();
    let everything = r#"{"metadata": {"name": "all"}, "spec": {"matchConstraints": {"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]},
        "validations": [{"expression": "false"}]}}"#;
    cluster.write(ADMISSION, "validatingadmissionpolicies", "", everything).unwrap();
    let binding = format!(r#"{{"metadata": {{"name": "b"}}, "spec": {{"policyName": "all", {DENY}}}}}"#);
    cluster.write(ADMISSION, "validatingadmissionpolicybindings", "", &binding).unwrap();
    cluster.config_map("c", "{}").unwrap_err();
    let binding = binding.replace("\"b\"", "\"c\"");
    cluster.write(ADMISSION, "validatingadmissionpolicybindings", "", &binding).unwrap();
}

#[test]
fn wrong_expressions_are_rejected_when_written() {
    let mut cluster = Cluster::new();
    let text = r#"{"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}]},
        "validations": [{"expression": "object.data +"}]}}"#;
    let status = cluster.write(ADMISSION, "validatingadmissionpolicies", "", text).unwrap_err();
    assert!(
        status.message.contains("spec.validations[0].expression: Invalid value: \"object.data +\": compilation failed: ERROR: <input>:1:14: "),
        "{}",
        status.message
    );
}

#[test]
fn mutations_are_applied_before_validation() {
    let mut cluster = Cluster::new();
    cluster.mutating_policy(
        "m",
        "Never",
        r#"{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
            "Object{metadata: Object.metadata{labels: {'by': request.userInfo.username}}}"}},
           {"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'add', path: '/data/b', value: object.metadata.labels['by'] + '!'}]"}}"#,
    );
    let object = cluster.config_map("c", r#"{"a": "1"}"#).unwrap();
    assert_eq!(object.str_at(&["metadata", "labels", "by"]), "alice");
    assert_eq!((object.str_at(&["data", "a"]), object.str_at(&["data", "b"])), ("1", "alice!"));
    cluster.policy(r#""validations": [{"expression": "object.data.b == 'alice!'"}]"#, DENY);
    cluster.config_map("d", r#"{"b": "0"}"#).unwrap();
}

#[test]
fn policy_is_invoked_again_if_a_later_one_changes_the_object() {
    let count = |key: &str| {
        format!(
            r#"{{"patchType": "ApplyConfiguration", "applyConfiguration": {{"expression":
                "Object{{data: {{'{key}': has(object.data.{key}) ? object.data.{key} + '+' : '+'}}}}"}}}}"#
        )
    };
    let mut cluster = Cluster::new();
    cluster.mutating_policy("a", "IfNeeded", &count("a"));
    cluster.mutating_policy("b", "Never", &count("b"));
    let object = cluster.config_map("c", r#"{"x": "1"}"#).unwrap();
    assert_eq!((object.str_at(&["data", "a"]), object.str_at(&["data", "b"])), ("++", "+"));
}

#[test]
fn failed_mutation_rejects_the_request() {
    let mut cluster = Cluster::new();
    cluster.mutating_policy(
        "m",
        "Never",
        r#"{"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'remove', path: '/data/missing'}]"}}"#,
    );
    let status = cluster.config_map("c", r#"{"a": "1"}"#).unwrap_err();
    assert!(
        status.message.starts_with("policy 'm' with binding 'm' denied request: JSON Patch: "),
        "{}",
        status.message
    );
    assert_eq!((status.code, status.reason.as_str()), (403, "Invalid"));
}
