//! The kinds of flowcontrol.apiserver.k8s.io.
//!
//! Two objects of each kind are mandatory: their specs are fixed, and [`mandatory_spec`] says what they are.

pub mod flow_schema;
pub mod priority_level;

use super::{Rules, check};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::json;
use crate::value::Value;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "FlowSchema" => &flow_schema::FlowSchema,
        "PriorityLevelConfiguration" => &priority_level::PriorityLevel,
        _ => return None,
    })
}

const EVERYTHING: &str = r#""resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]"#;

/// The spec that a mandatory object must have, by kind and name; nothing for other objects.
#[must_use]
pub fn mandatory_spec(kind: &str, name: &str) -> Option<Value> {
    let text = match (kind, name) {
        ("FlowSchema", "exempt") => format!(
            r#"{{"priorityLevelConfiguration":{{"name":"exempt"}},"matchingPrecedence":1,"rules":[{{"subjects":[{{"kind":"Group","group":{{"name":"system:masters"}}}}],{EVERYTHING}}}]}}"#
        ),
        ("FlowSchema", "catch-all") => format!(
            r#"{{"priorityLevelConfiguration":{{"name":"catch-all"}},"matchingPrecedence":10000,"distinguisherMethod":{{"type":"ByUser"}},"rules":[{{"subjects":[{{"kind":"Group","group":{{"name":"system:unauthenticated"}}}},{{"kind":"Group","group":{{"name":"system:authenticated"}}}}],{EVERYTHING}}}]}}"#
        ),
        ("PriorityLevelConfiguration", "exempt") => {
            r#"{"type":"Exempt","exempt":{"nominalConcurrencyShares":0,"lendablePercent":0}}"#.to_owned()
        }
        ("PriorityLevelConfiguration", "catch-all") => {
            r#"{"type":"Limited","limited":{"nominalConcurrencyShares":5,"limitResponse":{"type":"Reject"},"lendablePercent":0}}"#.to_owned()
        }
        _ => return None,
    };
    Some(json::parse(text.as_bytes()).expect("the texts above are JSON"))
}

/// Checks the conditions of a status: each type once, and none without.
fn status(errors: &mut ErrorList, object: &Value) {
    let path = Path::root("status");
    let path = path.child("conditions");
    let mut seen = std::collections::BTreeSet::new();
    for (i, one) in check::list(check::field(object, "status"), "conditions").iter().enumerate() {
        let path = path.index(i);
        let (path, kind) = (path.child("type"), check::text(one, "type"));
        if !seen.insert(kind) {
            let value = crate::field_error::BadValue::json_string(kind);
            errors.push(FieldError::duplicate(&path, value));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
    }
}
