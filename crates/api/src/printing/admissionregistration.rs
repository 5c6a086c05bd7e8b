//! Printers of the group `admissionregistration.k8s.io`.

use super::cell::{age, count, name};
use super::{AGE, Cell, Column, Doc, NAME, Printer, cells};
use crate::go_format::format_label_selector;
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
            Some(selector @ Value::Map(_)) => format_label_selector(selector),
            _ => "<unset>".to_owned(),
        },
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

static WEBHOOKS: Printer = Printer::new(
    &[NAME, Column::integer("Webhooks", Doc::Own("Number of webhooks of the configuration.")), AGE],
    |object, now| cells![name(object), count(object, &["webhooks"]), age(object, now)],
);
