//! Events of the loop, printed from forms.
//!
//! Most of what a busy loop writes are Events, and they differ in a few texts only. So the pipeline makes one of each
//! form that they come in, with a mark for every text that differs. What it would store is cut at the marks, and from
//! then on the texts are filled in. An Event that fits no form, or whose name is taken, takes the pipeline's way; which
//! way it took cannot be told from what is stored. No quota counts Events.

use std::sync::OnceLock;

use memchr::memmem;
use setpoint_api::json::write_str;
use setpoint_api::rfc3339::{self, Seconds, UNSET};
use setpoint_api::status::Status;
use setpoint_api::{Map, Time, Value};
use setpoint_store::{Draft, Expect, Snapshot};

use super::typed;
use crate::exchange::Identity;
use crate::pipeline::{Step, Wish, World, Writer, create, guard_namespace};
use crate::served::Served;
use crate::stored;

/// The texts that every Event has.
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
    TOLD,
];
/// The texts that only some have.
const OPTIONAL: [&[&str]; 4] =
    [&["involvedObject", "fieldPath"], &["source", "host"], &["reportingInstance"], &["action"]];
const NAMESPACE: &[&str] = &["metadata", "namespace"];
/// The namespace of what the Event is about: that of the Event; none if it is about something that is in none.
const ABOUT_NAMESPACE: &[&str] = &["involvedObject", "namespace"];
/// When it was told, for the first time and for the last.
const TOLD: &[&str] = &["firstTimestamp"];
const TOLD_LAST: &[&str] = &["lastTimestamp"];
/// Where Events about what is in no namespace go.
const DEFAULT_NAMESPACE: &str = "default";

/// Chance and time as marks: unlike any text that a form has.
const MARKED_UID: [u64; 3] = [1, 2, 3];
const MARKED_NOW: Time = Time::from_seconds(2);

/// How many forms there are: for each way to have what is optional.
const FORMS: usize = 1 << (OPTIONAL.len() + 1);
static PRINTED: [OnceLock<Option<Form>>; FORMS] = [const { OnceLock::new() }; FORMS];

/// An Event cut into what is always the same, and what follows it.
struct Form {
    pieces: Vec<(Box<[u8]>, Slot)>,
    end: Box<[u8]>,
}

/// What is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Given(usize),
    Optional(usize),
    Manager,
    Uid,
    Now,
    Revision,
}

/// What is filled in for the slots that the writer does not give.
struct Stamp<'a> {
    manager: &'a str,
    uid: &'a str,
    now: Time,
}

/// The texts of an Event that fits a form.
struct Texts<'a> {
    given: [&'a str; GIVEN.len()],
    optional: [&'a str; OPTIONAL.len()],
    has_namespace: bool,
}

/// What the creation of an Event comes to; nothing if the pipeline has to say.
pub(super) fn create(
    served: &'static Served,
    namespace: &str,
    event: &Value,
    writer: &Writer,
    world: &World<'_>,
) -> Option<Result<Step, Status>> {
    let texts = Texts::of(event).filter(|texts| texts.text(NAMESPACE) == namespace)?;
    let name = texts.text(&["metadata", "name"]);
    let key = served.key(namespace, name).ok()?;
    if world.snapshot.get(&key).is_some() || !served.rules.name_rule().check(name).is_empty() {
        return None;
    }
    let form = PRINTED[texts.form()].get_or_init(|| Form::print(served, &texts)).as_ref()?;
    let uid = create::uid(world.entropy);
    let stamp = Stamp { manager: &writer.manager, uid: &uid, now: world.now };
    let (bytes, hole) = form.fill(&texts, &stamp)?;
    let draft = Draft::with_hole(bytes, hole).fields(served.rules.fields(event));
    let draft = stored::expiring(draft, served, world.now);
    let guarded = guard_namespace(writer.proposal(world), world, namespace, served, name);
    Some(guarded.map(|proposal| Step::Commit(Box::new(proposal.put(key, Expect::Absent, draft)))))
}

impl<'a> Texts<'a> {
    /// The texts of an Event, if it has all that there must be, and nothing else.
    fn of(event: &'a Value) -> Option<Texts<'a>> {
        let given = GIVEN.map(|path| event.str_at(path));
        let optional = OPTIONAL.map(|path| event.str_at(path));
        let texts = Texts { given, optional, has_namespace: event.at(ABOUT_NAMESPACE).is_some() };
        let about = if texts.has_namespace { event.str_at(ABOUT_NAMESPACE) } else { DEFAULT_NAMESPACE };
        let told = texts.text(TOLD);
        let is_plain = event.str_at(&["kind"]) == "Event"
            && event.str_at(&["apiVersion"]) == "v1"
            && event.get("count") == Some(&Value::Int(1))
            && given.iter().all(|text| !text.is_empty())
            && fields(event) == texts.fields();
        let is_told = told == event.str_at(TOLD_LAST) && is_whole(told);
        (is_plain && is_told && about == texts.text(NAMESPACE)).then_some(texts)
    }

    fn text(&self, path: &[&str]) -> &'a str {
        GIVEN.iter().position(|given| *given == path).map_or("", |at| self.given[at])
    }

    /// How many fields there are at all levels, if there are no others: three of them are objects.
    fn fields(&self) -> usize {
        let rest = ["kind", "apiVersion", "count", "lastTimestamp"].len() + usize::from(self.has_namespace);
        let optional = self.optional.iter().filter(|text| !text.is_empty()).count();
        GIVEN.len() + optional + rest + ["metadata", "involvedObject", "source"].len()
    }

    /// The number of the form that it fits.
    fn form(&self) -> usize {
        let bits = self.optional.iter().map(|text| !text.is_empty()).chain([self.has_namespace]);
        bits.fold(0, |form, bit| form << 1 | usize::from(bit))
    }

    /// The slots of the form that it fits, each with its mark.
    fn marks(&self) -> Vec<(Slot, String)> {
        let given = GIVEN.iter().enumerate().map(|(at, path)| {
            let mark = match *path {
                NAMESPACE if !self.has_namespace => DEFAULT_NAMESPACE.to_owned(),
                TOLD => Seconds(Time::from_seconds(1)).to_string(),
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

/// How many fields an object has at all levels.
fn fields(value: &Value) -> usize {
    let entries = value.as_map().into_iter().flat_map(Map::iter);
    entries.map(|(_, value)| 1 + fields(value)).sum()
}

/// Whether a time is written as it is stored.
fn is_whole(time: &str) -> bool {
    let is_short = time.len() == "0000-00-00T00:00:00Z".len() && time.ends_with('Z');
    is_short && rfc3339::parse(time).is_ok_and(|time| time != UNSET)
}

impl Form {
    /// Has the pipeline make an Event with marks for texts, and cuts it at them.
    fn print(served: &Served, texts: &Texts<'_>) -> Option<Form> {
        let marks = texts.marks();
        let mark = |wanted| marks.iter().find(|(slot, _)| *slot == wanted).map_or("", |(_, mark)| mark);
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
        put(TOLD_LAST, given(TOLD).into());
        put(&["count"], Value::Int(1));
        if texts.has_namespace {
            put(ABOUT_NAMESPACE, given(NAMESPACE).into());
        }
        let writer = Writer {
            identity: Identity { user: String::new(), groups: Vec::new() },
            manager: mark(Slot::Manager).to_owned(),
            dry_run: false,
            reconciler: String::new(),
        };
        let world = World {
            snapshot: &Snapshot::default(),
            now: MARKED_NOW,
            entropy: MARKED_UID,
            tolerations: Default::default(),
        };
        let wish = Wish::of(typed(served, event).ok()?);
        let mut made = create::make(served, wish, &writer, &world).ok()?.object;
        let (text, hole) = stored::text(served, &mut made)?;
        Some(Form::cut(&text, hole as usize, &marks))
    }

    fn cut(text: &[u8], hole: usize, marks: &[(Slot, String)]) -> Form {
        let mut cuts = vec![(hole, hole, Slot::Revision)];
        for (slot, mark) in marks {
            // A text is a mark only as a whole, with its quotes.
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
        Form { pieces, end: text[end..].into() }
    }

    /// The text of an Event, and where its revision goes.
    fn fill(&self, texts: &Texts<'_>, stamp: &Stamp<'_>) -> Option<(Vec<u8>, u32)> {
        let (mut text, mut hole) = (Vec::with_capacity(2048), None);
        let now = Seconds(stamp.now).to_string();
        for (piece, slot) in &self.pieces {
            text.extend_from_slice(piece);
            match *slot {
                Slot::Given(at) => write_str(texts.given[at], &mut text),
                Slot::Optional(at) => write_str(texts.optional[at], &mut text),
                Slot::Manager => write_str(stamp.manager, &mut text),
                Slot::Uid => write_str(stamp.uid, &mut text),
                Slot::Now => write_str(&now, &mut text),
                Slot::Revision => hole = u32::try_from(text.len()).ok(),
            }
        }
        text.extend_from_slice(&self.end);
        Some((text, hole?))
    }
}

#[cfg(test)]
mod tests;
