//! Fast path of a binding: edits the stored text of the pod in place.
//!
//! A binding adds a field and a condition, and a scheduler binds thousands of pods per second. For a plain pod both are
//! inserted into the stored text, and the remaining bytes are copied. A pod is plain if it has no node, scheduling gate,
//! nominated node, deletion timestamp or PodScheduled condition. All other pods go through the rules of their kind;
//! `tests.rs` checks that the stored bytes are the same on both paths.

use memchr::memmem;
use setpoint_api::Value;
use setpoint_api::json::{Member, Members, write_str};
use setpoint_api::kinds::core::pod;
use setpoint_api::schema::{Shape, Struct};
use setpoint_store::{Draft, Record};

use setpoint_api::ResourceType;

/// Selectable field with the node's name.
const NODE_FIELD: &str = "spec.nodeName";

/// Returns the bound pod; `None` if the pod is not plain or the binding is invalid.
pub(super) fn bound(pods: &ResourceType, record: &Record, binding: &Value, now: &str) -> Option<Draft> {
    let given = |field| binding.at(&["metadata", field]).is_some_and(|value| !value.is_empty());
    if ["resourceVersion", "labels", "annotations"].into_iter().any(given) || record.expires().is_some() {
        return None;
    }
    let body = record.body();
    let text = std::str::from_utf8(&body.bytes).ok()?;
    let metadata = after(text, pods.type_prefix.len(), "\"metadata\":")?;
    let metadata_end = plain_metadata(text, metadata, binding.str_at(&["metadata", "uid"]))?;
    let spec = after(text, metadata_end, ",\"spec\":")?;
    let (spec, spec_end) = node_insertion_point(text, spec, struct_of(pods, "spec")?)?;
    let status = after(text, spec_end, ",\"status\":")?;
    let (status, status_end) = condition_insertion_point(text, status, struct_of(pods, "status")?)?;
    if text.get(status_end..)? != "}" {
        return None;
    }
    let node = binding.str_at(&["target", "name"]);
    let mut out = Vec::with_capacity(text.len() + node.len() + CONDITION_BYTES);
    out.extend_from_slice(&text.as_bytes()[..spec.at]);
    spec.insert(&mut out, |out| {
        out.extend_from_slice(b"\"nodeName\":");
        write_str(node, out);
    });
    out.extend_from_slice(&text.as_bytes()[spec.at..status.at]);
    status.insert(&mut out, |out| {
        let (before_condition, after_condition) =
            if status.is_in_list { ("", "") } else { ("\"conditions\":[", "]") };
        let scheduled =
            r#"{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"#;
        [before_condition, scheduled].into_iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        write_str(now, out);
        out.push(b'}');
        out.extend_from_slice(after_condition.as_bytes());
    });
    out.extend_from_slice(&text.as_bytes()[status.at..]);
    let attributes = record.attributes();
    let fields =
        attributes.fields().map(|(name, value)| (name, if name == NODE_FIELD { node } else { value }));
    Some(Draft::with_revision_at(out, body.revision_offset?).labels(attributes.labels()).fields(fields))
}

/// Capacity for the condition and the inserted field names, in bytes.
const CONDITION_BYTES: usize = 192;

/// Position at which a field or an element is inserted.
struct InsertionPoint {
    at: usize,
    comma: Comma,
    /// `true` to insert into an existing list.
    is_in_list: bool,
}

/// Side of the insertion on which a comma is needed.
#[derive(Clone, Copy)]
enum Comma {
    Before,
    After,
    Neither,
}

impl InsertionPoint {
    fn insert(&self, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
        if matches!(self.comma, Comma::Before) {
            out.push(b',');
        }
        put(out);
        if matches!(self.comma, Comma::After) {
            out.push(b',');
        }
    }

    /// Insertion point of a field in an object whose members are all plain, and the end of the object.
    fn of(
        text: &str,
        object: usize,
        of: Struct<'_>,
        field: &str,
        mut is_plain: impl FnMut(Member<'_>) -> bool,
    ) -> Option<(InsertionPoint, usize)> {
        let rank = of.position(field)?;
        let (mut next, mut last) = (None, None);
        let mut members = Members::of(text, object);
        for member in members.by_ref() {
            if !is_plain(member) {
                return None;
            }
            if next.is_none() && of.position(member.name)? > rank {
                next = Some(member.start);
            }
            last = Some(member.end);
        }
        let (at, comma) = match (next, last) {
            (Some(start), _) => (start, Comma::After),
            (None, Some(end)) => (end, Comma::Before),
            (None, None) => (object + 1, Comma::Neither),
        };
        Some((InsertionPoint { at, comma, is_in_list: false }, members.end()))
    }
}

/// Offset of the value after `name`, if that is the member at `at`.
fn after(text: &str, at: usize, name: &str) -> Option<usize> {
    text.get(at..)?.starts_with(name).then_some(at + name.len())
}

fn struct_of<'s>(pods: &'s ResourceType, part: &str) -> Option<Struct<'s>> {
    match pods.stored_schema.built_in()?.field(part)?.ty().shape() {
        Shape::Struct(of) => Some(of),
        _ => None,
    }
}

/// End of the metadata, if the UID matches, the pod is not being deleted, and no annotation belongs to a binding.
fn plain_metadata(text: &str, metadata: usize, uid: &str) -> Option<usize> {
    let value = |member: Member<'_>| text.get(member.value + 1..member.end - 1);
    let mut uid_matches = uid.is_empty();
    let mut members = Members::of(text, metadata);
    for member in members.by_ref() {
        let is_plain = match member.name {
            "uid" => {
                uid_matches |= value(member)? == uid;
                true
            }
            "annotations" => {
                Members::of(text, member.value).all(|annotation| !pod::is_obsolete(annotation.name))
            }
            "deletionTimestamp" => false,
            _ => true,
        };
        is_plain.then_some(())?;
    }
    uid_matches.then(|| members.end())
}

/// Insertion point of the node name and end of the spec, if the pod has no node and no scheduling gate.
fn node_insertion_point(text: &str, spec: usize, of: Struct<'_>) -> Option<(InsertionPoint, usize)> {
    InsertionPoint::of(text, spec, of, "nodeName", |member| {
        !matches!(member.name, "nodeName" | "schedulingGates")
    })
}

/// Insertion point of the PodScheduled condition and end of the status, if there is none of its type.
fn condition_insertion_point(text: &str, status: usize, of: Struct<'_>) -> Option<(InsertionPoint, usize)> {
    let mut conditions = None;
    let (point, end) = InsertionPoint::of(text, status, of, "conditions", |member| {
        if member.name == "conditions" {
            conditions = Some(member.value..member.end);
        }
        member.name != "nominatedNodeName"
    })?;
    let Some(conditions) = conditions else { return Some((point, end)) };
    let (list, last) = (text.as_bytes().get(conditions.clone())?, conditions.end - 1);
    let is_plain = list.starts_with(b"[{") && memmem::find(list, b"\"PodScheduled\"").is_none();
    is_plain.then_some((InsertionPoint { at: last, comma: Comma::Before, is_in_list: true }, end))
}
