//! Printers of the group `admissionregistration.k8s.io`.

use super::cell::{age, count, list, name};
use super::{AGE, Cell, Column, Doc, NAME, Printer, cells};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "MutatingAdmissionPolicy" => &MUTATING_POLICY,
        "ValidatingAdmissionPolicy" => &VALIDATING_POLICY,
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => &POLICY_BINDING,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => &WEBHOOKS,
        _ => return None,
    })
}

const PARAM_KIND: Column = Column::text("ParamKind", Doc::Own("Kind of the parameter objects."));

static MUTATING_POLICY: Printer = Printer::new(
    &[NAME, Column::integer("Mutations", Doc::Own("Number of mutations of the policy.")), PARAM_KIND, AGE],
    |object, now| policy(object, "mutations", now),
);

static VALIDATING_POLICY: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Validations", Doc::Own("Number of validations of the policy.")),
        PARAM_KIND,
        AGE,
    ],
    |object, now| policy(object, "validations", now),
);

fn policy(object: &Value, rules: &str, now: Time) -> Vec<Cell> {
    let kind = match object.at(&["spec", "paramKind"]) {
        Some(kind @ Value::Map(_)) => format!("{}/{}", kind.str_at(&["apiVersion"]), kind.str_at(&["kind"])),
        _ => "<unset>".to_owned(),
    };
    cells![name(object), count(object, &["spec", rules]), kind, age(object, now)]
}

static POLICY_BINDING: Printer = Printer::new(
    &[
        NAME,
        Column::text("PolicyName", Doc::Own("Policy that the binding activates.")),
        Column::text("ParamRef", Doc::Own("Parameter object, or its selector.")),
        AGE,
    ],
    |object, now| {
        let policy = object.str_at(&["spec", "policyName"]);
        cells![name(object), policy, param_ref(object.at(&["spec", "paramRef"])), age(object, now)]
    },
);

fn param_ref(param_ref: Option<&Value>) -> String {
    let Some(param_ref @ Value::Map(_)) = param_ref else { return "<unset>".to_owned() };
    match (param_ref.str_at(&["namespace"]), param_ref.str_at(&["name"])) {
        (_, "") => match param_ref.get("selector") {
            Some(selector @ Value::Map(_)) => go_selector(selector),
            _ => "<unset>".to_owned(),
        },
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// A label selector struct in Go's `%v`, as upstream shows it here.
fn go_selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_map);
    let mut labels: Vec<(&str, &Value)> = labels.into_iter().flat_map(|map| map.iter()).collect();
    labels.sort_unstable_by_key(|(key, _)| *key);
    let labels: String =
        labels.iter().map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let expressions: String = list(selector, &["matchExpressions"])
        .iter()
        .map(|one| {
            let values: Vec<&str> = list(one, &["values"]).iter().filter_map(Value::as_str).collect();
            let (key, operator) = (one.str_at(&["key"]), one.str_at(&["operator"]));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

static WEBHOOKS: Printer = Printer::new(
    &[NAME, Column::integer("Webhooks", Doc::Own("Number of webhooks of the configuration.")), AGE],
    |object, now| cells![name(object), count(object, &["webhooks"]), age(object, now)],
);
