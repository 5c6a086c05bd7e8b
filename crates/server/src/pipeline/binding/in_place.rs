//! Fast path of a binding: edits the stored text of the pod in place.
//!
//! A binding adds a field and a condition, and a scheduler binds thousands of pods per second. For plain pods both
//! are inserted into the text, and the rest is copied. Everything else goes through the pod's rules; `tests.rs` shows
//! that the stored bytes are the same either way.

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
    let (spec, spec_end) = node_place(text, spec, struct_of(pods, "spec")?)?;
    let status = after(text, spec_end, ",\"status\":")?;
    let (status, status_end) = condition_place(text, status, struct_of(pods, "status")?)?;
    if text.get(status_end..)? != "}" {
        return None;
    }
    let node = binding.str_at(&["target", "name"]);
    let mut out = Vec::with_capacity(text.len() + node.len() + CONDITION_ROOM);
    out.extend_from_slice(&text.as_bytes()[..spec.at]);
    spec.fill(&mut out, |out| {
        out.extend_from_slice(b"\"nodeName\":");
        write_str(node, out);
    });
    out.extend_from_slice(&text.as_bytes()[spec.at..status.at]);
    status.fill(&mut out, |out| {
        let (before, behind) = if status.is_in_list { ("", "") } else { ("\"conditions\":[", "]") };
        let scheduled =
            r#"{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"#;
        [before, scheduled].into_iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        write_str(now, out);
        out.push(b'}');
        out.extend_from_slice(behind.as_bytes());
    });
    out.extend_from_slice(&text.as_bytes()[status.at..]);
    let attributes = record.attributes();
    let fields =
        attributes.fields().map(|(name, value)| (name, if name == NODE_FIELD { node } else { value }));
    Some(Draft::with_revision_at(out, body.revision_offset?).labels(attributes.labels()).fields(fields))
}

/// Bytes for the condition and the inserted field names.
const CONDITION_ROOM: usize = 192;

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
    Behind,
    Neither,
}

impl InsertionPoint {
    fn fill(&self, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
        if matches!(self.comma, Comma::Before) {
            out.push(b',');
        }
        put(out);
        if matches!(self.comma, Comma::Behind) {
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
            (Some(start), _) => (start, Comma::Behind),
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
    match pods.stored_schema.field(part)?.ty().shape() {
        Shape::Struct(of) => Some(of),
        _ => None,
    }
}

/// End of the metadata, if the UID matches, the pod is not being deleted, and no annotation belongs to a binding.
fn plain_metadata(text: &str, metadata: usize, uid: &str) -> Option<usize> {
    let value = |member: Member<'_>| text.get(member.value + 1..member.end - 1);
    let mut is_meant = uid.is_empty();
    let mut members = Members::of(text, metadata);
    for member in members.by_ref() {
        let is_plain = match member.name {
            "uid" => {
                is_meant |= value(member)? == uid;
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
    is_meant.then(|| members.end())
}

/// Insertion point of the node name and end of the spec, if the pod has no node and no scheduling gate.
fn node_place(text: &str, spec: usize, of: Struct<'_>) -> Option<(InsertionPoint, usize)> {
    InsertionPoint::of(text, spec, of, "nodeName", |member| {
        !matches!(member.name, "nodeName" | "schedulingGates")
    })
}

/// Insertion point of the PodScheduled condition and end of the status, if there is none of its type.
fn condition_place(text: &str, status: usize, of: Struct<'_>) -> Option<(InsertionPoint, usize)> {
    let mut known = None;
    let (place, end) = InsertionPoint::of(text, status, of, "conditions", |member| {
        if member.name == "conditions" {
            known = Some(member.value..member.end);
        }
        member.name != "nominatedNodeName"
    })?;
    let Some(known) = known else { return Some((place, end)) };
    let (list, last) = (text.as_bytes().get(known.clone())?, known.end - 1);
    let is_plain = list.starts_with(b"[{") && memmem::find(list, b"\"PodScheduled\"").is_none();
    is_plain.then_some((InsertionPoint { at: last, comma: Comma::Before, is_in_list: true }, end))
}
