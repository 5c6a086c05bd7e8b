//! Event templates: Events of the loop, rendered without the pipeline.
//!
//! Most writes of a busy loop are Events, which differ in a few fields only. For each combination of optional fields
//! the pipeline creates one Event with a placeholder for every field that differs; its stored bytes are split at the
//! placeholders, and later Events only fill them in. An Event that fits no template, or whose name is taken, goes
//! through the pipeline; the stored bytes are the same either way (`tests.rs`). Quotas do not count Events.
//!
//! For example, `{"reason":"given-7","count":1,…` is split into `{"reason":`, the slot of the reason, and
//! `,"count":1,…`.

use std::sync::OnceLock;

use memchr::memmem;
use setpoint_api::ResourceType;
use setpoint_api::json::write_str;
use setpoint_api::rfc3339::{Seconds, UNSET};
use setpoint_api::status::Status;
use setpoint_api::{Time, Value};
use setpoint_reconcile::NewEvent;
use setpoint_store::{Draft, Precondition, Snapshot};

use super::decode_object;
use crate::codec;
use crate::exchange::Identity;
use crate::pipeline::{DesiredObject, PipelineResult, RequestContext, WriteOrigin, create, guard_namespace};
use crate::webhooks::dispatch::is_intercepted;
use crate::webhooks::{AdmissionRequest, Operation};

/// Fields that every Event has.
const GIVEN: [&[&str]; 13] = [
    &["metadata", "name"],
    NAMESPACE,
    &["involvedObject", "kind"],
    &["involvedObject", "name"],
    &["involvedObject", "uid"],
    &["involvedObject", "apiVersion"],
    &["involvedObject", "resourceVersion"],
    &["reason"],
    &["message"],
    &["source", "component"],
    &["type"],
    &["reportingComponent"],
    FIRST_TIMESTAMP,
];
/// Fields that some Events have.
const OPTIONAL: [&[&str]; 4] =
    [&["involvedObject", "fieldPath"], &["source", "host"], &["reportingInstance"], &["action"]];
const NAMESPACE: &[&str] = &["metadata", "namespace"];
/// Namespace of the involved object: that of the Event; absent for cluster-scoped objects.
const ABOUT_NAMESPACE: &[&str] = &["involvedObject", "namespace"];
/// First and last timestamp; they are equal in a new Event.
const FIRST_TIMESTAMP: &[&str] = &["firstTimestamp"];
const LAST_TIMESTAMP: &[&str] = &["lastTimestamp"];
/// Namespace of Events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Entropy and time of placeholders: they render as no other value of a template does.
const MARKED_UID: [u64; 3] = [1, 2, 3];
const MARKED_NOW: Time = Time::from_seconds(2);

/// Number of templates: one per combination of optional fields.
const TEMPLATES: usize = 1 << (OPTIONAL.len() + 1);
static TEMPLATE_CACHE: [OnceLock<Option<EventTemplate>>; TEMPLATES] = [const { OnceLock::new() }; TEMPLATES];

/// The stored bytes of an Event, split at its slots.
struct EventTemplate {
    pieces: Vec<(Box<[u8]>, Slot)>,
    end: Box<[u8]>,
    /// Selectable fields.
    fields: Vec<(String, FieldValue)>,
}

/// A value to fill in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Given(usize),
    Optional(usize),
    Manager,
    Uid,
    Now,
    Revision,
}

/// Values of the slots that the Event itself does not have.
struct Stamp<'a> {
    manager: &'a str,
    uid: &'a str,
    now: &'a str,
}

/// Value of a selectable field.
enum FieldValue {
    Slot(Slot),
    /// The same in all Events of the template.
    Always(String),
}

impl FieldValue {
    fn text<'t>(&'t self, texts: &Texts<'t>, stamp: &Stamp<'t>) -> &'t str {
        match self {
            FieldValue::Slot(slot) => slot.text(texts, stamp),
            FieldValue::Always(text) => text,
        }
    }
}

impl Slot {
    fn text<'t>(self, texts: &Texts<'t>, stamp: &Stamp<'t>) -> &'t str {
        match self {
            Slot::Given(at) => texts.given[at],
            Slot::Optional(at) => texts.optional[at],
            Slot::Manager => stamp.manager,
            Slot::Uid => stamp.uid,
            Slot::Now => stamp.now,
            // The store fills it in.
            Slot::Revision => "",
        }
    }
}

/// Field values of an Event that fits a template.
struct Texts<'a> {
    given: [&'a str; GIVEN.len()],
    optional: [&'a str; OPTIONAL.len()],
    has_namespace: bool,
}

/// Decides the creation of an Event; `None` if it has to go through the pipeline.
pub(super) fn create(
    resource_type: &ResourceType,
    new_event: &NewEvent,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Option<Result<PipelineResult, Status>> {
    let written = RenderedFields::of(new_event);
    let texts = Texts::of(new_event, &written)?;
    let key = &new_event.key;
    let (namespace, name) = (new_event.namespace(), key.name());
    let request = AdmissionRequest::new(Operation::Create, resource_type, (namespace, name), writer);
    if is_intercepted(&request, context)
        || context.snapshot.get(key).is_some()
        || !resource_type.rules.name_rule().check(name).is_empty()
    {
        return None;
    }
    let template = TEMPLATE_CACHE[texts.template_index()]
        .get_or_init(|| EventTemplate::render(resource_type, &texts))
        .as_ref()?;
    let stamp = Stamp {
        manager: &writer.manager,
        uid: &create::uid(context.entropy),
        now: &Seconds(context.now).to_string(),
    };
    let (bytes, hole) = template.fill(&texts, &stamp)?;
    let fields = template.fields.iter().map(|(name, filled)| (name, filled.text(&texts, &stamp)));
    let draft = Draft::with_revision_at(bytes, hole).fields(fields);
    let draft = codec::set_expiry(draft, resource_type, context.now);
    let guarded = guard_namespace(writer.proposal(context), context, namespace, resource_type, name);
    Some(guarded.map(|proposal| {
        PipelineResult::Commit(Box::new(proposal.put(key.clone(), Precondition::Absent, draft)))
    }))
}

/// Fields of an Event record that are not text, formatted.
struct RenderedFields {
    revision: String,
    timestamp: String,
}

impl RenderedFields {
    fn of(new_event: &NewEvent) -> RenderedFields {
        RenderedFields {
            revision: new_event.involved_object.revision.to_string(),
            timestamp: Seconds(new_event.at).to_string(),
        }
    }
}

impl<'a> Texts<'a> {
    /// Field values in the order of [`GIVEN`] and [`OPTIONAL`]; `None` if a required one is missing.
    fn of(new_event: &'a NewEvent, written: &'a RenderedFields) -> Option<Texts<'a>> {
        let (about, namespace) = (&new_event.involved_object, new_event.namespace());
        let given = [
            new_event.key.name(),
            namespace,
            about.kind,
            about.key.name(),
            &about.uid,
            about.api_version,
            &written.revision,
            new_event.reason,
            &new_event.message,
            &new_event.reporter,
            new_event.event_type.as_str(),
            &new_event.reporter,
            &written.timestamp,
        ];
        let optional = [about.field_path.as_str(), &new_event.host, &new_event.host, new_event.action];
        let is_timestamp_whole =
            written.timestamp.len() == "0000-00-00T00:00:00Z".len() && new_event.at != UNSET;
        let is_there = about.key.namespace().unwrap_or(DEFAULT_NAMESPACE) == namespace;
        let is_plain = is_timestamp_whole && is_there && given.iter().all(|text| !text.is_empty());
        is_plain.then_some(Texts { given, optional, has_namespace: about.key.namespace().is_some() })
    }

    /// Index of the matching template.
    fn template_index(&self) -> usize {
        let bits = self.optional.iter().map(|text| !text.is_empty()).chain([self.has_namespace]);
        bits.fold(0, |index, bit| index << 1 | usize::from(bit))
    }

    /// Slots of the matching template, each with its placeholder.
    fn marks(&self) -> Vec<(Slot, String)> {
        let given = GIVEN.iter().enumerate().map(|(at, path)| {
            let mark = match *path {
                NAMESPACE if !self.has_namespace => DEFAULT_NAMESPACE.to_owned(),
                FIRST_TIMESTAMP => Seconds(Time::from_seconds(1)).to_string(),
                _ => format!("given-{at}"),
            };
            (Slot::Given(at), mark)
        });
        let optional = self.optional.iter().enumerate().filter(|(_, text)| !text.is_empty());
        let optional = optional.map(|(at, _)| (Slot::Optional(at), format!("optional-{at}")));
        let stamped = [
            (Slot::Manager, "manager-mark".to_owned()),
            (Slot::Uid, create::uid(MARKED_UID)),
            (Slot::Now, Seconds(MARKED_NOW).to_string()),
        ];
        given.chain(optional).chain(stamped).collect()
    }
}

impl EventTemplate {
    /// Has the pipeline create an Event with placeholders, and splits it at them.
    fn render(resource_type: &ResourceType, texts: &Texts<'_>) -> Option<EventTemplate> {
        let marks = texts.marks();
        let mark = |of| marks.iter().find(|(slot, _)| *slot == of).map_or("", |(_, mark)| mark);
        let mut event = Value::map();
        let mut put = |path: &[&str], value: Value| match path {
            [outer, inner] => drop(event.ensure_map(outer).insert(*inner, value)),
            [field] => drop(event.make_map().insert(*field, value)),
            _ => {}
        };
        for (slot, mark) in &marks {
            match slot {
                Slot::Given(at) => put(GIVEN[*at], mark.as_str().into()),
                Slot::Optional(at) => put(OPTIONAL[*at], mark.as_str().into()),
                _ => {}
            }
        }
        let given =
            |path| GIVEN.iter().position(|given| *given == path).map_or("", |at| mark(Slot::Given(at)));
        put(LAST_TIMESTAMP, given(FIRST_TIMESTAMP).into());
        put(&["count"], Value::Int(1));
        if texts.has_namespace {
            put(ABOUT_NAMESPACE, given(NAMESPACE).into());
        }
        let writer = WriteOrigin {
            identity: Identity::new("", Vec::new()),
            manager: mark(Slot::Manager).to_owned(),
            dry_run: false,
            reconciler: String::new(),
            takes_over: false,
        };
        let context = RequestContext {
            snapshot: &Snapshot::default(),
            now: MARKED_NOW,
            entropy: MARKED_UID,
            tolerations: Default::default(),
            catalog: crate::catalog::Catalog::built_in(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        let desired = DesiredObject::new(decode_object(resource_type, event).ok()?);
        let mut event = create::prepare_object(resource_type, desired, &writer, &context).ok()?.object;
        let filled = |text: &str| match marks.iter().find(|(_, mark)| mark == text) {
            Some((slot, _)) => FieldValue::Slot(*slot),
            None => FieldValue::Always(text.to_owned()),
        };
        let fields = resource_type.rules.fields(&event);
        let fields = fields.into_iter().map(|(name, text)| (name.to_owned(), filled(&text))).collect();
        let (text, hole) = codec::text(resource_type, &mut event)?;
        Some(EventTemplate { fields, ..EventTemplate::cut(&text, hole as usize, &marks) })
    }

    fn cut(text: &[u8], hole: usize, marks: &[(Slot, String)]) -> EventTemplate {
        let mut cuts = vec![(hole, hole, Slot::Revision)];
        for (slot, mark) in marks {
            // Only a whole JSON string is a placeholder.
            let mut quoted = Vec::new();
            write_str(mark, &mut quoted);
            cuts.extend(memmem::find_iter(text, &quoted).map(|at| (at, at + quoted.len(), *slot)));
        }
        cuts.sort_unstable();
        let (mut pieces, mut end) = (Vec::with_capacity(cuts.len()), 0);
        for (from, to, slot) in cuts {
            pieces.push((text[end..from].into(), slot));
            end = to;
        }
        EventTemplate { pieces, end: text[end..].into(), fields: Vec::new() }
    }

    /// Renders an Event. Returns its bytes and the offset of its revision.
    fn fill(&self, texts: &Texts<'_>, stamp: &Stamp<'_>) -> Option<(Vec<u8>, u32)> {
        let (mut text, mut hole) = (Vec::with_capacity(2048), None);
        for (piece, slot) in &self.pieces {
            text.extend_from_slice(piece);
            match slot {
                Slot::Revision => hole = u32::try_from(text.len()).ok(),
                slot => write_str(slot.text(texts, stamp), &mut text),
            }
        }
        text.extend_from_slice(&self.end);
        Some((text, hole?))
    }
}

#[cfg(test)]
mod tests;
